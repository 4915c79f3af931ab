"""Backpressure: a source that pushes waits for room before the door judges its events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import Cti
from rxtemporal.core.safe_text import show
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.errors import ProcessEndedError, RxTemporalError
from rxtemporal.ingress.packer import Packer
from rxtemporal.ingress.source import Sent, SentRows
from rxtemporal.run.hand_off.bounded_queue import BoundedQueue
from rxtemporal.run.hand_off.gate import State


class Producer:
    """Way of a source into its reader that waits until there is room in the queue.

    ``accept`` takes an item for which there is room; ``refuse`` is called for each item that is
    pushed after the end, and may raise.
    """

    def __init__(
        self,
        queue: BoundedQueue,
        packer: Packer,
        accept: Callable[[Any], None],
        refuse: Callable[[], None],
    ) -> None:
        assert queue.settings is not None
        queue.add_inbox(self._wait_in_front)
        self._gate = queue.gate
        self._queue = queue
        self._max_rows = queue.settings.max_rows
        self._accept = accept
        self._door = packer
        self._refuse = refuse

    def on_next(self, item: Any) -> None:
        """Push an event or a batch once there is room for it."""
        if isinstance(item, EventBatch):
            for part in self._split(item):
                self._push(part, len(part))
        elif isinstance(item, SentRows):
            for part in self._split(item.batch):
                self._push(item._replace(batch=part), len(part))
        else:
            event = item.event if isinstance(item, Sent) else item
            self._push(item, 0 if isinstance(event, Cti) else 1)

    def _push(self, item: Any, rows: int) -> None:
        queue, gate = self._queue, self._gate
        with gate:
            if queue.wait_for_room(rows) and gate.error is not None:
                raise self._fail_blocked(gate.error)
            if gate.state is not State.OPEN or not gate.run_end.accepts:
                self._refuse()
                return
            self._accept(item)

    def _wait_in_front(self) -> None:
        """Wait for room for an event that will wait in front of the door."""
        queue, gate = self._queue, self._gate
        with gate.bare:
            if queue.has_room(1):
                queue.limit_inbox()
                return
        with gate:
            if queue.wait_for_room(1) and gate.error is not None:
                raise self._fail_blocked(gate.error)
            queue.limit_inbox()

    def _fail_blocked(self, error: BaseException) -> ProcessEndedError:
        failed = ProcessEndedError(
            f"stream {self._door.source!r} was waiting for room in its hand-off when the run "
            f"failed with {show(error)}; the pushed event was not accepted. "
            "Hint: wait() of the process raises that error, and on_error receives it."
        )
        failed.__cause__ = error
        return failed

    def _split(self, batch: EventBatch) -> Iterator[EventBatch]:
        """Yield a batch whole, or in parts that fit if it is larger than the queue."""
        most, door = self._max_rows, self._door
        if len(batch) <= most:
            yield batch
            return
        # the source's own CTI: an imported one does not bind the source
        reached = max(door.own, MIN_TIME)
        try:
            # with settings the door judges each row
            batch.check(reached if door.settings is None else MIN_TIME)
        except RxTemporalError:
            yield batch  # the reader rejects it as a whole, as it does without a hand-off
            return
        for begin in range(0, len(batch), most):
            last = begin + most >= len(batch)
            part = batch.slice(begin, begin + most)
            yield part if last else part.replace(cti=reached)
