"""Pushed items of a stream with verdicts, live and in a replay, counted by their inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.events import Cti, EdgeEvent, EdgeType, RowEvent
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.ingress.batch_verdicts import Verdicts
from rxtemporal.ingress.lateness import Lateness
from rxtemporal.ingress.pushed_inputs import OWN, PushedInput, PushedInputs
from rxtemporal.ingress.source import OutsideCti, Sent, SentRows
from rxtemporal.run.pushed_stream import PushedStream


class PushedItems:
    """Pushed items of one stream: each passes the stream's door, and its input counts it.

    Not thread-safe: callers hold the stream's lock.
    """

    def __init__(self, stream: PushedStream) -> None:
        self.inputs = PushedInputs()
        self._stream = stream
        self._door = stream.door

    def _is_plain(self, of: PushedInput, ahead: Any) -> bool:
        """Return True if nobody wants to know more of an item than itself."""
        stream = self._stream
        is_asked = stream.guard is not None or stream.is_recorded
        return not (is_asked or ahead is not None) and of.name == OWN

    def take(
        self, event: RowEvent | Cti, of: PushedInput, seq: int | None, ahead: bool
    ) -> Lateness | None:
        """Accept an event, whose number is new; return how late it is, None if it is in time."""
        stream, door = self._stream, self._door
        time = find_time(event)
        if ahead:
            of.ahead += 1
        elif of.reached < time < MAX_TIME:  # the end of time is no place that an input has reached
            of.reached = time
        high = door.high
        item: Any = event
        if not self._is_plain(of, ahead or None):
            item = Sent(event, _sent_as(of), seq, ahead)  # type: ignore[arg-type]
        late = stream.accept_event(item)
        if not isinstance(event, Cti):
            of.count(None if late is None else late.reason, 0 if ahead else high - time)
        return late

    def take_rows(
        self, batch: EventBatch, of: PushedInput, seq: Int64s | None, ahead: Bools | None
    ) -> Verdicts:
        """Accept complete rows, whose numbers are new; return the verdicts on them."""
        is_plain = self._is_plain(of, ahead)
        item = batch if is_plain else SentRows(batch, _sent_as(of), seq, ahead)
        verdicts = self._stream.accept_rows(item)
        of.count_rows(batch, verdicts, ahead)
        return verdicts

    def replay(self, item: Any) -> None:
        """Accept an item of a log again; its error ends the stream."""
        if isinstance(item, OutsideCti):
            self._stream.accept(item)
            return
        try:
            if isinstance(item, EventBatch | SentRows):
                self._replay_rows(item if isinstance(item, SentRows) else SentRows(item))
            else:
                self._replay_event(item if isinstance(item, Sent) else Sent(item))
        except Exception as error:
            self._stream.fail(error)

    def _replay_event(self, sent: Sent) -> None:
        of = self.inputs[sent.input or OWN]
        if sent.seq is not None and not isinstance(sent.event, Cti):
            of.judge_number(sent.seq, sent.event, ahead=sent.ahead)
        self.take(sent.event, of, sent.seq, sent.ahead)

    def _replay_rows(self, sent: SentRows) -> None:
        of, batch = self.inputs[sent.input or OWN], sent.batch
        if not len(batch):
            return
        if sent.seq is not None:
            of.judge_numbers(np.asarray(sent.seq, np.int64), batch.start, sent.ahead)
        self.take_rows(batch.replace(cti=MIN_TIME), of, sent.seq, sent.ahead)


def find_time(event: RowEvent | Cti) -> int:
    """Return the time that an event shows of its input: of an end edge its end, else its start."""
    if isinstance(event, EdgeEvent) and event.edge_type is EdgeType.END:
        return event.end
    return event.start


def _sent_as(of: PushedInput) -> str | None:
    return None if of.name == OWN else of.name
