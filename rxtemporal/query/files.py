"""Streams from the rows of CSV, JSON lines and Parquet files."""

from __future__ import annotations

import csv
import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from rxtemporal.core.schema import payload_schema
from rxtemporal.core.spans import Span
from rxtemporal.core.time_forms import Unit
from rxtemporal.errors import ArgumentError, SchemaError, SourceError, explain_calls
from rxtemporal.ingress.arrivals import HINT_ARRIVAL, refuse_arrival
from rxtemporal.ingress.built_in_sources import FrameSource, scan_batches
from rxtemporal.ingress.clock_settings import ClockFields, add_clock
from rxtemporal.ingress.settings import AdvanceTime, check_batch_rows, read_advance_time
from rxtemporal.operators.plan import Node
from rxtemporal.query.file_times import Ambiguous, Nonexistent, TimeOptions
from rxtemporal.query.inputs import BATCH_ROWS, get_frame_rows
from rxtemporal.query.streamable import Streamable

# rows that are looked at when a stream is made
_SAMPLE_ROWS = 100
# so many bytes of a text file are looked at, unless they begin as those of gzip, Zstandard or zlib
_HEAD, _COMPRESSED = 65_536, (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x78")
# in the names that polars gives to columns whose name is there
_DUPLICATED = "_duplicated_"
# in front of UTF-8 that a Windows program has written
_MARK = b"\xef\xbb\xbf"
_YEAR_FIRST = re.compile(r"\s*\d{4}")


@explain_calls("read_parquet('readings.parquet', start='time') names the column of the times")
def read_parquet(
    path: str | Path,
    *,
    start: str,
    end: str | None = None,
    advance_time: AdvanceTime | None = None,
    batch_rows: int = BATCH_ROWS,
    fields: Sequence[str] | None = None,
    name: str | None = None,
    unit: Unit | None = None,
    time_zone: str | None = None,
    ambiguous: Ambiguous | None = None,
    nonexistent: Nonexistent | None = None,
    clock: ClockFields | None = None,
    behind: Span | None = None,
    silent_after: Span | None = None,
    forget_after: Span | None = None,
    spread: Span | None = None,
) -> Streamable:
    """Make a stream from the rows of a Parquet file, in their order, read one batch at a time.

    Times are datetimes, or integers: ticks unless ``unit`` says otherwise. Datetimes without a zone
    need ``time_zone``, see ``read_csv``. The other columns are the payload, or those of ``fields``.
    ``name`` is the stream's name, by default the path. ``clock``, ``behind``, ``silent_after``,
    ``forget_after`` and ``spread`` are as in ``from_events``.
    """
    times = TimeOptions(unit, time_zone, ambiguous, nonexistent, numbers_are_ticks=True)
    file = _File(path, start, end, fields, times, lambda: pl.scan_parquet(path))
    clocks = clock, behind, silent_after, forget_after, spread
    return file.make_stream(advance_time, batch_rows, name, clocks)


@explain_calls("read_csv('readings.csv', start='time') names the column of the times")
def read_csv(
    path: str | Path,
    *,
    start: str,
    end: str | None = None,
    advance_time: AdvanceTime | None = None,
    batch_rows: int = BATCH_ROWS,
    time_zone: str | None = None,
    fields: Sequence[str] | None = None,
    schema: Any = None,
    name: str | None = None,
    unit: Unit | None = None,
    ambiguous: Ambiguous | None = None,
    nonexistent: Nonexistent | None = None,
    separator: str = ",",
    clock: ClockFields | None = None,
    behind: Span | None = None,
    silent_after: Span | None = None,
    forget_after: Span | None = None,
    spread: Span | None = None,
) -> Streamable:
    """Make a stream from the rows of a CSV file, in their order, read one batch at a time.

    ``start`` and ``end`` name the columns of times; without ``end`` rows are points, and an empty
    end means that a row never ends. Times are ISO 8601 texts, or numbers of a ``unit``: ``"s"``,
    ``"ms"``, ``"us"`` or ``"ns"`` since 1970-01-01T00:00:00Z, or ``"ticks"``, which stay numbers.
    Dates in which the day or the month comes first are an error; in the payload they stay texts.

    Times without an offset need ``time_zone``. Where its clock is changed, a time that exists twice
    or never is an error, or ``ambiguous="earliest"`` or ``"latest"`` chooses one of the two, and
    ``nonexistent="forward"`` moves it forward by the length of the gap.

    The payload is all other columns, their types read from the first rows; or the columns of
    ``fields``; or the columns of ``schema`` with its types, for example
    ``{"zip": str, "temp": float}``. ``name`` is the stream's name, by default the path. Columns are
    separated by ``separator``, one character of ASCII. Values that are missing at the end of a line
    are null; a last line that has no end, either, was cut off, and is an error. ``clock``,
    ``behind``, ``silent_after``, ``forget_after`` and ``spread`` are as in ``from_events``.

    >>> import pathlib, tempfile, rxtemporal as rxt
    >>> path = pathlib.Path(tempfile.mkdtemp(), "trips.csv")
    >>> _ = path.write_text("at,zip\\n1767225600,00501\\n")
    >>> rxt.read_csv(path, start="at", unit="s", schema={"zip": str}).to_polars()["zip"].to_list()
    ['00501']
    """
    times = TimeOptions(unit, time_zone, ambiguous, nonexistent)
    given = _check_schema(schema, fields)
    if not isinstance(separator, str) or len(separator) != 1 or not separator.isascii():
        raise ArgumentError(f"separator is one character of ASCII, got {separator!r}")
    names = [start, *([] if end is None else [end])]
    if _is_empty(path, given):
        scan = _make_empty(names, times, given)
    else:
        scan = _scan_csv(path, names, fields, given, separator)
    file = _File(path, start, end, fields if given is None else list(given), times, scan, given)
    clocks = clock, behind, silent_after, forget_after, spread
    return file.make_stream(advance_time, batch_rows, name, clocks)


@explain_calls("read_json('readings.json', start='time') names the column of the times")
def read_json(
    path: str | Path,
    *,
    start: str,
    end: str | None = None,
    advance_time: AdvanceTime | None = None,
    batch_rows: int = BATCH_ROWS,
    fields: Sequence[str] | None = None,
    schema: Any = None,
    name: str | None = None,
    unit: Unit | None = None,
    time_zone: str | None = None,
    ambiguous: Ambiguous | None = None,
    nonexistent: Nonexistent | None = None,
    clock: ClockFields | None = None,
    behind: Span | None = None,
    silent_after: Span | None = None,
    forget_after: Span | None = None,
    spread: Span | None = None,
) -> Streamable:
    """Make a stream from a file of JSON lines, in their order, read one batch at a time.

    Each line is an object. Times, options and the payload are as in ``read_csv``, but the fields
    and their types are those of all lines, which are read once before for that.
    """
    times = TimeOptions(unit, time_zone, ambiguous, nonexistent)
    given = _check_schema(schema, fields)
    if _is_empty(path, given):
        scan = _make_empty([start, *([] if end is None else [end])], times, given)
    else:
        scan = _scan_json(path, given)
    file = _File(path, start, end, fields if given is None else list(given), times, scan, given)
    clocks = clock, behind, silent_after, forget_after, spread
    return file.make_stream(advance_time, batch_rows, name, clocks)


@dataclasses.dataclass(frozen=True, slots=True)
class _File:
    """A file, its columns of times, and how they are read."""

    path: str | Path
    start: str
    end: str | None
    fields: Sequence[str] | None
    times: TimeOptions
    scan: Callable[[], pl.LazyFrame]
    types: pl.Schema | None = None

    def __post_init__(self) -> None:
        refuse_arrival(self.start, "a file", HINT_ARRIVAL)

    def make_stream(
        self,
        advance_time: AdvanceTime | None,
        batch_rows: int,
        name: str | None,
        clocks: Sequence[Any],
    ) -> Streamable:
        """Return the file as a stream; the first rows are read to check the options."""
        check_batch_rows(batch_rows)
        what = str(self.path)
        columns = self._find_columns(_collect_schema(self.scan, what))
        scan = self.scan if columns is None else lambda: self.scan().select(columns)
        frames, schema = scan_batches(scan, get_frame_rows(batch_rows), what)
        sample = self._read_sample(scan, schema)

        def convert() -> Iterator[pl.DataFrame]:
            before = 0
            for frame in frames():
                yield self._convert(frame, before)
                before += frame.height

        settings = read_advance_time(advance_time)
        source = FrameSource(
            convert, sample.schema, self.start, self.end, settings, name or what, batch_rows
        )
        return Streamable(Node(source.schema, (), source=add_clock(source, *clocks)))

    def _find_columns(self, schema: pl.Schema) -> list[str] | None:
        """Return the columns to read, None for all; raise if one is missing."""
        wanted = [self.start, *([] if self.end is None else [self.end])]
        if isinstance(self.fields, str):
            raise ArgumentError(
                f"fields is a list of columns, got {self.fields!r}. Hint: [{self.fields!r}]."
            )
        wanted += [each for each in self.fields or () if each not in wanted]
        for column in wanted:
            if column not in schema:
                raise SchemaError(
                    f"{self.path} has no column {column!r}; it has {', '.join(schema) or 'none'}"
                    f"{_hint_column(column, schema, self.types or {})}"
                )
        if self.fields is not None:
            return wanted
        for name, dtype in schema.items():
            if dtype.is_nested():
                raise SchemaError(
                    f"{self.path} has the field {name!r} of the type {dtype}, which no payload can "
                    "carry. Hint: fields= names the columns to read."
                )
        return None

    def _read_sample(self, scan: Callable[[], pl.LazyFrame], schema: pl.Schema) -> pl.DataFrame:
        """Return the first rows as the stream has them; raise if their times cannot be read."""
        try:
            sample = scan().head(_SAMPLE_ROWS).collect()
        except (OSError, pl.exceptions.PolarsError):  # a run reads it again, and says more
            sample = pl.DataFrame(schema=dict(schema))
        return self._convert(sample, 0)

    def _convert(self, frame: pl.DataFrame, before: int) -> pl.DataFrame:
        """Return a frame with its times as instants or ticks, and its fields in their types."""
        what = str(self.path)
        names = [self.start] if self.end is None else [self.start, self.end]
        read = [self.times.read(frame[name], what, before) for name in dict.fromkeys(names)]
        typed = [
            self._cast(frame[name], dtype, before)
            for name, dtype in (self.types or {}).items()
            if name not in names and frame.schema[name] != dtype
        ]
        return frame.with_columns(*read, *typed)

    def _cast(self, column: pl.Series, dtype: pl.DataType, before: int) -> pl.Series:
        """Return a column of the payload in the type that the schema gives it."""
        zoned = isinstance(dtype, pl.Datetime) and dtype.time_zone is not None
        if zoned and column.dtype == pl.String:
            plain = dataclasses.replace(self.times, unit=None)
            return plain.read(column, str(self.path), before).cast(dtype)
        try:
            if column.dtype == pl.String and dtype == pl.Date:
                return column.str.to_date("%Y-%m-%d")
            if column.dtype == pl.String and isinstance(dtype, pl.Datetime):
                return column.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit="us")
            return column.cast(dtype)
        except pl.exceptions.PolarsError as error:
            raise SourceError(
                f"{self.path} cannot be read: column {column.name!r} does not fit the type {dtype} "
                f"of schema=: {str(error).splitlines()[0]}"
            ) from error


