"""Parquet tables for a query's results, each segment exactly once."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import stat
import zlib
from pathlib import Path
from typing import ClassVar

import polars as pl

from rxtemporal.core.batch import END, START
from rxtemporal.core.events import EventShape
from rxtemporal.core.files import WriterLock, make_folder, publish, report_errors, sync_folder
from rxtemporal.core.spans import Span, span
from rxtemporal.errors import ArgumentError, SchemaError, SpoolError
from rxtemporal.spark.schema import arrow_schema, spool_schema
from rxtemporal.spark.targets.compaction import Compaction, delete_files, replace_files
from rxtemporal.spark.targets.manifest import (
    LAYOUT,
    Ledger,
    TableFile,
    find_aside,
    find_files,
    name_columns,
    name_file,
    read_layout,
)
from rxtemporal.spark.targets.parquet_files import (
    FileColumns,
    FileTask,
    cut_runs,
    find_codec,
    write_rows,
)
from rxtemporal.spark.targets.target import MicroBatch, Origin, Segments, Writer
from rxtemporal.storage.segments import SEGMENT


@dataclasses.dataclass(frozen=True, slots=True)
class ParquetTable:
    """A folder of Parquet files, to which each row is written exactly once, even after a crash.

    ``partition_by`` names a column: one of time (``start_time``, ``end_time`` or a payload field)
    partitions by its day as ``<name>_day=YYYY-MM-DD``, in UTC where it names an instant; any other
    payload field by its value, which is then in the folders' names instead of the files.

    A micro-batch makes at least one file in each folder that it has rows for. ``compact``, a span
    such as ``"1h"``, merges the files that a query has written in that time of the wall clock, into
    one file for each folder (of up to 256 MB), in the background and exactly once. By default
    nothing is merged.

    Several queries may write one table. ``rxtemporal.spark.read(path)`` reads whole micro-batches,
    each row once. ``spark.read.parquet(path)`` and ``polars.read_parquet(path)`` may see a part of
    a micro-batch in the moment in which it is published, and rows twice, or a missing file, in the
    moment in which a compaction replaces files. Beside the table, ``.<its name>.rxtemporal`` holds
    unpublished files and, for each query, the ledger: the number of the last published segment.
    Move or delete both together. Folders of the table may be deleted when their rows are too old.

    >>> ParquetTable("late_flights", partition_by="start_time", compact="1h").path.name
    'late_flights'
    """

    path: Path
    partition_by: str | None = None
    compact: Span | None = None

    shapes: ClassVar[frozenset[EventShape]] = frozenset({EventShape.INTERVAL, EventShape.POINT})
    runs_in_child: ClassVar[bool] = True
    shape_error: ClassVar[str] = (
        "a ParquetTable does not accept edges: an end edge changes a written row, and files cannot "
        "be updated. Hint: leave shape out: rows then come when they are complete; or use a "
        "DatabaseTable."
    )

    def __init__(
        self,
        path: str | os.PathLike[str],
        partition_by: str | None = None,
        compact: Span | None = None,
    ) -> None:
        text = os.fspath(path)
        if "://" in text:
            raise ArgumentError(
                f"ParquetTable takes a folder of a local or mounted file system, got {text!r}. "
                "Hint: an object store has no atomic rename; pass a function (df, batch_id) that "
                "writes there, with _segment as its key."
            )
        object.__setattr__(self, "path", Path(text).absolute())
        if compact is not None:
            span(compact, "compact", least=1)
        object.__setattr__(self, "partition_by", partition_by)
        object.__setattr__(self, "compact", compact)

    def open(self, origin: Origin) -> Writer:
        """Return the writer for a query, after undoing its unfinished publication.

        This reads each file's name once. ``SchemaError`` for a ``partition_by`` that is not a
        column, ``SpoolError`` for a ledger of another spool or a folder that cannot be written.
        """
        columns = {START: pl.Datetime("us", "UTC"), END: pl.Datetime("us", "UTC"), **origin.schema}
        if self.partition_by is not None and self.partition_by not in columns:
            raise SchemaError(
                f"partition_by names {self.partition_by!r}, and the columns are {list(columns)}"
            )
        if self.partition_by is not None and isinstance(columns[self.partition_by], pl.Binary):
            raise SchemaError(
                f"partition_by={self.partition_by!r} has the type Binary, whose values name no "
                "folders. Hint: a text, an integer, a date or a time does; "
                f"pl.col({self.partition_by!r}).bin.encode('hex') is a text."
            )
        day = f"{self.partition_by}_day"
        if self.partition_by is None or not isinstance(columns[self.partition_by], pl.Datetime):
            day = ""
        elif day.lower() in map(str.lower, columns):
            raise SchemaError(
                f"partition_by={self.partition_by!r} adds a column {day!r}, a field's name"
            )
        return _ParquetWriter(self, origin, day)


class _ParquetWriter:
    """Writer that lets tasks write files aside, moves them in, then replaces the ledger."""

    def __init__(self, table: ParquetTable, origin: Origin, day: str) -> None:
        self._table, self._origin, self._day = table, origin, day
        self._query = _file_name(origin.query)
        aside = find_aside(table.path)
        self._ledger_path = aside / f"{self._query}.json"
        self._stage = aside / f"{self._query}.stage"
        with report_errors(f"cannot open the table {table.path}"):
            make_folder(table.path.parent, private=False)
            make_folder(aside, private=False)
            # two spools may have a query of this name; before the first ledger only the lock tells
            self._lock = WriterLock(aside / f"{self._query}.lock")
        try:
            with report_errors(f"cannot open the table {table.path}"):
                self._ledger = self._read_ledger()
                self._check_layout(aside / LAYOUT)
                # others may read the table and its ledgers, as the umask says
                make_folder(table.path, private=False)
                self._make_readable(aside / LAYOUT)
                self._compaction = self._undo(aside / f"{self._query}.compact")
        except BaseException:
            self._lock.release()
            raise

    @property
    def last(self) -> int:
        """The last published segment."""
        return self._ledger.segment

    def write(self, batch: MicroBatch) -> None:
        """Publish the segments above the ledger."""
        if batch.last > self.last:
            staged = self._write_aside(batch)
            with report_errors(f"cannot publish in the table {self._table.path}"):
                files = self._move(staged, self.last + 1, batch.last)
                self._write_ledger(dataclasses.replace(self._ledger, segment=batch.last))
            shutil.rmtree(self._stage, ignore_errors=True)
            if self._compaction is not None:
                self._compaction.add(files)
        if self._compaction is not None:
            with report_errors(f"cannot compact the table {self._table.path}"):
                self._compact(self._compaction)

    def close(self) -> None:
        """Release the lock on the query's name."""
        if self._compaction is not None:
            self._compaction.close()
        self._lock.release()

    # Micro-batches --------------------------------------------------------------------------------

    def _write_aside(self, batch: MicroBatch) -> list[tuple[str, str]]:
        """Let tasks of Spark write the rows; return the folder and the path of each file."""
        with report_errors(f"cannot write beside the table {self._table.path}"):
            self._stage.mkdir(0o700, exist_ok=True)
            segments, rows = batch.lay_out(self.last, self._stage)
        context = batch.spark.sparkContext
        runs = cut_runs(rows, context.defaultParallelism)
        if not runs:
            return []
        codec = find_codec(batch.spark.conf.get("spark.sql.parquet.compression.codec", "snappy"))
        task = self._make_task(segments, codec)
        return sorted(context.parallelize(runs, len(runs)).mapPartitions(task).collect())

    def _make_task(self, segments: Segments, codec: str) -> FileTask:
        return FileTask(segments, self._find_columns(), str(self._stage), codec)

    def _find_columns(self) -> FileColumns:
        """Return the columns of the files."""
        from pyspark.sql import types as st

        name = self._table.partition_by
        fields = [field for field in spool_schema(self._origin.schema) if field.name != SEGMENT]
        types = {START: st.TimestampType(), END: st.TimestampType()}
        written = [st.StructField(each.name, types.get(each.name, each.dataType)) for each in fields
                   if self._day or each.name != name]  # fmt: skip
        read, metadata = arrow_schema(st.StructType(fields)), st.StructType(written).json()
        return FileColumns(read, metadata, name, self._day)

    def _write_columns(self, path: Path) -> None:
        """Write a file without rows, for readers of a table that has no rows yet."""
        import pyarrow as pa

        columns = self._find_columns()
        rows = columns.convert(pa.schema([*columns.schema, (SEGMENT, pa.int64())]).empty_table())
        if self._day:
            rows = rows.append_column(self._day, pa.array([], pa.date32()))
        part = path.with_name(f".{path.name}.part")
        write_rows(part, rows, columns, "none")
        os.replace(part, path)

    def _move(self, staged: list[tuple[str, str]], first: int, last: int) -> list[TableFile]:
        """Give files their names in the table, on disk before the ledger is replaced."""
        files, folders = list[TableFile](), {self._table.path}
        for number, (name, path) in enumerate(staged):
            folder = self._table.path / name
            folder.mkdir(exist_ok=True)
            file = folder / name_file(self._query, first, last, number)
            os.replace(path, file)
            folders.add(folder)
            files.append(TableFile(file, self._query, first, last, False))
        for folder in folders:
            sync_folder(folder)
        return files

    def _write_ledger(self, ledger: Ledger) -> None:
        ledger.write(self._ledger_path)
        self._ledger = ledger

    def _compact(self, compaction: Compaction) -> None:
        found = compaction.advance(self.last)
        if found is None:
            return
        merged, upto = found
        if not replace_files(merged):
            compaction.start_over()
            return
        self._write_ledger(dataclasses.replace(self._ledger, compacted=upto))
        delete_files([each for one in merged for each in one.files])
        compaction.finish()

    # Opening --------------------------------------------------------------------------------------

    def _read_ledger(self) -> Ledger:
        path, origin = self._ledger_path, self._origin
        ledger = Ledger(origin.query, origin.spool)
        if path.exists():
            ledger = Ledger.read(path)
            if ledger.spool != origin.spool:
                raise SpoolError(
                    f"the table {self._table.path} has rows of a query {origin.query!r} from "
                    "another spool. Hint: run it with the path it had, or give this query another "
                    f"name; to begin anew delete its files and {path}."
                )
        last, committed = ledger.segment, origin.committed
        if last and not self._table.path.exists():
            raise SpoolError(
                f"the table {self._table.path} is missing, and its ledger {path} ends at "
                f"segment {last}. Hint: restore the table beside its ledger, or delete "
                f"{path.parent} and the sink's path, and run the query again from its "
                "source."
            )
        if last < committed:
            raise SpoolError(
                f"the ledger {path} ends at segment {last}, and Spark has committed up to "
                f"{committed}: the table has lost rows that the spool no longer has. Hint: restore "
                "the table together with its ledger, or delete both and the sink's path, and run "
                "the query again from its source."
            )
        return ledger

    def _check_layout(self, path: Path) -> None:
        """Raise if ``partition_by`` differs from the table's: readers could not read both kinds."""
        given = self._table.partition_by
        if not path.exists():
            return
        found = read_layout(path)
        if found != given:
            raise ArgumentError(
                f"the table {self._table.path} was begun with partition_by={found!r}, got "
                f"{given!r}. Hint: leave it as it was, or give the table another path."
            )

    def _make_readable(self, layout: Path) -> None:
        """Write what readers need to know of a table, and let them look at its ledgers."""
        aside = layout.parent
        columns = name_columns(aside, self._query)
        if not columns.exists():
            self._write_columns(columns)
        # last, since readers take a table with it for complete
        if not layout.exists():
            entry = {"partition_by": self._table.partition_by}
            publish(layout, json.dumps(entry).encode(), private=False)
            sync_folder(aside)
        # an earlier version has made them private
        rights = stat.S_IMODE(self._table.path.stat().st_mode)
        for path in (layout, self._ledger_path):
            if path.exists():
                path.chmod(rights & 0o666)
        aside.chmod(rights)

    def _undo(self, aside: Path) -> Compaction | None:
        """Delete this query's files that its ledger does not include; return the compaction."""
        shutil.rmtree(self._stage, ignore_errors=True)
        shutil.rmtree(aside, ignore_errors=True)
        small, folders = list[TableFile](), set[Path]()
        for file in find_files(self._table.path):
            if file.query != self._query:
                continue
            if not file.counts(self._ledger):
                file.path.unlink()
                folders.add(file.path.parent)
            elif not file.is_compacted:
                small.append(file)
        # otherwise they could return after a power failure, when the ledger has passed them
        for folder in folders:
            sync_folder(folder)
        period = self._table.compact
        return None if period is None else Compaction(aside, span(period, "compact") / 1e6, small)


def _file_name(query: str) -> str:
    """Return a query's name as a part of a file name: unique, and visible to readers."""
    clean = re.sub(r"[^A-Za-z0-9_-]", "_", query)
    if clean == query and clean[:1] not in ("", "_", "-"):
        return clean
    return f"q{clean}-{zlib.crc32(query.encode()):08x}"
