"""``rxtemporal replay``: recordings and files through a query, from the command line."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import physical
import polars as pl
import pytest
import strategies
from drawn_runs import NAMES, options
from drawn_runs import settings as drawn_settings
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from runs import Log
from time_settings import settings

import rxtemporal as rxt
from rxtemporal.cli.main import main
from rxtemporal.testing import assert_same_history

QUERIES = '''
import polars as pl
from rxtemporal import agg


def counted(readings, least=0):
    """How many in each ten ticks."""
    return readings.where(pl.col("x") >= least).tumbling_window(10).aggregate(n=agg.count())


def both(a, b, c):
    """All of them."""
    return a.union(b).union(c)


def passed(anything):
    """As it is."""
    return anything


def broken(anything):
    """No stream."""
    return 7


number = 5
'''
ROWS = pl.DataFrame({"t": [1, 4, 12, 3], "x": [1, -2, 3, 4]})


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run where the queries lie."""
    (tmp_path / "asked.py").write_text(QUERIES, "utf-8")
    # another module of tests has a file of this name
    monkeypatch.delitem(sys.modules, "asked", raising=False)
    monkeypatch.chdir(tmp_path)


def replayed(*arguments: str) -> int:
    """The exit status of a replay."""
    return main(["replay", *arguments])


def test_a_recording_is_replayed_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Rows on standard output, aligned; what came in and was late on standard error."""
    made = settings(1, 5)
    events = [rxt.PointEvent(t, {"x": x}) for t, x in ROWS.iter_rows()]
    readings = rxt.from_events(events, advance_time=made, name="readings")
    with readings.run(Log(), record="recording"):
        pass
    assert replayed("recording", "--query", "asked.py:counted") == 0
    printed = capsys.readouterr()
    assert (
        printed.out == "start_time  end_time  n\n0           10        1\n10          20        1\n"
    )
    assert printed.err == (
        "4 events in, 1 dropped late, 2 rows out\n"
        "  readings: 1 of 4 late; a delay of 9 ticks would have lost nothing\n"
    )


@given(
    st.fixed_dictionaries(dict.fromkeys(NAMES, options)),
    st.fixed_dictionaries(dict.fromkeys(NAMES, strategies.arrivals(max_size=12))),
)
@examples(
    max_examples=max(5, examples().max_examples // 4),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_the_command_line_gives_what_was_live(
    tmp_path_factory: pytest.TempPathFactory, drawn: dict[str, Any], arrivals: dict[str, Any]
) -> None:
    """Three streams with imports, their union written to a file: the same rows."""
    folder = tmp_path_factory.mktemp("live")
    app = rxt.Application("live")
    for name, each in drawn.items():
        made = drawn_settings(name, each)
        events = [physical.event(item) for item in arrivals[name]]
        app.define_stream(name, events, schema=physical.SCHEMA, advance_time=made)
    a, b, c = (app.stream(name) for name in NAMES)
    app.query("both", a.union(b).union(c))
    sink = Log(rxt.EventShape.INTERVAL)
    with app.run("both", sink, record=folder / "recording"):
        pass
    out = folder / "out.parquet"
    recording = str(folder / "recording")
    assert replayed(recording, "--query", "asked.py:both", "--out", str(out)) == 0
    assert_same_history(sink.batches, pl.read_parquet(out), tolerance=0)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_files_are_replayed(suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A file's stream has its name; its column of times is found, or named; a delay makes late."""
    write = {"csv": pl.DataFrame.write_csv, "parquet": pl.DataFrame.write_parquet}
    path = Path(f"readings.{suffix}")
    write.get(suffix, pl.DataFrame.write_ndjson)(ROWS, path)
    out = f"out.{suffix}"
    query = ("--query", "asked:counted", "--out", out, "--unit", "ticks")
    read = {"csv": pl.read_csv, "parquet": pl.read_parquet}.get(suffix, pl.read_ndjson)
    assert replayed(str(path), "--start", "t", *query) == 0
    assert read(out)["n"].to_list() == [2, 1]
    assert replayed(str(path), "--start", "t", "--delay", "0.000005", *query) == 0
    assert read(out)["n"].to_list() == [1, 1]
    assert capsys.readouterr().err.endswith(
        "4 events in, 1 dropped late, 2 rows out\n"
        f"  {path}: 1 of 4 late; a delay of 9 ticks would have lost nothing\n"
    )
    assert replayed(str(path), *query) == 1
    message = capsys.readouterr().err
    assert re.search(
        r"cannot find the column of times of readings\.\w+; its columns are t, x\.", message
    )


