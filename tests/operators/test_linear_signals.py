"""Signals whose values move along straight lines: by example, cut into pieces, and bad input."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import oracle
import oracle_lifetimes
import oracle_windows
import physical
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from law_functions import LINES
from oracle import Row

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal import operators as ops

DAY = datetime(2026, 5, 1, tzinfo=UTC)
OURS = {name: pair[0] for name, pair in LINES.items()}
MODELS = {name: pair[1] for name, pair in LINES.items()}


def read(readings: list[tuple[float, Any]], **fields: Any) -> rxt.Streamable:
    """Return readings, each a time in hours and a value."""
    rows = [
        rxt.PointEvent(DAY + timedelta(hours=hours), {"v": v, **fields}) for hours, v in readings
    ]
    return rxt.from_events(rows, name="readings")


def count(readings: list[tuple[int, Any]]) -> rxt.Streamable:
    """Return readings over ticks."""
    return rxt.from_events([rxt.PointEvent(t, {"v": v}) for t, v in readings], name="readings")


def test_mean_and_integral_along_lines() -> None:
    """Half a minute and nine minutes between readings count for as long as they are."""
    minutes = (0, 10), (1, 20), (2, 10), (3, 20), (4, 10), (8, 30), (10, 10), (10.5, 20), (20, 30)
    signal = read([(t / 60, v) for t, v in minutes]).to_signal(max_gap="1h", linear="v")
    results = signal.tumbling_window("20m").aggregate(
        mean=agg.time_mean("v"),
        area=agg.integral("v"),
        first=agg.at_start("v"),
        last=agg.at_end("v"),
    )
    row = results.to_polars().row(0, named=True)
    assert (row["mean"], row["area"], row["first"], row["last"]) == (21.25, 25_500, 10, 30)


def test_increase_of_a_counter_over_days() -> None:
    """A rise between two days is divided among them; a fall counts from zero."""
    readings = [
        (10, 10), (12, 40), (16, 20), (28, 15), (36, 50), (44, 25), (52, 30), (60, 0), (64, 35)
    ]  # fmt: skip
    days = read(readings).to_signal(max_gap="1d", linear="v").tumbling_window("1d")
    used = days.aggregate(used=agg.increase("v", interpolate=True)).to_polars()["used"]
    assert used.to_list() == pytest.approx([60, 67.5, 37.5], rel=1e-14)


def test_samples_of_a_line() -> None:
    """The value at a time between two readings is that of the line; sampled fields are plain."""
    signal = read([(3 + 58 / 60, 58), (5, 60)]).to_signal(max_gap="2h", linear="v")
    points = signal.sample("1h").to_polars()
    assert points["v"].to_list() == [pytest.approx(58.0645161), 60]
    assert points.columns == ["start_time", "end_time", "v"]


def test_a_line_moves_with_its_row() -> None:
    """Shifted by half an hour, the value at four is that at half past three."""
    readings = read([(3, 10.0), (4, 20.0)])
    moved = readings.to_signal(max_gap="2h", linear="v").shift_event_time("30m")
    assert moved.sample("1h").to_polars()["v"].to_list() == [15.0]


def test_readings_without_a_successor_are_points() -> None:
    """That is so at the end, and where the next one comes later than the gap."""
    rows = count([(0, 1), (4, 3), (9, 7)]).to_signal(max_gap=4, linear="v").to_polars().rows()
    assert rows == [(0, 4, 1, 3, 0, 4), (4, 5, 3, 3, 4, 5), (9, 10, 7, 7, 9, 10)]


def test_a_null_has_no_line() -> None:
    """Neither the line to it nor that from it has values."""
    signal = count([(0, 1), (4, None), (6, 7), (8, 9)]).to_signal(linear="v")
    window = signal.tumbling_window(8).aggregate(
        mean=agg.time_mean("v"), used=agg.increase("v", interpolate=True)
    )
    assert window.to_polars().rows()[0] == (0, 8, 8.0, 2.0)
    assert signal.sample(2).to_polars()["v"].to_list() == [None, None, None, 7, 9]


def test_not_a_number_stays_in_its_windows() -> None:
    """The lines that touch it are NaN, and no others."""
    readings = [(0, 1.0), (4, 3.0), (12, math.nan), (16, 5.0), (24, 7.0)]
    means = count(readings).to_signal(linear="v").tumbling_window(4)
    found = means.aggregate(mean=agg.time_mean("v")).to_polars()["mean"]
    nan = found.is_nan().to_list()
    assert nan == [False, True, True, True, False, False, False]


def test_a_field_is_the_reading_to_all_else() -> None:
    """Expressions and other aggregates do not follow the line."""
    signal = count([(0, 10), (4, 20), (8, 0)]).to_signal(linear="v")
    row = signal.tumbling_window(8).aggregate(
        mean=agg.mean("v"), plain=agg.time_mean(pl.col("v") * 1), line=agg.time_mean("v")
    )
    assert row.to_polars().rows()[0] == (0, 8, 15, 15, 12.5)
    plain = signal.select(v="v").tumbling_window(8).aggregate(mean=agg.time_mean("v"))
    assert plain.to_polars().rows()[0] == (0, 8, 15)


def test_a_pipe_of_rx_operators() -> None:
    """Aggregates follow the line there, too."""
    events = [("point", t, {"k": "a", "x": None, "y": y}) for t, y in ((0, 0.0), (4, 8.0))]
    batch = physical.batches([*events, ("cti", oracle.MAX_TIME)], [slice(0, 3)])
    window = ops.tumbling_window(4)
    out = physical.run(batch, ops.to_signal(linear="y"), window.aggregate(mean=agg.time_mean("y")))
    assert [value for each in out for value in each.payload["mean"]] == [4.0, 8.0]


READINGS = st.lists(
    st.tuples(
        st.integers(1, 9),
        st.sampled_from((None, 0, 3, 8, -4)),
        st.sampled_from((None, 0.5, -2.25, 4.0)),
    ),
    min_size=1,
    max_size=8,
)
KINDS: dict[str, tuple[Any, oracle_windows.Windows]] = {
    "snapshot": (lambda s: s.snapshot_window(), oracle.snapshot_windows),
    "tumbling": (
        lambda s: s.tumbling_window(7, 2),
        lambda rows: oracle_windows.tumbling_windows(rows, 7, 2),
    ),
    "hopping": (
        lambda s: s.hopping_window(8, 3),
        lambda rows: oracle_windows.hopping_windows(rows, 8, 3),
    ),
    "session": (
        lambda s: s.session_window(5),
        lambda rows: oracle_windows.session_windows(rows, 5),
    ),
    "count": (
        lambda s: s.count_window(3, output=rxt.WindowOutput.WINDOW),
        lambda rows: oracle_windows.count_windows(rows, 3),
    ),
}


def draw_rows(readings: list[tuple[int, Any, Any]]) -> list[Row]:
    """Return points at times that rise."""
    rows, at = [], 0
    for step, x, y in readings:
        at += step
        rows.append(Row(at, at + 1, {"x": x, "y": y}))
    return rows


def stream(rows: list[Row]) -> Any:
    """Return the rows as a linear signal of x and y."""
    events = [rxt.PointEvent(row.start, row.payload) for row in rows]
    points = rxt.from_events(events, name="points", schema={"x": int, "y": float})
    return points.to_signal(max_gap=7, linear=("x", "y"))


@pytest.mark.parametrize("kind", KINDS)
@given(readings=READINGS)
def test_every_window_follows_the_line(kind: str, readings: list[tuple[int, Any, Any]]) -> None:
    """The results over each kind of window are those of exact fractions."""
    rows = draw_rows(readings)
    window, windows = KINDS[kind]
    found = window(stream(rows)).aggregate(**OURS).to_polars().sort("start_time")
    signal = oracle_lifetimes.linear_signal(rows, ["x", "y"], max_gap=7)
    expected = oracle_windows.window_aggregate(signal, windows, {}, time_sensitive=MODELS)
    assert len(found) == len(expected)
    for row, model in zip(found.to_dicts(), sorted(expected, key=lambda r: r.start), strict=True):
        assert (row.pop("start_time"), row.pop("end_time")) == (model.start, model.end)
        assert row == pytest.approx(model.payload, rel=1e-12, abs=1e-12)


CUTS = {
    "chop": lambda s, other: s.chop(3, 1),
    "chop twice": lambda s, other: s.chop(5).chop(3, 1),
    "where": lambda s, other: s.where(pl.col("x").is_null() | (pl.col("x") < 5)).union(
        s.where(pl.col("x") >= 5)
    ),
    "join, and its complement": lambda s, other: (
        s.cross_join(other.where(pl.col("n") == 0))
        .drop("n")
        .union(s.left_anti_join(other.where(pl.col("n") == 0)))
    ),
    "join": lambda s, other: s.cross_join(other),
    "snapshots": lambda s, other: s.cross_join(other.snapshot_window().aggregate(each=agg.count())),
}


@pytest.mark.parametrize("cut", CUTS)
@given(readings=READINGS, ends=st.lists(st.integers(1, 60), max_size=5, unique=True))
def test_pieces_add_up(cut: str, readings: list[tuple[int, Any, Any]], ends: list[int]) -> None:
    """However rows are cut, the integrals of the pieces add up to those of the whole."""
    rows = draw_rows(readings)
    bounds = sorted({0, *ends, 100})
    lives = [rxt.IntervalEvent(a, b, {"n": a % 2}) for a, b in pairwise(bounds)]
    other = rxt.from_events(lives, name="other")
    asked = {
        "x": agg.integral("x", per=1), "y": agg.integral("y", per=1), "mean": agg.time_mean("y"),
        "rise": agg.increase("y", interpolate=True),
    }  # fmt: skip
    whole = stream(rows).tumbling_window(200).aggregate(**asked).to_polars()
    pieces = CUTS[cut](stream(rows), other).tumbling_window(200).aggregate(**asked).to_polars()
    assert pieces.row(0) == pytest.approx(whole.row(0), rel=1e-12, abs=1e-12)


def test_a_join_keeps_the_lines_of_both_sides() -> None:
    """Also where fields of the same name get a suffix."""
    volts = count([(0, 0), (8, 8)]).to_signal(linear="v")
    other = count([(0, 10), (4, 20), (8, 10)])
    asked = {"a": agg.time_mean("v"), "b": agg.time_mean("v_right")}
    both = volts.cross_join(other.to_signal(linear="v"), suffix="_right")
    assert both.tumbling_window(4).aggregate(**asked).to_polars().rows()[:2] == [
        (0, 4, 2, 15), (4, 8, 6, 15)
    ]  # fmt: skip
    steps = volts.cross_join(other.to_signal(max_gap=9), suffix="_right")
    assert steps.tumbling_window(4).aggregate(**asked).to_polars().rows()[:2] == [
        (0, 4, 2, 10), (4, 8, 6, 20)
    ]  # fmt: skip


def test_a_line_goes_where_its_field_goes() -> None:
    """A field that is selected keeps its line, and one that is computed or dropped has none."""
    signal = count([(0, 0), (8, 8)]).to_signal(linear="v")
    parts = ["v_after", "v_line_start", "v_line_end"]

    def mean(stream: Any) -> float:
        window = stream.tumbling_window(8).aggregate(mean=agg.time_mean("v"))
        return float(window.to_polars()["mean"][0])

    assert signal.select("v").to_polars().columns[2:] == ["v", *parts]
    assert signal.select("v", "v_line_end").to_polars().columns[2:] == [
        "v", "v_line_end", "v_after", "v_line_start"
    ]  # fmt: skip
    assert mean(signal.select("v")) == mean(signal.with_columns(w=pl.col("v") * 3)) == 4
    doubled = signal.with_columns(v=pl.col("v") + 2)
    assert doubled.to_polars().columns[2:] == ["v"]
    assert mean(doubled) == mean(signal.select(v=pl.col("v") + 2)) == 2
    assert signal.with_columns(w=1).drop("v").to_polars().columns[2:] == ["w"]
    assert mean(signal.drop("v_after")) == 0


def test_bad_input() -> None:
    """Errors tell the field, and what to do."""
    readings = read([(0, 1.0)], k="a")
    with pytest.raises(rxt.SchemaError, match=r"'k' is String\. Hint: leave it out of linear="):
        readings.to_signal(linear="k")
    with pytest.raises(rxt.SchemaError, match="'v' is a key"):
        readings.to_signal("v", linear="v")
    with pytest.raises(rxt.SchemaError, match="adds the field 'v_after', which exists already"):
        readings.select("v", v_after="v").to_signal(linear="v")
    with pytest.raises(rxt.ArgumentError, match="linear is a field's name, or names, got 5"):
        readings.to_signal(linear=5)  # type: ignore[arg-type]
    with pytest.raises(rxt.SchemaError, match=r"does not move along a line\. Hint: to_signal"):
        readings.tumbling_window("1h").aggregate(n=agg.increase("v", interpolate=True))
