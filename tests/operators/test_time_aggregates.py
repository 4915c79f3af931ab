"""Aggregates by time, by example: means, integrals, time in a state, coverage, and bad input."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.core.batch import EventBatch
from rxtemporal.core.columns import Columns
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.operators.operator import describe_value
from rxtemporal.testing import Stepper

DAY = datetime(2026, 5, 1, tzinfo=UTC)


def at(minutes: float) -> datetime:
    """Return a time in minutes of the day."""
    return DAY + timedelta(minutes=minutes)


def read(readings: list[tuple[Any, float]], **fields: Any) -> rxt.Streamable:
    """Return readings, each a value and a time in minutes."""
    rows = [rxt.PointEvent(at(minutes), {"v": v, **fields}) for v, minutes in readings]
    return rxt.from_events(rows, name="readings")


def collect(stream: rxt.Streamable, **columns: Any) -> dict[str, Any]:
    """Return the results by the minute at which their windows begin."""
    rows = stream.to_polars().to_dicts()
    return {(row["start_time"] - DAY) / timedelta(minutes=1): row for row in rows}


def test_mean_and_integral_of_a_signal() -> None:
    """Values that change within a window of 20 minutes."""
    times = 0, 1, 2, 3, 4, 8, 10, 10.5, 20
    signal = read(list(zip((10.0, 20, 10, 20, 10, 30, 10, 20, 30), times, strict=True)))
    window = signal.to_signal(max_gap="1h").tumbling_window("20m")
    row = collect(window.aggregate(mean=agg.time_mean("v"), area=agg.integral("v")))[0]
    assert (row["mean"], row["area"]) == (17.75, 21_300)
    hours = collect(window.aggregate(area=agg.integral("v", per="1h")))[0]
    assert Fraction(hours["area"]) == Fraction(21_300 / 3_600)


def test_a_window_without_a_reading_has_that_which_lives() -> None:
    """A window that a signal only touches has none."""
    signal = read([(10.0, -50), (20.0, 190), (40.0, 230)]).to_signal(max_gap="5h")
    found = collect(signal.tumbling_window("1h").aggregate(mean=agg.time_mean("v")))
    assert [found[hour * 60]["mean"] for hour in (0, 1, 2, 4)] == [10, 10, 10, 40]
    assert found[180]["mean"] == pytest.approx(float(Fraction(65, 3)), rel=1e-15)
    assert max(found) == (230 + 300) // 60 * 60
    ends = read([(1.0, 0)]).to_signal(max_gap="1h").tumbling_window("1h")
    assert ends.aggregate(n=agg.coverage()).to_polars()["n"].to_list() == [1.0]


def test_a_reading_holds_no_longer_than_its_gap() -> None:
    """What is not known has no part in the mean."""
    readings = [(5.0, 18), (3.0, 21), (10.0, 23), (8.0, 24), (12.0, 29), (14.0, 30)]
    signal = read(readings).to_signal(max_gap="4m").tumbling_window("10m")
    row = collect(signal.aggregate(mean=agg.time_mean("v"), known=agg.coverage()))[20]
    assert row["known"] == 0.9
    assert row["mean"] == pytest.approx(float(Fraction(65, 9)), rel=1e-15)


STATES = [("START", 0), ("OK", 11), ("ERROR", 60), ("OK", 63), ("STOP", 120)]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (("120s", 0), {"START": 11, "OK": 106, "ERROR": 3}),
        (("30s", 15), {"OK": 30}),
        (("61s", 15), {"OK": 58, "ERROR": 3}),
    ],
)
def test_time_in_a_state(window: tuple[str, int], expected: dict[str, int]) -> None:
    """The sum of the overlaps of each state with the window."""
    states = read([(state, seconds / 60) for state, seconds in STATES]).to_signal(max_gap="1h")
    length, begin = window
    windows = states.group_by("v").tumbling_window(length, DAY + timedelta(seconds=begin))
    found = windows.aggregate(time=agg.duration()).to_polars()
    assert found["time"].dtype == pl.Duration("us")
    mine = found.filter(pl.col("start_time") == DAY + timedelta(seconds=begin))
    spent = dict(zip(mine["v"], mine["time"], strict=True))
    assert spent == {state: timedelta(seconds=n) for state, n in expected.items()}


def test_rows_that_overlap() -> None:
    """Each counts for itself, and time is covered once."""
    stays = [rxt.IntervalEvent(2, 8, {"v": 1.0}), rxt.IntervalEvent(4, 10, {"v": 3.0})]
    found = rxt.from_events(stays).tumbling_window(10).aggregate(
        time=agg.duration(), known=agg.coverage(), mean=agg.time_mean("v"), n=agg.count()
    )  # fmt: skip
    assert found.to_polars().rows() == [(0, 10, 12, 0.8, 2.0, 2)]


def test_windows_of_several_keys_are_covered_each_by_its_own_rows() -> None:
    """Also where windows of other keys lie in the same time."""
    lifetimes = [("a", 0, 4), ("b", 1, 8), ("a", 3, 5), ("b", 4, 20)]
    stays = rxt.from_events([rxt.IntervalEvent(t, end, {"k": k}) for k, t, end in lifetimes])
    rooms = stays.group_by("k")
    sessions = rooms.session_window(5).aggregate(known=agg.coverage())
    assert sessions.to_polars().rows() == [(0, 8, "a", 0.625), (1, 9, "b", 1.0)]
    pairs = rooms.count_window(2, output=rxt.WindowOutput.WINDOW).aggregate(known=agg.coverage())
    assert pairs.to_polars().rows() == [(0, 4, "a", 1.0), (1, 5, "b", 1.0)]


def test_values_that_are_missing_or_infinite() -> None:
    """Null has neither value nor time; NaN makes its own windows NaN, and no other."""
    values = [None, 2.0, math.nan, 4.0, math.inf]
    rows = [rxt.IntervalEvent(5 * n, 5 * n + 5, {"v": v}) for n, v in enumerate(values)]
    signal = rxt.from_events(rows, schema={"v": float})
    each = signal.hopping_window(10, 5).aggregate(
        mean=agg.time_mean("v"), area=agg.integral("v", per=1)
    )
    found = each.to_polars()
    assert str(found["mean"].to_list()) == "[None, 2.0, nan, nan, inf, inf]"
    assert str(found["area"].to_list()) == "[0.0, 10.0, nan, nan, inf, inf]"


def test_values_at_the_bounds_of_windows() -> None:
    """Those of the rows alive there, of any type; null where none is."""
    rows = [rxt.IntervalEvent(3, 12, {"v": "a"}), rxt.IntervalEvent(12, 20, {"v": "b"})]
    windows = rxt.from_events(rows).tumbling_window(10)
    found = windows.aggregate(first=agg.at_start("v"), last=agg.at_end("v"))
    assert found.to_polars().rows() == [(0, 10, None, "a"), (10, 20, "a", "b")]


def push(stepper: Stepper, cti: int, start: int | None = None, end: int = MAX_TIME) -> Any:
    """Push a row of 7.0, open without an end, and a CTI; return the results."""
    rows = [] if start is None else [start]
    edges = np.full(len(rows), int(end == MAX_TIME))
    payload = pl.DataFrame({"v": [7.0] * len(rows)}, schema={"v": pl.Float64})
    ends = np.full(len(rows), end)
    batch = EventBatch(np.array(rows, np.int64), ends, edges, Columns.from_frame(payload), cti)
    return [row for each in stepper.push("s", batch) for row in each.to_polars("ticks").rows()]


def test_values_at_bounds_while_a_row_is_open() -> None:
    """The end of the window is enough; that of the row need not be known."""
    source = rxt.from_events([], schema={"v": float}, name="s")
    both = {"first": agg.at_start("v"), "last": agg.at_end("v")}
    stepper = Stepper(source.tumbling_window(10).aggregate(**both))
    assert push(stepper, 22, 3) == [(0, 10, None, 7.0), (10, 20, 7.0, 7.0)]


def test_a_row_is_open_in_a_window_that_reaches_the_end_of_time() -> None:
    """It waits for its end, though there is no bound of windows behind its start."""
    source = rxt.from_events([], schema={"v": float}, name="s")
    stepper = Stepper(source.tumbling_window(10**18).aggregate(held=agg.duration()))
    assert push(stepper, 4, 3) == []
    payload = pl.DataFrame({"v": [7.0]})
    ended = EventBatch(np.array([3]), np.array([25]), np.array([1]), payload, MAX_TIME)
    assert [each for batch in stepper.push("s", ended) for each in batch.payload["held"]] == [22]


def test_in_a_snapshot_they_are_the_same() -> None:
    """There all rows are alive from the start to the end."""
    rows = [rxt.IntervalEvent(3, 12, {"v": 1.5}), rxt.IntervalEvent(12, 20, {"v": 2.0})]
    window = rxt.from_events(rows).snapshot_window()
    found = window.aggregate(
        first=agg.at_start("v"), last=agg.at_end("v"), mean=agg.time_mean("v"),
        area=agg.integral("v", per=1), time=agg.duration(), known=agg.coverage(),
    )  # fmt: skip
    assert found.to_polars().rows() == [
        (3, 12, 1.5, 1.5, 1.5, 13.5, 9, 1.0), (12, 20, 2.0, 2.0, 2.0, 16.0, 8, 1.0)
    ]  # fmt: skip


def test_two_rows_are_no_signal() -> None:
    """The error names both, and the remedy."""
    rows = [rxt.IntervalEvent(3, 12, {"v": 1}), rxt.IntervalEvent(5, 20, {"v": 2})]
    windows = rxt.from_events(rows).tumbling_window(10).aggregate(last=agg.at_end("v"))
    with pytest.raises(rxt.EventError) as failed:
        windows.to_polars()
    message = str(failed.value)
    for part in ("{'v': 1} in [3, 10)", "{'v': 2} in [5, 10)", "at 9", "to_signal"):
        assert part in message


def test_the_rate_of_a_counter() -> None:
    """Its increase, by the length of the window."""
    meter = read([(100, 0), (130, 30), (190, 90)])
    hours = meter.tumbling_window("1h").aggregate(
        hourly=agg.rate("v", per="1h"), second=agg.rate("v")
    )
    assert hours.to_polars()["hourly"].to_list() == [30, 60]
    assert hours.to_polars()["second"].to_list() == [30 / 3_600, 60 / 3_600]


def test_a_row_of_many_windows_is_cut_as_time_passes() -> None:
    """A long life costs what its windows cost, and one without end is refused at the end."""
    source = rxt.from_events([], schema={"v": float}, name="s")
    windows = source.tumbling_window(10).aggregate(m=agg.integral("v", per=1))
    stepper = Stepper(windows)
    assert push(stepper, 3, 3, 10**15) == []
    assert push(stepper, 30) == [(0, 10, 49.0), (10, 20, 70.0), (20, 30, 70.0)]
    with pytest.raises(rxt.UnboundedWindowError, match="lives very long"):
        push(stepper, 10**14)
    endless = rxt.from_events([rxt.EdgeEvent.create_start(3, {"v": 2.0})])
    with pytest.raises(rxt.UnboundedWindowError, match="hopping_window2"):
        endless.tumbling_window(10).aggregate(m=agg.duration()).to_polars()


def test_durations_are_ticks_where_times_are() -> None:
    """Where nobody knows, times are taken to be datetimes."""
    source = rxt.PushSource("readings", schema={"v": float}, delay=0)
    stream = source.stream.snapshot_window().aggregate(time=agg.duration())
    assert stream.schema == {"time": pl.Duration("us")}
    ticks = rxt.from_events([rxt.IntervalEvent(3, 9, {"v": 2.0})])
    spent = ticks.snapshot_window().aggregate(time=agg.duration())
    assert spent.to_polars()["time"].to_list() == [6]


@pytest.mark.parametrize(
    ("aggregate", "hint"),
    [
        (lambda: agg.integral("v", per="0s"), "per must be positive"),
        (lambda: agg.integral("v", per=-5), "per must be positive"),
        (lambda: agg.rate("v", per="soon"), "is not a span of time"),
        (lambda: agg.time_mean(5), "takes a field's name"),
    ],
)
def test_arguments_that_are_refused_at_once(aggregate: Any, hint: str) -> None:
    """They are wrong for any stream."""
    with pytest.raises(rxt.ArgumentError, match=hint):
        aggregate()


def test_units_of_another_form_are_refused() -> None:
    """Over ticks a unit is a number of ticks, over datetimes a span."""
    ticks = rxt.from_events([rxt.PointEvent(3, {"v": 2.0})]).tumbling_window(10)
    with pytest.raises(rxt.ArgumentError, match="per=1 is for one tick"):
        ticks.aggregate(x=agg.integral("v"))
    with pytest.raises(rxt.ArgumentError, match="is a span with a unit"):
        ticks.aggregate(x=agg.integral("v", per="1h"))
    with pytest.raises(rxt.ArgumentError, match="write per='1h'"):
        read([(1.0, 0)]).tumbling_window("1h").aggregate(x=agg.rate("v", per=60))


@pytest.mark.parametrize("kind", ["time_mean", "integral", "rate"])
def test_fields_that_are_no_numbers_are_refused(kind: str) -> None:
    """A text has no mean."""
    window = read([("a", 0)]).tumbling_window("1h")
    with pytest.raises(rxt.SchemaError, match="cast it to"):
        window.aggregate(x=getattr(agg, kind)("v"))


def test_windows_that_move_lifetimes_are_refused() -> None:
    """There the overlaps are not those of the rows."""
    with pytest.raises(rxt.ArgumentError, match="hopping_window2 moves lifetimes"):
        read([(1.0, 0)]).hopping_window2("1h", "1m").aggregate(x=agg.time_mean("v"))


@pytest.mark.parametrize(
    "aggregate", [agg.rate("v"), agg.at_start("v"), agg.at_end("v"), agg.time_mean("v")]
)
def test_windows_with_moved_lifetimes_are_refused(aggregate: Any) -> None:
    """There a result's lifetime is not that of its window."""
    with pytest.raises(rxt.ArgumentError, match=r"hopping_window2 moves lifetimes.*max_gap="):
        read([(1.0, 0)]).hopping_window2("10m", "5m").aggregate(x=aggregate)


