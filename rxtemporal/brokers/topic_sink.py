"""Sinks that write into a topic of a broker: one message for each row, with an id."""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.safe_text import brief
from rxtemporal.errors import ArgumentError, RxTemporalError
from rxtemporal.sinks.formats import make_encoder
from rxtemporal.sinks.positioned import PositionedSink

# the header, property or field with the id of a row
ID = "rxtemporal-id"


class BrokerAwayError(RxTemporalError):
    """The broker does not take messages now."""


class TopicRow(NamedTuple):
    """A row as it is sent: its fields, its JSON, and its id."""

    fields: dict[str, Any]
    text: bytes
    id: str


class TopicSink(PositionedSink):
    """Base class of sinks that write each row as a JSON message into a topic.

    The id of a row follows from the query's name, the row's JSON, and how many equal rows come
    before it; rows of one start are in one batch, so it is the same whenever the row is sent again.
    Of numbered results the number counts, too.
    """

    def __init__(self, topic: str, time: TimeForm | None, patience: float) -> None:
        super().__init__(time, patience)
        if not isinstance(topic, str) or not topic or "\0" in topic:
            raise ArgumentError(f"topic is a name, got {brief(topic)}. Hint: topic='results'.")
        if not math.isfinite(patience):
            raise ArgumentError("patience is a number of seconds, got infinity. Hint: 3600.")
        self.topic = topic
        self._encode = make_encoder(type(self).__name__).encode

    def _list_rows(self, rows: EventBatch) -> Iterator[TopicRow]:
        seen: Counter[bytes] = Counter()
        number = b"" if rows.number is None else b"%d\0" % rows.number
        for row in rows.to_dicts(self._form()):
            text = self._encode(row)
            known = hashlib.blake2b(
                b"%s\0%s%s\0%d" % (self._query.encode(), number, text, seen[text]), digest_size=16
            )
            seen[text] += 1
            yield TopicRow(row, text, known.hexdigest())

    def _is_away(self, error: Exception) -> bool:
        return isinstance(error, BrokerAwayError)

    def _find_position(self) -> int | None:
        return self._position  # that of the checkpoint: the broker keeps none

    def _deliver(self, rows: EventBatch, position: int) -> None:
        self._send([*self._list_rows(rows)], position)

    @property
    @abstractmethod
    def _address(self) -> str:
        """The address of the broker, without secrets."""

    @abstractmethod
    def _send(self, rows: list[TopicRow], position: int) -> None:
        """Send rows, and return when the broker has them."""

    @property
    def _place(self) -> str:
        return f"the broker of topic {self.topic!r} at {self._address}"