def _check_schema(schema: Any, fields: Sequence[str] | None) -> pl.Schema | None:
    if schema is None:
        return None
    if fields is not None:
        raise ArgumentError(
            "schema= and fields= both name the fields of the payload. Hint: leave fields= out."
        )
    return payload_schema(schema)


def _plain_types(schema: pl.Schema) -> dict[str, pl.DataType]:
    """Return the types with which a text file is read: times and the like are texts first."""
    return {
        name: pl.String() if dtype.is_temporal() or dtype == pl.Binary else dtype
        for name, dtype in schema.items()
    }


def _collect_schema(scan: Callable[[], pl.LazyFrame], what: str | Path) -> pl.Schema:
    return scan_batches(scan, 1, str(what))[1]


def _scan_csv(
    path: str | Path,
    times: list[str],
    fields: Sequence[str] | None,
    schema: pl.Schema | None,
    separator: str,
) -> Callable[[], pl.LazyFrame]:
    """Return the scan of a CSV file whose times, and dates that are not ISO dates, stay texts."""
    read = partial(pl.scan_csv, path, separator=separator)
    plain = _collect_schema(read, path)
    _refuse_carriage_returns(path)
    _refuse_torn_end(path, separator, len(plain))
    for name in plain:
        twice, wanted = name.partition(_DUPLICATED)[0], fields or schema or plain
        if _DUPLICATED in name and twice in plain and twice in (*times, *wanted):
            raise SchemaError(f"{path} has two columns {twice!r}. Hint: rename one of them.")
    dated = _collect_schema(partial(read, try_parse_dates=True), path)
    types: dict[str, Any] = {} if schema is None else _plain_types(schema)
    types |= {name: plain[name] for name in times if name in plain}
    unsure = [
        name for name in plain
        if name not in types and dated[name].is_temporal() and dated[name] != pl.Time
    ]  # fmt: skip
    if unsure:
        sample = read(infer_schema=False, n_rows=_SAMPLE_ROWS).select(unsure).collect()
        types |= {
            column.name: pl.String() for column in sample
            if not all(map(_YEAR_FIRST.match, column.drop_nulls()))
        }  # fmt: skip
    types = {name: dtype for name, dtype in types.items() if name in plain}
    return partial(read, try_parse_dates=True, schema_overrides=types or None)


