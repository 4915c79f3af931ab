"""Running aggregates: adding and removing, against the definition over what is alive."""

from __future__ import annotations

import math
import os
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxtemporal import SchemaError, agg, from_polars
from rxtemporal.core.columns import SeriesColumn, make_column, make_series
from rxtemporal.engine.due_queue import Queue
from rxtemporal.engine.rows import LARGE
from rxtemporal.operators.windows.aggregates import (
    Average,
    Changes,
    Count,
    Extreme,
    FloatSum,
    IntegerSum,
    Samples,
    Variance,
)
from rxtemporal.operators.windows.field_values import make_arrays
from rxtemporal.operators.windows.kernels.changes import BITS, ENDS, LAST, ONCE
from rxtemporal.operators.windows.ordered_aggregates import ObjectExtreme

KEYS = 3
INTS = st.one_of(st.none(), st.integers(-5, 5), st.integers(-(2**40), 2**40))
FLOATS = st.one_of(
    st.none(), st.sampled_from([math.nan, math.inf, -math.inf, 0.1, 0.2, 1e22, -1e22]),
    st.floats(-1e6, 1e6),
)  # fmt: skip


def changes_of(key: list[int], sign: list[int]) -> Changes:
    """Return changes in this order, each of a row of its own."""
    what = (np.arange(len(key)) << 3) | (np.array(sign, np.int64) < 0)
    return Changes(what, np.array(key, np.int64))


@st.composite
def comings_and_goings(draw: st.DrawFn, values: Any) -> list[tuple[int, int, Any]]:
    """Draw (key, sign, value), each value removed at most once and after it was added."""
    alive: list[tuple[int, Any]] = []
    made = []
    for _ in range(draw(st.integers(0, 60))):
        if alive and draw(st.booleans()):
            key, value = alive.pop(draw(st.integers(0, len(alive) - 1)))
            made.append((key, -1, value))
        else:
            key, value = draw(st.integers(0, KEYS - 1)), draw(values)
            alive.append((key, value))
            made.append((key, 1, value))
    return made


def sweep(running: Any, values: pl.Series, changes: Changes, samples: Samples) -> pl.Series:
    """Return the samples of an aggregate over changes of rows with these values."""
    field = SeriesColumn(values) if running.objects else make_column(values)
    own = make_arrays(running.columns(field), running.dtypes, len(values))
    swept = running.sweep(changes, own, samples)
    return make_series("", swept, pl.Null())


def sampled(
    running: Any, made: list[tuple[int, int, Any]], dtype: Any, cut: int, flags: int = 0
) -> list[Any]:
    """Return the aggregate of key 0 before each change and after the last, in two sweeps."""
    results: list[Any] = []
    for part in (made[:cut], made[cut:]):
        values = pl.Series([value for _, _, value in part], dtype=dtype)
        changes = changes_of([c[0] for c in part], [c[1] for c in part])
        changes.what |= flags
        at = np.arange(len(part) + 1, dtype=np.int64)
        samples = Samples(at, np.zeros(len(at), np.int64), KEYS)
        results += sweep(running, values, changes, samples).to_list()
    return results


def alive_of_key_0(made: list[tuple[int, int, Any]], cut: int) -> list[list[Any]]:
    """Return the values of key 0 alive at each of those samples, nulls left out."""
    alive: list[Any] = []
    found = []
    for i, (key, sign, value) in enumerate(made):
        found.append([v for v in alive if v is not None])
        if i == cut:
            found.append(found[-1])
        if key == 0 and sign > 0:
            alive.append(value)
        elif key == 0:
            alive.remove(next(v for v in alive if v is value or v == value))
    last = [v for v in alive if v is not None]
    return [*found, last, last] if cut >= len(made) else [*found, last]


def definition(values: list[Any]) -> float:
    """Return the sum as IEEE has it for NaN and infinities, exact otherwise."""
    special = [value for value in values if not math.isfinite(value)]
    return sum(special) if special else float(sum(map(Fraction, values)))


