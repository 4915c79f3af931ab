"""The door of one streaming input, with its state between micro-batches."""

from __future__ import annotations

import dataclasses
from typing import Any

import polars as pl

from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.codec import dumps, load_frame, loads
from rxtemporal.errors import CheckpointError
from rxtemporal.ingress.door import Door
from rxtemporal.ingress.lateness import LateReason
from rxtemporal.ingress.settings import AdvanceTimeSettings
from rxtemporal.spark.query.bounded_bucket import InputReader, admit_rows
from rxtemporal.spark.query.columns import ENDS, STARTS
from rxtemporal.spark.query.packing import pack_buckets
from rxtemporal.spark.query.streaming_bucket import ANEW, Received

# counts of accepted and late events in all micro-batches so far; lateness is in ticks
COUNTS = ("events", "dropped", "adjusted", "largest_lateness")


@dataclasses.dataclass(frozen=True)
class DoorWork:
    """Door over one input; rows of a micro-batch pass it in the order of some columns."""

    reader: InputReader
    settings: AdvanceTimeSettings
    order: tuple[str, ...]
    buckets: int

    def __call__(self, saved: bytes | None, received: Received) -> tuple[bytes, dict[str, Any]]:
        """Return the new state, and the accepted rows, packed, with the CTI after them.

        Each packed row has the counts of late events since the start of the checkpoint.
        """
        door = Door(self.settings, self.reader.name)
        if saved is not None:
            door = load_door(door, saved)
        rows = pl.concat([load_frame(data) for _, _, data in received])
        accepted = admit_rows(door, self.reader, rows.sort(*self.order, STARTS, ENDS))
        cti = max(door.cti, MIN_TIME)
        packed = pack_buckets(self.reader.number, accepted.drop(*self.order), cti, self.buckets)
        late = door.late[LateReason.DROPPED], door.late[LateReason.ADJUSTED]
        counts = zip(COUNTS, (door.events, *late, door.largest_lateness), strict=True)
        counted = packed.with_columns(pl.lit(n, pl.Int64).alias(name) for name, n in counts)
        return save_door(door), counted.to_dict(as_series=False)


def save_door(door: Door) -> bytes:
    """Return the state of a door without open rows, with its counts of late events."""
    return dumps("door", [repr(door.settings), door.save()])


def load_door(door: Door, data: bytes) -> Door:
    """Return a door that resumes from the result of ``save_door``, with the same settings."""
    settings, saved = loads("door", data, "the state in this checkpoint", ANEW)
    if settings != repr(door.settings):
        raise CheckpointError(
            f"advance_time= of {door.source!r} has changed since this checkpoint was begun: it was "
            f"{settings}, and here it is {door.settings!r}. Hint: continue with the earlier "
            f"settings, {ANEW}."
        )
    door.load(saved)
    return door
