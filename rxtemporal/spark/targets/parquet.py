"""Parquet tables for a query's results, each segment exactly once."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import polars as pl

from rxtemporal.core.batch import END, START
from rxtemporal.core.events import EventShape
from rxtemporal.errors import ArgumentError, SchemaError, SpoolError
from rxtemporal.spark.schema import quote_name
from rxtemporal.spark.targets.target import Origin, Writer
from rxtemporal.storage.files import WriterLock, make_folder, publish, report_errors, sync_folder
from rxtemporal.storage.segments import SEGMENT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# no query's ledger has a name that begins with an underscore
LAYOUT = "_table.json"


@dataclasses.dataclass(frozen=True, slots=True)
class ParquetTable:
    """A folder of Parquet files, to which each row is written exactly once, even after a crash.

    ``partition_by`` names a column: one of time (``start_time``, ``end_time`` or a payload field)
    partitions by its day as ``<name>_day=YYYY-MM-DD``, in UTC where it names an instant; any other
    payload field by its value, which is then in the folders' names instead of the files.

    Several queries may write one table. A reader sees a micro-batch's files appear one after
    another. Beside the table, ``.<its name>.rxtemporal`` holds unpublished files and, for each
    query, the ledger: the number of the last published segment. Move or delete both together.
    Read it with ``spark.read.parquet(path)`` or ``polars.read_parquet(path)``.

    >>> ParquetTable("late_flights", partition_by="start_time").path.name
    'late_flights'
    """

    path: Path
    partition_by: str | None = None

    shapes: ClassVar[frozenset[EventShape]] = frozenset({EventShape.INTERVAL, EventShape.POINT})
    runs_in_child: ClassVar[bool] = True
    shape_error: ClassVar[str] = (
        "a ParquetTable does not accept edges: an end edge changes a written row, and files cannot "
        "be updated. Hint: leave shape out: rows then come when they are complete; or use a "
        "DatabaseTable."
    )

    def __init__(self, path: str | os.PathLike[str], partition_by: str | None = None) -> None:
        text = os.fspath(path)
        if "://" in text:
            raise ArgumentError(
                f"ParquetTable takes a folder of a local or mounted file system, got {text!r}. "
                "Hint: an object store has no atomic rename; pass a function (df, batch_id) that "
                "writes there, with _segment as its key."
            )
        object.__setattr__(self, "path", Path(text).absolute())
        object.__setattr__(self, "partition_by", partition_by)

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
        day = f"{self.partition_by}_day"
        if self.partition_by is None or not isinstance(columns[self.partition_by], pl.Datetime):
            day = ""
        elif day.lower() in map(str.lower, columns):
            raise SchemaError(
                f"partition_by={self.partition_by!r} adds a column {day!r}, a field's name"
            )
        return _ParquetWriter(self, origin, day)


class _ParquetWriter:
    """Writer that stages a micro-batch, moves its files in, then writes the ledger."""

    def __init__(self, table: ParquetTable, origin: Origin, day: str) -> None:
        self._table, self._origin, self._day = table, origin, day
        self._query = _file_name(origin.query)
        aside = table.path.with_name(f".{table.path.name}.rxtemporal")
        self._ledger = aside / f"{self._query}.json"
        self._stage = aside / f"{self._query}.stage"
        with report_errors(f"cannot open the table {table.path}"):
            make_folder(table.path.parent, private=False)
            make_folder(aside)
            # two spools may have a query of this name; before the first ledger only the lock tells
            self._lock = WriterLock(aside / f"{self._query}.lock")
        try:
            with report_errors(f"cannot open the table {table.path}"):
                self.last = self._read_ledger()
                self._check_layout(aside / LAYOUT)
                # others may read the table, as the umask says
                make_folder(table.path, private=False)
                self._undo()
        except BaseException:
            self.close()
            raise

    def write(self, frame: DataFrame, number: int, last: int) -> None:
        """Publish the segments above the ledger; the frame is executed even if there are none."""
        from pyspark.sql import functions as sf

        # A repeated batch has to run, too: a stateful operator before it would lose its state.
        self._store(self._with_day(frame.where(sf.col(SEGMENT) > self.last).drop(SEGMENT)))
        if last > self.last:
            with report_errors(f"cannot publish in the table {self._table.path}"):
                self._move(f"{self._query}-{self.last + 1:012d}-{last:012d}")
                self._write_ledger(last)
        shutil.rmtree(self._stage, ignore_errors=True)

    def close(self) -> None:
        """Release the lock on the query's name."""
        self._lock.release()

    def _with_day(self, frame: DataFrame) -> DataFrame:
        if not self._day:
            return frame
        return frame.withColumn(self._day, _make_day(frame, self._table.partition_by or ""))

    def _store(self, frame: DataFrame) -> None:
        # This session belongs to the micro-batch. Spark's own default has no time after 2262.
        frame.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        # whatever the session's setting is, earlier staged files are removed
        writer = frame.write.mode("overwrite").option("partitionOverwriteMode", "static")
        if self._table.partition_by is not None:
            writer = writer.partitionBy(self._day or self._table.partition_by)
        writer.parquet(f"file://{self._stage}")

    def _move(self, name: str) -> None:
        """Move the staged files into the table, on disk before the ledger is written."""
        folders = {self._table.path}
        for k, (staged, folder) in enumerate(self._list_staged()):
            folder.mkdir(parents=True, exist_ok=True)
            _sync(staged)
            os.replace(staged, folder / f"{name}-{k}.parquet")
            folders.update([folder, *self._list_parents(folder)])
        for folder in folders:
            sync_folder(folder)

    def _list_staged(self) -> Iterator[tuple[Path, Path]]:
        """Yield each staged file that has rows, and the table's folder that it belongs to."""
        import pyarrow.parquet as pq

        for staged in sorted(self._stage.rglob("*.parquet")):
            if pq.read_metadata(staged).num_rows:
                yield staged, self._table.path / staged.relative_to(self._stage).parent

    def _list_parents(self, folder: Path) -> list[Path]:
        return [up for up in folder.parents if up.is_relative_to(self._table.path)]

    def _write_ledger(self, last: int) -> None:
        entry = {"query": self._origin.query, "spool": self._origin.spool, "segment": last}
        publish(self._ledger, json.dumps(entry).encode())
        sync_folder(self._ledger.parent)
        self.last = last

    def _read_ledger(self) -> int:
        last, committed = 0, self._origin.committed
        if self._ledger.exists():
            try:
                entry = json.loads(self._ledger.read_bytes())
                last, spool = int(entry["segment"]), entry["spool"]
            except (ValueError, KeyError, TypeError) as error:
                raise SpoolError(
                    f"the ledger {self._ledger} is damaged. Hint: restore it from a copy, or "
                    "delete it together with this query's files and its spool, and run again."
                ) from error
            if spool != self._origin.spool:
                raise SpoolError(
                    f"the table {self._table.path} has rows of a query {self._origin.query!r} from "
                    "another spool. Hint: run it with the path it had, or give this query another "
                    f"name; to begin anew delete its files and {self._ledger}."
                )
        if last and not self._table.path.exists():
            raise SpoolError(
                f"the table {self._table.path} is missing, and its ledger {self._ledger} ends at "
                f"segment {last}. Hint: restore the table beside its ledger, or delete "
                f"{self._ledger.parent} and the sink's path, and run the query again from its "
                "source."
            )
        if last < committed:
            raise SpoolError(
                f"the ledger {self._ledger} ends at segment {last}, and Spark has committed up to "
                f"{committed}: the table has lost rows that the spool no longer has. Hint: restore "
                "the table together with its ledger, or delete both and the sink's path, and run "
                "the query again from its source."
            )
        return last

    def _check_layout(self, path: Path) -> None:
        """Raise if ``partition_by`` differs from the table's: readers could not read both kinds."""
        given = self._table.partition_by
        if path.exists():
            try:
                found = json.loads(path.read_bytes())["partition_by"]
            except (ValueError, KeyError, TypeError) as error:
                raise SpoolError(
                    f"{path} is damaged. Hint: delete it if the table has always had "
                    f"partition_by={given!r}."
                ) from error
            if found != given:
                raise ArgumentError(
                    f"the table {self._table.path} was begun with partition_by={found!r}, got "
                    f"{given!r}. Hint: leave it as it was, or give the table another path."
                )
            return
        publish(path, json.dumps({"partition_by": given}).encode())
        sync_folder(path.parent)

    def _undo(self) -> None:
        """Delete this query's files that its ledger does not include."""
        shutil.rmtree(self._stage, ignore_errors=True)
        name = re.compile(re.escape(self._query) + r"-(\d{12})-(\d{12})-\d+\.parquet")
        folders = set()
        for path in self._table.path.rglob("*.parquet"):
            match = name.fullmatch(path.name)
            if match and int(match[2]) > self.last:
                path.unlink()
                folders.add(path.parent)
        # otherwise they could return after a power failure, when the ledger has passed them
        for folder in folders:
            sync_folder(folder)


def _file_name(query: str) -> str:
    """Return a query's name as a part of a file name: unique, and visible to readers."""
    clean = re.sub(r"[^A-Za-z0-9_-]", "_", query)
    if clean == query and clean[:1] not in ("", "_", "-"):
        return clean
    return f"q{clean}-{zlib.crc32(query.encode()):08x}"


def _make_day(frame: DataFrame, name: str) -> Column:
    """Return the day of a time column: in UTC for an instant, whatever the session's zone is."""
    from pyspark.sql import functions as sf

    quoted = quote_name(name)
    if frame.schema[name].dataType.typeName() == "timestamp_ntz":
        return sf.to_date(sf.col(quoted))
    day = 86_400_000_000
    # whole numbers throughout: a double has no microsecond in the year 9999
    whole = f"(unix_micros({quoted}) - pmod(unix_micros({quoted}), {day})) div {day}"
    return sf.expr(f"date_add(DATE'1970-01-01', cast({whole} as int))")


def _sync(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