@given(made=comings_and_goings(INTS), data=st.data())
def test_integer_aggregates(made: list[tuple[int, int, Any]], data: st.DataObject) -> None:
    """Count, sum, least and greatest of integers are those of the values alive."""
    cut = data.draw(st.integers(0, len(made)))
    alive = alive_of_key_0(made, cut)
    assert sampled(Count(), made, pl.Int64, cut) == [len(v) for v in alive]
    assert sampled(IntegerSum("s"), made, pl.Int64, cut) == [sum(v) for v in alive]
    least, greatest = (Extreme(pl.Int64(), greatest=way) for way in (False, True))
    assert sampled(least, made, pl.Int64, cut) == [min(v, default=None) for v in alive]
    assert sampled(greatest, made, pl.Int64, cut) == [max(v, default=None) for v in alive]


@given(made=comings_and_goings(FLOATS), data=st.data())
def test_float_aggregates(made: list[tuple[int, int, Any]], data: st.DataObject) -> None:
    """Float sums stay within their bound; removed NaN and infinities leave no trace."""
    cut = data.draw(st.integers(0, len(made)))
    alive = alive_of_key_0(made, cut)
    bound = 1e-12 * sum(abs(v) for _, _, v in made if v is not None and math.isfinite(v))
    sums = sampled(FloatSum(), made, pl.Float64, cut)
    means = sampled(Average(), made, pl.Float64, cut)
    for values, total, mean in zip(alive, sums, means, strict=True):
        expected = definition(values)
        assert total == pytest.approx(expected, rel=0, abs=bound, nan_ok=True)
        if values:
            assert mean == pytest.approx(expected / len(values), rel=1e-15, abs=bound, nan_ok=True)
        else:
            assert (total, mean) == (0.0, None)


@given(made=comings_and_goings(FLOATS), data=st.data())
def test_variances(made: list[tuple[int, int, Any]], data: st.DataObject) -> None:
    """Variances are those of the values alive, whatever was added and removed."""
    cut = data.draw(st.integers(0, len(made)))
    largest = max((abs(v) for _, _, v in made if v is not None and math.isfinite(v)), default=0)
    found = sampled(Variance(root=False), made, pl.Float64, cut)
    for values, variance in zip(alive_of_key_0(made, cut), found, strict=True):
        if len(values) < 2:
            assert variance is None
        elif not all(map(math.isfinite, values)):
            assert math.isnan(variance)
        else:
            exact = list(map(Fraction, values))
            mean = sum(exact) / len(exact)
            expected = float(sum((v - mean) ** 2 for v in exact) / (len(exact) - 1))
            assert variance == pytest.approx(expected, rel=1e-9, abs=1e-20 * largest**2)


def test_a_value_that_was_far_from_all_others_leaves_no_trace() -> None:
    """It came first, so that distances were taken from it, and all others are far from there."""
    made = [(0, 1, 1e22), (0, 1, 0.1), (0, 1, 0.0), (0, 1, 0.0), (0, -1, 1e22)]
    last = sampled(Variance(root=False), made, pl.Float64, 0)[-1]
    assert last == pytest.approx(0.01 / 3, abs=1e-20 * 1e22**2)


@given(made=comings_and_goings(FLOATS), data=st.data())
def test_float_extremes(made: list[tuple[int, int, Any]], data: st.DataObject) -> None:
    """Least and greatest ignore NaN unless all values are NaN."""
    cut = data.draw(st.integers(0, len(made)))
    for greatest, pick in ((False, min), (True, max)):
        found = sampled(Extreme(pl.Float64(), greatest=greatest), made, pl.Float64, cut)
        for values, extreme in zip(alive_of_key_0(made, cut), found, strict=True):
            numbers = [value for value in values if value == value]
            if numbers or not values:
                assert extreme == pick(numbers, default=None)
            else:
                assert math.isnan(extreme)


@given(made=comings_and_goings(st.one_of(st.none(), st.sampled_from("abcde"))), data=st.data())
def test_extremes_of_strings(made: list[tuple[int, int, Any]], data: st.DataObject) -> None:
    """Least and greatest of strings are those of the values alive."""
    cut = data.draw(st.integers(0, len(made)))
    alive = alive_of_key_0(made, cut)
    for greatest, pick in ((False, min), (True, max)):
        found = sampled(ObjectExtreme(greatest=greatest), made, pl.String, cut)
        assert found == [pick(values, default=None) for values in alive]


ENDLESS: dict[str, tuple[Any, Any, Any]] = {
    "floats": (lambda greatest: Extreme(pl.Float64(), greatest=greatest), FLOATS, pl.Float64),
    "integers": (
        lambda greatest: Extreme(pl.Int64(), greatest=greatest),
        st.one_of(INTS, st.sampled_from([-(2**63), 2**63 - 1])),
        pl.Int64,
    ),
    "strings": (
        lambda greatest: ObjectExtreme(greatest=greatest),
        st.one_of(st.none(), st.sampled_from("abcde")),
        pl.String,
    ),
}


