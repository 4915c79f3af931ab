"""Door of an input inside Spark in which each device has its own time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.core.payloads import PayloadReader
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.rows import grow
from rxtemporal.ingress.clock_settings import ClockSettings
from rxtemporal.ingress.device_packer import DevicePacker
from rxtemporal.ingress.lateness import LateReason
from rxtemporal.ingress.settings import AdvanceTimeSettings
from rxtemporal.spark.query.columns import BUCKET, CTI, STARTS, field

if TYPE_CHECKING:
    from rxtemporal.operators.synchronize.plan import Synchronize
    from rxtemporal.spark.query.reader import InputReader


class DeviceDoor:
    """Door of one input: each row is judged by its device's time.

    With ``synchronized`` a second one makes one time of those of the devices. Otherwise the CTIs of
    devices follow the rows, each to the bucket of its device: rows with ``_cti`` and the fields
    that name the device.
    """

    def __init__(
        self,
        reader: InputReader,
        settings: AdvanceTimeSettings,
        clock: ClockSettings,
        synchronized: Synchronize | None = None,
    ) -> None:
        self._reader, self._clock = reader, clock
        # the number of a row, in place of the rest of its payload
        self._row = "_".join([*clock.fields, "row"])
        self._packer = DevicePacker(
            clock, reader.schema, settings, reader.name, PayloadReader(reader.schema),
            tells_moves=synchronized is not None,
        )  # fmt: skip
        self._step: Any = None if synchronized is None else synchronized.make(reader.schema, ())
        # the bucket of each device
        self._buckets: Int64s = np.full(0, -1)
        self._late: Counter[LateReason] = Counter()

    def admit(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that are accepted, and the CTIs of devices that have advanced."""
        batch = self._reader.batch(rows, MIN_TIME)
        names = self._clock.fields
        numbers = pl.Series(self._row, np.arange(len(batch)))
        batch = batch.replace(payload=batch.payload.select(names).with_columns(numbers))
        if len(batch):
            codes = self._packer.clocks.number_devices(batch.columns)
            self._buckets = grow(self._buckets, 1 + int(codes.max()), -1)
            self._buckets[codes] = rows[BUCKET].to_numpy()
        accepted = self._packer.take_batch(batch)
        assert accepted.clocks is not None
        clocks = accepted.clocks.condense()
        self._packer.unreported.clear()
        if self._step is not None:
            accepted = self._step.on_batch(accepted)
            for late in self._step.unreported:
                self._late.update(late.reasons)
            self._step.unreported.clear()
        found = rows[accepted.payload[self._row].to_numpy()]
        found = found.with_columns(pl.Series(STARTS, accepted.start, pl.Int64))
        if self._step is not None:
            return found
        found = found.with_columns(pl.lit(None, pl.Int64).alias(CTI))
        codes = self._packer.clocks.number_devices(clocks.devices)
        told = self._list_clocks(clocks.devices, clocks.ctis, self._buckets[codes])
        return pl.concat([found, told], how="diagonal")

    def _list_clocks(self, devices: Columns, ctis: Int64s, buckets: Int64s) -> pl.DataFrame:
        """Return the CTIs of devices as rows."""
        places = list(self._reader.schema)
        named = [
            values.alias(field(self._reader.number, places.index(name)))
            for name, values in zip(self._clock.fields, devices.list_series(), strict=True)
        ]
        times = [pl.Series(STARTS, ctis), pl.Series(CTI, ctis)]
        return pl.DataFrame([pl.Series(BUCKET, buckets, pl.Int32), *times, *named])

    @property
    def cti(self) -> int:
        """The CTI that holds for all rows to come."""
        door = self._packer.sent if self._step is None else self._step.door.cti
        return max(int(door), MIN_TIME)

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """The numbers of events, of those dropped and adjusted, and the largest lateness."""
        late = self._packer.late + self._late
        adjusted = late[LateReason.ADJUSTED]
        dropped = late.total() - adjusted
        return self._packer.events, dropped, adjusted, self._packer.largest_lateness

    def finish(self) -> pl.DataFrame | None:
        """End the input; return the CTIs of devices, None if they hold to the end of time."""
        if self._packer.finish() >= MAX_TIME:
            return None
        devices, ctis = self._packer.clocks.list_ctis()
        return self._list_clocks(
            devices, np.maximum(ctis, MIN_TIME), self._buckets[: devices.height]
        )

    def save(self) -> list[Any]:
        """Return the state."""
        step = None if self._step is None else self._step.save()
        late = {reason.value: count for reason, count in self._late.items()}
        return [self._packer.save(), step, self._buckets.copy(), late]

    def load(self, state: Sequence[Any]) -> None:
        """Continue from the result of ``save``."""
        packer, step, self._buckets, late = state
        self._packer.load(packer)
        if step is not None:
            self._step.load(step)
        self._late = Counter({LateReason(value): count for value, count in late.items()})
