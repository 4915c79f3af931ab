"""Aggregates by time over step and linear signals, and windows of a calendar.

10,000 keys send readings at random times, ten seconds apart in the mean. The mean by time of each
minute is compared with the plain mean over the same rows, with polars in one pass, and with loops
in numba written for these queries alone. Then windows of local hours beside regular ones, and a
look at the results so far of open windows.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import figures
import measure
import numba
import numpy as np
import polars as pl

import rxtemporal as rxt
from rxtemporal import agg

SECOND, MINUTE, KEYS, BATCH = 1_000_000, 60_000_000, 10_000, 65_536
HOP = MINUTE // 4
MEANS, LOCAL, LOOKS = "Means by time of each minute", "Windows of local hours", "Results so far"
FIELDS = {"key": int, "value": float}
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def make_readings(rows: int, keys: int = KEYS) -> pl.DataFrame:
    """Return readings in order of time: time, key, value."""
    random = np.random.default_rng(1)
    start = np.sort(random.integers(0, rows * 10 * SECOND // keys, rows))
    key, value = random.integers(0, keys, rows), random.normal(20, 5, rows)
    readings = pl.DataFrame({"start": start, "key": key, "value": value})
    return readings.unique(["key", "start"], keep="first", maintain_order=True)


def make_signal(readings: pl.DataFrame) -> pl.DataFrame:
    """Return readings with the end of each: the next one of its key, ten seconds for the last."""
    end = pl.col("start").shift(-1).over("key").fill_null(pl.col("start") + 10 * SECOND)
    return readings.with_columns(end=end)


def make_batches(signal: pl.DataFrame, size: int = BATCH) -> list[rxt.EventBatch]:
    """Return the rows as complete rows in batches, each with the CTI of its last start."""
    batches = []
    for part in signal.iter_slices(size):
        start, end = part["start"].to_numpy(), part["end"].to_numpy()
        payload = part.select("key", "value")
        batches.append(rxt.EventBatch.of_rows(start, end, payload, int(start[-1])))
    return batches


def run(batches: list[rxt.EventBatch], make: Callable[[Any], rxt.Streamable]) -> float:
    """Return the seconds that a query by key takes."""
    rows = rxt.from_events(iter(batches), schema=FIELDS, unit=None)
    query = make(rows.group_by("key"))
    begun = time.perf_counter()
    query.run(lambda batch: None, warn_after=None).wait()
    return time.perf_counter() - begun


def average_with_polars(signal: pl.DataFrame) -> pl.DataFrame:
    """Return the means by time of each key and minute, in one pass."""
    minutes = pl.int_ranges(pl.col("start") // MINUTE, (pl.col("end") - 1) // MINUTE + 1)
    pieces = signal.lazy().with_columns(minute=minutes).explode("minute")
    begin = pl.max_horizontal("start", pl.col("minute") * MINUTE)
    until = pl.min_horizontal("end", (pl.col("minute") + 1) * MINUTE)
    length = (until - begin).cast(pl.Float64)
    return (
        pieces.group_by("key", "minute")
        .agg(mean=(pl.col("value") * length).sum() / length.sum())
        .collect()
    )


@numba.njit(cache=False)  # type: ignore[untyped-decorator]
def _add_up(start: Any, end: Any, key: Any, value: Any, hop: int, sums: Any, lengths: Any) -> None:
    for i in range(len(start)):
        at = start[i]
        while at < end[i]:
            number = at // hop
            until = min(end[i], (number + 1) * hop)
            sums[key[i], number] += value[i] * (until - at)
            lengths[key[i], number] += until - at
            at = until


@numba.njit(cache=False)  # type: ignore[untyped-decorator]
def _slide(sums: Any, lengths: Any, span: int, means: Any) -> None:
    for key in range(len(sums)):
        total = length = 0.0
        for number in range(sums.shape[1]):
            total += sums[key, number]
            length += lengths[key, number]
            if number >= span:
                total -= sums[key, number - span]
                length -= lengths[key, number - span]
            means[key, number] = total / length if length > 0 else np.nan


def average_with_numba(signal: pl.DataFrame, hop: int = MINUTE) -> Any:
    """Return the means by time, ``float64[keys, hops]``; NaN where there is no reading.

    Each is that of the minute that ends with its hop.
    """
    start, end, key, value = (signal[name].to_numpy() for name in ("start", "end", "key", "value"))
    span = MINUTE // hop
    shape = KEYS, int(end.max() - 1) // hop + span
    sums, lengths, means = np.zeros(shape), np.zeros(shape), np.empty(shape)
    _add_up(start, end, key, value, hop, sums, lengths)
    _slide(sums, lengths, span, means)
    return means


def check(signal: pl.DataFrame, batches: list[rxt.EventBatch]) -> None:
    """Raise if the three do not agree."""
    means = average_with_polars(signal).sort("key", "minute")
    for hop in (MINUTE, HOP):
        rows = rxt.from_events(iter(batches), schema=FIELDS, unit=None).group_by("key")
        windows = rows.hopping_window(MINUTE, hop)
        found = windows.aggregate(mean=agg.time_mean("value")).to_polars(time="ticks")
        last = found["end_time"].to_numpy() // hop - 1
        numbers = average_with_numba(signal, hop)
        np.testing.assert_allclose(found["mean"], numbers[found["key"].to_numpy(), last], rtol=1e-9)
        assert len(found) == np.isfinite(numbers).sum()
        if hop == MINUTE:
            found = found.select("key", minute=last, mean="mean").sort("key", "minute")
            assert found.select("key", "minute").equals(means.select("key", "minute"))
            np.testing.assert_allclose(found["mean"], means["mean"], rtol=1e-9)


def compare_means(report: figures.Report, rows: int, rounds: int) -> None:
    """Measure the mean by time of each minute, in turns with the others."""
    readings = make_readings(rows)
    signal = make_signal(readings)
    batches = make_batches(signal)
    points = make_batches(readings.with_columns(end=pl.col("start") + 1))
    check(signal.head(100_000), make_batches(signal.head(100_000)))
    cases: dict[str, Callable[[], float]] = {
        "mean, tumbling": lambda: run(
            batches, lambda rows: rows.tumbling_window(MINUTE).aggregate(m=agg.mean("value"))
        ),
        "time_mean, tumbling": lambda: run(
            batches, lambda rows: rows.tumbling_window(MINUTE).aggregate(m=agg.time_mean("value"))
        ),
        "mean, hopping by 15 s": lambda: run(
            batches,
            lambda rows: rows.hopping_window(MINUTE, HOP).aggregate(m=agg.mean("value")),
        ),
        "time_mean, hopping by 15 s": lambda: run(
            batches,
            lambda rows: rows.hopping_window(MINUTE, HOP).aggregate(m=agg.time_mean("value")),
        ),
        "to_signal and time_mean": lambda: run(
            points,
            lambda rows: (
                rows.to_signal(max_gap=10 * MINUTE)
                .tumbling_window(MINUTE)
                .aggregate(m=agg.time_mean("value"))
            ),
        ),
        "linear, to_signal and time_mean": lambda: run(
            points,
            lambda rows: (
                rows.to_signal(linear=("value",), max_gap=10 * MINUTE)
                .tumbling_window(MINUTE)
                .aggregate(m=agg.time_mean("value"))
            ),
        ),
        "polars in one pass": lambda: _take(lambda: average_with_polars(signal)),
        "numba by hand": lambda: _take(lambda: average_with_numba(signal)),
        "numba by hand, hopping by 15 s": lambda: _take(lambda: average_with_numba(signal, HOP)),
    }
    asked = {"time_mean, tumbling": 15.0}
    taken = _measure(cases, rounds)
    for name, seconds in taken.items():
        rates = [len(signal) / each / 1e6 for each in seconds]
        report.add(figures.summarize(MEANS, name, rates, "M/s", asked.get(name)))
    for window in ("tumbling", "hopping by 15 s"):
        pairs = zip(taken[f"mean, {window}"], taken[f"time_mean, {window}"], strict=True)
        ratios = [plain / timed for plain, timed in pairs]
        what = f"time_mean / mean, {window}"
        report.add(figures.summarize(MEANS, what, ratios, "×", 1 / 1.3))


def compare_calendars(report: figures.Report, rows: int, rounds: int) -> None:
    """Measure windows of local hours beside regular ones."""
    batches = make_batches(make_readings(rows).with_columns(end=pl.col("start") + 1))
    zone: dict[str, Any] = {"time_zone": "Europe/Berlin"}

    def count(**options: Any) -> float:
        return run(
            batches, lambda rows: rows.tumbling_window("1h", **options).aggregate(n=agg.count())
        )

    taken = _measure({"hours": count, "local hours": lambda: count(**zone)}, rounds)
    for name, seconds in taken.items():
        rates = [rows / each / 1e6 for each in seconds]
        report.add(figures.summarize(LOCAL, name, rates, "M/s"))
    ratios = [one / other for one, other in zip(taken["hours"], taken["local hours"], strict=True)]
    report.add(figures.summarize(LOCAL, "local hours / hours", ratios, "×", 1 / 1.1))


def measure_looks(report: figures.Report, keys: int, rounds: int) -> None:
    """Measure a look at the results so far of one open window for each key."""
    source = rxt.PushSource("readings", schema=FIELDS, delay="1s")
    hours = source.stream.group_by("key").tumbling_window("1h")
    process = hours.aggregate(mean=agg.mean("value"), n=agg.count()).run(rxt.Collect())
    for second in (0, 2, 4):
        at = NOON + timedelta(seconds=second)
        source.push(pl.DataFrame({"key": range(keys), "value": 1.0}).with_columns(time=pl.lit(at)))
    assert len(process.peek()) == keys
    taken = [1e6 * _take(process.peek) for _ in range(rounds)]
    begun = NOON + timedelta(seconds=5)
    alone = measure_pushes(source, begun, lambda: None)
    meanwhile = measure_pushes(source, begun + timedelta(minutes=1), process.peek)
    process.stop()
    report.add(figures.summarize(LOOKS, f"{keys:,} keys", taken, "µs", 50_000.0))
    report.add(figures.summarize(LOOKS, f"longest push, {keys:,} keys", [alone], "µs"))
    what = f"longest push meanwhile, {keys:,} keys"
    report.add(figures.summarize(LOOKS, what, [meanwhile], "µs", 10_000.0))


def measure_pushes(source: rxt.PushSource, begun: datetime, look: Callable[[], object]) -> float:
    """Return the microseconds of the longest push of one thread while another one looks 50 times.

    The thread pushes a row every half a millisecond, as long as the looks take, a second at least.
    """
    taken: list[float] = []
    ended = threading.Event()

    def push() -> None:
        while not ended.wait(0.0005):
            at = begun + len(taken) * timedelta(microseconds=500)
            row = {"time": at, "key": 1, "value": 2.0}
            taken.append(_take(partial(source.push, row)))

    thread = threading.Thread(target=push)
    thread.start()
    try:
        for _ in range(50):
            look()
            time.sleep(0.02)
    finally:
        ended.set()
        thread.join()
    return 1e6 * max(taken)


def _take(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def _measure(cases: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each round of each case, in turns."""
    for each in cases.values():
        each()
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, each in cases.items():
            taken[name].append(each())
    return taken


def main() -> None:
    """Run the command line."""
    options = figures.parse(argparse.ArgumentParser(description=__doc__), rounds=5)
    measure.keep_memory()
    report = figures.Report("signals", options)
    rows = 100_000 if options.quick else 2_000_000
    compare_means(report, rows, options.rounds)
    compare_calendars(report, rows, options.rounds)
    for keys in (1_000,) if options.quick else (10_000, 100_000):
        measure_looks(report, keys, options.rounds)
    report.save()


if __name__ == "__main__":
    main()
