"""Streaming DataFrames for tests: a file is a micro-batch; a query runs until all are read."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from rxtemporal.core.ticks import MAX_TIME

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

# any moment will do: files are read in the order in which they say that they were written
BEGAN = 1_700_000_000


class FileStream:
    """A folder that is read as a stream, a file in each micro-batch."""

    def __init__(self, folder: Path, schema: pl.Schema) -> None:
        self.folder, self.schema, self.count = folder, schema, 0
        folder.mkdir(parents=True)

    @classmethod
    def reopen(cls, folder: Path, schema: pl.Schema) -> FileStream:
        """Return a folder that another process has made."""
        stream = cls.__new__(cls)
        stream.folder, stream.schema = folder, schema
        stream.count = len(list(folder.glob("*.parquet")))
        return stream

    def add(self, rows: pl.DataFrame) -> None:
        """Add the rows of one more micro-batch."""
        # Spark does not see a file whose name begins with a dot
        hidden = self.folder / f".{self.count}.parquet"
        rows.match_to_schema(self.schema).write_parquet(hidden)
        os.utime(hidden, (BEGAN + self.count,) * 2)
        hidden.rename(self.folder / f"{self.count}.parquet")
        self.count += 1

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the folder as a streaming DataFrame."""
        from pyspark.sql.pandas.types import from_arrow_schema

        empty = pl.DataFrame(schema=self.schema).to_arrow(compat_level=pl.CompatLevel.oldest())
        reader = spark.readStream.schema(from_arrow_schema(empty.schema))
        return reader.option("maxFilesPerTrigger", 1).parquet(str(self.folder))


def cut_micro_batches(
    rows: pl.DataFrame, parts: int, numbers: random.Random, last: int = MAX_TIME
) -> list[pl.DataFrame]:
    """Cut rows in order of start into micro-batches, at random.

    Each brings the highest CTI that what follows allows, the last one ``last``; its rows are in no
    order.
    """
    schema = pl.Schema({**rows.schema, "cti": pl.Int64})
    cuts = sorted(numbers.randrange(rows.height + 1) for _ in range(parts - 1))
    found = []
    for first, end in zip([0, *cuts], [*cuts, rows.height], strict=True):
        reached = rows["start_time"][end] if end < rows.height else last
        cti = pl.DataFrame({"cti": [reached]}, schema={"cti": pl.Int64})
        some = rows[first:end].match_to_schema(schema, missing_columns="insert")
        together = pl.concat([cti, some], how="diagonal").select(schema.names())
        found.append(together.sample(fraction=1, shuffle=True, seed=numbers.randrange(2**32)))
    return found


def read_all(frame: DataFrame, checkpoint: Path) -> list[pa.Table]:
    """Run a streaming query until everything that is there is read; return its micro-batches."""
    tables: list[pa.Table] = []
    query = (
        frame.writeStream.foreachBatch(lambda rows, _: tables.append(rows.toArrow()))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return tables
