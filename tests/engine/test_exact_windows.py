"""Sums, means and deviations of floats in windows are those of the rows of each window."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.engine.state import Stateful
from rxtemporal.errors import CheckpointError
from rxtemporal.operators.windows.aggregates import FloatSum, Variance
from rxtemporal.testing import Stepper

Window = Callable[[rxt.Streamable], Any]

ODD = [
    math.inf, -math.inf, math.nan, 1.7e308, 1.7e308, -1.7e308, 1e308, 1e300, -1e300, 1e160, 1e100,
    -1e100, 1e16, 1e16, 1e12, -1e12, 0.0, -0.0, 1e-160, 2.0**-1022, 5e-324,
]  # fmt: skip

# rows are points, or live for some time
WINDOWS: dict[str, tuple[Window, bool]] = {
    "hopping, as sums of panes": (lambda s: s.hopping_window(40, 10), False),
    "hopping, of rows that live": (lambda s: s.hopping_window(40, 10), True),
    "hopping, with many windows for each row": (lambda s: s.hopping_window(100, 10), False),
    "tumbling": (lambda s: s.tumbling_window(20), False),
    "tumbling, of rows that live": (lambda s: s.tumbling_window(20), True),
    "snapshot": (lambda s: s.snapshot_window(), True),
    "session": (lambda s: s.session_window(3), False),
}
PLAIN = bool(os.environ.get("NUMBA_DISABLE_JIT"))


def draw_rows(rng: np.random.Generator, size: int, *, live: bool) -> pl.DataFrame:
    """Return rows of a few keys: values around one level, and now and then one that is odd."""
    level, spread = rng.choice([0.0, 20.0, 1e9]), rng.choice([1e-3, 1.0, 1e5])
    values = rng.normal(level, spread, size)
    constant = rng.random(size) < rng.choice([0.0, 1.0], p=[0.9, 0.1])
    values = np.where(constant, 0.1, values)
    odd = rng.random(size) < rng.choice([0.0, 0.02, 0.3])
    start = np.sort(rng.integers(0, 3 * size, size))
    lives = rng.integers(1, 60, size) if live else np.ones(size, np.int64)
    return pl.DataFrame(
        {
            "start": start,
            "end": start + lives,
            "key": rng.integers(0, 3, size),
            "x": np.where(odd, rng.choice(ODD, size), values),
        }
    )


def find_exact(values: list[float]) -> tuple[float, float | None, float | None]:
    """Return sum, standard deviation and variance, each exact until it is rounded."""
    odd = [x for x in values if not math.isfinite(x)]
    if odd:
        return sum(odd), *((None, None) if len(values) < 2 else (math.nan, math.nan))
    exact = [Fraction(x) for x in values]
    total, n = sum(exact, Fraction(0)), len(exact)
    if n < 2:
        return to_float(total), None, None
    variance = sum((x - total / n) ** 2 for x in exact) / (n - 1)
    bits = 1300
    root = Fraction(math.isqrt((variance.numerator << 2 * bits) // variance.denominator), 1 << bits)
    return to_float(total), to_float(root), to_float(variance)


def to_float(x: Fraction) -> float:
    """Return the nearest float, infinite beyond the largest."""
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def compute(query: rxt.Streamable, window: Window) -> list[tuple[Any, ...]]:
    """Return start, end, key, sum, mean, deviation and variance in each window."""
    result = window(query.group_by("key")).aggregate(
        sum=agg.sum("x"), mean=agg.avg("x"), std=agg.std("x"), var=agg.var("x")
    )
    return result.to_polars().rows()


def stream(rows: pl.DataFrame) -> rxt.Streamable:
    """Return a stream of the rows."""
    return rxt.from_polars(rows, start="start", end="end")


def check_windows(rows: pl.DataFrame, found: list[tuple[Any, ...]]) -> None:
    """Compare the results of all windows with the definition."""
    by_key = defaultdict(list)
    for start, end, key, x in rows.rows():
        by_key[key].append((start, end, x))
    for start, end, key, total, mean, std, var in found:
        values = [x for begin, until, x in by_key[key] if begin < end and until > start]
        expected, root, variance = find_exact(values)
        assert total == pytest.approx(expected, rel=0, abs=0, nan_ok=True)
        assert mean == pytest.approx(expected / len(values), rel=1e-15, abs=0, nan_ok=True)
        assert std == pytest.approx(root, rel=1e-9, abs=5e-324, nan_ok=True)
        assert var == pytest.approx(variance, rel=1e-9, abs=5e-324, nan_ok=True)


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_of_floats_are_exact(name: str) -> None:
    """Sums are rounded once, deviations precise, whatever has come, overflowed and left before.

    With both sizes of streams these are more than 10,000 windows.
    """
    window, live = WINDOWS[name]
    rng = np.random.default_rng(5)
    checked, seen = 0, 1_500 if not PLAIN else 60
    while checked < seen:
        rows = draw_rows(rng, int(rng.choice([5, 20, 80])), live=live)
        found = compute(stream(rows), window)
        check_windows(rows, found)
        checked += len(found)


def pass_spikes(spike: float) -> Iterator[tuple[int, float]]:
    """Yield the time and value of rows: a spike comes first, and then ordinary values alone."""
    yield from ((0, spike), (1, spike))
    yield from ((2 + t, (0.0, 0.1, 0.3)[t % 3]) for t in range(60))


@pytest.mark.parametrize("spike", [1e12, 1e16, 1e100, 1e308, -1e308, math.inf, math.nan])
@pytest.mark.parametrize("name", ["hopping, as sums of panes", "snapshot"])
def test_a_spike_that_was_the_first_value_of_its_key_leaves_no_trace(
    name: str, spike: float
) -> None:
    """Also while the key always has rows, so that its aggregates never begin anew."""
    times, values = zip(*pass_spikes(spike), strict=True)
    start = np.array(times)
    end = start + (10 if name == "snapshot" else 1)
    rows = pl.DataFrame({"start": start, "end": end, "key": [0] * len(start), "x": values})
    found = compute(stream(rows), WINDOWS[name][0])
    check_windows(rows, found)
    assert len({row[2] for row in found}) == 1
    assert found[-1][0] > 40


@pytest.mark.parametrize("name", WINDOWS)
def test_results_do_not_depend_on_the_order_of_equal_times(name: str) -> None:
    """Sums and means to the last bit, since they are exact; also where a part of one overflows."""
    window, live = WINDOWS[name]
    rng = np.random.default_rng(9)
    for _ in range(20 if not PLAIN else 3):
        rows = draw_rows(rng, 40, live=live).with_columns(pl.col("start", "end") // 8 * 8)
        rows = rows.with_columns(end=pl.col("start") + (8 if live else 1))
        turned = rows.sample(fraction=1.0, shuffle=True, seed=1).sort("start")
        one, other = (sorted(compute(stream(each), window)) for each in (rows, turned))
        assert [repr(row[:5]) for row in one] == [repr(row[:5]) for row in other]
        for ours, theirs in zip(one, other, strict=True):
            assert ours[5:] == pytest.approx(theirs[5:], rel=1e-12, abs=5e-324, nan_ok=True)


@pytest.mark.long
def test_a_sum_with_many_rests_gets_room_for_them() -> None:
    """Each key has values that two floats do not hold; the kernels stop and go on."""
    keys = 400 if not PLAIN else 60
    values = [1e300, 1.0, 1e-300, math.nan, 1e-100]
    rows = pl.DataFrame(
        [(t, t + 25, key, x) for t, x in enumerate(values) for key in range(keys)],
        schema=["start", "end", "key", "x"], orient="row",
    )  # fmt: skip
    points = rows.with_columns(end=pl.col("start") + 1)
    for each, name in ((rows, "snapshot"), (points, "hopping, as sums of panes")):
        check_windows(each, compute(stream(each), WINDOWS[name][0]))


def test_a_saved_state_continues_to_the_last_bit() -> None:
    """With values of all magnitudes, saved and loaded after each row."""
    schema = {"key": pl.Int64, "x": pl.Float64}

    def make() -> Stepper:
        source = rxt.from_events([], schema=schema, name="s").group_by("key")
        return Stepper(source.snapshot_window().aggregate(sum=agg.sum("x"), std=agg.std("x")))

    whole, cut = make(), make()
    for time, x in enumerate([1e300, 1.0, 1e-300, math.inf, 0.1, 0.2, 0.3, 0.4, 1.0]):
        row = {"start_time": time, "end_time": time + 5, "key": 1, "x": x}
        batch = rxt.EventBatch.from_dicts([row], schema=schema, cti=time + 1)
        expected = [str(each.to_dicts()) for each in whole.push("s", batch)]
        saved, cut = cut.save(), make()
        cut.load(saved)
        assert [str(each.to_dicts()) for each in cut.push("s", batch)] == expected


@pytest.mark.parametrize("running", [FloatSum(), Variance(root=True)])
def test_a_state_of_sums_that_were_rounded_is_refused(running: FloatSum | Variance) -> None:
    """Digits that it has lost cannot be found again."""
    older = type(running.__class__.__name__, (Stateful,), {"held": ("_sums", "_odd", "_counts")})()
    older._sums = older._odd = older._counts = np.zeros(1)
    with pytest.raises(CheckpointError, match="was saved by another version"):
        running.load(older.save())
