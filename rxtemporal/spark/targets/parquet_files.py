"""Parquet files that tasks of Spark write from segments, without Java in between.

A task gets the numbers of some segments, reads them, and writes files into a folder aside, each
synced to disk under a name of its own. It returns their names: so a task that Spark repeats, or one
that ends late, leaves files that nobody moves into the table.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from rxtemporal.core.batch import END, START
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.spark.targets.target import Segments

if TYPE_CHECKING:
    import pyarrow as pa

# fewer rows cost less than a task, and a task makes a file of its own
ROWS_PER_TASK = 262_144
# a task with more bytes of rows writes them in several files
BYTES_PER_FILE = 256 << 20
# Spark's name for the folder of nulls, and of empty texts
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
# the key under which Spark keeps its own types in a file
_ROW_METADATA = b"org.apache.spark.sql.parquet.row.metadata"
# characters that Spark escapes in the names of folders
_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")


@dataclasses.dataclass(frozen=True)
class FileColumns:
    """Columns of a table's files: types of the rows as they are read, and what Spark calls them.

    ``partition`` is the column whose values name the folders; ``day``: it is the day of a time,
    under this name, and the time itself stays in the files.
    """

    schema: pa.Schema
    row_metadata: str
    partition: str | None = None
    day: str = ""

    def convert(self, rows: pa.Table) -> pa.Table:
        """Return the rows of a segment as the files have them."""
        import pyarrow as pa
        import pyarrow.compute as pc

        instant = pa.timestamp("us", "UTC")
        end = rows[END]
        ends = pc.if_else(pc.less(end, pa.scalar(MAX_TIME)), end, pa.scalar(None, pa.int64()))
        rows = rows.select(self.schema.names).cast(self.schema)
        for place, column in enumerate((rows[START], ends)):
            rows = rows.set_column(place, rows.schema.names[place], column.cast(instant))
        return rows

    def split(self, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        """Yield the rows of each folder, with the folder's name; "" is the table's own folder."""
        if self.partition is None:
            yield "", rows
            return
        column: Any = pl.from_arrow(rows[self.partition])
        key = column.dt.date() if self.day else column
        if key.dtype.is_float():
            key = key.cast(pl.String).replace({"inf": "Infinity", "-inf": "-Infinity"})
        frame = pl.DataFrame({"key": key, "row": pl.int_range(len(rows), eager=True)})
        rest = rows if self.day else rows.drop_columns([self.partition])
        for (value,), part in frame.partition_by("key", as_dict=True, maintain_order=True).items():
            folder = f"{_escape(self.day or self.partition)}={name_folder(value)}"
            yield folder, rest.take(part["row"].to_arrow())


@dataclasses.dataclass(frozen=True)
class FileTask:
    """Task that writes runs of segments into a folder aside; it can be pickled."""

    segments: Segments
    columns: FileColumns
    stage: str
    codec: str

    def __call__(self, runs: Iterable[list[int]]) -> Iterator[tuple[str, str]]:
        """Yield the folder in the table and the path of each file that has been written."""
        for numbers in runs:
            for rows in self._read(numbers):
                for folder, part in self.columns.split(rows):
                    yield folder, self._write(part)

    def _read(self, numbers: list[int]) -> Iterator[pa.Table]:
        """Yield the rows of some segments; those of several are together up to a size."""
        import pyarrow as pa

        held: list[pa.Table] = []
        for number in numbers:
            with pa.ipc.open_file(pa.py_buffer(self.segments.content(number))) as segment:
                held.append(self.columns.convert(segment.read_all()))
            if sum(each.nbytes for each in held) >= BYTES_PER_FILE:
                yield pa.concat_tables(held)
                held = []
        if held:
            yield pa.concat_tables(held)

    def _write(self, rows: pa.Table) -> str:
        path = f"{self.stage}/{uuid.uuid4().hex}.parquet"
        write_rows(path, rows, self.columns, self.codec)
        return path


def write_rows(path: str | Path, rows: pa.Table, columns: FileColumns, codec: str) -> None:
    """Write rows into a Parquet file with the types that Spark gives them."""
    import pyarrow as pa

    for place, field in enumerate(rows.schema):
        if pa.types.is_duration(field.type):  # Parquet has no such type
            rows = rows.set_column(place, field.name, rows[place].cast(pa.int64()))
    metadata = {_ROW_METADATA: columns.row_metadata.encode()}
    write_file(path, [rows], rows.schema.with_metadata(metadata), codec)


def write_file(path: str | Path, parts: Iterable[pa.Table], schema: pa.Schema, codec: str) -> None:
    """Write a Parquet file; it is on disk afterwards."""
    import pyarrow.parquet as pq

    # Arrow's own types in the file would differ from those that are in older files
    with pq.ParquetWriter(path, schema, compression=codec, store_schema=False) as writer:
        for rows in parts:
            writer.write_table(rows.replace_schema_metadata(schema.metadata))
        writer.add_key_value_metadata(schema.metadata or {})
    sync_file(path)


def sync_file(path: str | Path) -> None:
    """Wait until a file's content is on disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def cut_runs(rows: Mapping[int, int], tasks: int) -> list[list[int]]:
    """Return the segments that have rows as contiguous runs, at most one for each task."""
    numbers = [number for number, count in rows.items() if count]
    tasks = min(tasks, len(numbers), math.ceil(sum(rows.values()) / ROWS_PER_TASK))
    cuts = [len(numbers) * task // tasks for task in range(tasks + 1)] if tasks else [0]
    return [numbers[low:high] for low, high in itertools.pairwise(cuts)]


def find_codec(name: str) -> str:
    """Return Arrow's name for a codec of Spark's setting."""
    return {"none": "none", "uncompressed": "none", "lz4_raw": "lz4"}.get(name, name)


def name_folder(value: Any) -> str:
    """Return the part of a folder's name that says the value, as Spark writes it."""
    match value:
        case None | "" | b"":
            return NULL_FOLDER
        case bool():
            text = str(value).lower()
        case date():
            text = value.isoformat()
        case timedelta():
            text = _name_span(value)
        case bytes():
            text = value.decode(errors="replace")
        case _:
            text = str(value)
    return _escape(text)


def _name_span(span: timedelta) -> str:
    sign, span = ("-", -span) if span < timedelta() else ("", span)
    hours, seconds = divmod(span.seconds, 3600)
    text = f"{sign}{span.days} {hours:02}:{seconds // 60:02}:{seconds % 60:02}"
    fraction = f".{span.microseconds:06}".rstrip("0") if span.microseconds else ""
    return f"INTERVAL '{text}{fraction}' DAY TO SECOND"


def _escape(text: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)
