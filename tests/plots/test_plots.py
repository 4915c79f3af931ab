"""Charts: what is drawn, asked of the figures that they return."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

pytest.importorskip("matplotlib", reason="charts need the plots extra")

import rxtemporal as rxt
from rxtemporal import plots
from rxtemporal.errors import ArgumentError, SchemaError

BEGIN = datetime(2026, 3, 1, 8, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DAYS = 86_400_000_000


def rows(*lifetimes: tuple[Any, Any, float]) -> pl.DataFrame:
    """Return a frame of rows with a start, an end and a value ``x``."""
    return pl.DataFrame(lifetimes, schema=["start_time", "end_time", "x"], orient="row")


def line(figure: Any, number: int = 0) -> list[tuple[float, float | None]]:
    """Return the points of a line; None is a gap."""
    data = figure.axes[0].lines[number].get_xydata()
    return [(float(x), None if np.isnan(y) else float(y)) for x, y in data]


def texts(figure: Any) -> set[str]:
    """Return the texts on a figure's axes."""
    return {each.get_text() for axes in figure.axes for each in axes.texts}


# Steps ------------------------------------------------------------------------------------------


def test_a_gap_is_a_gap() -> None:
    """Where no row is alive there is no value; rows that follow each other are one line."""
    frame = rows((0, 5, 1.0), (5, 7, 2.0), (9, 12, 3.0))
    figure = plots.step_chart(frame, value="x")
    assert line(figure) == [(0, 1.0), (5, 2.0), (7, None), (9, 3.0), (12, None)]


def test_a_gap_is_a_value_if_asked() -> None:
    """A count of no rows is 0."""
    figure = plots.step_chart(rows((0, 5, 1.0), (9, 12, 3.0)), value="x", missing=0)
    assert line(figure) == [(0, 1.0), (5, 0.0), (9, 3.0), (12, 0.0)]


def test_a_row_that_never_ends_reaches_the_end_of_the_chart() -> None:
    """Its value holds up to the last time of all lines."""
    frame = pl.concat([
        rows((0, None, 1.0)).with_columns(k=pl.lit("a"), end_time=pl.lit(None, pl.Int64)),
        rows((2, 9, 5.0)).with_columns(k=pl.lit("b")),
    ])  # fmt: skip
    figure = plots.step_chart(frame, value="x", by="k")
    assert line(figure, 0) == [(0, 1.0), (9, 1.0)]
    assert [each.get_label() for each in figure.axes[0].lines] == ["a", "b"]


def test_datetimes_are_in_the_zone_of_the_chart() -> None:
    """The axis counts days since 1970, and its texts are of the time zone."""
    frame = rows((BEGIN, BEGIN + 90 * MINUTE, 1.0))
    figure = plots.step_chart(frame, value="x", time_zone="Europe/Berlin")
    figure.draw_without_rendering()
    assert line(figure)[0][0] == pytest.approx(rxt.ticks(BEGIN) / DAYS)
    assert "09:30" in [each.get_text() for each in figure.axes[0].get_xticklabels()]


def test_between_limits_the_chart() -> None:
    """Ticks and datetimes."""
    assert plots.step_chart(rows((0, 9, 1.0)), value="x", between=(2, 5)).axes[0].get_xlim() == (
        2, 5,
    )  # fmt: skip
    day = (BEGIN, BEGIN + MINUTE)
    figure = plots.step_chart(rows((BEGIN, BEGIN + 9 * MINUTE, 1.0)), value="x", between=day)
    assert figure.axes[0].get_xlim() == pytest.approx([rxt.ticks(t) / DAYS for t in day])


def test_rows_of_a_line_that_overlap_are_an_error() -> None:
    """There is no single value; other lines may overlap it."""
    frame = rows((0, 5, 1.0), (4, 7, 2.0))
    with pytest.raises(ArgumentError, match=r"rows of 'x' overlap at 4.*Hint: snapshot_window"):
        plots.step_chart(frame, value="x")
    plots.step_chart(frame.with_columns(k=pl.col("x")), value="x", by="k")


def test_a_missing_column_is_an_error() -> None:
    """With the columns that there are."""
    with pytest.raises(SchemaError, match="there is no column 'temp'; there are"):
        plots.step_chart(rows((0, 5, 1.0)), value="temp")


def test_a_chart_of_nothing_is_a_chart() -> None:
    """Without rows there are axes."""
    frame = rows((0, 5, 1.0)).clear()
    assert len(plots.step_chart(frame, value="x").axes) == 1
    assert len(plots.timeline(frame).axes) == 1


# Timelines --------------------------------------------------------------------------------------


def stream() -> rxt.Streamable:
    """Return a stream with an event that is late by 5."""
    events = [rxt.PointEvent(t, {"room": "ab"[t % 2], "t": t}) for t in (1, 9, 2)]
    return rxt.from_events(events, advance_time=2, name="readings")


