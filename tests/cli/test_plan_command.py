"""The command ``plan``: what a changed application keeps of a folder, and what it loses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from runs import SOON

import rxtemporal as rxt
from rxtemporal.cli.main import main
from rxtemporal.serve import Service, Settings

APPLICATION = """
import polars as pl
import rxtemporal as rxt
from rxtemporal import agg

source = rxt.PushSource("rows", schema={{"temp": float}}, start="t", delay=2)
app = rxt.Application("house")
rows = app.define_stream("rows", source.stream)
app.query("count", rows.tumbling_window(10).aggregate(n=agg.count()))
app.query("hot", rows.where(pl.col("temp") > {limit}))
{more}
"""


def write(folder: Path, limit: int, more: str = "") -> str:
    """Write an application into a file of its own, and return its name for the command."""
    file = folder / f"house_{limit}_{len(more)}.py"
    file.write_text(APPLICATION.format(limit=limit, more=more))
    return f"{file}:app"


def make_service(named: str, folder: Path, **state: Any) -> Service:
    """Return a service of the application, which keeps its state in a folder."""
    from rxtemporal.cli.serve import find_application

    return find_application(named, Settings().change("state", folder=folder, **state)).service


def serve(service: Service, times: range) -> None:
    """Serve for as long as it takes to push a row for each time."""
    service.start()
    source = service.sources["rows"]
    for time in times:
        source.push({"t": time, "temp": float(time)})
    process = service.process
    service.stop()
    assert process is not None
    assert process.wait(SOON)


def test_plan_shows_what_a_change_keeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each input, operator and output is kept, begins, or is given up."""
    folder = tmp_path / "run"
    serve(make_service(write(tmp_path, 30), folder), range(1, 38))
    changed = write(tmp_path, 20)
    assert main(["plan", str(folder), changed]) == 0
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines()]
    assert ["kept", "output", "count"] in [line[:3] for line in lines]
    assert ["changed", "output", "hot"] in [line[:3] for line in lines]
    assert "begins    operator  where (step 2) of 'rows'" in out
    assert "given up  operator  where (step 2) of 'rows'" in out
    assert "serve --evolve" in out
    refused = make_service(changed, folder)
    with pytest.raises(rxt.RxTemporalError, match=r"rxtemporal plan .*run FILE"):
        refused.start()
    service = make_service(changed, folder)
    service.evolve = True
    serve(service, range(38, 45))
    # rows are open from the CTI of the cut on, and the sink has what came before
    assert main(["plan", str(folder), changed]) == 0
    assert "nothing is lost" in capsys.readouterr().out


def test_a_change_from_an_earlier_time_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--replay-from`` of both commands names it, and ``plan`` shows the time of the cut."""
    folder = tmp_path / "run"
    for times in (range(1, 38), range(38, 62)):
        serve(make_service(write(tmp_path, 30), folder, keep_history="100us"), times)
    changed = write(tmp_path, 20)
    assert main(["plan", str(folder), changed, "--replay-from", "35"]) == 0
    out = capsys.readouterr().out
    assert ["kept", "input", "rows", "at", "35"] in [line.split() for line in out.splitlines()]
    assert "serve --evolve --replay-from 35" in out
    assert main(["plan", str(folder), changed, "--replay-from", "0"]) == 0
    assert "from its first row on" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["plan", str(folder), changed, "--replay-from", "yesterday"])
    assert "is not a valid time" in capsys.readouterr().err
    service = make_service(changed, folder, keep_history="100us")
    service.evolve, service.replay_from = True, 35
    serve(service, range(62, 75))


def test_plan_of_an_addition_says_that_no_flag_is_needed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A query that is added takes nothing away."""
    folder = tmp_path / "run"
    serve(make_service(write(tmp_path, 30), folder), range(1, 38))
    more = write(tmp_path, 30, 'app.query("all", rows)')
    assert main(["plan", str(folder), more]) == 0
    assert "without a flag" in capsys.readouterr().out
    serve(make_service(more, folder), range(38, 45))


def test_a_sink_is_added_and_removed_without_a_flag(tmp_path: Path) -> None:
    """It gets the results from then on, and the feed beside it keeps its rows."""
    from rxtemporal.cli.serve import find_application

    folder, file = tmp_path / "run", tmp_path / "counts.jsonl"
    named = write(tmp_path, 30)
    serve(make_service(named, folder), range(1, 38))
    for times in range(38, 55), range(55, 75):
        application = find_application(named, None).service._application
        assert application is not None
        settings = Settings().change("state", folder=folder)
        sinks = {"count": rxt.AppendFile(file, time="ticks")}
        serve(Service(application, settings, sinks), times)
    starts = [json.loads(line)["start_time"] for line in file.read_text().splitlines()]
    assert starts == [30, 40, 50, 60]
    alone = make_service(named, folder)
    serve(alone, range(75, 95))
    assert alone.feeds["count"].count == 9
    assert len(file.read_text().splitlines()) == 4


def test_plan_needs_a_folder_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without a run, and one whose run goes on, are errors that say what to do."""
    named = write(tmp_path, 30)
    assert main(["plan", str(tmp_path), named]) == 1
    assert "Hint: a service has the folder" in capsys.readouterr().err
    service = make_service(named, tmp_path / "run")
    service.start()
    assert main(["plan", str(tmp_path / "run"), named]) == 1
    assert "Hint" in capsys.readouterr().err
    service.stop()
