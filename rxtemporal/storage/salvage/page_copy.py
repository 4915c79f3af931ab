"""Copy of a run's file with the pages of its WAL, in which damaged pages are as they are."""

from __future__ import annotations

import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import numpy as np

from rxtemporal.storage.event_log.database import aside_wal, wal_path
from rxtemporal.storage.event_log.stored_log import TABLES
from rxtemporal.storage.event_log.wal import Wal, read_wal

_WAL_HEAD = 32
_MAGIC = b"SQLite format 3\0"


def copy_pages(file: Path, out: Path, *, all_frames: bool) -> None:
    """Write the file with its WAL to ``out``; without ``all_frames`` as SQLite sees both.

    With ``all_frames`` those behind a damaged one are taken, too, and a first page that is damaged
    is that of an empty file with the same tables.
    """
    if file.exists():
        shutil.copyfile(file, out)
    else:
        out.write_bytes(b"")
    wal = _find_wal(file, repair=all_frames)
    if wal is not None:
        _put_pages(wal, out, all_frames=all_frames)
    if all_frames:
        _repair_first_page(out)


def _find_wal(file: Path, *, repair: bool) -> Wal | None:
    places = [place for place in (aside_wal(file), wal_path(file)) if place.exists()]
    if not places:
        return None
    wal, content = read_wal(places[0]), places[0].read_bytes()
    if wal is not None or not repair or len(content) < _WAL_HEAD + 24:
        return wal
    # the page size of new files, and the salts of the first frame
    head = struct.pack(">4I", 0x377F0682, 3_007_000, 4_096, 0) + content[40:48] + bytes(8)
    return Wal(head + content[_WAL_HEAD:])


def _put_pages(wal: Wal, out: Path, *, all_frames: bool) -> None:
    frames = np.flatnonzero(wal.current) if all_frames else np.arange(wal.accepted)
    commits = np.flatnonzero(wal.sizes[frames])
    if not len(commits):
        return
    most = int(wal.sizes[frames].max())
    with open(out, "r+b") as file:
        for frame in frames[: commits[-1] + 1].tolist():
            number = int(wal.numbers[frame])
            if 0 < number <= most:
                file.seek((number - 1) * wal.page_size)
                file.write(wal.page(frame))


def _repair_first_page(out: Path) -> None:
    try:
        with closing(sqlite3.connect(f"{out.as_uri()}?mode=ro&immutable=1", uri=True)) as reader:
            found = reader.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
            if {sql for (sql,) in found} == {*TABLES}:
                return
    except (sqlite3.DatabaseError, UnicodeDecodeError):  # its messages quote what is damaged
        pass
    empty = out.with_name(f"{out.name}.empty")
    with closing(sqlite3.connect(empty)) as connection:
        for table in TABLES:
            connection.execute(table)
        connection.commit()
    page = bytearray(empty.read_bytes()[:4_096])
    empty.unlink()
    # the number of pages, and no free ones
    page[28:40] = struct.pack(">3I", out.stat().st_size // 4_096, 0, 0)
    with open(out, "r+b") as file:
        file.write(page)
