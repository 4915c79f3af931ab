"""A resumable run over a folder of files, in its own process: ``resumable_job.py FOLDER POINT N``.

At a point of its N-th micro-batch it says so in a file of that name, and waits to be killed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from file_streams import FileStream
from hourly_readings import READINGS
from micro_batches import run, without_sparks_sink

from rxtemporal.run import checkpoint as resuming
from rxtemporal.spark.dataframes import streaming as microbatches
from rxtemporal.spark.jvm.session import session

# where the run stands still: what came of a micro-batch has left, or has been saved as well
POINTS: dict[str, tuple[Any, str]] = {
    "left": (resuming.Checkpointer, "_save"),
    "saved": (microbatches._Query, "_on_batch"),
}


def put(point: str, number: int, mark: Path) -> None:
    """Let the run stop at a point."""
    owner, name = POINTS[point]
    inner, calls = getattr(owner, name), [0]

    def stand_still() -> None:
        if calls[0] == number:
            mark.touch()
            time.sleep(600)

    def called(self: Any, *given: Any) -> None:
        calls[0] += 1
        if point == "left":
            stand_still()
        inner(self, *given)
        stand_still()

    setattr(owner, name, called)


def main(folder: str, point: str, number: str) -> None:
    """Run the query."""
    path = Path(folder)
    put(point, int(number), path / point)
    without_sparks_sink(setattr)
    spark = session(**{"spark.master": "local[2]"})
    run(spark, FileStream.reopen(path / "in", READINGS.schema), path).wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
