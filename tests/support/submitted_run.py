"""A query into a table of Spark, to be run by spark-submit: ``submitted_run.py FOLDER HOURS``."""

from __future__ import annotations

import sys
from pathlib import Path

from sink_input import batches, feed

from rxtemporal.spark import ParquetTable, SparkSink


def main(folder: Path, hours: int) -> None:
    """Run the query to its end."""
    sink = SparkSink(
        ParquetTable(folder / "table"),
        path=folder / "sink",
        trigger="0 seconds",
        max_segments_per_batch=2,
    )
    feed(sink, batches(hours))
    print(sink.stats(), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
