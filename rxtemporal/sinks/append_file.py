"""Sink that appends rows to files, for streams that never end."""

from __future__ import annotations

import dataclasses
import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.spans import span
from rxtemporal.core.ticks import to_datetime
from rxtemporal.engine.codec import Captured, loads
from rxtemporal.errors import ArgumentError, CheckpointError
from rxtemporal.sinks.formats import find_format, publish_parquet
from rxtemporal.sinks.sink import ReadySink

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kMG])B\s*")
_UNITS = {"k": 10**3, "M": 10**6, "G": 10**9}
# the name of a part behind the name of the file: a number, or the time at which it begins
_PART = re.compile(r"-(-?\d{6,}|\d{4}-\d\d-\d\d(T\d{6})?)(-\d+)?")
# rows of a Parquet file unless roll= says otherwise, and of a piece that is written at once
PARQUET_ROWS, PIECE = 1_000_000, 65_536
_DAY = 86_400_000_000


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
class _OpenFile:
    """The file that is written: its name, the number or time behind it, and what it has.

    ``length`` is in bytes: of a Parquet file, those of its rows in memory.
    """

    name: str
    label: int
    length: int = 0
    rows: int = 0


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

    A file that exists is continued, or, if files have numbers or are Parquet, the next one is
    begun. A run that is resumed cuts off what was written after its checkpoint, and writes it
    again, perhaps in other files; for a program that reads the files meanwhile, use
    ``ParquetFolder``. When a run fails or is stopped, files keep the rows so far. ``time`` is as in
    ``Print``.

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
        time: TimeForm | None = None,
    ) -> None:
        super().__init__(time)
        self.path = Path(path)
        self._format = find_format(self.path)
        self._roll = Roll.parse(roll)
        if self._format == "parquet" and roll is None:
            self._roll = Roll(rows=PARQUET_ROWS)
        self._part: _OpenFile | None = None
        self._file: BinaryIO | None = None
        # rows of a Parquet file that is not complete
        self._held: list[pl.DataFrame] = []
        # the names of the files at a checkpoint that is loaded
        self._loaded: list[str] | None = None
        self._in_checkpoint = False

    def open(self, query: str, schema: pl.Schema) -> None:
        """Open the file, and cut off the rows written after the checkpoint."""
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                2, "the folder of the result file does not exist", str(self.path.parent)
            )
        if self._loaded is not None:
            self._restore(self._loaded)
            self._loaded = None
            return
        self._part, self._held, self._in_checkpoint = None, [], False
        if self._is_single:
            self._begin(0)

    def write(self, batch: EventBatch) -> None:
        """Append the rows; begin the next file where the limit says so."""
        for part in self._cut(batch):
            frame = part.to_polars(self._form())
            assert self._part is not None
            if self._format == "parquet":
                self._held.append(frame)
                self._part.length += int(frame.estimated_size())
            else:
                self._append(frame, self._part)
            self._part.rows += len(part)
            if self._is_full(self._part):
                self._end()

    def close(self, error: BaseException | None) -> None:
        """Write what is held, and close the file."""
        super().close(error)
        goes_on = self._in_checkpoint and error is not None
        if not (self._held and goes_on):
            self._end()

    def save(self) -> Callable[[], bytes]:
        """Return a function that syncs the file and returns the state: lengths, and held rows."""
        self._in_checkpoint = True
        part = None if self._part is None else dataclasses.astuple(self._part)
        held = pl.concat(self._held) if self._held else None
        self._held = [] if held is None else [held]  # the next state need not join them again
        state = Captured("append file", [part, self._list_names(), held])
        file = self._file

        def finish() -> bytes:
            if file is not None:
                with suppress(ValueError):  # closed since then: it was synced before
                    os.fsync(file.fileno())
            return state.dumps()

        return finish

    def load(self, state: bytes) -> None:
        """Resume where ``save`` was called."""
        part, names, held = loads("append file", state)
        self._in_checkpoint = True
        self._part = None if part is None else _OpenFile(*part)
        self._held = [] if held is None else [held]
        self._loaded = [*names]

    # Files ----------------------------------------------------------------------------------------

    @property
    def _is_single(self) -> bool:
        return self._roll == Roll()

    def _list_names(self) -> list[str]:
        """Return the names of all files of this sink."""
        stem, suffix = self.path.stem, self.path.suffix
        found = []
        for path in self.path.parent.iterdir():
            middle = path.name.removeprefix(stem).removesuffix(suffix)
            if path.name == self.path.name or (
                path.name == f"{stem}{middle}{suffix}" and _PART.fullmatch(middle)
            ):
                found.append(path.name)
        return sorted(found)

    def _restore(self, names: list[str]) -> None:
        """Leave the files as they were at the checkpoint."""
        part = self._part
        for name in self._list_names():
            if name not in names and (part is None or name != part.name):
                self._at(name).unlink()
        if part is None or self._format == "parquet":
            return
        path = self._at(part.name)
        if not path.exists() or path.stat().st_size < part.length:
            raise CheckpointError(
                f"{path} lacks rows that the run wrote before its checkpoint. Hint: restore the "
                "file, or begin with a new folder."
            )
        self._file = path.open("r+b")
        self._file.truncate(part.length)
        self._file.seek(part.length)

    def _at(self, name: str) -> Path:
        return self.path.with_name(name)

    def _begin(self, label: int) -> None:
        """Begin a file, or continue the one that exists."""
        name = self._name(label)
        self._part = _OpenFile(name, label)
        if self._format == "parquet":
            return
        self._file = self._at(name).open("a+b")
        self._part.length = end = self._file.seek(0, os.SEEK_END)
        self._file.seek(max(0, end - 1))
        if self._file.read(1) not in (b"", b"\n"):  # a line that was torn, without its end
            self._part.length += self._file.write(b"\n")

    def _name(self, label: int) -> str:
        if self._is_single:
            return self.path.name
        middle = f"-{'-' * (label < 0)}{abs(label):06}"
        if self._roll.span is not None and self._form() == "datetime":
            whole_days = self._roll.span % _DAY == 0
            middle = to_datetime(label).strftime("-%Y-%m-%d" if whole_days else "-%Y-%m-%dT%H%M%S")
        name, again = f"{self.path.stem}{middle}{self.path.suffix}", 1
        while self._format == "parquet" and self._at(name).exists():
            again += 1
            name = f"{self.path.stem}{middle}-{again}{self.path.suffix}"
        return name

    def _cut(self, batch: EventBatch) -> Iterator[EventBatch]:
        """Yield the rows in pieces that go into one file each, which is open by then."""
        begin = 0
        while begin < len(batch):
            end, label = self._find_end(batch, begin)
            if self._part is not None and label != self._part.label:
                self._end()
            if self._part is None:
                self._begin(label)
            yield batch if not begin and end == len(batch) else batch.slice(begin, end)
            begin = end

    def _find_end(self, batch: EventBatch, begin: int) -> tuple[int, int]:
        """Return the end of the next piece, and the number or time of its file."""
        end = min(begin + PIECE, len(batch))
        if self._roll.span is not None:
            label = int(batch.start[begin]) // self._roll.span * self._roll.span
            last = int(np.searchsorted(batch.start, label + self._roll.span))
            return min(end, max(last, begin + 1)), label
        if self._is_single:
            return end, 0
        label = self._part.label if self._part is not None else self._find_number()
        if self._roll.rows is not None:
            rows = 0 if self._part is None else self._part.rows
            end = min(end, begin + self._roll.rows - rows)
        return end, label

    def _find_number(self) -> int:
        """Return the number behind the last file."""
        numbers = [
            int(found[1])
            for name in self._list_names()
            if (found := re.search(r"-(\d{6,})(-\d+)?$", Path(name).stem))
        ]
        return max(numbers, default=0) + 1

    def _is_full(self, part: _OpenFile) -> bool:
        if self._roll.rows is not None:
            return part.rows >= self._roll.rows
        if self._roll.size is None:
            return False
        return part.length >= self._roll.size

    def _append(self, frame: pl.DataFrame, part: _OpenFile) -> None:
        """Write lines; if that fails the file is as before."""
        assert self._file is not None
        text = io.BytesIO()
        if self._format == "csv":
            frame.write_csv(text, include_header=not part.length)
        else:
            frame.write_ndjson(text)
        try:
            self._file.write(text.getbuffer())
            self._file.flush()
        except BaseException:
            with suppress(OSError):
                os.ftruncate(self._file.fileno(), part.length)
            raise
        part.length += len(text.getbuffer())

    def _end(self) -> None:
        """Complete the file: sync it, or write the rows that are held."""
        part, file = self._part, self._file
        self._part = self._file = None
        if file is not None:
            with file:
                file.flush()
                os.fsync(file.fileno())
        if self._held:
            assert part is not None
            publish_parquet(pl.concat(self._held), self._at(part.name))
            self._held = []
