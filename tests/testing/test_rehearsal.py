"""Rehearsal of a changed query over a recording: the rows in which the results differ."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.cli.main import main
from rxtemporal.testing import rehearse
from rxtemporal.testing.rehearsal import END, START, compare_frames

EVENTS = [
    rxt.PointEvent(time, {"room": room, "x": x})
    for time, room, x in (
        (1, "a", 1.0), (2, "b", 2.0), (7, "a", 3.0), (3, "b", 4.0), (12, "a", 5.0)
    )
]  # fmt: skip


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A recording in which one event was late."""
    readings = rxt.from_events(EVENTS, advance_time=2, name="readings")
    with readings.run(rxt.Collect(), record=tmp_path / "recording"):
        pass
    return tmp_path / "recording"


def sums(readings: rxt.Streamable) -> rxt.Streamable:
    """Sum up by room."""
    return readings.group_by("room").tumbling_window(5).aggregate(x=agg.sum("x"), n=agg.count())


def hot(readings: rxt.Streamable) -> rxt.Streamable:
    """Sum up what is warm."""
    return sums(readings.where(pl.col("x") > 1))


def test_rows_of_one_query_alone_are_found(recording: Path) -> None:
    """Each row is in both, only old or only new; the late event is late in both."""
    found = rehearse(recording, old=sums, new=hot)
    assert found.only_old.rows() == [(0, 5, "a", 1.0, 1)]
    assert found.only_new.rows() == []
    assert found.both.rows() == [(0, 5, "b", 2.0, 1), (5, 10, "a", 3.0, 1), (10, 15, "a", 5.0, 1)]
    assert not found
    assert found.to_polars()["rows"].to_list() == ["both", "only old", "both", "both"]
    assert str(found).splitlines() == [
        "old: sums, 4 rows. new: hot, 3 rows. 3 rows are in both.",
        "only in old: 1 row",
        "  start_time  end_time  room          x      n",
        "       ticks     ticks  String  Float64  Int64",
        "           0         5  a             1      1",
    ]
    assert repr(found) == "<Rehearsal: 3 rows in both, 1 only old, 0 only new>"


def test_the_same_query_gives_the_same(recording: Path) -> None:
    """As a function, and as a stream whose source has the name of the recorded one."""
    stream = sums(rxt.from_events([], schema={"room": str, "x": float}, name="readings"))
    found = rehearse(recording, old=sums, new=stream)
    assert found.same
    assert str(found) == "old: sums, 4 rows. new: new, 4 rows. All are in both."


def test_fields_of_one_query_alone_are_named(recording: Path) -> None:
    """They are not compared, and a field whose type has changed is not either."""

    def more(readings: rxt.Streamable) -> rxt.Streamable:
        return sums(readings).select("room", pl.col("x").cast(pl.String), y=pl.col("n"))

    found = rehearse(recording, old=sums, new=more)
    assert (found.fields_only_old, found.fields_only_new) == (("x", "n"), ("x", "y"))
    assert found.only_old.is_empty()
    assert not found.same
    assert "not compared, since only new has this field and type: x, y" in str(found)


@pytest.mark.parametrize(
    ("change", "tolerance", "same"),
    [
        (lambda x: x * (1 + 1e-12), 1e-9, True),
        (lambda x: x * (1 + 1e-12), 0, False),
        (lambda x: x * 1.01, 1e-9, False),
        (lambda x: x * 0 / 0, 1e-9, False),
    ],
)
def test_floats_are_compared_with_a_tolerance(
    recording: Path, change: Callable[[Any], Any], tolerance: float, same: bool
) -> None:
    """Relative to the larger one."""

    def other(readings: rxt.Streamable) -> rxt.Streamable:
        return sums(readings).with_columns(x=change(pl.col("x")))

    found = rehearse(recording, old=sums, new=other, tolerance=tolerance)
    assert found.same is same
    both = rehearse(recording, old=other, new=other, tolerance=tolerance)
    assert both.same, "NaN equals NaN"


