"""Files of the formats before the present one: they are read, verified and continued."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from damaged_folders import EVENTS, RESULTS, Run, make_folders, recover

from rxtemporal.storage.event_log.stored_log import _NUMBERS, checksum
from rxtemporal.storage.salvage import inspect


def make_old(folder: Path) -> Path:
    """Rewrite a closed folder in format 1: checksums without the id, pieces without a number."""
    (folder / "run.sqlite-records").unlink()
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection:
        facts = dict(connection.execute("SELECT name, content FROM facts"))
        header = {**json.loads(facts["header"]), "format": 1}
        del header["saves"]
        facts["header"] = json.dumps(header).encode()
        if "checkpoint" in facts:
            checkpoint = json.loads(facts["checkpoint"])
            save = checkpoint.pop("save")
            facts["checkpoint"] = json.dumps(checkpoint).encode()
            facts["checkpoint 0"] = facts.pop(f"checkpoint {save}.0")
        rows = [
            (name, checksum(content, name.encode()), content) for name, content in facts.items()
        ]
        connection.execute("DELETE FROM facts")
        connection.executemany("INSERT INTO facts VALUES (?, ?, ?)", rows)
        query = "SELECT id, stream, first, records, content FROM parts"
        for number, *numbers, content in connection.execute(query).fetchall():
            crc = checksum(content, _NUMBERS.pack(*numbers))
            connection.execute("UPDATE parts SET crc = ? WHERE id = ?", (crc, number))
        connection.commit()
        connection.execute("PRAGMA journal_mode = DELETE")
    return folder


def make_second(folder: Path) -> Path:
    """Rewrite a closed folder in format 2: all entries are frames, as they are once merged."""
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection:
        query = "SELECT content FROM facts WHERE name = 'header'"
        ((content,),) = connection.execute(query).fetchall()
        header = json.dumps({**json.loads(content), "format": 2}).encode()
        new = checksum(header, b"header"), header
        connection.execute("UPDATE facts SET crc = ?, content = ? WHERE name = 'header'", new)
        connection.commit()
    return folder


def list_contents(folder: Path) -> list[bytes]:
    """Return the contents of a log's entries; its WAL is copied into the file."""
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection:
        rows = connection.execute("SELECT content FROM parts WHERE stream >= 0").fetchall()
    return [content for (content,) in rows]


@pytest.mark.parametrize("way", ["log", "resume"])
@pytest.mark.parametrize("make", [None, make_second, make_old])
def test_a_file_is_continued_in_its_format(way: str, make: Any, tmp_path: Path) -> None:
    """Two events that are pushed are JSON in a file of this format, and frames in others."""
    folder = shutil.copytree(make_folders(way).closed, tmp_path / "folder")
    if make is not None:
        make(folder)
    run = Run(folder, way).push(EVENTS, EVENTS + 2)
    killed, listed = (shutil.copytree(folder, tmp_path / name) for name in ("killed", "listed"))
    run.process.dispose()
    found = [content[:1] == b"{" for content in list_contents(listed)]
    assert found[-2:] == [make is None] * 2
    assert recover(killed, way)[0]["n"] == EVENTS + 2


@pytest.mark.parametrize("way", ["log", "resume"])
def test_a_file_of_the_first_format_is_continued(way: str, tmp_path: Path) -> None:
    """With the same results, and with checkpoints of its own afterwards."""
    folder = make_old(shutil.copytree(make_folders(way).closed, tmp_path / "folder"))
    found = inspect(folder)
    assert (found.damage, found.lost) == ("", [])
    assert recover(folder, way) == RESULTS
    assert inspect(folder).damage == ""


@pytest.mark.parametrize("way", ["log", "resume"])
def test_a_file_of_the_first_format_is_verified(way: str, tmp_path: Path) -> None:
    """A checksum that does not fit is found there, too."""
    folder = make_old(shutil.copytree(make_folders(way).closed, tmp_path / "folder"))
    with closing(sqlite3.connect(folder / "run.sqlite")) as connection:
        table = "parts" if way == "log" else "facts"
        connection.execute(f"UPDATE {table} SET crc = crc + 1")
        connection.commit()
    assert recover(folder, way) is None
