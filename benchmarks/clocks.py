"""A clock for each device beside one time: W2 by device, with devices abreast and behind.

Each of 10,000 devices sends once a second of its time, in an order of their own; a second is
allowed for disorder. ``abreast``: all send at the time. ``behind``: one device in a hundred is
behind by up to six hours, and sends as often; one time then needs a delay of six hours to lose
nothing, and is measured with a second. ``memory``: bytes for each of 100,000 devices that have sent
one row whose window is final.
"""

from __future__ import annotations

import argparse
import statistics
import time
import tracemalloc
from typing import Any

import numpy as np
import polars as pl

import rxtemporal as rxt
from rxtemporal import agg

DEVICES, SECOND, MOST_BEHIND = 10_000, 1_000_000, 6 * 3_600
SIZES = {64: 400_000, 1_024: 1_000_000, 65_536: 8_000_000}
FIELDS = {"device": str, "x": int}
GOALS = {"abreast": 0.9, "behind": 0.25}


def make_batches(rows: int, size: int, share: float) -> list[rxt.EventBatch]:
    """Return rows in order of arrival, in batches; a share of the devices is behind."""
    random = np.random.default_rng(1)
    names = pl.Series([f"d{number:05}" for number in range(DEVICES)])
    device = np.tile(random.permutation(DEVICES), rows // DEVICES + 1)[:rows]
    late = random.random(DEVICES) < share
    lag = np.where(late, random.integers(0, MOST_BEHIND, DEVICES), 0) * SECOND
    start = np.arange(rows) * SECOND // DEVICES - lag[device]
    batches = []
    for begin in range(0, rows, size):
        of = device[begin : begin + size]
        payload = pl.DataFrame({"device": names.gather(of), "x": np.arange(len(of))})
        part = start[begin : begin + size].copy()
        batches.append(rxt.EventBatch.of_rows(part, None, payload, rxt.MIN_TIME))
    return batches


def run(batches: list[rxt.EventBatch], **options: Any) -> float:
    """Return the seconds that W2 by device takes."""
    readings = rxt.from_events(
        iter(batches), schema=FIELDS, advance_time=SECOND, unit=None, **options
    )
    windows = readings.group_by("device").tumbling_window(60 * SECOND)
    query = windows.aggregate(n=agg.count(), s=agg.sum("x"))
    begun = time.perf_counter()
    query.run(lambda batch: None, warn_after=None).wait()
    return time.perf_counter() - begun


def measure_memory(devices: int = 100_000) -> float:
    """Return the bytes that each sleeping device takes."""
    source = rxt.PushSource("r", schema=FIELDS, clock="device")
    windows = source.stream.group_by("device").tumbling_window(10)
    process = windows.aggregate(n=agg.count()).run(lambda batch: None)
    source.push({"time": 0, "device": "first", "x": 0})
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    names = [f"d{number:06}" for number in range(devices)]
    source.push(pl.DataFrame({"time": 0, "device": names, "x": 0}))
    source.push(rxt.Cti(10))
    del names
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    process.stop()
    return (after - before) / devices


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="*", default=[*SIZES])
    options = parser.parse_args()
    for size in options.sizes:
        for name, share in (("abreast", 0.0), ("behind", 0.01)):
            rows = SIZES[size]
            batches = make_batches(rows, size, share)
            run(batches[:20]), run(batches[:20], clock="device")
            pairs = [(run(batches), run(batches, clock="device")) for _ in range(options.rounds)]
            plain, clocks = (statistics.median(each) for each in zip(*pairs, strict=True))
            ratio = statistics.median(one / other for one, other in pairs)
            verdict = "met" if ratio >= GOALS[name] else "not met"
            print(
                f"{size:,} rows a batch, {name}: one time {rows / plain / 1e6:.2f} M rows/s, "
                f"clocks {rows / clocks / 1e6:.2f} M rows/s, {ratio:.2f} x "
                f"(goal {GOALS[name]} x: {verdict})",
                flush=True,
            )
    print(f"{measure_memory():.0f} bytes for each sleeping device (goal 200)")


if __name__ == "__main__":
    main()
