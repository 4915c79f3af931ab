"""Functions of files: what is on disk when they have returned, and their errors."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from rxtemporal.core.files import make_folder, report_errors
from rxtemporal.errors import SpoolError
from rxtemporal.spark import ParquetTable
from rxtemporal.spark.targets.target import Origin
from rxtemporal.storage.segments import SegmentWriter

SCHEMA = pl.Schema({"x": pl.Int64()})
Synced = Callable[[], set[Path]]


@pytest.fixture
def synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Synced:
    """The folders under the temporary one, and itself, that were synced."""
    nodes: set[int] = set()
    fsync = os.fsync

    def noting(handle: int) -> None:
        nodes.add(os.fstat(handle).st_ino)
        fsync(handle)

    def told() -> set[Path]:
        folders = [tmp_path, *(path for path in tmp_path.rglob("*") if path.is_dir())]
        return {folder.relative_to(tmp_path) for folder in folders if folder.stat().st_ino in nodes}

    monkeypatch.setattr("os.fsync", noting)
    return told


def test_folders_that_are_made_are_names_on_disk(tmp_path: Path, synced: Synced) -> None:
    """The folder above each one that was made is synced, and no other."""
    make_folder(tmp_path / "a" / "b" / "c")
    assert synced() == {Path(), Path("a"), Path("a/b")}


def test_a_folder_that_is_there_costs_nothing(tmp_path: Path, synced: Synced) -> None:
    """A folder that was made before is not synced again."""
    make_folder(tmp_path)
    assert synced() == set()


@pytest.mark.parametrize("what", ["spool", "table"])
def test_a_first_run_outlives_a_power_cut(tmp_path: Path, synced: Synced, what: str) -> None:
    """Every folder above a new spool or a new table has the name of the next one on disk."""
    path = tmp_path / "a" / "b" / "c"
    if what == "spool":
        SegmentWriter.open(path, "q", SCHEMA).close()
    else:
        ParquetTable(path).open(Origin("q", "id", SCHEMA, 0)).close()
    assert {Path(), Path("a"), Path("a/b")} <= synced()


def test_a_file_in_the_way_is_said(tmp_path: Path) -> None:
    """Where a file has the name, nothing is made."""
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "a")
    with pytest.raises(NotADirectoryError):
        make_folder(tmp_path / "a" / "b")


def test_a_broken_connection_is_no_error_of_a_file() -> None:
    """It is told as it is: what broke is another process, for example that of Spark."""
    with pytest.raises(ConnectionRefusedError), report_errors("cannot write beside the table"):
        raise ConnectionRefusedError
    denied = pytest.raises(SpoolError, match="cannot write beside the table")
    with denied, report_errors("cannot write beside the table"):
        raise PermissionError
