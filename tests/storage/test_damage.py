"""Damage to the files of a run: recovery is whole or refused, and never silently short.

Each file of the folder of ``log=``, ``resume=`` and ``record=`` is changed in each way, after a
kill and after the run was closed.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path

import pytest
from damaged_folders import FAULTS, RESULTS, WAYS, list_damage, make_folders, recover
from products import draw_product

from rxtemporal.errors import SpoolError
from rxtemporal.storage.event_log.database import Database


def read_files(folder: Path) -> dict[str, bytes]:
    """Return what the files of a folder have, but for the lock."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def try_each(way: str, state: str, fault: str, count: int) -> int:
    """Recover after each change of each file; return how many were refused, and left as found."""
    refused = 0
    for place, folder in list_damage(way, state, fault, count):
        changed = read_files(folder)
        there = recover(folder, way)
        assert there in (None, RESULTS), place
        if there is None:
            refused += 1
            assert read_files(folder) == changed, place
    return refused


@pytest.mark.parametrize(
    ("way", "state", "fault"),
    draw_product(WAYS, ["killed", "closed"], [*FAULTS, "replace"], together=2),
)
def test_recovery_is_whole_or_refused(way: str, state: str, fault: str) -> None:
    """Whichever file is changed, and where. A bit may be in a page that is not in use."""
    refused = try_each(way, state, fault, 3)
    assert refused or fault == "flip"


@pytest.mark.full
@pytest.mark.parametrize("fault", ["flip", "cut", "zero"])
@pytest.mark.parametrize("state", ["killed", "closed"])
@pytest.mark.parametrize("way", WAYS)
def test_recovery_is_whole_or_refused_anywhere(way: str, state: str, fault: str) -> None:
    """At many places of each file."""
    assert try_each(way, state, fault, 150) > 10


@pytest.mark.parametrize("state", ["killed", "closed"])
@pytest.mark.parametrize("way", WAYS)
def test_what_is_not_changed_is_recovered(way: str, state: str, tmp_path: Path) -> None:
    """The copies are whole, and what lies beside them without belonging to them does no harm."""
    folders = make_folders(way)
    whole = folders.killed if state == "killed" else folders.closed
    folder = shutil.copytree(whole, tmp_path / "copy")
    if way != "record":
        (folder / "run.sqlite-shm").write_bytes(b"\1" * 32_768)
    (folder / "lock").write_bytes(b"4711")
    assert recover(folder, way) == RESULTS


def test_a_damaged_name_is_damage(tmp_path: Path) -> None:
    """SQLite quotes the name in its message, which is then no text."""
    path = tmp_path / "run.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE facts (name TEXT)")
        made.commit()
    path.write_bytes(path.read_bytes().replace(b"facts", b"fac\xf3s", 1))
    with (
        contextlib.closing(Database(path, "read")) as database,
        pytest.raises(SpoolError, match=r"is damaged: .* Hint: .*--salvage"),
    ):
        database.row("SELECT name FROM facts")
