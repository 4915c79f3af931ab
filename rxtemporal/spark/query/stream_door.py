"""Door over one streaming input, whose verdicts depend on the micro-batches before."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.codec import dumps, loads
from rxtemporal.errors import CheckpointError
from rxtemporal.ingress.door import Door
from rxtemporal.ingress.lateness import LateReason
from rxtemporal.ingress.settings import AdvanceTimeSettings
from rxtemporal.spark.query.bounded_bucket import admit_rows
from rxtemporal.spark.query.bucket_state import Columns, PackedInput
from rxtemporal.spark.query.columns import ENDS, STARTS
from rxtemporal.spark.query.packing import pack_buckets
from rxtemporal.spark.query.reader import InputReader

if TYPE_CHECKING:
    from rxtemporal.ingress.clock_settings import ClockSettings
    from rxtemporal.operators.synchronize.plan import Synchronize
    from rxtemporal.spark.query.device_door import DeviceDoor

# counts of accepted and late events in all micro-batches so far; lateness is in ticks
COUNTS = ("events", "dropped", "adjusted", "largest_lateness")
_ANEW = "or begin with a new checkpointLocation, which computes everything anew"


@dataclasses.dataclass(frozen=True)
class DoorWork:
    """Door over one input; rows of a micro-batch pass it in the order of some columns."""

    reader: InputReader
    settings: AdvanceTimeSettings
    order: tuple[str, ...]
    buckets: int
    clock: ClockSettings | None = None
    synchronized: Synchronize | None = None

    @property
    def repeatable(self) -> bool:
        """True, as verdicts depend on the rows alone."""
        return True

    @property
    def joins(self) -> bool:
        """False, as a row is judged by the rows of the micro-batches before."""
        return False

    def begin(self) -> DoorRun:
        """Return a door that has judged nothing."""
        return DoorRun(self)


class DoorRun:
    """A door over one input, from one micro-batch to the next."""

    def __init__(self, work: DoorWork) -> None:
        self._work = work
        self._door: OneTimeDoor | DeviceDoor
        if work.clock is None:
            self._door = OneTimeDoor(work.reader, work.settings)
            self._kind, self._what = "door", "advance_time=, order_by= or a field"
        else:
            from rxtemporal.spark.query.device_door import DeviceDoor

            self._door = DeviceDoor(work.reader, work.settings, work.clock, work.synchronized)
            self._kind = "device door"
            self._what = "advance_time=, order_by=, clock=, synchronize() or a field"
        fields = [f"{name} {dtype}" for name, dtype in work.reader.schema.items()]
        settings = [work.settings, work.clock, work.synchronized]
        self._settings = repr([*filter(None, settings), work.order, fields])

    def take(self, rows: Sequence[PackedInput]) -> Columns:
        """Return the accepted rows, packed, with the CTI after them.

        Each packed row has the counts of late events since the start of the checkpoint.
        """
        order = self._work.order
        (mine,) = rows
        accepted = self._door.admit(mine.frame.sort(*order, STARTS, ENDS))
        number, buckets = self._work.reader.number, self._work.buckets
        packed = pack_buckets(number, accepted.drop(*order), self._door.cti, buckets)
        counts = zip(COUNTS, self._door.counts, strict=True)
        counted = packed.with_columns(pl.lit(n, pl.Int64).alias(name) for name, n in counts)
        return counted.to_dict(as_series=False)

    def save(self) -> bytes:
        """Return the state, with the counts of late events."""
        return dumps(self._kind, [self._settings, self._door.save()])

    def load(self, data: bytes) -> None:
        """Continue from a state that a door with the same settings saved."""
        before, state = loads(self._kind, data, "the state in this checkpoint", _ANEW)
        if before != self._settings:
            raise CheckpointError(
                f"{self._what} of {self._work.reader.name!r} has changed since this checkpoint was "
                f"begun: it was {before}, and here it is {self._settings}. "
                f"Hint: continue with the earlier settings, {_ANEW}."
            )
        self._door.load(state)


class OneTimeDoor:
    """Door of one input with one time for all rows."""

    def __init__(self, reader: InputReader, settings: AdvanceTimeSettings) -> None:
        self._reader, self._door = reader, Door(settings, reader.name)

    def admit(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that are accepted."""
        return admit_rows(self._door, self._reader, rows)

    @property
    def cti(self) -> int:
        """The CTI that holds for all rows to come."""
        return max(self._door.cti, MIN_TIME)

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """The numbers of events, of those dropped and adjusted, and the largest lateness."""
        door = self._door
        late = door.late[LateReason.DROPPED], door.late[LateReason.ADJUSTED]
        return door.events, *late, door.largest_lateness

    def save(self) -> Any:
        """Return the state."""
        return self._door.save()

    def load(self, state: Any) -> None:
        """Continue from the result of ``save``."""
        self._door.load(state)
