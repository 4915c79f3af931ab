"""Throughput and latency of events through a hand-off into a slow sink.

A producer pushes points, each followed by a CTI, at a given rate or as fast as it can. The query is
a projection; the sink takes a fixed time for each batch, like a commit to a database. Latency is
from the push to the end of the write. The reference is the same without a hand-off, where the
producer waits for each write. Events are made inside the timed part, because each carries the time
of its push.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import polars as pl
from reactivex.subject import Subject

import rxtemporal as rxt

# events per second; None: as many as the producer can push
LOADS = (100, 1_000, 10_000, 50_000, None)
SCHEMA = {"sent": pl.Float64, "value": pl.Int64}


class Commits(rxt.Sink):
    """Sink that takes a fixed time for each batch, and notes the latency of each row."""

    shape = rxt.EventShape.POINT

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.latencies: list[np.ndarray[Any, Any]] = []
        self.total = 0

    def write(self, batch: rxt.EventBatch) -> None:
        """Wait for the time of a commit, unless the batch has no rows."""
        if len(batch):
            time.sleep(self._seconds)
            self.latencies.append(time.perf_counter() - batch.payload["sent"].to_numpy())
            self.total += batch.payload["twice"].sum()


def push(subject: Subject[Any], load: int | None, seconds: float, most: int) -> tuple[int, float]:
    """Push events for a while, up to a number of them; return their number and the seconds."""
    begun = time.perf_counter()
    for n in range(most):
        now = time.perf_counter()
        if now - begun > seconds:
            break
        if load is not None and (ahead := n / load - (now - begun)) > 0:
            time.sleep(ahead)
        subject.on_next(rxt.PointEvent(n, {"sent": time.perf_counter(), "value": n}))
        subject.on_next(rxt.Cti(n + 1))
    else:
        n = most
    return n, time.perf_counter() - begun


def run(hand_off: rxt.HandOff | None, load: int | None, options: argparse.Namespace) -> str:
    """Return the figures of one load, after checking the results."""
    subject: Subject[Any] = Subject()
    stream = rxt.from_observable(subject, schema=SCHEMA, name="pushed", hand_off=hand_off)
    sink = Commits(options.commit / 1_000)
    query = stream.where(pl.col("value") >= 0).select("sent", twice=pl.col("value") * 2)
    with query.run(sink) as process:
        count, taken = push(subject, load, options.seconds, options.events)
        subject.on_completed()
        process.wait()
    latencies = np.concatenate(sink.latencies) * 1_000
    assert len(latencies) == count
    assert sink.total == count * (count - 1)
    middle, high = np.percentile(latencies, [50, 99])
    line = (
        f"{count / taken:>10,.0f}/s  {count / len(sink.latencies):>9,.1f} rows a batch"
        f"   latency p50 {middle:7.1f}, p99 {high:7.1f}, most {latencies.max():7.1f} ms"
    )
    counted = process.diagnostics().streams[0].hand_off
    if counted is not None:
        blocked = counted.blocked.total_seconds()
        line += (
            f"   most waiting {counted.most_rows_waiting:>7,}, blocked {blocked:4.1f} s,"
            f" spilled {counted.rows_spilled:>9,}"
        )
    return line


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commit", type=float, default=20, help="milliseconds for each batch")
    parser.add_argument("--seconds", type=float, default=5, help="how long to push at each load")
    parser.add_argument("--events", type=int, default=1_000_000, help="most events at each load")
    parser.add_argument("--max-rows", type=int, default=1_000, help="rows that may wait in memory")
    options = parser.parse_args()
    ways = {
        "no hand-off": None,
        "block": rxt.HandOff(options.max_rows, rxt.WhenFull.BLOCK),
        "spill": rxt.HandOff(options.max_rows, rxt.WhenFull.SPILL),
    }
    for name, hand_off in ways.items():
        run(hand_off, 100, argparse.Namespace(**{**vars(options), "events": 50}))  # warm
        for load in LOADS if hand_off else LOADS[:1]:
            offered = "as it can" if load is None else f"{load:,}/s"
            print(f"{name:<12} offered {offered:>10}  {run(hand_off, load, options)}", flush=True)


if __name__ == "__main__":
    main()