def _scan_json(path: str | Path, schema: pl.Schema | None) -> Callable[[], pl.LazyFrame]:
    """Return the scan of a file of JSON lines, with the fields of all lines.

    By itself polars leaves out a field that none of the first lines has.
    """
    if _read_head(path).startswith(_MARK):
        raise SourceError(
            f"{path} cannot be read: it begins with a byte order mark. Hint: write it as UTF-8 "
            "without one."
        )
    known = _collect_schema(lambda: pl.scan_ndjson(path, infer_schema_length=None), path)
    types = {} if schema is None else _plain_types(schema)
    known |= {name: dtype for name, dtype in types.items() if name in known}
    return lambda: pl.scan_ndjson(path, schema=known)


def _read_head(path: str | Path) -> bytes:
    """Return the first bytes of a file; nothing of one that cannot be read, as polars will say."""
    try:
        with Path(path).open("rb") as file:
            return file.read(_HEAD)
    except OSError:
        return b"?"


def _read_tail(path: str | Path) -> bytes:
    """Return the last bytes of a file; nothing of one that cannot be read, as polars will say."""
    try:
        with Path(path).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _HEAD))
            return file.read()
    except OSError:
        return b""


def _is_empty(path: str | Path, schema: pl.Schema | None) -> bool:
    """Return True if a text file has nothing.

    Raise for a folder, and if ``schema`` does not say the fields of an empty file.
    """
    if Path(path).is_dir():
        raise SourceError(f"{path} is a folder. Hint: name a file.")
    if _read_head(path).removeprefix(_MARK).strip():
        return False
    if schema is None:
        raise SourceError(
            f"{path} cannot be read: it is empty. Hint: schema= names the fields of the "
            "payload; then an empty file is a stream without rows."
        )
    return True


