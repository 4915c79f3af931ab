"""A run of its own, for the tests that end it by force or choose its Java: ``job.py PATH HOURS``.

``slowly`` as a third argument lets each batch wait until the one before is in the table.
"""

from __future__ import annotations

import sys
from pathlib import Path

from feeding import SCHEMA, batches, until, write

from rxtemporal.spark import ParquetTable, SparkSink


def main(path: Path, hours: int, slowly: bool) -> None:
    """Run the query once."""
    table = ParquetTable(path / "table")
    sink = SparkSink(table, path=path / "sink", trigger="0 seconds", max_segments_per_batch=2)
    sink.open("q", SCHEMA)
    for number, batch in enumerate(batches(hours)):
        write(sink, [batch])
        if slowly:
            print(number, flush=True)
            until(lambda: sink.stats().micro_batches > 0)
    sink.close(None)
    print(sink.stats())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), "slowly" in sys.argv)
