"""A process that writes a table with compactions: ``table_job.py PATH COUNT``; no Java runs.

``--kill`` names a step and ``--nth`` its number: the process kills itself there. Without them it
prints how often it has passed each step.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import polars as pl
from kill_points import Steps, kill_at
from segment_batches import SegmentBatch, make_spool

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.spark import ParquetTable
from rxtemporal.spark.targets import compaction, parquet_files
from rxtemporal.spark.targets.target import Origin
from rxtemporal.storage.segments import SegmentFolder

SCHEMA = pl.Schema({"k": pl.String(), "x": pl.Int64()})
# in each folder, of each segment
ROWS = 3
FOLDERS = ("a", "b")
# every change of a name in the file system is one of these
STEPS: Steps = {
    "rows are written": (parquet_files, "write_rows"),
    "files are merged": (compaction, "merge"),
    "a file gets a name": (os, "replace"),
    "a file is deleted": (Path, "unlink"),
}


def make_segments(path: Path, count: int) -> SegmentFolder:
    """Write segments that have rows for each folder; ``x`` is the number of the segment."""
    segments = [
        EventBatch.from_dicts(
            [{"start_time": x, "k": k, "x": x} for k in FOLDERS for _ in range(ROWS)],
            schema=SCHEMA,
            cti=MAX_TIME,
        )
        for x in range(1, count + 1)
    ]
    return make_spool(path / "spool", SCHEMA, segments)


def expected(count: int) -> list[tuple[str, int]]:
    """Return the rows of the first segments, sorted."""
    return sorted((k, x) for k in FOLDERS for x in range(1, count + 1) for _ in range(ROWS))


def write_table(path: Path, count: int) -> None:
    """Write the rest of the segments, a micro-batch for each, and merge files in between."""
    table = ParquetTable(path / "table", partition_by="k", compact=1)
    writer: Any = table.open(Origin("q", "id", SCHEMA, 0, path))
    for last in range(writer.last + 1, count + 1):
        writer.write(SegmentBatch(last, SegmentFolder(path / "spool")))
        if writer._compaction._thread is not None:
            writer._compaction._thread.join()
    writer.close()


def count_steps() -> Counter[str]:
    """Count the steps from now on."""
    passed = Counter[str]()

    def count(step: str, made: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(made)
        def call(*arguments: Any, **named: Any) -> Any:
            passed[step] += 1
            return made(*arguments, **named)

        return call

    for step, (owner, name) in STEPS.items():
        setattr(owner, name, count(step, vars(owner)[name]))
    return passed


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("count", type=int)
    parser.add_argument("--kill")
    parser.add_argument("--nth", type=int, default=1)
    given = parser.parse_args()
    if given.kill:
        kill_at(given.kill, given.nth, STEPS)
        write_table(given.path, given.count)
        return
    passed = count_steps()
    write_table(given.path, given.count)
    print(json.dumps(passed))


if __name__ == "__main__":
    main()