def test_durations_that_never_end() -> None:
    """More time than an Int64 holds is an error, and no negative number."""
    rows = [rxt.PointEvent(t, {"k": f"d{t}"}) for t in range(60)]
    times = rxt.from_events(rows).to_signal("k").snapshot_window().aggregate(d=agg.duration())
    with pytest.raises(rxt.SchemaError, match="more than an Int64 holds: rows never end"):
        times.to_polars()


@pytest.mark.parametrize("count", [47, 60, 93])
def test_overlaps_of_more_ticks_than_an_integer_holds(count: int) -> None:
    """They are an error also if their sum, as an Int64, is positive again; no mean is wrong."""
    length = 2 * 10**17
    rows = [rxt.IntervalEvent(0, length, {"k": n, "v": 1.0}) for n in range(count)]
    stream = rxt.from_events(rows)
    window = stream.hopping_window(length, length).aggregate(mean=agg.time_mean("v"))
    with pytest.raises(rxt.SchemaError, match="add up to more ticks than an Int64 holds"):
        window.to_polars()
    # those of each key are not added to the others
    of_keys = stream.group_by("k").hopping_window(length, length)
    means = of_keys.aggregate(mean=agg.time_mean("v")).to_polars()
    assert means["mean"].to_list() == [1.0] * count


def test_an_endless_signal_says_what_ends_it() -> None:
    """The first remedy is the greatest gap."""
    endless = read([(1.0, 0)]).to_signal().tumbling_window("1m")
    with pytest.raises(rxt.UnboundedWindowError, match=r"to_signal\(max_gap=…\)"):
        endless.aggregate(x=agg.time_mean("v")).to_polars()


def test_a_unit_of_time_is_the_same_however_it_is_written() -> None:
    """So a run continues with 60m in place of 1h, and not with half an hour."""
    texts = [describe_value(agg.integral("v", per=per)) for per in ("1h", "60m", "30m")]
    assert texts[0] == texts[1] != texts[2]
