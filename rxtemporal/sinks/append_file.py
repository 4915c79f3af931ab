"""Sink that appends rows to files, for streams that never end."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import os
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import numpy as np
import polars as pl

from rxtemporal.core.batch import END, START, EventBatch, TimeForm
from rxtemporal.core.files import open_alone, remove, take_name
from rxtemporal.core.safe_text import brief
from rxtemporal.core.spans import span
from rxtemporal.core.ticks import MAX_TIME, add, to_datetime
from rxtemporal.engine.codec import Captured, loads
from rxtemporal.errors import ArgumentError, CheckpointError, SchemaError, SpoolError
from rxtemporal.sinks.formats import check_types, find_format, find_writer, publish_own_parquet
from rxtemporal.sinks.marks import WriterMark
from rxtemporal.sinks.sink import ReadySink

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kMG])B\s*")
_UNITS = {"k": 10**3, "M": 10**6, "G": 10**9}
# the name of a part behind the name of the file: a number, or the time at which it begins
_PART = re.compile(r"-(-?\d{6,}|\d{4}-\d\d-\d\d(T\d{6})?)(-\d+)?")
# rows of a Parquet file unless roll= says otherwise, and of a piece that is written at once
PARQUET_ROWS, PIECE = 1_000_000, 65_536
_DAY = 86_400_000_000
# so many files are open at once
MOST_OPEN = 64
# the value of a null in the name of a folder, as in Hive
_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclasses.dataclass(frozen=True, slots=True)
class Roll:
    """Limit of a file: rows, bytes or a span of application time; None is no limit."""

    rows: int | None = None
    size: int | None = None
    span: int | None = None

    @classmethod
    def parse(cls, given: object) -> Roll:
        """Return what ``roll=`` gives; ``ArgumentError`` if it is none of the three.

        >>> Roll.parse("64MB").size, Roll.parse(10).rows, Roll.parse("1d").span == _DAY
        (64000000, 10, True)
        """
        if given is None:
            return cls()
        if isinstance(given, int) and not isinstance(given, bool) and given > 0:
            return cls(rows=given)
        if isinstance(given, str):
            if (size := _SIZE.fullmatch(given)) is not None:
                return cls(size=max(1, int(float(size[1]) * _UNITS[size[2]])))
            return cls(span=span(given, "roll", least=1))
        raise ArgumentError(
            "roll is a span such as '1d', a size such as '64MB' or a positive number of rows, got "
            f"{given!r}"
        )


@dataclasses.dataclass(slots=True)
class _FilePart:
    """A file that is written: its name, the number or time behind it, and what it has.

    ``folder`` is that of its partition, from that of the sink's path on; empty without partitions.
    ``length`` is in bytes: of a Parquet file, those of its rows in memory, which are ``held``.
    Others are kept out while the file is open. ``mark`` says since when this run writes it;
    ``is_marked``: the file has it, without its end.
    """

    folder: str
    name: str
    label: int
    length: int = 0
    rows: int = 0
    held: list[pl.DataFrame] = dataclasses.field(default_factory=list)
    file: BinaryIO | None = None
    mark: WriterMark | None = None
    is_marked: bool = False

    @property
    def path(self) -> str:
        """The path from the folder of the sink's path on."""
        return f"{self.folder}/{self.name}" if self.folder else self.name

    @property
    def facts(self) -> tuple[str, str, int, int, int]:
        """All but the rows that are held and the file that is open, as plain values."""
        return self.folder, self.name, self.label, self.length, self.rows

    def join(self) -> pl.DataFrame | None:
        """Return the rows that are held, as one frame."""
        if len(self.held) > 1:
            self.held = [pl.concat(self.held)]  # the next state need not join them again
        return self.held[0] if self.held else None

    def open(self, path: Path) -> int:
        """Open the file for this sink alone, and return its length."""
        self.file = open_alone(path)
        return self.measure()

    def measure(self) -> int:
        """Return the length of the open file, which others may have changed."""
        assert self.file is not None
        return os.fstat(self.file.fileno()).st_size

    def is_deleted(self) -> bool:
        """Return True if the open file has no name any more, so that nobody will find its rows."""
        assert self.file is not None
        return os.fstat(self.file.fileno()).st_nlink == 0

    def put_mark(self, mark: WriterMark) -> None:
        """Mark the open file as one that the run writes."""
        assert self.file is not None
        self.mark, self.is_marked = mark._replace(end=None), True
        self.mark.write(self.file.fileno())

    def close(self) -> None:
        """Write to the disk what the file has, say where it ends, and close it."""
        file, self.file = self.file, None
        if file is None:
            return
        with file:
            file.flush()
            if self.is_marked and self.mark is not None:
                self.mark._replace(end=self.length).write(file.fileno())
                self.is_marked = False
            os.fsync(file.fileno())


