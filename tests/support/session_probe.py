"""Tell in which sessions a program's sinks and its own work run: ``session_probe.py FOLDER``.

The answer is a line of JSON, the last one. The sinks run first, unless ``--plain`` makes a session
before with pyspark alone. ``--set NAME=VALUE`` gives settings to ``session``.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sink_input import batches, feed

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.spark import ParquetTable, SparkSink, explain, session
from rxtemporal.spark.targets.target import MicroBatch, Origin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOURS = 3


@dataclasses.dataclass(frozen=True)
class Noting:
    """A ``ParquetTable`` that notes the master of each session that writes it."""

    table: ParquetTable
    notes: Path

    shapes: ClassVar[Any] = ParquetTable.shapes
    runs_in_child: ClassVar[bool] = True
    shape_error: ClassVar[str] = ParquetTable.shape_error

    def open(self, origin: Origin) -> Any:
        """Return the table's writer, which notes."""
        writer: Any = self.table.open(origin)
        write = writer.write

        def note(batch: MicroBatch) -> None:
            with self.notes.open("a", encoding="utf-8") as notes:
                notes.write(f"{batch.spark.sparkContext.master}\n")
            write(batch)

        writer.write = note
        return writer


def run_sinks(folder: Path) -> dict[str, list[str]]:
    """Run a sink of each kind, and return the masters of the sessions that they used."""
    notes = folder / "notes"
    table = Noting(ParquetTable(folder / "table"), notes)
    feed(SparkSink(table, path=folder / "a", trigger="0 seconds"), batches(HOURS))
    found = {"table": notes.read_text(encoding="utf-8").split(), "function": [], "direct": []}

    def take(kind: str) -> Callable[[DataFrame, int], None]:
        def call(frame: DataFrame, number: int) -> None:
            frame.count()
            found[kind].append(frame.sparkSession.sparkContext.master)

        return call

    feed(SparkSink(take("function"), path=folder / "b", trigger="0 seconds"), batches(HOURS))
    feed(SparkSink(take("direct"), path=folder / "c", mode="direct"), batches(HOURS))
    return {kind: sorted(set(masters)) for kind, masters in found.items()}


def count_rooms(stream: rxt.Streamable) -> rxt.Streamable:
    """A query that can be split."""
    return stream.group_by("room").tumbling_window(10).aggregate(n=agg.count())


def describe(spark: SparkSession) -> dict[str, Any]:
    """Return what a session is."""
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    beans = jvm.java.lang.management.ManagementFactory
    rows = spark.createDataFrame([(1, "hall")], "start_time bigint, room string")
    return {
        "settings": dict(spark.sparkContext.getConf().getAll()),
        "java": list(beans.getRuntimeMXBean().getInputArguments()),
        "split": explain(count_rooms, stream=rows).splitlines()[-1],
    }


def main() -> None:
    """Run and tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--plain", help="a master, for a session made with pyspark alone")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--no-sinks", action="store_true")
    given = parser.parse_args()
    if given.plain:
        from pyspark.sql import SparkSession

        SparkSession.builder.master(given.plain).getOrCreate()
    sinks = {} if given.no_sinks else run_sinks(given.folder)
    spark = session(**dict(each.split("=", 1) for each in given.set))
    print(json.dumps({"sinks": sinks, **describe(spark)}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
