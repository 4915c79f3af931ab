"""Reader of one input's rows from the DataFrame of all inputs."""

from __future__ import annotations

import dataclasses

import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.clocks import Clocks
from rxtemporal.core.columns import Columns, time_column
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.errors import blame
from rxtemporal.operators.operator import Keys
from rxtemporal.spark.query.columns import CTI, ENDS, STARTS, field


@dataclasses.dataclass(frozen=True)
class InputReader:
    """Reader of one input's rows from the DataFrame of all inputs.

    ``clock`` are the fields that name a device, if each has its own time.
    """

    name: str
    number: int
    schema: pl.Schema
    clock: Keys = ()

    def batch(self, rows: pl.DataFrame, cti: int) -> EventBatch:
        """Return rows of this input, without its CTIs, as a batch."""
        fields = {field(self.number, i): name for i, name in enumerate(self.schema)}
        payload = rows.select(pl.col(old).alias(new) for old, new in fields.items())
        if not fields:
            payload = pl.DataFrame(height=rows.height)
        try:
            starts = time_column(rows[STARTS].alias("start"))
            ends = time_column(rows[ENDS].alias("end"), null=MAX_TIME)
            batch = EventBatch.of_rows(starts, ends, payload.cast(dict(self.schema)), cti)  # type: ignore[arg-type]
            return batch.check()
        except Exception as error:
            blamed = blame(error, f"of {self.name}")
            raise blamed from blamed.__cause__

    def read_clocks(self, rows: pl.DataFrame) -> Clocks:
        """Return the CTIs of devices that are among rows of this input."""
        places = list(self.schema)
        names = {field(self.number, places.index(name)): name for name in self.clock}
        devices = rows.select(pl.col(old).alias(new) for old, new in names.items())
        schema = {name: self.schema[name] for name in self.clock}
        return Clocks(Columns.from_frame(devices.cast(schema)), rows[CTI].to_numpy())  # type: ignore[arg-type]
