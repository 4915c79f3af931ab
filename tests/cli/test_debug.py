"""``rxtemporal debug`` and ``Streamable.debug``: the event-flow page of a query, as one file."""

from __future__ import annotations

import io
import re
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from page_columns import read_column, read_flow, read_rows

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.cli.main import main
from rxtemporal.errors import BindingError
from rxtemporal.view.debug.page import show_progress

QUERIES = '''
import polars as pl
from rxtemporal import agg


def counted(readings):
    """Count in each ten ticks."""
    return readings.tumbling_window(10).aggregate(n=agg.count())


def broken(readings):
    """Fail at a row."""
    return readings.where(lambda row: 1 / (row["x"] - 3) > 0)
'''
ROWS = pl.DataFrame({"t": [1, 4, 12, 3], "x": [1, -2, 3, 4]})
DROP = rxt.AdvanceTimePolicy.DROP


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run where the queries and the rows are."""
    (tmp_path / "asked.py").write_text(QUERIES, "utf-8")
    # another module of tests has a file of this name
    monkeypatch.delitem(sys.modules, "asked", raising=False)
    ROWS.write_parquet(tmp_path / "readings.parquet")
    monkeypatch.chdir(tmp_path)


def read_readings() -> rxt.Streamable:
    """Return the rows as a stream in which the last one is late."""
    events = [rxt.PointEvent(t, {"x": x}) for t, x in ROWS.iter_rows()]
    settings = rxt.AdvanceTimeSettings(rxt.AdvanceTimeGenerationSettings(1, 5), policy=DROP)
    return rxt.from_events(events, advance_time=settings, name="readings")


def test_a_recording_becomes_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    """The page has the recorded run, its late event included; a line says what was written."""
    with read_readings().run(rxt.Collect(), record="recording"):
        pass
    assert main(["debug", "recording", "--query", "asked.py:counted", "--out", "page.html"]) == 0
    printed = capsys.readouterr()
    size = Path("page.html").stat().st_size
    assert printed.out == (
        f"page.html: 4 events, 1 operator, 2 rows of the result, {size / 1e6:.1f} MB\n"
        "Everything is final. 'readings': 1 of 4 events came late (1 dropped); a delay of 9 ticks "
        "in place of 5 ticks would have kept them.\n"
    )
    assert printed.err == ""
    flow = read_flow(Path("page.html").read_text("utf-8"))
    assert flow["title"] == "counted"
    assert [row["n"] for row in read_rows(flow["nodes"][1])] == [2, 1]


def test_a_file_becomes_a_page_with_the_name_of_the_query() -> None:
    """The options for files are those of replay."""
    assert main(["debug", "readings.parquet", "--start", "t", "--query", "asked.py:counted"]) == 0
    flow = read_flow(Path("counted.html").read_text("utf-8"))
    (arrivals,) = flow["arrivals"]
    assert read_column(arrivals["start"]) == [1, 4, 12, 3]
    assert read_column(arrivals["position"]) == [0, 1, 2, 3]


def test_a_query_that_fails_has_a_page_and_a_bad_status(capsys: pytest.CaptureFixture[str]) -> None:
    """The page shows what there was before the error."""
    asked = ["--query", "asked.py:broken", "--out", "deep/below/page.html"]
    assert main(["debug", "readings.parquet", "--start", "t", *asked]) == 1
    assert "The run failed: " in capsys.readouterr().out
    flow = read_flow(Path("deep/below/page.html").read_text("utf-8"))
    assert "division by zero" in flow["sentence"]


def test_a_page_that_cannot_be_written_is_one_clear_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The error names the place."""
    Path("file").write_text("in the way", "utf-8")
    asked = ["--query", "asked.py:counted", "--out", "file/page.html"]
    assert main(["debug", "readings.parquet", "--start", "t", *asked]) == 1
    assert "file" in capsys.readouterr().err


def test_a_query_writes_its_page() -> None:
    """The method returns the path, and the page runs its own scripts alone."""
    path = read_readings().tumbling_window(10).aggregate(n=agg.count()).debug("query.html")
    assert path == Path("query.html")
    text = path.read_text("utf-8")
    assert "connect-src 'none'" in text
    assert not re.search(r'(?:src|href)="(?!data:)', text)
    assert read_flow(text)["title"] == "query"


def test_a_pushed_query_is_debugged_by_its_recording() -> None:
    """Without a recording the error says how to get one; with it the page shows that run."""
    source = rxt.PushSource("readings", schema={"x": int}, delay=5)
    query = source.stream.tumbling_window(10).aggregate(n=agg.count())
    with query.run(rxt.Collect(), record="recording"):
        for t, x in ROWS.iter_rows():
            source.push({"time": t, "x": x})
        source.close()
    with pytest.raises(BindingError, match="record"):
        query.debug("page.html")
    flow = read_flow(query.debug("page.html", recording="recording").read_text("utf-8"))
    assert [row["n"] for row in read_rows(flow["nodes"][1])] == [2, 1]
    assert "1 of 4 events came late" in flow["sentence"]
    other = rxt.from_events([rxt.PointEvent(1, 1)], name="doors")
    with pytest.raises(BindingError, match="doors"):
        other.debug("page.html", recording="recording")


def test_progress_is_for_terminals(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line each second, which is removed at the end; nothing if standard error is a file.

    It counts arrivals while they grow, and then says what follows.
    """
    monkeypatch.setattr("rxtemporal.view.debug.page._PERIOD", 0.01)
    with show_progress("reading", "writing") as progress:
        progress(5)
    assert capsys.readouterr().err == ""
    # a stream of its own: what is written while capsys empties its stream is lost
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", terminal)
    with show_progress("reading", "writing") as progress:
        progress(1_000)
        while not re.search("reading: 1,000 arrivals.*writing, ", terminal.getvalue()):
            time.sleep(0.01)
    assert terminal.getvalue().endswith("\r\x1b[K")


PAGE = Path(__file__).parents[2] / "docs" / "debug.md"


def test_the_command_of_the_page_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    """The code of docs/debug.md makes the recording and the query that its command takes."""
    text = PAGE.read_text("utf-8")
    names: dict[str, object] = {}
    for code in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S):
        exec(compile(code, str(PAGE), "exec"), names)
    (command,) = re.findall(r"^```sh\nrxtemporal (debug .*?)\n```$", text, re.M)
    shown = text.partition(command)[2].split("```")[2].strip()
    capsys.readouterr()
    assert main(command.split()) == 0
    printed = re.sub(r"[0-9.]+ MB", "... MB", capsys.readouterr().out)
    assert printed.strip() == shown
    sentence = " ".join(re.findall(r'Here: "(.*?)"', text, re.S)[0].split())
    assert sentence in printed