class _Partitions:
    """Partitions of results: a folder for each value of a column, or each day of a column of time.

    >>> frame = pl.DataFrame({"room": ["a/b", None]})
    >>> _Partitions("room").list_folders(frame).to_list()
    ['room=a%2Fb', 'room=__HIVE_DEFAULT_PARTITION__']
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._is_day = name in (START, END)

    def check(self, schema: pl.Schema) -> None:
        """Raise unless the results have such a column, of a type that names folders."""
        columns = {START: pl.Datetime("us", "UTC"), END: pl.Datetime("us", "UTC"), **schema}
        if self.name not in columns:
            raise SchemaError(
                f"partition_by names {self.name!r}, which no column of the results has; they are "
                f"{list(columns)}. Hint: select() adds fields."
            )
        dtype = columns[self.name]
        self._is_day = isinstance(dtype, pl.Datetime)
        if isinstance(dtype, (pl.Float32, pl.Float64, pl.Binary, pl.Duration, pl.List)):
            raise SchemaError(
                f"partition_by={self.name!r} has the type {dtype}, whose values name no folders. "
                "Hint: a text, an integer, a date or a time does."
            )
        if self._is_day and f"{self.name}_day" in columns:
            raise SchemaError(
                f"partition_by={self.name!r} adds a column '{self.name}_day', a field's name. "
                "Hint: rename the field with select()."
            )

    @property
    def key(self) -> str:
        """The name in front of the values in the names of folders."""
        return f"{self.name}_day" if self._is_day else self.name

    def list_folders(self, frame: pl.DataFrame) -> pl.Series:
        """Return the folder of each row."""
        values = frame[self.name]
        if self._is_day:
            if values.dtype.is_integer():
                raise ArgumentError(
                    f"partition_by={self.name!r} partitions by days, and the times of this stream "
                    "are ticks. Hint: partition by a field; or name the unit of the times, as in "
                    "unit='s'."
                )
            values = values.dt.date()
        names = values.unique()
        texts = [_NULL if each is None else quote(each, "") for each in names.cast(pl.String)]
        folders = pl.Series([f"{self.key}={text}" for text in texts], dtype=pl.String)
        return values.replace_strict(names, folders, return_dtype=pl.String)

    def strip(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows as the files have them: without the values that their folders name."""
        return frame if self._is_day else frame.drop(self.name)


