"""Messages of a partition of Kafka as rows, and those that do not fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.log import get_logger
from rxtemporal.core.ticks import to_datetime
from rxtemporal.core.time_forms import Unit
from rxtemporal.errors import SchemaError
from rxtemporal.ingress.encoded_rows import convert_texts, decode_objects
from rxtemporal.ingress.row_reader import RowReader
from rxtemporal.ingress.stream_time import StreamTime
from rxtemporal.ingress.verdict import Extra, Rejected, Rejects
from rxtemporal.query.batches import pack_rows

if TYPE_CHECKING:
    from confluent_kafka import Message

_log = get_logger(__name__)
# the field of a message's own timestamp, which no JSON of a schema has by accident
TIMESTAMP = "\0timestamp"
_TICKS_PER_MS = 1_000
# so much of a message that does not fit is kept
_MOST_KEPT = 1_024


_NONE: Int64s = np.empty(0, np.int64)


class Piece(NamedTuple):
    """Consecutive messages of one partition.

    ========== ===============================================================
    batch      the rows, in the order of their offsets
    offsets    the offset of each row
    end        the offset after the last message
    tombstones the offsets of the messages without a value
    rejected   the messages that do not fit; ``index`` is the offset
    ========== ===============================================================
    """

    batch: EventBatch
    offsets: Int64s
    end: int
    tombstones: Int64s = _NONE
    rejected: tuple[Rejected, ...] = ()


class KafkaReader:
    """Reader of messages whose values are JSON objects.

    ``start`` names the field of a row's start; None: the timestamp of the message is the start.
    """

    def __init__(
        self,
        name: str,
        schema: pl.Schema,
        start: str | None,
        end: str | None,
        extra: Extra,
        rejects: Rejects,
        on_reject: Callable[[Rejected], object] | None,
        unit: Unit | None = None,
        required: Sequence[str] = (),
    ) -> None:
        self._name, self._stamped = name, start is None
        self._reader = RowReader(
            name, schema, start=start or TIMESTAMP, end=end, extra=extra, unit=unit,
            required=required,
        )  # fmt: skip
        self._rejects, self._on_reject = rejects, on_reject
        self.schema = self._reader.schema

    @property
    def times(self) -> StreamTime:
        """The form of the times in the run that reads."""
        return self._reader.times

    def join(self, times: StreamTime) -> None:
        """Read times of the form of a run from now on."""
        self._reader = self._reader.join(times)

    def read(self, place: tuple[str, int], messages: Sequence[Message]) -> Piece:
        """Return messages of one partition as rows; publish those that do not fit.

        ``SchemaError``: there are such messages, and the policy is to raise.
        """
        kept = [each for each in messages if each.value() is not None]
        values = [value for each in kept if (value := each.value()) is not None]
        rows, places, bad = decode_objects(values)
        convert_texts(rows, self.schema)
        if self._stamped:
            for row, number in zip(rows, places, strict=True):
                row[TIMESTAMP] = _read_stamp(kept[number])
        found = self._reader.read(rows)
        offsets = np.array([each.offset() for each in kept], np.int64)
        numbers = np.array(places, np.int64)
        batch = found.items
        if not isinstance(batch, EventBatch):
            batch = pack_rows(batch, self.schema)
        misfits = [dataclasses.replace(each, index=places[each.index]) for each in found.rejected]
        rejected = self._publish(place, [*misfits, *bad], offsets, values)
        end = _offset(messages[-1]) + 1
        taken = offsets[numbers[np.array(found.index, np.int64)]]
        empty = np.array([_offset(each) for each in messages if each.value() is None], np.int64)
        return Piece(batch, taken, end, empty, rejected)

    def _publish(
        self,
        place: tuple[str, int],
        misfits: Sequence[Rejected],
        offsets: Int64s,
        values: Sequence[bytes],
    ) -> tuple[Rejected, ...]:
        """Return rejected messages with their offsets, once the policy has been applied."""
        if not misfits:
            return ()
        arrived = datetime.now(UTC)
        rejected = tuple(
            dataclasses.replace(
                each,
                index=int(offsets[each.index]),
                row=values[each.index][:_MOST_KEPT],
                source=self._name,
                input=describe_place(place),
                arrived=arrived,
            )
            for each in sorted(misfits, key=lambda each: each.index)
        )
        if self._rejects is Rejects.RAISE:
            raise _refuse(rejected[0])
        for one in rejected:
            self._tell(one)
        return rejected

    def _tell(self, rejected: Rejected) -> None:
        if self._on_reject is None:
            return
        try:
            self._on_reject(rejected)
        except Exception:  # it has no say in what is read
            _log.exception("on_reject failed", stream=self._name, message=rejected.input)


def describe_place(place: tuple[str, int]) -> str:
    """Return topic and partition as one text."""
    topic, partition = place
    return f"{topic}/{partition}"


def _offset(message: Any) -> int:
    return int(message.offset())


def _read_stamp(message: Message) -> datetime | None:
    """Return the timestamp of a message; None if it has none."""
    kind, milliseconds = message.timestamp()
    return to_datetime(milliseconds * _TICKS_PER_MS) if kind else None


def _refuse(first: Rejected) -> SchemaError:
    return SchemaError(
        f"the message at offset {first.index} of {first.input} cannot be read: {first.reason}. "
        "Hint: with rejects=rxt.Rejects.KEEP it is kept apart, and the run continues after it."
    )
