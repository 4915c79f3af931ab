"""``rxtemporal bench``: a query measured from the command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal.cli import bench
from rxtemporal.cli.main import main

QUERIES = '''
import polars as pl
from rxtemporal import agg


def counted(readings):
    """How many in each ten ticks."""
    return readings.where(pl.col("x") >= 0).tumbling_window(10).aggregate(n=agg.count())


def both(readings, rooms):
    """Their join."""
    return readings.join(rooms, on="x")


def called(readings):
    """A function of rows."""
    return readings.where(lambda row: row["x"] > 0)


def each_ten(readings):
    """How many in each ten minutes."""
    return readings.tumbling_window("10m").aggregate(n=agg.count())
'''


TICKS = ("--unit", "ticks")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run where the queries lie."""
    (tmp_path / "measured.py").write_text(QUERIES, "utf-8")
    monkeypatch.chdir(tmp_path)
    rows = pl.DataFrame({"time": [4, 1, 12, 3, *range(20, 116)], "x": [*range(100)]})
    rows.write_csv("readings.csv")
    rows.with_columns(end=pl.col("time") + 5).head(3).write_parquet("rooms.parquet")


def measured(*arguments: str) -> int:
    """The exit status of a measurement whose runs are as short as can be."""
    return main(["bench", *arguments, "--seconds", "0.01"])


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_query_over_datetimes_is_measured(
    suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whose windows have a unit; single events have the times of the file."""
    times = [datetime(2026, 1, 1, 12, minute, tzinfo=UTC) for minute in range(30)]
    rows = pl.DataFrame({"time": times, "x": [*range(30)]})
    rows.write_csv("readings.csv") if suffix == "csv" else rows.write_parquet("readings.parquet")
    assert measured("measured.py:each_ten", "--input", f"readings.{suffix}") == 0
    assert re.search(r"p50 [\d,]+ µs, p99 [\d,]+ µs, of \d+ events", capsys.readouterr().out)


def test_a_query_is_measured_over_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    """Rates, shares that add up to one, and a latency."""
    assert measured("measured.py:counted", "--input", "readings.csv", *TICKS) == 0
    out = capsys.readouterr().out
    assert out.startswith("measured.py:counted over 100 rows\n")
    assert re.search(r"^ +64 +[\d,]+ +[\d,]+\n +100 +[\d,]+ +[\d,]+$", out, re.M)
    shares = re.findall(r"^(.+?)  +(\d+)% +(\d+)%$", out, re.M)
    assert [name for name, *_ in shares] == [
        "1. where (measured.py:8)",
        "2. tumbling_window().aggregate (measured.py:8)",
        bench.REST,
    ]
    for each in zip(*(map(int, numbers) for _, *numbers in shares), strict=True):
        assert sum(each) == pytest.approx(100, abs=2)
    assert re.search(r"delivered: p50 [\d,]+ µs, p99 [\d,]+ µs, of \d+ events$", out)


def test_two_inputs_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """Each file gives the stream of its name; points join intervals."""
    assert measured("measured.py:both", "--input", "readings.csv", "rooms.parquet", *TICKS) == 0
    out = capsys.readouterr().out
    assert out.startswith("measured.py:both over 103 rows\n")
    assert "2. join (measured.py:13)" in out


def test_a_recording_of_edges_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """Its streams keep their names; rows that are open in it stay so."""
    edges = [
        rxt.EdgeEvent.create_start(1, {"x": 1}),
        rxt.EdgeEvent.create_start(2, {"x": 2}),
        rxt.EdgeEvent.create_end(1, 9, {"x": 1}),
    ]
    stream = rxt.from_events(edges, name="readings")
    with stream.run(rxt.Collect(), record="recording"):
        pass
    assert measured("measured.py:called", "--input", "recording") == 0
    assert "over 3 rows" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["measured", "--input", "readings.csv"], "the query takes MODULE:FUNCTION or FILE.py"),
        (["nowhere:counted", "--input", "readings.csv"], "which the query nowhere:counted needs"),
        (["measured.py:counted", "--input", "none.csv"], "there is no recording or file none.csv"),
        (["measured.py:both", "--input", "readings.csv", *TICKS], "no stream has that name"),
        (
            ["measured.py:counted", "--input", "empty.parquet"],
            "'empty' has no rows to measure with",
        ),
    ],
)
def test_what_cannot_be_measured_is_said_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 1, and what is wrong."""
    pl.DataFrame({"time": [], "x": []}, {"time": int, "x": int}).write_parquet("empty.parquet")
    assert measured(*arguments) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["0", "-1", "inf", "soon"])
def test_a_limit_that_is_none_is_refused(seconds: str) -> None:
    """A positive number of seconds."""
    with pytest.raises(SystemExit):
        main(["bench", "measured.py:counted", "--input", "readings.csv", "--seconds", seconds])


def test_an_interrupt_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With status 130, and no traceback."""

    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rxtemporal.cli.bench.Bench.measure_rate", interrupted)
    assert measured("measured.py:counted", "--input", "readings.csv", *TICKS) == 130


def test_rows_are_cut_with_the_highest_ctis_that_they_allow() -> None:
    """A CTI is the lowest time of the rows behind it; after all rows, the end of time."""
    events = [rxt.PointEvent(time, {"x": time}) for time in (4, 1, 12, 3, 20)]
    rows = bench.InputRows("readings", rxt.from_events(events, schema={"x": int}))
    cut = list(rows.cut(2))
    before = rxt.MIN_TIME
    for _, batch in cut:
        batch.check(before)
        before = batch.cti
    behind = [min(batch.start.min() for _, batch in cut[n:]) for n in range(1, len(cut))]
    assert [batch.cti for _, batch in cut] == [*behind, rxt.MAX_TIME]
    assert [time for time, _ in cut] == [1, *behind]


def test_the_clock_runs_for_one_operator_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of an operator is without that of those behind it."""
    now = [0.0]
    monkeypatch.setattr("rxtemporal.cli.bench.time.perf_counter", lambda: now[0])
    timer = bench.OperatorTimer()

    def work(seconds: float) -> None:
        now[0] += seconds

    def first(batch: float) -> None:
        work(1)
        timer.run("second", work, batch)
        work(2)

    now[0] = 100.0  # before the start
    timer.start()
    timer.run("first", first, 5)
    work(2)
    assert timer.shares() == {bench.REST: 0.2, "first": 0.3, "second": 0.5}