def test_each_of_equal_rows_has_a_partner(recording: Path) -> None:
    """A row that comes twice in one query and once in the other is once in both."""

    def twice(readings: rxt.Streamable) -> rxt.Streamable:
        return readings.union(readings)

    found = rehearse(recording, old=twice, new=lambda readings: readings)
    assert (len(found.both), len(found.only_old), len(found.only_new)) == (4, 4, 0)


NEAR = 1 + 1e-12


@pytest.mark.parametrize(
    ("old", "new", "both"),
    [
        ([1.0, 2.0, 3.0], [0.5, 1.0 * NEAR, 2.0 * NEAR, 3.0 * NEAR], 3),
        ([-3.0, -2.0, 0.0], [-3.0 * NEAR, -2.5, -2.0 * NEAR], 2),
        ([1.0, 1.0 * NEAR, 1.0 / NEAR], [1.0 * NEAR, 1.0 * NEAR, 1.0 * NEAR], 3),
        ([1.0, None, float("nan"), float("inf")], [None, float("inf"), 1.0 * NEAR, 9.0], 3),
    ],
)
def test_a_row_alone_does_not_part_the_pairs_behind_it(
    old: list[float | None], new: list[float | None], both: int
) -> None:
    """Rows that differ in floats alone are partners if they are close, in any order."""

    def frame(values: list[float | None]) -> pl.DataFrame:
        times = pl.Series(START, [0] * len(values))
        return pl.DataFrame([times, times.alias(END), pl.Series("x", values, pl.Float64)])

    for one, other in ((old, new), (new, old)):
        found = compare_frames(frame(one), frame(other[::-1]), 1e-9)
        assert len(found.both) == both
        assert (len(found.only_old), len(found.only_new)) == (len(one) - both, len(other) - both)


def test_all_floats_of_a_pair_are_close() -> None:
    """The float with most values leads the search, and the others decide it."""
    times = {START: [0] * 4, END: [5] * 4}
    old = pl.DataFrame({**times, "x": [0.0] * 4, "y": [4.0, 3.0, 2.0, 1.0]})
    new = pl.DataFrame({**times, "x": [0.0, 0.0, 0.0, 1.0], "y": [1.0 * NEAR, 9.0, 3.0, 4.0]})
    found = compare_frames(old, new, 1e-9)
    assert found.both.get_column("y").to_list() == [3.0, 1.0]


def test_counts_by_time(recording: Path) -> None:
    """By the start of rows, in spans of the given length, or of one that fits."""
    found = rehearse(recording, old=sums, new=hot)
    assert found.by_time(10).rows() == [(0, 2, 1, 0), (10, 1, 0, 0)]
    assert found.by_time().columns == ["time", "both", "only old", "only new"]
    with pytest.raises(rxt.ArgumentError, match="every must be positive"):
        found.by_time(0)


def test_times_are_datetimes_where_the_source_has_them(tmp_path: Path) -> None:
    """Also in counts by time; a row that never ends says so."""
    first = datetime(2026, 3, 1, tzinfo=UTC)
    events = [
        rxt.IntervalEvent(first + timedelta(minutes=n), rxt.MAX_TIME, {"x": n}) for n in range(90)
    ]
    with rxt.from_events(events, name="r").run(rxt.Collect(), record=tmp_path / "r"):
        pass
    found = rehearse(tmp_path / "r", old=lambda r: r, new=lambda r: r.where(pl.col("x") != 61))
    assert found.by_time("1h").rows() == [
        (first, 60, 0, 0), (first + timedelta(hours=1), 29, 1, 0)
    ]  # fmt: skip
    assert len(found.by_time()) <= 24
    assert "2026-03-01T01:01:00Z  never ends" in str(found)