def test_columns_of_times_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    """Under the usual names, in any case, with an end; times without an offset need a zone."""
    pl.DataFrame({"Timestamp": [5], "end": [9], "x": [1]}).write_csv("r.csv")
    assert replayed("r.csv", "--query", "asked:passed", "--unit", "ticks") == 0
    assert capsys.readouterr().out == "start_time  end_time  x\n5           9         1\n"
    Path("n.csv").write_text("time,x\n2026-01-01 00:00:00,1\n", "utf-8")
    assert replayed("n.csv", "--query", "asked:passed") == 1
    assert "have no offset and name no instant" in capsys.readouterr().err
    assert replayed("n.csv", "--query", "asked:passed", "--time-zone", "UTC") == 0
    assert "2026-01-01T00:00:00Z" in capsys.readouterr().out


def test_rows_without_end_and_values_without_value_are_said_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As words, not as blanks."""
    pl.DataFrame(
        {"start": [5], "end": [None], "x": [None]}, {"start": int, "end": int, "x": float}
    ).write_parquet("r.parquet")
    assert replayed("r.parquet", "--query", "asked:passed") == 0
    assert re.split("  +", capsys.readouterr().out.splitlines()[1]) == ["5", "never ends", "null"]


def test_a_speed_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    """Fast enough that nobody waits: the same results; what is not a speed is refused."""
    ROWS.write_parquet("readings.parquet")
    for speed in "max", "1000":
        assert (
            replayed(
                "readings.parquet", "--start", "t", "--query", "asked:counted", "--speed", speed
            )
            == 0
        )
    out = capsys.readouterr().out
    assert out[: len(out) // 2] == out[len(out) // 2 :]
    for bad in "0", "-1", "fast":
        with pytest.raises(SystemExit):
            replayed("readings.parquet", "--query", "asked:counted", "--speed", bad)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["r.parquet", "--query", "asked"], "--query takes MODULE:FUNCTION or FILE.py:FUNCTION"),
        (["r.parquet", "--query", "nowhere:counted"], "there is no module 'nowhere'"),
        (["r.parquet", "--query", "nowhere.py:counted"], "there is no file nowhere.py"),
        (["r.parquet", "--query", "asked:other"], "no function 'other'; it has counted, both"),
        (["r.parquet", "--query", "asked:number"], "no function 'number'"),
        (
            ["r.parquet", "--query", "asked:broken"],
            "query broken has to return a stream, and returned 7",
        ),
        (
            ["r.parquet", "--query", "asked:both"],
            "has parameters 'a', 'b', 'c', and no stream has that name; the streams are 'r'",
        ),
        (["r.txt", "--query", "asked:passed"], "cannot replay r.txt: its suffix is '.txt'"),
        (["none.csv", "--query", "asked:passed"], "there is no recording or file none.csv"),
        (["none", "--query", "asked:passed"], "there is no recording or file none"),
        ([".", "--query", "asked:passed"], "is not a recording: it has no recording.json"),
        ([".", "--start", "t", "--query", "asked:passed"], "--start: for files only"),
        (["r.parquet", "r.parquet", "--query", "asked:passed"], "two streams have the name 'r'"),
        (["r.parquet", "--end", "e", "--query", "asked:passed"], "has no column 'e'"),
        (
            ["r.parquet", "--time-zone", "Mars", "--query", "asked:passed"],
            "time_zone: there is no zone 'Mars'",
        ),
        (
            ["r.parquet", "--query", "asked:passed", "--out", "o.txt"],
            "the name of a result file ends in .csv",
        ),
        (
            ["r.parquet", "--query", "asked:passed", "--out", "no/o.csv"],
            "the folder of the result file",
        ),
    ],
)
def test_what_cannot_be_replayed_is_said_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 1, one line that says what is wrong, and no file is left behind."""
    pl.DataFrame({"time": [1], "x": [1]}).write_parquet("r.parquet")
    Path("r.txt").write_text("1", "utf-8")
    before = sorted(path.name for path in Path().iterdir())
    assert replayed(*arguments) == 1
    errors = capsys.readouterr().err.splitlines()
    assert message in errors[-1]
    assert errors[-1].startswith("rxtemporal: ")
    left = {path.name for path in Path().iterdir()} - {"__pycache__"}
    assert left == set(before) - {"__pycache__"}


def test_an_interrupt_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With status 130, and no traceback."""
    pl.DataFrame({"time": [1], "x": [1]}).write_parquet("r.parquet")

    def interrupted(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rxtemporal.cli.progress.wait_visibly", interrupted)
    monkeypatch.setattr("rxtemporal.sinks.file.File.write", lambda *batch: None)
    assert replayed("r.parquet", "--query", "asked:passed", "--out", "o.csv") == 130