def test_a_timeline_has_inputs_and_result() -> None:
    """Each lane has its name, each row its values, the late event its distance."""
    shown = texts(plots.timeline(stream().extend_lifetime(3)))
    assert {"readings", "result", "room, t", "b · 1", "b · 9", "a · 2", "late by 5"} <= shown
    alone = texts(plots.timeline(stream().extend_lifetime(3), inputs=False))
    assert "readings" not in alone


def test_a_timeline_of_each_kind_of_rows() -> None:
    """A batch, a frame, a history, and several by name, over one axis."""
    batch = rxt.EventBatch.from_dicts([{"start_time": 1, "end_time": 5, "x": 7}])
    frame = batch.to_polars("ticks")
    for source in (batch, frame, {"one": batch, "two": frame, "three": stream()}):
        assert "7" in texts(plots.timeline(source))
    assert {"one", "two"} <= texts(plots.timeline({"one": batch, "two": frame}))
    bars = plots.timeline(frame).axes[0].patches
    assert {(each.get_x(), each.get_width()) for each in bars} == {(1.0, 4.0)}


def test_a_timeline_of_a_history() -> None:
    """A node of a captured run."""
    from rxtemporal.view.lineage.capture import capture

    flow = capture(stream().extend_lifetime(3)._node)
    assert {"extend_lifetime", "b · 1"} <= texts(plots.timeline(flow.result))


def test_what_has_no_rows_is_refused() -> None:
    """With what can be drawn; so are two forms of time."""
    with pytest.raises(ArgumentError, match="timeline draws a stream, an event batch, a frame"):
        plots.timeline(7)  # type: ignore[arg-type]
    dated = rows((BEGIN, BEGIN + MINUTE, 1.0))
    with pytest.raises(ArgumentError, match="times of one form"):
        plots.timeline({"a": rows((0, 5, 1.0)), "b": dated})


def test_hostile_texts_are_drawn_as_they_are(tmp_path: Path) -> None:
    """No formula, no control character, a bounded length; the SVG is well-formed."""
    evil = r"$\frac{x$</text><script>" + "\x1b\u202e" + "x" * 100_000
    events = [rxt.PointEvent(1, {"s": evil}), rxt.PointEvent(0, {"s": evil})]
    source = rxt.from_events(events, advance_time=0, name=evil)
    for draw in (plots.timeline, plots.lateness):
        draw(source, tmp_path / "evil.svg", title="t")
        tree = ElementTree.parse(tmp_path / "evil.svg")
        assert not [each for each in tree.iter() if "script" in each.tag]
        assert (tmp_path / "evil.svg").stat().st_size < 100_000


# Lateness ---------------------------------------------------------------------------------------


def test_lateness_is_the_distance_from_the_newest_event() -> None:
    """In order of arrival; late events apart, the delay as a line."""
    figure = plots.lateness(stream().where(pl.col("t") > 0))
    (axes,) = figure.axes
    in_time, late, delay = axes.lines
    assert in_time.get_xydata().tolist() == [[1, 0], [9, 0]]
    assert late.get_xydata().tolist() == [[2, 7]]
    assert set(delay.get_ydata()) == {2}
    assert axes.get_title(loc="left") == "readings: 3 events, 1 late"
    assert "delay 2" in texts(figure)


def test_each_input_stream_has_a_panel() -> None:
    """Of a query, and of streams by name."""
    both = stream().union(rxt.from_events([rxt.PointEvent(1, {"room": "a", "t": 1})], name="other"))
    assert len(plots.lateness(both).axes) == 2
    assert len(plots.lateness({"a": stream(), "b": stream()}).axes) == 2
    with pytest.raises(ArgumentError, match="lateness draws a stream"):
        plots.lateness(rows((0, 5, 1.0)))  # type: ignore[arg-type]


def test_the_unit_of_lateness_is_readable() -> None:
    """Datetimes are behind in minutes, hours, days …"""
    times = (BEGIN, BEGIN + 10 * MINUTE, BEGIN + 4 * MINUTE)
    source = rxt.from_events([rxt.PointEvent(t, 1) for t in times], advance_time="5m")
    (axes,) = plots.lateness(source).axes
    assert axes.get_ylabel() == "behind in minutes"
    assert axes.lines[1].get_ydata().tolist() == [6]


# Files ------------------------------------------------------------------------------------------


def test_a_chart_is_saved_as_its_name_ends(tmp_path: Path) -> None:
    """PNG, SVG and PDF; an SVG is the same each time."""
    frame = rows((0, 5, 1.0))
    for suffix, magic in ((".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")):
        plots.step_chart(frame, tmp_path / f"chart{suffix}", value="x")
        assert (tmp_path / f"chart{suffix}").read_bytes().startswith(magic)
    plots.step_chart(frame, tmp_path / "again.svg", value="x")
    assert (tmp_path / "again.svg").read_bytes() == (tmp_path / "chart.svg").read_bytes()
    with pytest.raises(ArgumentError, match=r"saved as .png, .svg, .pdf.*got 'chart.txt'"):
        plots.step_chart(frame, "chart.txt", value="x")
