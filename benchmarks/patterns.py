"""Patterns over the rows of keys: rates by the size of batches, and what silent keys cost.

1,000 keys send readings at random times, ten seconds apart in the mean. A fall and the rise behind
it (T1), a pattern whose condition has a running mean (F2), and one whose conditions look at the
first row of the match are compared with automata in numba, each written for its pattern alone,
which have all rows at once. Then T1 with overlapping matches within a time, equal values that any
way may take (O1), rows that each may begin a match of which none ends, and a million keys that fall
silent (O2). The former two are measured over ten times as many rows, too: the rate must not fall.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any

import figures
import measure
import numba
import numpy as np
import polars as pl
from signals import make_batches, make_readings

import rxtemporal as rxt
from rxtemporal import pattern as pt
from rxtemporal.testing import Stepper

RISES, BACK = "A fall and a rise", "Conditions over the match so far"
OTHERS, SILENT = "Other patterns", "Keys that fall silent"
FIELDS = {"key": int, "value": float}
KEYS, MINUTE = 1_000, 60_000_000
# rows a batch, the share of the rows that is measured, and the rate that is asked for
SIZES = ((64, 1 / 20, None), (1_024, 1 / 4, 1.0), (65_536, 1, 5.0))
VALUE = pl.col("value")
FALL_AND_RISE: Mapping[str, pl.Expr] = {
    "B": pt.prev("value") > VALUE,
    "C": pt.prev("value") < VALUE,
}
LOW_MEAN: Mapping[str, pl.Expr] = {"A": pt.mean("A.value") < 15}
DIP: Mapping[str, pl.Expr] = {"B": pt.first("A.value") > VALUE}


def detect(rows: rxt.Streamable, pattern: str, **options: Any) -> rxt.Streamable:
    """Return the matches of each key."""
    return rows.group_by("key").detect(pattern, **options).ungroup()


def run(batches: list[rxt.EventBatch], pattern: str, **options: Any) -> float:
    """Return the seconds that a pattern takes."""
    rows = rxt.from_events(iter(batches), schema=FIELDS, unit=None)
    query = detect(rows, pattern, **options)
    begun = time.perf_counter()
    query.run(lambda batch: None, warn_after=None).wait()
    return time.perf_counter() - begun


@numba.njit(cache=False)  # type: ignore[untyped-decorator]
def _find_rises(key: Any, value: Any, start: Any, count: Any, before: Any, found: Any) -> int:
    """Write the rows at which a match begins and ends, and how many it has; return the matches."""
    made = 0
    for i in range(len(key)):
        k = key[i]
        falls, rises = count[k] > 0 and value[i] < before[k], value[i] > before[k]
        if falls:
            count[k] += 1
        elif count[k] > 1 and rises:
            found[made, 0], found[made, 1], found[made, 2] = start[k], i, count[k] + 1
            made += 1
            count[k] = 0
        else:
            start[k], count[k] = i, 1
        before[k] = value[i]
    return made


@numba.njit(cache=False)  # type: ignore[untyped-decorator]
def _find_low_means(key: Any, value: Any, start: Any, count: Any, total: Any, found: Any) -> int:
    """Write rows whose mean is low, and the row behind them; of the last ones the last is that."""
    made = 0
    last = np.zeros(len(start), np.int64)
    for i in range(len(key)):
        k = key[i]
        last[k] = i
        if count[k] == 0:
            total[k], start[k] = 0, i
        if (total[k] + value[i]) / (count[k] + 1) < 15:
            total[k] += value[i]
            count[k] += 1
        elif count[k]:
            found[made, 0], found[made, 1], found[made, 2] = start[k], i, count[k] + 1
            made += 1
            count[k] = 0
    for k in range(len(start)):
        if count[k] > 1:
            found[made, 0], found[made, 1], found[made, 2] = start[k], last[k], count[k]
            made += 1
    return made


@numba.njit(cache=False)  # type: ignore[untyped-decorator]
def _find_dips(key: Any, value: Any, start: Any, count: Any, top: Any, found: Any) -> int:
    """Write a row and those behind it that are lower, as far as the first that is not."""
    made = 0
    last = np.zeros(len(start), np.int64)
    for i in range(len(key)):
        k = key[i]
        if count[k] and value[i] < top[k]:
            count[k] += 1
        else:
            if count[k] > 1:
                found[made, 0], found[made, 1], found[made, 2] = start[k], last[k], count[k]
                made += 1
            start[k], count[k], top[k] = i, 1, value[i]
        last[k] = i
    for k in range(len(start)):
        if count[k] > 1:
            found[made, 0], found[made, 1], found[made, 2] = start[k], last[k], count[k]
            made += 1
    return made


# patterns with the automata written for them
BY_HAND: Mapping[str, tuple[str, Mapping[str, pl.Expr], Callable[..., int]]] = {
    "T1": ("A B+ C", FALL_AND_RISE, _find_rises),
    "F2: A+ B, the mean of A below 15": ("A+ B", LOW_MEAN, _find_low_means),
    "A B+, B below the first A": ("A B+", DIP, _find_dips),
}


def find_by_hand(readings: pl.DataFrame, find: Callable[..., int]) -> Any:
    """Return the first row, the last row and the rows of each match, ``int64[matches, 3]``."""
    key, value = readings["key"].to_numpy(), readings["value"].to_numpy()
    start, count = np.zeros(KEYS, np.int64), np.zeros(KEYS, np.int64)
    found = np.empty((len(key) // 2, 3), np.int64)
    return found[: find(key, value, start, count, np.zeros(KEYS), found)]


def check(readings: pl.DataFrame) -> None:
    """Raise if an automaton and its pattern do not agree."""
    for pattern, conditions, find in BY_HAND.values():
        check_one(readings, pattern, conditions, find)


def check_one(
    readings: pl.DataFrame,
    pattern: str,
    conditions: Mapping[str, pl.Expr],
    find: Callable[..., int],
) -> None:
    """Raise if the two do not agree."""
    rows = rxt.from_events(iter(slice_batches(readings, 1_024)), schema=FIELDS, unit=None)
    made = detect(rows, pattern, **conditions).to_polars(time="ticks")
    hand, time = find_by_hand(readings, find), readings["start"].to_numpy()
    expected = pl.DataFrame({
        "start_time": time[hand[:, 0]],
        "end_time": time[hand[:, 1]] + 1,
        "key": readings["key"].to_numpy()[hand[:, 0]],
        "rows": hand[:, 2],
    })  # fmt: skip
    assert made.sort(made.columns).equals(expected.sort(expected.columns))


def slice_batches(readings: pl.DataFrame, size: int) -> list[rxt.EventBatch]:
    """Return the rows as points, so many in a batch."""
    return make_batches(readings.with_columns(end=pl.col("start") + 1), size)


def compare_rises(report: figures.Report, readings: pl.DataFrame, rounds: int) -> None:
    """Measure the pattern by the size of batches, in turns with the automaton by hand."""
    check(readings.head(100_000))
    cases: dict[str, tuple[int, float | None, Callable[[], float]]] = {}
    for size, share, asked in SIZES:
        some = readings.head(int(len(readings) * share))
        batches = slice_batches(some, size)
        cases[f"batches of {size:,}"] = (
            len(some),
            asked,
            lambda batches=batches: run(batches, "A B+ C", **FALL_AND_RISE),  # type: ignore[misc]
        )
    cases["numba by hand, all at once"] = (
        len(readings),
        None,
        lambda: _take(lambda: find_by_hand(readings, _find_rises)),
    )
    add_rates(report, RISES, cases, rounds)


def compare_back(report: figures.Report, readings: pl.DataFrame, rounds: int) -> None:
    """Measure conditions over the match so far, in turns with the automata by hand."""
    some = readings.head(len(readings) // 2)
    batches, small = slice_batches(some, 65_536), slice_batches(some.head(len(some) // 4), 1_024)
    cases: dict[str, tuple[int, float | None, Callable[[], float]]] = {}
    for name, (pattern, conditions, find) in [*BY_HAND.items()][1:]:
        for rows, size, given in (
            (len(some) // 4, 1_024, small),
            (len(some), 65_536, batches),
        ):
            cases[f"{name}, batches of {size:,}"] = (
                rows,
                None,
                lambda p=pattern, c=conditions, b=given: run(b, p, **c),  # type: ignore[misc]
            )
        cases[f"{name}, numba by hand"] = (
            len(some),
            None,
            lambda find=find: _take(lambda: find_by_hand(some, find)),  # type: ignore[misc]
        )
    add_rates(report, BACK, cases, rounds)


def compare_others(report: figures.Report, readings: pl.DataFrame, rounds: int) -> None:
    """Measure a pattern with matches that overlap, and equal values."""
    batches = slice_batches(readings, 65_536)
    cases: dict[str, tuple[int, float | None, Callable[[], float]]] = {
        'T1 within 5 minutes, skip="next"': (
            len(readings),
            None,
            lambda: run(batches, "A B+ C", within="5m", skip="next", **FALL_AND_RISE),
        ),
    }
    for count in (5_000, 50_000):
        equal = pl.DataFrame({"start": range(count), "key": 0, "value": 1.0})
        ones = slice_batches(equal, 5_000)
        cases[f"O1: A+ B+ over {count:,} equal values"] = (
            count,
            None,
            lambda ones=ones: run(ones, "A+ B+"),  # type: ignore[misc]
        )
        cases[f"A ~> B over {count:,} rows without B, max_gap as long as all"] = (
            count,
            None,
            lambda ones=ones, gap=count: run(ones, "A ~> B", max_gap=gap, B=VALUE < 0),  # type: ignore[misc]
        )
    add_rates(report, OTHERS, cases, rounds)


def measure_silence(report: figures.Report, keys: int) -> None:
    """Measure keys that each send one row and fall silent, and what is held of them."""
    stream = rxt.from_events([], schema=FIELDS, name="readings", unit=None)
    query = detect(stream, "A ~> B", B=VALUE < 0, within="5m")
    few = pl.DataFrame({"start": range(9), "key": range(9), "value": 1.0})
    Stepper(query).push("readings", slice_batches(few, 9)[0])  # compiles
    stepper = Stepper(query)
    readings = pl.DataFrame({"start": np.arange(keys), "key": range(keys), "value": 1.0})
    batches = slice_batches(readings, 65_536)
    begun = time.perf_counter()
    for batch in batches:
        stepper.push("readings", batch)
    taken = time.perf_counter() - begun
    report.add(figures.Figure(SILENT, "one row of each key", keys / taken / 1e6, "M/s"))
    for when, cti in (("while they wait", None), ("once the CTI has passed", keys + 5 * MINUTE)):
        if cti is not None:
            stepper.push("readings", batches[-1].none(cti))
        size = sum(map(len, stepper.save())) / 2**20
        report.add(figures.Figure(SILENT, f"rows held {when}", stepper.rows, "rows"))
        report.add(figures.Figure(SILENT, f"saved state {when}", size, "MiB"))
    assert stepper.rows == 0
    report.add(figures.Figure(SILENT, "peak memory", measure.peak_mebibytes(), "MiB"))


def add_rates(
    report: figures.Report,
    table: str,
    cases: Mapping[str, tuple[int, float | None, Callable[[], float]]],
    rounds: int,
) -> None:
    """Measure cases in turns; each has its rows, the rate that is asked for, and what to run."""
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds + 1):
        for name, (_, _, each) in cases.items():
            seconds = each()
            # the first round compiles
            taken[name] += [seconds] if number else []
    for name, (rows, asked, _) in cases.items():
        rates = [rows / seconds / 1e6 for seconds in taken[name]]
        report.add(figures.summarize(table, name, rates, "M/s", asked))


def _take(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def main() -> None:
    """Run the command line."""
    options = figures.parse(argparse.ArgumentParser(description=__doc__), rounds=5)
    measure.use_one_core()
    report = figures.Report("patterns", options)
    # first, so that the peak is its own
    measure_silence(report, 10_000 if options.quick else 1_000_000)
    readings = make_readings(100_000 if options.quick else 2_000_000, KEYS)
    compare_rises(report, readings, options.rounds)
    compare_back(report, readings, options.rounds)
    compare_others(report, readings, options.rounds)
    report.save()


if __name__ == "__main__":
    main()