def test_html_is_escaped(recording: Path, tmp_path: Path) -> None:
    """What a payload or a name has in it does not run."""

    def evil(readings: rxt.Streamable) -> rxt.Streamable:
        return sums(readings).with_columns(room=pl.lit("<script>alert(1)</script>"))

    evil.__name__ = "<b>"
    found = rehearse(recording, old=sums, new=evil)
    found.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<script" not in page
    assert "&lt;b&gt;" in page
    assert "only in new: 4 rows" in page
    assert "only in old: 4 rows. only in new: 4 rows. in both: 0 rows." in page
    assert "<svg" not in rehearse(recording, old=sums, new=sums)._repr_html_()


def test_the_timeline_is_that_of_the_difference(tmp_path: Path) -> None:
    """With the rows of both that start within it."""
    events = [rxt.PointEvent(time, {"x": time}) for time in range(500)]
    with rxt.from_events(events, name="r").run(rxt.Collect(), record=tmp_path / "r"):
        pass
    less = pl.col("x").is_between(400, 404) & (pl.col("x") % 2 == 0)
    found = rehearse(tmp_path / "r", old=lambda r: r, new=lambda r: r.where(~less))
    page = found._repr_html_()
    assert "only in old: 3 rows. only in new: 0 rows. in both: 2 rows." in page


def test_each_query_has_its_event_flow_page(recording: Path, tmp_path: Path) -> None:
    """The new one by default."""
    found = rehearse(recording, old=sums, new=hot)
    for old, name in (False, "hot"), (True, "sums"):
        found.debug(tmp_path / "page.html", old=old)
        assert f"<title>{name}" in (tmp_path / "page.html").read_text("utf-8")


QUERIES = """
import polars as pl
from rxtemporal import agg

def sums(readings):
    return readings.group_by("room").tumbling_window(5).aggregate(x=agg.sum("x"), n=agg.count())

def hot(readings):
    return sums(readings.where(pl.col("x") > 1))
"""


def test_the_command_line_rehearses(
    recording: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the difference, the counts by time, and the delays; the status says if they differ."""
    monkeypatch.chdir(recording.parent)
    Path("q.py").write_text(QUERIES, "utf-8")
    assert main(["rehearse", "recording", "--old", "q.py:sums", "--new", "q.py:sums"]) == 0
    arguments = ["--old", "q.py:sums", "--new", "q.py:hot", "--every", "10us", "--out", "o.html"]
    capsys.readouterr()
    assert main(["rehearse", "recording", "--loss", "20%", *arguments]) == 1
    out = capsys.readouterr().out
    assert out.startswith("old: q.py:sums, 4 rows. new: q.py:hot, 3 rows. 3 rows are in both.\n")
    lines = [line.split() for line in out.splitlines()]
    assert lines[lines.index(["time", "both", "only", "old", "only", "new"]) + 2] == list("0210")
    assert (
        "readings: 1 of 5 late with a delay of 2 ticks; a delay of 4 ticks would have lost nothing"
        in out
    )
    assert "for a loss of at most 20.00%: a delay of 0 ticks (1 late)" in out
    assert Path("o.html").exists()
    assert main(["rehearse", "recording"]) == 0
    assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--old", "q.py:sums"], "--old and --new together"),
        (["--every", "1h"], "--out and --every are about two queries"),
        (["--old", "q.py:none", "--new", "q.py:sums"], "q.py has no function 'none'"),
        (["--old", "none.py:q", "--new", "q.py:sums"], "there is no file none.py"),
    ],
)
def test_wrong_arguments_are_one_line(
    recording: Path, arguments: list[str], message: str,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """With the option to give."""
    monkeypatch.chdir(recording.parent)
    Path("q.py").write_text(QUERIES, "utf-8")
    assert main(["rehearse", "recording", *arguments]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("share", ["-1", "2", "150%", "much"])
def test_a_share_is_a_share(recording: Path, share: str) -> None:
    """From 0 to 1, or a percentage."""
    with pytest.raises(SystemExit):
        main(["rehearse", str(recording), "--loss", share])