@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.parametrize("greatest", [False, True])
@given(data=st.data())
def test_extremes_of_rows_that_never_end(name: str, greatest: bool, data: st.DataObject) -> None:
    """They are those of the same rows if these may be removed; one value is held for each key."""
    make, values, dtype = ENDLESS[name]
    row = st.tuples(st.integers(0, KEYS - 1), st.just(1), values)
    made = data.draw(st.lists(row, max_size=30))
    cut = data.draw(st.integers(0, len(made)))
    endless = make(greatest)
    found, expected = (
        pl.Series(sampled(each, made, dtype, cut, flags), dtype=dtype)
        for each, flags in ((endless, LAST), (make(greatest), 0))
    )
    assert found.to_list() == pytest.approx(expected.to_list(), rel=0, abs=0, nan_ok=True)
    if isinstance(endless, ObjectExtreme):
        assert all(len(best) <= 1 for _, _, best in endless.values.values())
    else:
        assert not len(endless._value)


@pytest.mark.long
def test_sum_does_not_drift() -> None:
    """After a hundred thousand adds and removes, also of large values, the sum is exact."""
    rng = np.random.default_rng(7)
    values = rng.normal(size=50_000) * 10.0 ** rng.integers(-8, 8, 50_000)
    column = pl.Series(np.concatenate([[0.5], values, values]))
    running = FloatSum()
    sign = [1, *[1] * len(values), *[-1] * len(values)]
    changes = changes_of([0] * len(sign), sign)
    samples = Samples(np.array([len(sign)]), np.array([0]), 1)
    total = sweep(running, column, changes, samples)[0]
    assert abs(total - 0.5) <= 1e-12 * np.abs(np.cumsum(np.concatenate([values, -values]))).max()


RUNNING: dict[str, Any] = {
    "count": (Count, INTS, pl.Int64),
    "integer sum": (lambda: IntegerSum("s"), INTS, pl.Int64),
    "float sum": (FloatSum, FLOATS, pl.Float64),
    "average": (Average, FLOATS, pl.Float64),
    "variance": (lambda: Variance(root=False), FLOATS, pl.Float64),
    "least": (lambda: Extreme(pl.Float64(), greatest=False), FLOATS, pl.Float64),
    "greatest": (lambda: Extreme(pl.Int64(), greatest=True), INTS, pl.Int64),
    "greatest string": (
        lambda: ObjectExtreme(greatest=True),
        st.one_of(st.none(), st.sampled_from("abc")),
        pl.String,
    ),
}


def in_windows(rows: list[tuple[int, int, Any]], span: int, cut: int, *, once: bool) -> Any:
    """Return changes and samples of rows (first window, key, value) in windows ``cut`` to 9.

    Each of the windows before has been sampled. With ``once`` a row is a single change.
    """
    flags = ONCE if once else 0
    changes = [(window, 0, i << BITS | flags) for i, (window, _, _) in enumerate(rows)]
    if not once:
        changes += [(window + span, 1, i << BITS | ENDS) for i, (window, _, _) in enumerate(rows)]
    changes.sort()
    at, of, numbers = [], [], []
    for window in range(10):
        held = {key for first, key, _ in rows if first <= window < first + span}
        before = sum(change[:2] <= (window, 1) for change in changes)
        at += [before] * len(held)
        of += sorted(held)
        numbers += [window] * len(held)
    key = np.array([key for _, key, _ in rows], np.int64)
    what = np.array([what for _, _, what in changes], np.int64)
    parts = []
    for first, end in ((0, cut), (cut, 10)):
        which = np.array([first <= number < end for number in numbers], np.bool_)
        upto = [sum(change[:2] <= (window - 1, 1) for change in changes) for window in (first, end)]
        sampled = np.array(at, np.int64)[which] - upto[0]
        window = np.array(numbers, np.int64)[which]
        samples = Samples(sampled, np.array(of, np.int64)[which], KEYS, window)
        parts.append((Changes(what[slice(*upto)], key, span if once else 0), samples))
    return parts


