"""A run in a process of its own: ``job.py PATH HOURS``; ``--help`` has the rest."""

from __future__ import annotations

import argparse
import math
import os
import pickle
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from moments import Held, Moments, in_the_spool
from sink_input import SCHEMA, batches, feed, wait_until, write

from rxtemporal.spark import ParquetTable, SparkSink
from rxtemporal.spark.sink.sink import SparkSinkStats
from rxtemporal.storage.segments import SegmentFolder

# Spark starts often here and does little: what pays only in the long run is left out
QUICK = {
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def sink(path: Path, target: Any = None, **options: Any) -> SparkSink:
    """The sink into the table below a path."""
    target = target or ParquetTable(path / "table")
    return SparkSink(
        target, path=path / "sink", trigger="0 seconds", max_segments_per_batch=2, **options
    )


def killed(path: Path, hours: int) -> SparkSinkStats:
    """Run the query; as soon as something is in the table its Java process is killed."""
    given, it = batches(hours), sink(path)
    it.open("q", SCHEMA)
    write(it, given[:2])
    wait_until(lambda: it.stats().micro_batches > 0)
    os.kill(int((path / "sink" / "spark.pid").read_text(encoding="utf-8")), signal.SIGKILL)
    write(it, given[2:])
    it.close(None)
    print(it.stats().last_error)
    return it.stats()


def held(path: Path, hours: int, shift: int, moments: Moments, master: str) -> SparkSinkStats:
    """Run the query, which waits at the next moment until that is over."""
    target = Held(ParquetTable(path / "table", partition_by="k", compact=1), moments)
    it = sink(path, target, session={"spark.master": master, **QUICK})
    in_the_spool(moments)
    it.open("q", SCHEMA)
    threading.Thread(target=end_with, args=(it,), daemon=True).start()
    spool = SegmentFolder(path / "sink" / "spool")
    for batch in batches(hours, shift=shift):
        wait_until(lambda: moments.may_write(spool.bounds()[1] + 1), 900)
        write(it, [batch])
    it.close(None)
    return it.stats()


def end_with(it: SparkSink) -> None:
    """End this process with the error that ends the run for good.

    It may stand still at a moment, and nobody would end that.
    """
    delivery = it._delivery
    assert delivery is not None
    wait_until(lambda: delivery.progress.failure is not None, math.inf)
    traceback.print_exception(delivery.progress.failure)
    sys.stderr.flush()
    os._exit(1)


def main() -> None:
    """Run the query."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("hours", type=int)
    parser.add_argument("--dying", action="store_true", help="its Java process is killed under way")
    parser.add_argument("--moments", type=Path, help="a pickle of where to stand still")
    parser.add_argument("--shift", type=int, default=0, help="ticks, as in sink_input.batches")
    parser.add_argument("--master", default="local[2]")
    given = parser.parse_args()
    if given.dying:
        stats = killed(given.path, given.hours)
    elif given.moments:
        moments = pickle.loads(given.moments.read_bytes())
        stats = held(given.path, given.hours, given.shift, moments, given.master)
    else:
        stats = feed(sink(given.path), batches(given.hours)).stats()
    print(stats)


if __name__ == "__main__":
    main()
