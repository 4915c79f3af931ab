"""A clock for each device beside one time: W2 by device, with devices abreast and behind.

Each of 10,000 devices sends once a second of its time, in an order of their own; a second is
allowed for disorder. ``abreast``: all send at the time. ``behind``: one device in a hundred is
behind by up to six hours, and sends as often; one time then needs a delay of six hours to lose
nothing, and is measured with a second. ``at random``: all send at the time, at random times, once a
second in the mean; and with a ``spread`` of 15 seconds, within which nearly all are. Then the bytes
for each of 100,000 devices that have sent one row whose window is final; and how long results wait,
over the lag of one device in ten.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
import tracemalloc
from collections.abc import Sequence
from typing import Any

import figures
import measure
import numpy as np
import polars as pl

import rxtemporal as rxt
from rxtemporal import agg

DEVICES, SECOND, MOST_BEHIND = 10_000, 1_000_000, 6 * 3_600
SIZES = {64: 400_000, 1_024: 1_000_000, 65_536: 8_000_000}
# four windows of a minute
RANDOM_ROWS = 240 * DEVICES
FIELDS = {"device": str, "x": int}
GOALS = {"abreast": 0.9, "behind": 0.25}
RATES, RATIOS = "Clocks of devices", "Ratios of clocks"
DELAYS = "Seconds until final, over the lag of one device in seconds"
LAGS = [1, 10, 60, 600, 3_600, 21_600]


def make_batches(
    rows: int, size: int, share: float, *, at_random: bool = False
) -> list[rxt.EventBatch]:
    """Return rows in order of arrival, in batches; a share of the devices is behind."""
    random = np.random.default_rng(1)
    names = pl.Series([f"d{number:05}" for number in range(DEVICES)])
    device = np.tile(random.permutation(DEVICES), rows // DEVICES + 1)[:rows]
    if at_random:
        device = random.integers(0, DEVICES, rows)
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
    """Return the seconds that W2 by device takes, over batches that nobody has read before."""
    fresh = [
        rxt.EventBatch.of_rows(each.start, None, each.payload.clone(), rxt.MIN_TIME)
        for each in batches
    ]
    gc.collect()
    gc.freeze()  # what the program itself has made, so that only the query's objects are looked at
    readings = rxt.from_events(
        iter(fresh), schema=FIELDS, advance_time=SECOND, unit=None, **options
    )
    windows = readings.group_by("device").tumbling_window(60 * SECOND)
    query = windows.aggregate(n=agg.count(), s=agg.sum("x"))
    begun = time.perf_counter()
    query.run(lambda batch: None, warn_after=None).wait()
    seconds = time.perf_counter() - begun
    gc.unfreeze()
    return seconds


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


def measure_delay(lag: int, *, by_device: bool) -> float:
    """Return the median of the seconds after which a window of a device that is not behind leaves.

    Nine devices send a row a second, and one that is ``lag`` seconds behind. Nothing is lost: one
    time waits for the lag, and a clock for each device for a second.
    """
    delay = 1 if by_device else lag
    clocks: dict[str, Any] = {"clock": "device", "behind": lag + 1} if by_device else {}
    source = rxt.PushSource("r", schema=FIELDS, delay=delay, **clocks)
    windows = source.stream.group_by("device").tumbling_window(60)
    waits: list[float] = []
    now = 0

    def note(batch: rxt.EventBatch) -> None:
        late = batch.payload["device"].to_numpy() == "behind"
        waits.extend((now - batch.end[~late]).tolist())

    with windows.aggregate(n=agg.count()).run(note, warn_after=None) as process:
        for now in range(lag, 2 * lag + 600):
            rows = [{"time": now, "device": f"d{n}", "x": n} for n in range(9)]
            rows.append({"time": now - lag, "device": "behind", "x": 0})
            verdict = source.push(rows)
            assert not verdict.late
        process.stop()
    return statistics.median(waits)


def compare_delays(report: figures.Report, lags: Sequence[int]) -> None:
    """Measure after how long results leave, over the lag of one device."""
    for curve, by_device in (("one time", False), ("a clock for each", True)):
        for lag in lags:
            value = measure_delay(lag, by_device=by_device)
            what = f"{curve}, a device {lag:,} s behind"
            report.add(figures.Figure(DELAYS, what, value, "s", curve=curve, size=lag))


def compare_rates(
    report: figures.Report, sizes: Sequence[int], rounds: int, random_rows: int = RANDOM_ROWS
) -> None:
    """Measure the rows a second with clocks, beside one time."""
    for size in sizes:
        for name, share in (("abreast", 0.0), ("behind", 0.01)):
            rows = SIZES[size]
            batches = make_batches(rows, size, share)
            pairs = time_pairs(batches, rounds)
            plain, clocks = zip(*pairs, strict=True)
            of = f"{size:,} rows a batch, {name}"
            for who, seconds in (("one time", plain), ("clocks", clocks)):
                rates = [rows / each / 1e6 for each in seconds]
                report.add(figures.summarize(RATES, f"{of}: {who}", rates, "M/s"))
            ratios = [one / other for one, other in pairs]
            report.add(figures.summarize(RATIOS, f"{of}: ratio", ratios, "×", GOALS[name]))
        batches = make_batches(random_rows, size, 0.0, at_random=True)
        for name, options in (("", {}), (", spread of 15 s", {"spread": 15 * SECOND})):
            ratios = [one / other for one, other in time_pairs(batches, rounds, **options)]
            what = f"{size:,} rows a batch, at random{name}: ratio"
            report.add(figures.summarize(RATIOS, what, ratios, "×"))


def time_pairs(
    batches: list[rxt.EventBatch], rounds: int, **options: Any
) -> list[tuple[float, float]]:
    """Return the seconds with one time and with clocks, in turns."""
    run(batches[:20]), run(batches[:20], clock="device", **options)
    return [(run(batches), run(batches, clock="device", **options)) for _ in range(rounds)]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[*SIZES])
    options = figures.parse(parser, rounds=3)
    measure.keep_memory()
    report = figures.Report("clocks", options)
    compare_delays(report, LAGS[:3] if options.quick else LAGS)
    sizes, random_rows = options.sizes, RANDOM_ROWS
    if options.quick:
        sizes, random_rows = sizes[:1], RANDOM_ROWS // 10
    compare_rates(report, sizes, options.rounds, random_rows)
    report.add(figures.Figure("Memory of clocks", "a sleeping device", measure_memory(), "bytes"))
    report.save()


if __name__ == "__main__":
    main()