@pytest.mark.parametrize("name", ["count", "integer sum", "float sum", "average"])
@given(data=st.data())
def test_rows_of_one_change_leave_by_themselves(name: str, data: st.DataObject) -> None:
    """They count in so many windows from the first, as if each had ended by another change."""
    make, values, dtype = RUNNING[name]
    row = st.tuples(st.integers(0, 9), st.integers(0, KEYS - 1), values)
    rows = data.draw(st.lists(row, max_size=20))
    span, cut = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 10))
    column = pl.Series([value for _, _, value in rows], dtype=dtype)
    results = []
    for once in (True, False):
        running = make()
        parts = in_windows(rows, span, cut, once=once)
        results.append([x for part in parts for x in sweep(running, column, *part).to_list()])
    numbers = [abs(v) for *_, v in rows if isinstance(v, float) and math.isfinite(v)]
    for found, expected in zip(*results, strict=True):
        if expected is None:
            assert found is None
        else:
            assert found == pytest.approx(expected, rel=0, abs=1e-12 * sum(numbers), nan_ok=True)


@pytest.mark.parametrize("span", [0, 1, 3])
def test_a_state_of_sums_counts_the_running_values(span: int) -> None:
    """Whoever goes on from it may leave out sums of which there is none."""
    running, column = FloatSum(), pl.Series([1.0, None, 2.0])
    key, none = np.zeros(3, np.int64), Samples(np.zeros(0, np.int64), np.zeros(0, np.int64), KEYS)
    for ends, count in ((0, 2), (ENDS, 0)):
        what = np.arange(3) << BITS | ends
        sweep(running, column, Changes(what, key, span), none)
        assert running._counts[-1] == count


@pytest.mark.parametrize("name", RUNNING)
@given(data=st.data())
def test_adding_and_removing_values_leaves_no_trace(name: str, data: st.DataObject) -> None:
    """remove(add(s, x), x) == s, and the order in which values are added does not matter."""
    make, values, dtype = RUNNING[name]
    held = data.draw(st.lists(values, max_size=6))
    passing = data.draw(st.lists(values, min_size=1, max_size=6))
    gone = data.draw(st.permutations(passing))
    plain = [(0, 1, value) for value in held]
    through = [*plain, *((0, 1, v) for v in passing), *((0, -1, v) for v in gone)]
    other = [(0, 1, value) for value in data.draw(st.permutations(held))]
    numbers = [abs(v) for v in held + passing if isinstance(v, float) and math.isfinite(v)]
    bound = 1e-12 * sum(numbers) * (max(numbers, default=1.0) if name == "variance" else 1.0)
    before, after, turned = (
        sampled(make(), made, dtype, 0)[-1] for made in (plain, through, other)
    )
    for found in (after, turned):
        if isinstance(before, float) and isinstance(found, float):
            assert found == pytest.approx(before, rel=1e-9, abs=bound, nan_ok=True)
        else:
            assert found == before


@pytest.mark.parametrize("rounds", [10, pytest.param(100, marks=pytest.mark.full)])
@pytest.mark.long
def test_millions_of_adds_and_removes_do_not_drift(rounds: int) -> None:
    """Sums and variances of the remaining values stay within their bound."""
    rng = np.random.default_rng(11)
    size = 50_000
    if os.environ.get("NUMBA_DISABLE_JIT"):
        rounds, size = 2, 5_000
    total, spread = FloatSum(), Variance(root=False)
    kept = pl.Series([0.1, 0.2, 0.4])
    nothing = Samples(np.empty(0, np.int64), np.empty(0, np.int64), 1)
    sweep_all((total, spread), kept, [1] * 3, nothing)
    largest = 0.0
    for _ in range(rounds):
        values = rng.normal(size=size) * 10.0 ** rng.integers(-8, 8, size)
        largest = max(largest, np.abs(np.cumsum(values)).max())
        both = pl.Series(np.concatenate([values, rng.permutation(values)]))
        sweep_all((total, spread), both, [1] * size + [-1] * size, nothing)
    last = Samples(np.zeros(1, np.int64), np.zeros(1, np.int64), 1)
    sums, variances = sweep_all((total, spread), kept.head(0), [], last)
    assert abs(sums[0] - 0.7) <= 1e-12 * largest
    assert variances[0] == pytest.approx(kept.var(), rel=1e-6)


def sweep_all(runs: Any, values: pl.Series, sign: list[int], samples: Samples) -> list[pl.Series]:
    """Return the samples of several aggregates over the same changes of key 0."""
    changes = changes_of([0] * len(sign), sign)
    return [sweep(running, values, changes, samples) for running in runs]


