"""Durable events per second: `on_next` returns when they are on disk.

Producers push points into a stream for a while: one thread with single events, 16 threads into one
stream or each into its own, and one thread with batches of 100 and of 1,000 rows, with ``log=`` and
with ``resume=``. The reference appends the bytes of one row to a file and syncs it. Events and
batches are made inside the timed part. The number of results is checked outside it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial, reduce
from pathlib import Path
from typing import Any

import polars as pl
from reactivex.subject import Subject

import rxtemporal as rxt

SCHEMA = {"room": pl.String, "temp": pl.Float64}
THREADS = 16


class Count:
    """Sink that counts rows."""

    shape = rxt.EventShape.POINT

    def __init__(self) -> None:
        self.rows = 0

    def open(self, name: str, schema: pl.Schema) -> None:
        """Do nothing."""

    def write(self, batch: rxt.EventBatch) -> None:
        """Count the rows."""
        self.rows += len(batch)

    def close(self, error: BaseException | None) -> None:
        """Do nothing."""


def point(number: int) -> rxt.PointEvent:
    """Return an event."""
    return rxt.PointEvent(number, {"room": "hall", "temp": number * 0.5})


def batch(size: int, number: int) -> rxt.EventBatch:
    """Return a batch of rows."""
    starts = range(number * size, (number + 1) * size)
    frame = pl.DataFrame({"room": ["hall"] * size, "temp": [n * 0.5 for n in starts]})
    starts_series = pl.Series(starts, dtype=pl.Int64).to_numpy()
    return rxt.EventBatch(starts_series, starts_series + 1, starts_series * 0, frame, rxt.MIN_TIME)


def push(subject: Subject[Any], make: Callable[[int], Any], until: float) -> int:
    """Push items until a moment, and return their number."""
    number = 0
    while time.perf_counter() < until:
        subject.on_next(make(number))
        number += 1
    return number


def push_in_threads(
    subjects: list[Subject[Any]], make: Callable[[int], Any], seconds: float
) -> float:
    """Push from one thread per subject, and return items per second."""
    counts: list[int] = []
    begun = time.perf_counter()
    threads = [
        threading.Thread(target=lambda each=each: counts.append(push(each, make, begun + seconds)))
        for each in subjects
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - begun)


def durable(
    how: str, threads: int, streams: int, make: Callable[[int], Any], size: int, seconds: float
) -> float:
    """Return durable events per second for one kind of producer."""
    subjects = [Subject[Any]() for _ in range(streams)]
    made = [
        rxt.from_observable(each, schema=SCHEMA, name=f"s{n}", batch_rows=4_096)
        for n, each in enumerate(subjects)
    ]
    sink = Count()
    with tempfile.TemporaryDirectory(dir=os.environ.get("RXTEMPORAL_DISK")) as folder:
        place: Any = {how: Path(folder) / "run"}
        process = reduce(rxt.Streamable.union, made).run(sink, **place)
        rate = push_in_threads([subjects[n % streams] for n in range(threads)], make, seconds)
        for subject in subjects:
            subject.on_completed()
        process.wait()
        told = process.diagnostics()
        assert sink.rows == sum(each.events_in for each in told.streams)
    return rate * size


def append(seconds: float) -> float:
    """Return how many times per second a file can be appended to and synced."""
    with tempfile.NamedTemporaryFile(dir=os.environ.get("RXTEMPORAL_DISK")) as file:
        begun, count = time.perf_counter(), 0
        while time.perf_counter() - begun < seconds:
            os.write(file.fileno(), bytes(700))
            os.fsync(file.fileno())
            count += 1
        return count / (time.perf_counter() - begun)


WAYS: dict[str, tuple[int, int, Callable[[int], Any], int]] = {
    "event by event": (1, 1, point, 1),
    "16 threads, one stream": (THREADS, 1, point, 1),
    "16 threads, a stream each": (THREADS, THREADS, point, 1),
    "batches of 100": (1, 1, partial(batch, 100), 100),
    "batches of 1,000": (1, 1, partial(batch, 1_000), 1_000),
}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2, help="how long to push each way")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rates: dict[str, list[float]] = {}
    for each in range(options.rounds):
        rates.setdefault("append and sync", []).append(append(options.seconds / 2))
        for how in "log", "resume":
            for name, way in WAYS.items():
                if not each:
                    durable(how, *way, 0.2)  # warm
                rates.setdefault(f"{how}=  {name}", []).append(durable(how, *way, options.seconds))
    for name, found in rates.items():
        print(
            f"{name:<36} {statistics.median(found):>12,.0f}/s"
            f"   (from {min(found):,.0f} to {max(found):,.0f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
