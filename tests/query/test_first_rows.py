"""``head``, ``show`` and ``collect`` of a query."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal.errors import ArgumentError


def count(read: list[int]) -> Iterator[rxt.PointEvent]:
    """Yield points without an end, and note which have been read."""
    for number in itertools.count():
        read.append(number)
        yield rxt.PointEvent(number, {"n": number})


def endless(read: list[int]) -> rxt.Streamable:
    """Return a stream of them."""
    return rxt.from_events(count(read), advance_time=rxt.INCREASING_START_TIME)


def test_head_stops_an_endless_source() -> None:
    """Only as much is read as the rows need, and the source is closed."""
    read: list[int] = []
    frame = endless(read).where(pl.col("n") % 10 == 0).head(3)
    assert frame.rows() == [(0, 1, 0), (10, 11, 10), (20, 21, 20)]
    assert len(read) < 30


def test_head_is_the_beginning_of_the_whole() -> None:
    """Fewer rows than asked for are all rows; no row is asked for without a run."""
    stream = rxt.from_events([rxt.PointEvent(n, {"n": n}) for n in range(7)])
    assert stream.head(3).equals(stream.to_polars().head(3))
    assert stream.head(99).equals(stream.collect())
    assert stream.collect().equals(stream.to_polars())
    read: list[int] = []
    assert endless(read).head(0).height == 0
    assert read == []


@pytest.mark.parametrize("n", [-1, 2.0, True, "3"])
def test_head_takes_a_number_of_rows(n: object) -> None:
    """Anything else is an error that shows it."""
    with pytest.raises(ArgumentError, match=f"n is a number of rows, 0 or more, got {n!r}"):
        rxt.from_events([]).head(n)  # type: ignore[arg-type]


def test_an_error_of_the_query_comes_out_of_head() -> None:
    """As out of ``to_polars``."""
    events = [rxt.PointEvent(5, 1), rxt.Cti(9), rxt.PointEvent(2, 1)]
    with pytest.raises(rxt.CtiViolationError):
        rxt.from_events(events).head(5)


def test_show_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Names, units, rows with an end or none, and whether there are more."""
    events = [
        rxt.IntervalEvent(1, rxt.MAX_TIME, {"id": "a\x1b", "temp": 20.5}),
        rxt.IntervalEvent(2, 4, {"id": "bcd", "temp": None}),
        rxt.PointEvent(3, {"id": None, "temp": 1e9}),
    ]
    stream = rxt.from_events(events, schema={"id": str, "temp": float})
    stream.show()
    assert capsys.readouterr().out == (
        "start_time    end_time  id         temp\n"
        "     ticks       ticks  String  Float64\n"
        "         1  never ends  a\\x1b      20.5\n"
        "         2           4  bcd        null\n"
        "         3           4  null      1e+09\n"
    )
    stream.show(1)
    assert capsys.readouterr().out.endswith("20.5\n… more rows\n")


def test_show_bounds_what_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """Long texts and many columns are cut."""
    fields = {f"field_{number}": "x" * 10_000 for number in range(40)}
    rxt.from_events([rxt.PointEvent(1, fields)]).show()
    out = capsys.readouterr().out
    assert len(out) < 3_000
    assert out.endswith("… 26 more columns\n")


def test_a_table_fits_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Texts are cut first, then the last columns left out; numbers and times stay whole."""
    row = {"x": 123_456_789_012, "text": "a text that is long, " * 3, "other": "another " * 4}
    stream = rxt.from_events([rxt.PointEvent("2026-01-01T12:00:00Z", row)])
    stream.show()
    whole = capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for columns, last in ((200, ""), (102, ""), (91, ""), (80, "… 1 more column"), (9, "… 4 more")):
        monkeypatch.setenv("COLUMNS", str(columns))
        stream.show()
        shown = capsys.readouterr().out
        assert last in shown
        assert ("more column" in shown) == bool(last)
        assert columns == 9 or max(map(len, shown.splitlines())) <= columns
        assert columns == 9 or "2026-01-01T12:00:00.000001Z  123456789012" in shown
        assert (shown == whole) == (columns == 200)