def test_integer_sum_overflow_is_an_error() -> None:
    """A sum beyond Int64 raises; an intermediate sum beyond it does not."""
    large = 2**62
    running = IntegerSum("total")
    changes, values = changes_of([0, 0, 0], [1, 1, -1]), pl.Series([large] * 3)
    fits = Samples(np.array([1, 3]), np.array([0, 0]), 1)
    assert sweep(running, values, changes, fits).to_list() == [large, large]
    with pytest.raises(SchemaError, match="'total' is larger than an Int64"):
        sweep(running, values, changes_of([0], [1]), Samples(np.array([1]), np.array([0]), 1))


def test_extremes_keep_few_removed_values() -> None:
    """Removed values do not pile up under a value that stays on top of the heap."""
    running = Extreme(pl.Int64(), greatest=True)
    for time in range(2_000):
        value = pl.Series([10**6 if time == 0 else time] * 2)
        sign = [1, 1] if time == 0 else [1, -1]
        changes = changes_of([0, 0], sign)
        sweep(running, value, changes, Samples(np.array([2]), np.array([0]), 1))
    assert len(running._value) - running._free[1] < 50


@pytest.mark.long
def test_extremes_give_up_the_room_of_a_burst() -> None:
    """The values that stay, those of other keys among them, are found in the smaller room."""
    running, most = Extreme(pl.Int64(), greatest=False), LARGE
    few = [0, 1] * 50
    values = pl.Series([*range(100), *range(100, most + 100)])
    at, of = np.array([0, 0]), np.array([0, 1])
    for keys, sign, moved in (
        (few, 1, values[:100]),
        ([1] * most, 1, values[100:]),
        ([1] * most, -1, values[100:]),
    ):
        sweep(running, moved, changes_of(keys, [sign] * len(keys)), Samples(at, of, 2))
    assert len(running._value) > LARGE
    for value in range(40):  # each key loses its least value
        gone = pl.Series([value])
        found = sweep(running, gone, changes_of([value % 2], [-1]), Samples(at, of, 2))
        assert found.to_list() == [(value + 1) // 2 * 2, value // 2 * 2 + 1]
    assert len(running._value) < 1_000


@given(
    pushes=st.lists(st.lists(st.integers(0, 50), max_size=8), max_size=12),
    ctis=st.lists(st.integers(0, 60), min_size=12, max_size=12),
)
def test_a_queue_returns_the_due_entries(pushes: list[list[int]], ctis: list[int]) -> None:
    """However runs are merged, the entries before a time are removed, in order."""
    queue, model = Queue(), []
    for times, cti in zip(pushes, sorted(ctis), strict=False):
        time = np.array(times, np.int64)
        queue.push(time, time * 3)
        model += times
        due, what = queue.pop_due(cti)
        expected = sorted(t for t in model if t < cti)
        model = [t for t in model if t >= cti]
        assert due.tolist() == expected
        assert what.tolist() == [3 * t for t in expected]
        assert len(queue) == len(model)


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (pl.Int8(), [3, -1]),
        (pl.Float32(), [0.5, -0.5]),
        (pl.Boolean(), [True, False]),
        (pl.Date(), [datetime(2026, 1, 2), datetime(2026, 1, 1)]),
        (pl.Datetime("us", "UTC"), [datetime(2026, 1, 2), datetime(2026, 1, 1)]),
        (pl.Duration("us"), [timedelta(2), timedelta(1)]),
        (pl.String(), ["b", "a"]),
        (pl.Binary(), [b"b", b"a"]),
        (pl.Decimal(10, 2), [Decimal("2.50"), Decimal("1.25")]),
        (pl.Null(), [None, None]),
    ],
)
def test_extremes_keep_the_type(dtype: pl.DataType, values: list[Any]) -> None:
    """min and max have the field's own type."""
    field = pl.Series("v", values).cast(dtype)
    frame = pl.DataFrame({"t": [0, 0], "e": [9, 9]}).with_columns(field)
    query = from_polars(frame, start="t", end="e").snapshot_window()
    result = query.aggregate(low=agg.min("v"), high=agg.max("v")).to_polars()
    assert result.schema["low"] == result.schema["high"] == dtype
    assert result.row(0)[2:] == (field[1], field[0])
