"""Files of state: nobody but the user of the run can read them, whatever the umask is."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from runs import SOON, Log

import rxtemporal as rxt
from rxtemporal.serve.dead_letters import DeadLetter, DeadLetters
from rxtemporal.serve.settings import DeadLetterSettings
from rxtemporal.spark import ParquetTable
from rxtemporal.spark.targets.target import Origin
from rxtemporal.storage.salvage import salvage
from rxtemporal.storage.segments import Spool

ROWS = [{"t": number, "room": "hall"} for number in range(20)]


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    """Take no right away from new files: what they have is what they were given."""
    before = os.umask(0)
    yield
    os.umask(before)


def list_rights(folder: Path) -> dict[str, str]:
    """Return the rights of all files and folders under one, by their paths."""
    found = sorted(folder.rglob("*"))
    return {str(each.relative_to(folder)): stat.filemode(each.stat().st_mode) for each in found}


def are_private(folder: Path) -> bool:
    """Return True if there are files, and if others have no right on them and on the folders."""
    rights = list_rights(folder)
    allowed = set(rights.values()) == {"-rw-------", "drwx------"}
    assert allowed, rights
    return allowed


def push(folder: Path, way: str) -> rxt.Process:
    """Return a run into which rows have been pushed."""
    source = rxt.PushSource("rows", schema={"room": str}, start="t")
    process = source.stream.run(Log(), **{way: folder / "a" / "run"})
    source.push(ROWS)
    return process


@pytest.mark.parametrize("way", ["resume", "log", "record"])
def test_a_run_writes_private_files(tmp_path: Path, way: str) -> None:
    """While it runs, after its end and in a copy of it."""
    process = push(tmp_path, way)
    assert are_private(tmp_path)
    process.stop()
    assert are_private(tmp_path)
    salvage(tmp_path / "a" / "run", tmp_path / "copies" / "run")
    assert are_private(tmp_path)


def test_spilled_rows_are_private(tmp_path: Path) -> None:
    """Rows that wait on disk for the query are in private files."""
    goes_on = threading.Event()
    hand_off = rxt.HandOff(1, rxt.WhenFull.SPILL, path=tmp_path / "a" / "spill")
    source = rxt.PushSource("rows", schema={"room": str}, start="t", hand_off=hand_off)
    process = source.stream.run(Log(during={"write": lambda: goes_on.wait(SOON)}))
    try:
        for row in ROWS:
            source.push(row)
        assert any(path.suffix == ".arrow" for path in tmp_path.rglob("*"))
        assert are_private(tmp_path)
    finally:
        goes_on.set()
        process.stop()


def test_spools_and_dead_letters_are_private(tmp_path: Path) -> None:
    """What waits for Spark, and what was refused, is as private as what was accepted."""
    batch = rxt.EventBatch([5], [6], [0], pl.DataFrame({"room": ["hall"]}), rxt.MIN_TIME)
    with Spool.open(tmp_path / "a" / "spool", "q", batch.schema) as spool:
        spool.append(batch)
    letters = DeadLetters(DeadLetterSettings(folder=tmp_path / "b" / "letters"))
    letters.write([DeadLetter("rows", None, 0, "it is bad", b"{}")])
    letters.close()
    assert are_private(tmp_path)


def test_rights_that_were_given_stay(tmp_path: Path) -> None:
    """A folder and files that exist keep the rights that somebody has given them."""
    run = tmp_path / "a" / "run"
    push(tmp_path, "resume").stop()
    run.chmod(0o750)
    (run / "run.sqlite").chmod(0o640)
    process = push(tmp_path, "resume")
    rights = list_rights(tmp_path)
    process.stop()
    assert rights["a/run"] == "drwxr-x---"
    assert rights["a/run/run.sqlite"] == rights["a/run/run.sqlite-wal"] == "-rw-r-----"


def test_results_are_for_others_as_the_umask_says(tmp_path: Path) -> None:
    """A file or table of results is not a state: its rights are those of any file of the user."""
    ParquetTable(tmp_path / "a" / "table").open(Origin("q", "id", pl.Schema({"x": int}), 0)).close()
    frame = pl.DataFrame(ROWS)
    path = tmp_path / "rows.csv"
    rxt.from_polars(frame, start="t").run(rxt.File(path), resume=tmp_path / "run").wait(SOON)
    rights = list_rights(tmp_path)
    assert rights["rows.csv"] == "-rw-rw-rw-"
    assert rights["a"] == rights["a/table"] == "drwxrwxrwx"
    # readers of the table follow its ledgers
    assert rights["a/.table.rxtemporal"] == "drwxrwxrwx"
    assert rights["a/.table.rxtemporal/q.lock"] == "-rw-------"
