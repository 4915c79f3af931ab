"""Compaction: the small files of a table are merged into large ones, in the background.

A thread merges files aside while micro-batches go on. Between two of them the writer replaces the
small files: the large ones get their names, the ledger is replaced, and the small ones are deleted.
A crash before the ledger leaves the small files, a crash after it the large ones.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import threading
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from rxtemporal.core.files import make_folder, sync_folder
from rxtemporal.core.log import get_logger
from rxtemporal.errors import SpoolError
from rxtemporal.spark.targets.manifest import TableFile, name_file
from rxtemporal.spark.targets.parquet_files import sync_file, write_file

if TYPE_CHECKING:
    import pyarrow as pa

log = get_logger(__name__)

# files are merged up to this size in bytes; a larger one stays
FILE_BYTES = 256 << 20
# rows that are compressed together
GROUP_ROWS = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class Merged:
    """A large file aside, the name that it gets, and the small files that it replaces."""

    aside: Path
    path: Path
    files: tuple[TableFile, ...]


class Compaction:
    """The small files of a query, which are merged when the oldest one is older than a period.

    The period is one of the wall clock, since the number of files depends on it: each trigger of
    Spark makes some, however much application time they span. Not thread-safe; only merging is in
    a thread of its own.
    """

    def __init__(self, aside: Path, seconds: float, small: list[TableFile]) -> None:
        self._aside, self._seconds, self._small = aside, seconds, small
        self._since = min((each.path.stat().st_mtime for each in small), default=time.time())
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._merged: list[Merged] | None = None
        self._upto = 0

    def add(self, files: list[TableFile]) -> None:
        """Add files that have been published."""
        if not self._small:
            self._since = time.time()
        self._small += files

    def advance(self, last: int) -> tuple[list[Merged], int] | None:
        """Return what replaces all small files up to a segment, once that is merged.

        Begins to merge the files up to ``last`` when they are due.
        """
        if self._thread is None:
            if self._is_due():
                self._upto, self._merged = last, None
                self._thread = threading.Thread(
                    target=self._run, args=([*self._small],), name="rxtemporal-compact", daemon=True
                )
                self._thread.start()
            return None
        if self._thread.is_alive():
            return None
        self._thread = None
        if self._merged is None:  # it has failed, and is tried again after a period
            self._since = time.time()
            return None
        return self._merged, self._upto

    def finish(self) -> None:
        """Forget the small files that have been replaced."""
        self._small = [each for each in self._small if each.first > self._upto]
        self._since = time.time()
        shutil.rmtree(self._aside, ignore_errors=True)

    def start_over(self) -> None:
        """Forget files that somebody has deleted, and what was merged of them."""
        self._small = [each for each in self._small if each.path.exists()]
        shutil.rmtree(self._aside, ignore_errors=True)

    def close(self) -> None:
        """Break off; what was merged aside is deleted."""
        self._stopping = True
        if self._thread is not None:
            self._thread.join()
        shutil.rmtree(self._aside, ignore_errors=True)

    def _is_due(self) -> bool:
        folders = {each.path.parent for each in self._small}
        return time.time() - self._since >= self._seconds and len(self._small) > len(folders)

    def _run(self, small: list[TableFile]) -> None:
        try:
            shutil.rmtree(self._aside, ignore_errors=True)
            make_folder(self._aside)
            merged = []
            for number, files in enumerate(_group(small)):
                if self._stopping:
                    return
                merged.append(merge(self._aside / f"{number}.parquet", files, number))
            self._merged = merged
        except Exception as error:
            # the rows are safe in the small files, and the query goes on
            log.warning("spark_table.compaction_failed", folder=str(self._aside), error=repr(error))


def replace_files(merged: list[Merged]) -> bool:
    """Give merged files their names in the table; return False if somebody has deleted some."""
    small = [each for one in merged for each in one.files]
    if not all(each.path.exists() for each in small):
        return False
    for one in merged:
        os.replace(one.aside, one.path)
    for folder in {one.path.parent for one in merged}:
        sync_folder(folder)
    return True


def delete_files(files: list[TableFile]) -> None:
    """Delete files that do not count any more."""
    for each in files:
        each.path.unlink(missing_ok=True)
    # otherwise they could return after a power failure, for readers who follow no ledger
    for folder in {each.path.parent for each in files}:
        if folder.exists():
            sync_folder(folder)


def merge(aside: Path, files: tuple[TableFile, ...], number: int) -> Merged:
    """Write the rows of files of one folder into one file aside; it is on disk afterwards."""
    first, last = files[0], max(each.last for each in files)
    name = name_file(first.query, first.first, last, number, is_compacted=True)
    if len(files) > 1:
        _write_merged(aside, files)
    else:
        try:
            os.link(first.path, aside)
        except OSError:  # a file system without links
            shutil.copyfile(first.path, aside)
            sync_file(aside)
    return Merged(aside, first.path.with_name(name), files)


def _group(small: list[TableFile]) -> Iterator[tuple[TableFile, ...]]:
    """Yield the files of each folder, in order of their segments, in groups of a large file."""
    small = sorted(small, key=lambda each: (each.path.parent, each.first, each.path))
    for _, files in groupby(small, key=lambda each: each.path.parent):
        group, size = list[TableFile](), 0
        for each in files:
            more = each.path.stat().st_size
            if group and size + more > FILE_BYTES:
                yield tuple(group)
                group, size = [], 0
            group.append(each)
            size += more
        yield tuple(group)


def _write_merged(aside: Path, files: tuple[TableFile, ...]) -> None:
    import pyarrow.parquet as pq

    begin = pq.read_metadata(files[0].path)
    schema, codec = pq.read_schema(files[0].path), begin.row_group(0).column(0).compression
    write_file(aside, _read_large(files, schema), schema, codec)
    before = sum(pq.read_metadata(each.path).num_rows for each in files)
    if pq.read_metadata(aside).num_rows != before:
        raise SpoolError(f"{aside} has not the {before} rows that it was made of")


def _read_large(files: tuple[TableFile, ...], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of files in parts that are large enough for a group of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    held, count = list[pa.Table](), 0
    for each in files:
        with pq.ParquetFile(each.path) as file:
            rows = file.read().cast(schema)
        held.append(rows)
        count += len(rows)
        if count >= GROUP_ROWS:
            yield pa.concat_tables(held)
            held, count = [], 0
    if held:
        yield pa.concat_tables(held)
