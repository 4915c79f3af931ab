"""``rxtemporal inspect``: what a folder has, what is damaged, and a copy of what is whole."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal.cli.main import main
from rxtemporal.core.batch import EventBatch
from rxtemporal.storage.segments import Spool


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """An event log of three points and, from a second run, one more; closed."""
    for times in range(3), range(3, 4):
        subject: Subject[Any] = Subject()
        stream = rxt.from_observable(subject, name="live", schema={"x": int})
        process = stream.run(rxt.Collect(), log=tmp_path / "log", name="house")
        for time in times:
            subject.on_next(rxt.PointEvent(time, {"x": time}))
        process.dispose()
    return tmp_path / "log"


def test_a_whole_folder_is_described(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What it is, its streams, how much it has."""
    assert main(["inspect", str(log)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "folder of log=, run 'house', closed",
        "  stream 'live': point",
        "  4 records are whole",
    ]


def test_what_is_lost_is_said_and_the_rest_copied(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The copy is a folder like the one it was made from; the status tells that that is damaged."""
    out = tmp_path / "out"
    with closing(sqlite3.connect(log / "run.sqlite")) as connection:
        connection.execute("UPDATE parts SET crc = crc + 1 WHERE first = 0 AND stream = 0")
        connection.commit()
    assert main(["inspect", str(log), "--salvage", str(out)]) == 1
    damage = "the checksum of the records from 0 of stream 0 does not fit."
    assert capsys.readouterr().out.splitlines()[2:] == [
        "  1 records are whole",
        f"DAMAGED: {log}/run.sqlite is damaged: {damage}",
        "  lost: records 0 to 2 of stream 'live' (3 records among them)",
        f"copied to {out}: 1 records",
    ]
    assert main(["inspect", str(out)]) == 0


def test_what_is_no_folder_of_a_run_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to do."""
    assert main(["inspect", str(tmp_path)]) == 1
    assert "is not a folder of log=, resume= or record=" in capsys.readouterr().err


def test_a_spool_is_inspected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its own folder or that of the sink; a damaged segment is named; it is not copied."""
    batch = EventBatch.from_dicts([{"start_time": 1, "x": 1}, {"start_time": 2, "x": 2}], cti=5)
    with Spool.open(tmp_path / "sink" / "spool", "q", batch.schema) as spool:
        spool.append(batch)
        spool.append(batch.replace(cti=9))
    assert main(["inspect", str(tmp_path / "sink")]) == 0
    out = capsys.readouterr().out
    assert "spool of query 'q'" in out
    assert "segments: 2 wait to be read, 0 were read" in out
    assert "4 records are whole" in out
    assert main(["inspect", str(tmp_path / "sink"), "--salvage", str(tmp_path / "o")]) == 1
    assert "is a spool, which is not copied" in capsys.readouterr().err
    segment = min((tmp_path / "sink" / "spool").glob("*.arrow"))
    segment.write_bytes(b"x" * segment.stat().st_size)
    assert main(["inspect", str(tmp_path / "sink" / "spool")]) == 1
    out = capsys.readouterr().out
    assert "DAMAGED" in out
    assert "lost: segment 1" in out
    assert "2 records are whole" in out
