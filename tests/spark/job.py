"""A run in a process of its own: ``job.py PATH HOURS``.

With ``dying`` as a third argument its Java process dies in the middle, and a second run follows.
"""

from __future__ import annotations

import sys
from pathlib import Path

from feeding import SCHEMA, batches, feed, until, write

from rxtemporal.errors import JavaError
from rxtemporal.spark import ParquetTable, SparkSink


def sink(path: Path) -> SparkSink:
    """The sink into the table below a path."""
    table = ParquetTable(path / "table")
    return SparkSink(table, path=path / "sink", trigger="0 seconds", max_segments_per_batch=2)


def die(first: SparkSink, hours: int) -> None:
    """Run the query until something is in the table; then its Java process dies."""
    first.open("q", SCHEMA)
    write(first, batches(hours)[:2])
    until(lambda: first.stats().micro_batches > 0)
    from pyspark import SparkContext

    SparkContext._gateway.proc.kill()
    try:
        write(first, batches(hours)[2:3])
        first.close(None)
    except JavaError as error:
        print(error)
        first.close(error)


def main(path: Path, hours: int, *, dying: bool) -> None:
    """Run the query."""
    if dying:
        die(sink(path), hours)
    print(feed(sink(path), batches(hours)).stats())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), dying="dying" in sys.argv)