class AppendFile(ReadySink):
    """Sink that appends rows to a file, or to several; in a run with ``resume=`` each row once.

    The suffix of ``path`` is ``.csv``, or ``.json``, ``.jsonl`` or ``.ndjson`` for JSON lines. Such
    a file grows with each batch, and all of its lines are whole, but the one that is just written.
    Or it is ``.parquet``: then rows are held in memory until a file is complete, and the file
    appears at once.

    ``roll`` is the limit of a file:

    * a number of rows, ``100_000``, or a size, ``"64MB"``, which a file may exceed by the rows that
      came together. ``rows.jsonl`` becomes ``rows-000001.jsonl``, ``rows-000002.jsonl`` and so on;
    * a span of application time, ``"1d"``: a file has the rows that start in it, and is named by
      its beginning, ``rows-2026-05-04.jsonl``, in UTC, or by the tick;
    * None: one file, ``path`` itself; Parquet files have a million rows.

    ``partition_by`` names a column, for each of whose values there is a folder beside ``path``, as
    Hive has them: ``room=attic/rows.jsonl``; such a column is not in the files. Of one of time
    (``start_time``, ``end_time`` or a field) the days in UTC have folders,
    ``start_time_day=2026-05-04/rows.jsonl``. ``roll`` is the limit of each file of each folder.

    A file of a span, or of a day of ``start_time``, is complete when the CTI passes its end.

    A file that exists is continued, or, if files have numbers or are Parquet, the next one is
    begun. ``SchemaError``: a CSV file that exists has other columns. Several runs may write files
    with numbers, or Parquet files, at the same time; ``SpoolError``: another file is being written,
    or has been changed by others.

    A run that is resumed cuts off what it wrote after its checkpoint, and writes it again, perhaps
    in other files; for a program that reads the files meanwhile, use ``ParquetFolder``.
    ``CheckpointError``: others have written behind its position. When a run fails or is stopped,
    files keep the rows so far. ``time`` is as in ``Print``.

    >>> import tempfile
    >>> import rxtemporal as rxt
    >>> folder = tempfile.TemporaryDirectory()
    >>> sink = rxt.AppendFile(f"{folder.name}/rows.jsonl", roll=2)
    >>> with rxt.from_events([rxt.PointEvent(t, {"x": t}) for t in range(3)]).run(sink):
    ...     pass
    >>> for path in sorted(Path(folder.name).iterdir()):
    ...     print(path.name, path.read_text().split())
    rows-000001.jsonl ['{"start_time":0,"end_time":1,"x":0}', '{"start_time":1,"end_time":2,"x":1}']
    rows-000002.jsonl ['{"start_time":2,"end_time":3,"x":2}']
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        roll: str | int | None = None,
        *,
        partition_by: str | None = None,
        time: TimeForm | None = None,
    ) -> None:
        super().__init__(time)
        self.path = Path(path)
        self._format = find_format(self.path)
        self._roll = Roll.parse(roll)
        if self._format == "parquet" and roll is None:
            self._roll = Roll(rows=PARQUET_ROWS)
        if not isinstance(partition_by, str | None) or partition_by == "":
            raise ArgumentError(f"partition_by is the name of a column, got {partition_by!r}")
        self._partitions = None if partition_by is None else _Partitions(partition_by)
        # the files that are written, by folder and then by the number or time behind their names
        self._parts: dict[str, dict[int, _FilePart]] = {}
        # those that are open, the one written last at the end
        self._open: dict[str, _FilePart] = {}
        # the paths of the files at a checkpoint that is loaded
        self._loaded: list[str] | None = None
        self._in_checkpoint = False
        # the id of the run, and how many states it has saved
        self._run, self._saves = "", 0
        # True while the state that is loaded is one of an earlier version, without an id
        self._is_earlier = False
        # the first line of a CSV file
        self._header = b""

    def open(self, query: str, schema: pl.Schema) -> None:
        """Open the file, and cut off the rows written after the checkpoint."""
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                2, "the folder of the result file does not exist", str(self.path.parent)
            )
        if self._partitions is not None:
            self._partitions.check(schema)
        columns = self._empty(schema)
        check_types(self.path, columns.schema)
        self._header = _make_header(columns)
        self._open = {}
        names, self._loaded = self._loaded, None
        if self._is_earlier:  # the same whenever the run is resumed, until it is saved again
            self._run = hashlib.sha256(f"{query}\0{self._run}".encode()).hexdigest()[:32]
        if names is None:
            self._parts, self._in_checkpoint = {}, False
            self._run, self._saves = uuid.uuid4().hex, 0
            if self._is_single and self._partitions is None:
                self._begin("", 0)
            return
        try:
            self._restore(names)
        except BaseException:
            for part in self._list_parts():
                part.close()
            raise

    def write(self, batch: EventBatch) -> None:
        """Append the rows; begin the next file where the limit says so."""
        for folder, rows in self._split(batch):
            for part, piece in self._cut(folder, rows):
                frame = piece.to_polars(self._form())
                if self._partitions is not None:
                    frame = self._partitions.strip(frame)
                if self._format == "parquet":
                    part.held.append(frame)
                    part.length += int(frame.estimated_size())
                else:
                    self._append(frame, part)
                part.rows += len(piece)
                if self._is_full(part):
                    self._end(part)
        self._end_passed(batch.cti)

    def close(self, error: BaseException | None) -> None:
        """Write what is held, and close the files."""
        super().close(error)
        goes_on = self._in_checkpoint and error is not None
        with ExitStack() as ends:  # if one fails, the others are still closed
            for part in self._list_parts():
                if not (part.held and goes_on):
                    ends.callback(self._end, part)

    def save(self) -> Callable[[], bytes]:
        """Return a function that syncs the files and returns the state: lengths, and held rows."""
        self._in_checkpoint = True
        self._saves += 1
        parts = self._list_parts()
        held = [part.join() for part in parts]
        facts = [part.facts for part in parts]
        place = str(self.path.absolute())
        whose = [place, self._run, self._saves]
        state = Captured("append file", [facts, self._list_names(), held, *whose])
        files = [part.file for part in parts if part.file is not None]

        def finish() -> bytes:
            for file in files:
                with suppress(ValueError):  # closed since then: it was synced before
                    os.fsync(file.fileno())
            return state.dumps()

        return finish

    def load(self, state: bytes) -> None:
        """Resume where ``save`` was called."""
        facts, names, held, *more = loads("append file", state)
        # earlier versions have saved neither the path nor the run, which gets an id when it is open
        self._is_earlier = not more
        place, self._run, self._saves = more or ("", hashlib.sha256(state).hexdigest(), 0)
        self._check_place(Path(place), names)
        self._in_checkpoint = True
        self._parts = {}
        for each, rows in zip(facts, held, strict=True):
            part = _FilePart(*each)
            part.held = [] if rows is None else [rows]
            self._parts.setdefault(part.folder, {})[part.label] = part
        self._loaded = [*names]

    # Files ----------------------------------------------------------------------------------------

    def _check_place(self, before: Path, names: list[str]) -> None:
        """Raise unless the path is that of the checkpoint; its folder may have been moved."""
        place = self.path.absolute()
        if not before.name or before == place:
            return
        is_there = not names or any(self._at(name).exists() for name in names)
        folder = before.parent
        has_stayed = any((folder / each).exists() for each in names) if names else folder.exists()
        # a copy has the marks of the run
        is_own = any(self._find_writer(each) == self._run for each in names)
        if before.name == place.name and is_there and (is_own or not has_stayed):
            return
        raise CheckpointError(
            f"{self.path} has lost the position of this run, which has written into {before}. "
            "Hint: give that path, or begin with a new folder and a new file."
        )

    def _empty(self, schema: pl.Schema) -> pl.DataFrame:
        """Return the columns of the files, without rows."""
        frame = pl.DataFrame(schema={START: pl.Int64(), END: pl.Int64(), **schema})
        return frame if self._partitions is None else self._partitions.strip(frame)

    @property
    def _is_numbered(self) -> bool:
        return self._roll.span is None and not self._is_single

    @property
    def _is_single(self) -> bool:
        return self._roll == Roll()

    def _list_parts(self) -> list[_FilePart]:
        """Return the files that are written."""
        return [part for parts in self._parts.values() for part in parts.values()]

    def _list_names(self) -> list[str]:
        """Return the paths of all files of this sink, from the folder of its path on."""
        return [
            f"{folder}/{name}" if folder else name
            for folder in self._list_folders()
            for name in self._list_folder(folder)
        ]

    def _list_folders(self) -> list[str]:
        """Return the folders of the partitions; without partitions, that of the sink's path."""
        if self._partitions is None:
            return [""]
        key = f"{self._partitions.key}="
        return sorted(path.name for path in self.path.parent.iterdir() if path.name.startswith(key))

    def _list_folder(self, folder: str) -> list[str]:
        """Return the names of the files of this sink in a folder."""
        stem, suffix = self.path.stem, self.path.suffix
        found = []
        for path in self._at(folder).iterdir() if self._at(folder).is_dir() else ():
            middle = path.name.removeprefix(stem).removesuffix(suffix)
            if path.name == self.path.name or (
                path.name == f"{stem}{middle}{suffix}" and _PART.fullmatch(middle)
            ):
                found.append(path.name)
        return sorted(found)

    def _restore(self, names: list[str]) -> None:
        """Leave the files as they were at the checkpoint."""
        parts = self._list_parts()
        if self._format == "parquet":
            self._remove_own({*names})
            return
        for part in parts:
            self._cut_off(part)
        written = {part.path for part in parts}
        for name in names:
            if name not in written:
                self._cut_off_begun(name)
        # last, so that a run that is refused has removed nothing
        self._remove_own({*names, *written})

    def _cut_off_begun(self, name: str) -> None:
        """Cut off what this run has written into a file that it has begun since the checkpoint.

        The file was there before, so it is not removed.
        """
        path = self._at(name)
        mark = WriterMark.find(path)
        if mark is None or mark.run != self._run or mark.saves < self._saves:
            return
        if path.stat().st_size > mark.begin:
            part = _FilePart("", name, 0, mark.begin)
            self._cut_off(part)
            self._open.pop(name).close()

    def _remove_own(self, kept: set[str]) -> None:
        """Remove the files that this run has written since the checkpoint.

        Earlier versions have not noted who wrote a file; nor can it be told of lines where a file
        has no mark.
        """
        own = {self._run}
        unknown = {None} if self._is_earlier or self._format != "parquet" else set()
        for name in self._list_names():
            if name not in kept and self._find_writer(name) in own | unknown:
                self._at(name).unlink(missing_ok=True)
        self._is_earlier = False
        for folder in self._list_folders():
            # of a file that was being written when the process died
            for aside in self._at(folder).glob(f".*.{self._run}.part"):
                remove(aside)

    def _find_writer(self, name: str) -> str | None:
        """Return the run that has written a file last, if that is known."""
        if self._format == "parquet":
            return find_writer(self._at(name))
        mark = WriterMark.find(self._at(name))
        return None if mark is None else mark.run

    def _cut_off(self, part: _FilePart) -> None:
        """Open a file, and cut off what this run has written since the checkpoint."""
        path = self._at(part.path)
        self._make_room()
        length = part.open(path) if path.exists() else -1
        try:
            self._check_end(part, length)
        except BaseException:
            part.close()
            raise
        self._open[part.path] = part

    def _check_end(self, part: _FilePart, length: int) -> None:
        """Cut off what is behind the position, if nobody else has written it."""
        path = self._at(part.path)
        if length < part.length:
            raise CheckpointError(
                f"{path} lacks rows that the run wrote before its checkpoint. Hint: restore "
                "the file, or begin with a new folder."
            )
        mark = WriterMark.find(path)
        if length > part.length and mark is not None and not mark.covers(self._run, length):
            raise CheckpointError(
                f"{path} has {length - part.length} bytes behind the position of this run, and "
                "another run or program has written them. Hint: give each its own file; if nobody "
                f"needs these bytes, 'truncate -s {part.length} FILE' removes them."
            )
        assert part.file is not None
        part.file.truncate(part.length)
        if mark is not None and mark.run == self._run:
            part.put_mark(mark)
        self._check_header(part)

    def _at(self, name: str) -> Path:
        return self.path.parent / name

    def _begin(self, folder: str, label: int) -> _FilePart:
        """Begin a file, or continue the one that exists."""
        if folder:
            self._at(folder).mkdir(exist_ok=True)
        part = _FilePart(folder, self._name(folder, label), label)
        if self._format != "parquet":
            self._begin_lines(part)
        self._parts.setdefault(folder, {})[part.label] = part
        return part

    def _begin_lines(self, part: _FilePart) -> None:
        """Open a file to which lines are appended; one with a number is new."""
        if self._is_numbered:
            self._make(part)
        self._make_room()
        part.length = part.open(self._at(part.path))
        try:
            self._check_header(part)
            assert part.file is not None
            if part.length:
                part.file.seek(part.length - 1)
                if part.file.read(1) != b"\n":  # a line that was torn, without its end
                    part.length += part.file.write(b"\n")
                    part.file.flush()
            else:
                part.put_mark(part.mark or WriterMark(self._run, self._saves))
        except BaseException:
            part.close()
            raise
        self._open[part.path] = part

    def _make(self, part: _FilePart) -> None:
        """Make an empty file, with the next number that no other file has."""
        while True:
            path = self._at(part.path)
            aside = path.with_name(f".{path.name}.{self._run}.part")
            try:
                with aside.open("wb") as file:
                    # a run that is resumed finds the file by its mark, so none is there without it
                    WriterMark(self._run).write(file.fileno())
                take_name(aside, path)
                return
            except FileExistsError:
                self._take_next(part)
            finally:
                remove(aside)

    def _take_next(self, part: _FilePart) -> None:
        """Give a part another name: another run has taken the one that it had."""
        if self._is_numbered:
            part.label = self._find_number(part.folder)
        part.name = self._name(part.folder, part.label)

    def _open_part(self, part: _FilePart) -> BinaryIO:
        """Return the file of a part, at its end."""
        self._open.pop(part.path, None)
        if part.file is None:
            self._make_room()
            part.open(self._at(part.path))
        assert part.file is not None
        if part.is_deleted():
            part.close()
            raise SpoolError(
                f"{self._at(part.path)} has been deleted while this run was writing it: its rows "
                "are lost. Hint: delete only files that are complete, which roll= makes; and begin "
                "again, with a new folder of resume= if there is one."
            )
        if (length := part.measure()) != part.length:
            part.close()
            raise SpoolError(
                f"{self._at(part.path)} has {length} bytes, and this sink has left it with "
                f"{part.length}: another run or program has changed it. Hint: give each its own "
                "file."
            )
        self._open[part.path] = part
        return part.file

    def _make_room(self) -> None:
        """Close the file written longest ago if many are open."""
        if len(self._open) >= MOST_OPEN:
            self._open.pop(next(iter(self._open))).close()

    def _check_header(self, part: _FilePart) -> None:
        """Raise unless a CSV file has the columns of the results; remove a header that was torn."""
        if self._format != "csv" or not part.length:
            return
        path = self._at(part.path)
        assert part.file is not None
        part.file.seek(0)
        begin = part.file.read(max(65_536, 4 * len(self._header)))
        text = begin.decode("utf-8-sig", errors="replace")
        has = next(csv.reader(io.StringIO(text, newline="")), [])
        gives = next(csv.reader(io.StringIO(self._header.decode(), newline="")))
        if has == gives:
            return
        if part.length < len(self._header) and self._header.startswith(begin):
            part.file.truncate(0)
            part.length = 0
            return
        raise SchemaError(
            f"{path} has the columns {brief(has)}, and the results have {brief(gives)}. Hint: "
            "write them into another file, or move this one away."
        )

    def _name(self, folder: str, label: int) -> str:
        stem, suffix = self.path.stem, self.path.suffix
        if self._is_single:
            return self.path.name
        middle = f"-{'-' * (label < 0)}{abs(label):06}"
        if self._roll.span is not None and self._form() == "datetime":
            whole_days = self._roll.span % _DAY == 0
            middle = to_datetime(label).strftime("-%Y-%m-%d" if whole_days else "-%Y-%m-%dT%H%M%S")
        name, again = f"{stem}{middle}{suffix}", 1
        while self._format == "parquet" and (self._at(folder) / name).exists():
            again += 1
            name = f"{stem}{middle}-{again}{suffix}"
        return name

    def _split(self, batch: EventBatch) -> Iterator[tuple[str, EventBatch]]:
        """Yield the rows of each partition, with its folder."""
        if self._partitions is None or not len(batch):
            yield "", batch
            return
        folders = self._partitions.list_folders(batch.to_polars(self._form()))
        rows = pl.DataFrame({"folder": folders}).with_row_index("row")
        for (folder,), each in rows.group_by("folder", maintain_order=True):
            yield str(folder), batch.take(each["row"].to_numpy().astype(np.int64))

    def _cut(self, folder: str, batch: EventBatch) -> Iterator[tuple[_FilePart, EventBatch]]:
        """Yield the rows in pieces that go into one file each, with the file."""
        begin = 0
        while begin < len(batch):
            end, label = self._find_end(folder, batch, begin)
            part = self._parts.get(folder, {}).get(label) or self._begin(folder, label)
            yield part, batch if not begin and end == len(batch) else batch.slice(begin, end)
            begin = end

    def _find_end(self, folder: str, batch: EventBatch, begin: int) -> tuple[int, int]:
        """Return the end of the next piece, and the number or time of its file."""
        end = min(begin + PIECE, len(batch))
        if self._roll.span is not None:
            label = int(batch.start[begin]) // self._roll.span * self._roll.span
            last = int(np.searchsorted(batch.start, label + self._roll.span))
            return min(end, max(last, begin + 1)), label
        if self._is_single:
            return end, 0
        part = next(iter(self._parts.get(folder, {}).values()), None)
        label = self._find_number(folder) if part is None else part.label
        if self._roll.rows is not None:
            rows = 0 if part is None else part.rows
            end = min(end, begin + self._roll.rows - rows)
        return end, label

    def _find_number(self, folder: str) -> int:
        """Return the number behind the last file of a folder."""
        numbers = [
            int(found[1])
            for name in self._list_folder(folder)
            if (found := re.search(r"-(\d{6,})(-\d+)?$", Path(name).stem))
        ]
        return max(numbers, default=0) + 1

    def _end_passed(self, cti: int) -> None:
        """Complete the files into which no further row comes: the CTI has passed their ends."""
        span = self._roll.span
        is_daily = self._partitions is not None and self._partitions.name == START
        if span is None and not is_daily:
            return
        today = f"{START}_day={to_datetime(cti).date()}" if is_daily and cti < MAX_TIME else "~"
        for part in self._list_parts():
            is_passed = span is not None and add(part.label, span) <= cti
            if is_passed or (is_daily and part.folder < today):
                self._end(part)

    def _is_full(self, part: _FilePart) -> bool:
        if self._roll.rows is not None:
            return part.rows >= self._roll.rows
        if self._roll.size is None:
            return False
        return part.length >= self._roll.size

    def _append(self, frame: pl.DataFrame, part: _FilePart) -> None:
        """Write lines; if that fails the file is as before."""
        file = self._open_part(part)
        if not part.is_marked:
            part.put_mark(part.mark or WriterMark(self._run, self._saves, part.length))
        text = io.BytesIO()
        if self._format == "csv":
            frame.write_csv(text, include_header=not part.length)
        else:
            frame.write_ndjson(text)
        try:
            file.write(text.getbuffer())
            file.flush()
        except BaseException:
            with suppress(OSError):
                os.ftruncate(file.fileno(), part.length)
            raise
        part.length += len(text.getbuffer())

    def _end(self, part: _FilePart) -> None:
        """Complete a file: sync it, or write the rows that are held."""
        del self._parts[part.folder][part.label]
        if not self._parts[part.folder]:
            del self._parts[part.folder]
        self._open.pop(part.path, None)
        part.close()
        if (held := part.join()) is not None:
            self._publish(held, part)

    def _publish(self, held: pl.DataFrame, part: _FilePart) -> None:
        """Write a Parquet file, under the next name that no other file has."""
        while True:
            try:
                publish_own_parquet(held, self._at(part.path), self._run)
                return
            except FileExistsError:  # another run has taken the name since this file was begun
                self._take_next(part)


def _make_header(columns: pl.DataFrame) -> bytes:
    """Return the first line of a CSV file."""
    text = io.BytesIO()
    pl.DataFrame(schema=columns.columns).write_csv(text)
    return text.getvalue()
