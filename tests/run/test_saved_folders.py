"""Folders that were saved by earlier releases are continued, or refused with what to do."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tarfile
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from saved_folder import MARKS, SAVED, TIMES, Results, make_house, run

import rxtemporal as rxt
from rxtemporal.errors import CheckpointError
from rxtemporal.storage.event_log.stored_log import FILE, FORMAT


def unpack(archive: Path, folder: Path) -> Results:
    """Put a saved folder in its place; return the results that its run had given."""
    # releases of Python 3.11 before 3.11.4 know no filters, and 3.12 warns where none is chosen
    options: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(archive) as packed:
        packed.extractall(folder, **options)
    results: Results = json.loads((folder / "results.json").read_text())
    (folder / "results.json").unlink()
    return results


@pytest.mark.parametrize("archive", sorted(SAVED.glob("*.tar.xz")), ids=lambda path: path.name)
def test_a_saved_folder_is_continued(archive: Path, tmp_path: Path) -> None:
    """The results are those of a run that nobody has stopped: those of the dead one included."""
    results = unpack(archive, tmp_path / "run")
    run(tmp_path / "run", results, range(MARKS[-1], TIMES.stop), stops=True)
    whole = Results()
    run(None, whole, TIMES, stops=True)
    assert results.keys() == whole.keys()
    for name, rows in whole.items():
        assert len(rows) > 5, name
        assert results[name] == rows, name


def test_there_is_a_folder_of_this_format() -> None:
    """The next release finds one to continue. ``saved_folder.py`` makes it."""
    assert (SAVED / f"format-{FORMAT}.tar.xz").exists()


def test_a_folder_of_a_later_release_is_refused(tmp_path: Path) -> None:
    """The error says what to do, and the folder stays as it is."""
    folder = tmp_path / "run"
    app, *_ = make_house()
    app.run(sinks={name: rxt.Collect() for name in app.queries}, resume=folder).stop()
    with closing(sqlite3.connect(folder / FILE)) as database:
        (content,) = database.execute("SELECT content FROM facts WHERE name = 'header'").fetchone()
        header = json.dumps(json.loads(content) | {"format": FORMAT + 1}).encode()
        crc = zlib.crc32(header, zlib.crc32(b"header"))
        database.execute(
            "UPDATE facts SET crc = ?, content = ? WHERE name = 'header'", (crc, header)
        )
        database.commit()
    shutil.copytree(folder, tmp_path / "before")
    app, *_ = make_house()
    with pytest.raises(
        CheckpointError, match=rf"has the format {FORMAT + 1}.*Hint: use the version"
    ):
        app.run(sinks={name: rxt.Collect() for name in app.queries}, resume=folder)
    for path in (tmp_path / "before").iterdir():
        assert path.read_bytes() == (folder / path.name).read_bytes()