def _make_empty(
    names: Iterable[str], times: TimeOptions, schema: pl.Schema | None
) -> Callable[[], pl.LazyFrame]:
    """Return the scan of an empty file."""
    time = pl.String() if times.unit is None else pl.Int64()
    types = {} if schema is None else _plain_types(schema)
    frame = pl.LazyFrame(schema={**types, **dict.fromkeys(names, time)})
    return lambda: frame


def _refuse_carriage_returns(path: str | Path) -> None:
    """Raise if lines end with CR alone: polars takes such a file for its first line."""
    head = _read_head(path)
    if b"\r" in head and b"\n" not in head and not head.startswith(_COMPRESSED):
        raise SourceError(
            f"{path} has lines that end with CR alone, as of old Macs. Hint: write it with LF, or "
            "with CR and LF."
        )


def _refuse_torn_end(path: str | Path, separator: str, width: int) -> None:
    """Raise if the last line has neither all values nor an end, as after a crash of its writer.

    polars takes the values that are missing for nulls.
    """
    tail = _read_tail(path)
    line = tail.rsplit(b"\n", 1)[-1]
    is_known = line.strip() and len(line) < _HEAD
    # a text in quotes may have several lines
    if not is_known or line.count(b'"') % 2 or _read_head(path).startswith(_COMPRESSED):
        return
    values = len(next(csv.reader([line.decode(errors="replace")], delimiter=separator)))
    if values < width:
        raise SourceError(
            f"{path} cannot be read: its last line is cut off after {values} of {width} values. "
            "Hint: complete that line, or remove it."
        )


def _hint_column(column: str, schema: pl.Schema, types: Mapping[str, pl.DataType]) -> str:
    """Return the hint for a column that is missing, perhaps since commas do not separate them."""
    only = next(iter(schema), "")
    found = next((each for each in ";\t|" if each in only), None)
    if len(schema) != 1 or found is None:
        from rxtemporal.core.safe_text import hint_near

        usual = "start= and end= name the columns of the times"
        if column in types:
            usual = "schema= names the columns of the payload"
        return hint_near(column, schema) or f". Hint: {usual}."
    return f". Hint: its columns are separated by {found!r}: separator={found!r} reads them."
