"""A run in a process of its own: ``job.py PATH HOURS``.

With ``dying`` as a third argument its Java process is killed in the middle.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from feeding import SCHEMA, batches, feed, until, write

from rxtemporal.spark import ParquetTable, SparkSink


def sink(path: Path) -> SparkSink:
    """The sink into the table below a path."""
    table = ParquetTable(path / "table")
    return SparkSink(table, path=path / "sink", trigger="0 seconds", max_segments_per_batch=2)


def killed(path: Path, hours: int) -> SparkSink:
    """Run the query; as soon as something is in the table its Java process is killed."""
    given, it = batches(hours), sink(path)
    it.open("q", SCHEMA)
    write(it, given[:2])
    until(lambda: it.stats().micro_batches > 0)
    os.kill(int((path / "sink" / "spark.pid").read_text(encoding="utf-8")), signal.SIGKILL)
    write(it, given[2:])
    it.close(None)
    print(it.stats().last_error)
    return it


def main(path: Path, hours: int, *, dying: bool) -> None:
    """Run the query."""
    print((killed(path, hours) if dying else feed(sink(path), batches(hours))).stats())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), dying="dying" in sys.argv)
