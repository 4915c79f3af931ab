"""Columns of a batch: numpy arrays where possible, polars series elsewhere.

A call of polars costs 25 to 75 µs where it goes by way of a query, numpy's less than one. So inside
a query a payload is a set of columns, and a frame is made where one is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.safe_text import type_name
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK
from rxtemporal.errors import EventError, SchemaError

Array: TypeAlias = npt.NDArray[Any]
Bools: TypeAlias = npt.NDArray[np.bool_]
Int64s: TypeAlias = npt.NDArray[np.int64]

# the numpy type of the values of each polars type that is held as an array
_PHYSICAL: dict[type[pl.DataType], npt.DTypeLike] = {
    pl.Boolean: np.bool_,
    pl.Int8: np.int8,
    pl.Int16: np.int16,
    pl.Int32: np.int32,
    pl.Int64: np.int64,
    pl.UInt8: np.uint8,
    pl.UInt16: np.uint16,
    pl.UInt32: np.uint32,
    pl.UInt64: np.uint64,
    pl.Float32: np.float32,
    pl.Float64: np.float64,
    pl.Date: np.int32,
    pl.Time: np.int64,
    pl.Datetime: np.int64,
    pl.Duration: np.int64,
}
_UTC = pl.Datetime("us", "UTC")
_TIMES = (pl.Date, pl.Time, pl.Datetime, pl.Duration)
# compared with this, a type of an array need not be made of a type of values each time
BOOL = np.dtype(np.bool_)
# values compared at once: the result stays in the cache
_BLOCK = 8_192


def physical_type(dtype: pl.DataType) -> npt.DTypeLike | None:
    """Return the numpy type in which values of a polars type are held; None if in a series."""
    return _PHYSICAL.get(type(dtype))


class Nullable:
    """Values of which some may be null: an array, and the mask of those that are not.

    A value under a null is arbitrary.
    """

    __slots__ = ("valid", "values")

    def __init__(self, values: Array, valid: Bools) -> None:
        self.values = values
        self.valid = valid

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Nullable:
        """Return the values of these rows: numbers, a mask or a slice."""
        return Nullable(self.values[rows], self.valid[rows])

    def take(self, numbers: Array) -> Nullable:
        """Return the values of the rows with these numbers."""
        return Nullable(self.values.take(numbers), self.valid.take(numbers))


class SeriesColumn:
    """Values held by polars: strings, bytes, decimals, lists, nulls."""

    __slots__ = ("series",)

    def __init__(self, series: pl.Series) -> None:
        self.series = series

    def __len__(self) -> int:
        return len(self.series)

    def __getitem__(self, rows: Any) -> SeriesColumn:
        """Return the values of these rows: numbers, a mask or a slice."""
        series = self.series
        if type(rows) is slice:
            begin, end, _ = rows.indices(len(series))
            return SeriesColumn(series.slice(begin, max(end - begin, 0)))
        if rows.dtype == BOOL:
            return SeriesColumn(series.filter(pl.Series(rows)))
        return self.take(rows)

    def take(self, numbers: Array) -> SeriesColumn:
        """Return the values of the rows with these numbers."""
        series = self.series
        if len(numbers) == 1:
            return SeriesColumn(series.slice(int(numbers[0]), 1))
        series = join_chunks(series, len(numbers))
        # in the type in which polars keeps row numbers: of any other it looks at the signs first
        return SeriesColumn(series[pl.Series(numbers.astype(np.uint32, copy=False))])


# a row that is taken from several chunks costs at least as much as joining so many rows
TAKEN = 16


def join_chunks(series: pl.Series, count: int) -> pl.Series:
    """Return the series, in one chunk if that pays for so many rows to be taken from it."""
    pays = series.n_chunks() > 1 and TAKEN * count > len(series)
    return series.rechunk() if pays else series


Column: TypeAlias = Array | Nullable | SeriesColumn


def make_column(series: pl.Series) -> Column:
    """Return a series as a column, without copying plain numbers of one chunk."""
    dtype = series.dtype
    physical = _PHYSICAL.get(type(dtype))
    if physical is None:
        return SeriesColumn(series)
    if isinstance(dtype, _TIMES):
        series = series.cast(pl.Int32 if physical is np.int32 else pl.Int64)
    if not series.null_count():
        return series.to_numpy()
    valid = series.is_not_null().to_numpy()
    return Nullable(series.fill_null(False if physical is np.bool_ else 0).to_numpy(), valid)


def make_series(name: str, column: Column, dtype: pl.DataType) -> pl.Series:
    """Return a column as a series of this type."""
    if isinstance(column, SeriesColumn):
        series = column.series
        return series if series.name == name else series.alias(name)
    if isinstance(column, Nullable):
        series = pl.Series(name, column.values)
        if not column.valid.all():
            series = series.scatter(np.flatnonzero(~column.valid), None)
    else:
        series = pl.Series(name, column)
    return series.cast(dtype) if isinstance(dtype, _TIMES) else series


# a selection of so few rows of so many or more may be kept for long: then it is a copy
FEW, MANY = 8, 256


def copy_values(series: pl.Series) -> pl.Series:
    """Return values that keep no others in memory.

    Rows that polars gathers from a column of strings share the bytes of the whole column.
    """
    if series.dtype == pl.String():
        return series + ""  # nothing is added, but all is copied
    if series.dtype == pl.Binary():
        return pl.Series(series.name, series.to_list(), series.dtype)
    return series


def concat_columns(columns: Sequence[Column]) -> Column:
    """Return the values of one or more columns of one type, in order."""
    if len(columns) == 1:
        return columns[0]
    if isinstance(columns[0], SeriesColumn):
        return SeriesColumn(pl.concat([_series(column) for column in columns], rechunk=False))
    if any(isinstance(column, Nullable) for column in columns):
        return Nullable(
            np.concatenate([_values(column) for column in columns]),
            np.concatenate([get_valid(column) for column in columns]),
        )
    return np.concatenate(columns)  # type: ignore[arg-type]


def cast_column(column: Column, dtype: pl.DataType) -> Column:
    """Return a column in a type of its own kind: integers, floats, or anything in place of nulls.

    polars raises if a value does not fit.
    """
    if isinstance(column, SeriesColumn):
        series = column.series
        return column if series.dtype == dtype else make_column(series.cast(dtype))
    physical = _PHYSICAL[type(dtype)]
    values = column if isinstance(column, np.ndarray) else column.values
    if values.dtype.type is physical:
        return column
    if values.dtype == np.uint64:  # polars refuses what does not fit
        return make_column(make_series("", column, pl.UInt64()).cast(dtype))
    values = values.astype(physical)
    return Nullable(values, column.valid) if isinstance(column, Nullable) else values


def make_nulls(dtype: pl.DataType, height: int) -> Column:
    """Return a column of this type with nulls alone."""
    physical = _PHYSICAL.get(type(dtype))
    if physical is None:
        return SeriesColumn(pl.Series([None], dtype=dtype).new_from_index(0, height))
    return Nullable(np.zeros(height, physical), np.zeros(height, np.bool_))


def has_nulls(column: Column) -> bool:
    """Return True if a value is null."""
    if isinstance(column, Nullable):
        return not column.valid.all()
    return isinstance(column, SeriesColumn) and column.series.null_count() > 0


def get_valid(column: Column) -> Bools:
    """Return the mask of the values that are not null."""
    if isinstance(column, Nullable):
        return column.valid
    # an expression of polars costs a short column 100 times what its number of nulls does
    if isinstance(column, SeriesColumn) and column.series.null_count():
        return column.series.is_not_null().to_numpy()
    return np.ones(len(column), np.bool_)


def _values(column: Column) -> Array:
    assert not isinstance(column, SeriesColumn)
    return column.values if isinstance(column, Nullable) else column


def _series(column: Column) -> pl.Series:
    assert isinstance(column, SeriesColumn)
    return column.series


class Repeated:
    """Column of rows each of which repeats one of a few: their values, and each row's number.

    ``in_order``: the few are in order of first appearance, and there is none that does not appear.
    """

    __slots__ = ("few", "in_order", "numbers")

    def __init__(self, few: Column, numbers: Int64s, *, in_order: bool) -> None:
        self.few, self.numbers, self.in_order = few, numbers, in_order

    def spread(self) -> Column:
        """Return the value of each row."""
        return self.few.take(self.numbers)


class Demand:
    """Record of a demand: ``few`` is True once a reader has used the few rows in place of all."""

    __slots__ = ("few",)

    def __init__(self) -> None:
        self.few = False

    def take(self) -> bool:
        """Return True if there was a demand since the last call."""
        few, self.few = self.few, False
        return few


class RepeatingColumns(Sequence[Any]):
    """Columns of which some repeat the values of a few rows; each of these is made when read.

    ``few`` has the values of the few rows, by the places of the columns, which are None in
    ``columns``. ``numbers`` ``int64[height]`` says which of them each row repeats; ``in_order`` is
    that of ``Repeated``. ``demand`` is told if somebody reads the few rows alone.
    """

    __slots__ = ("_columns", "_demand", "_few", "_in_order", "_numbers")

    def __init__(
        self,
        columns: Sequence[Column | None],
        few: Mapping[int, Column],
        numbers: Int64s,
        demand: Demand,
        *,
        in_order: bool = True,
    ) -> None:
        self._columns = [*columns]
        self._few, self._numbers, self._demand = few, numbers, demand
        self._in_order = in_order

    def __len__(self) -> int:
        return len(self._columns)

    def __getitem__(self, place: Any) -> Any:
        """Return the column at a place."""
        column = self._columns[place]
        if column is None:
            column = self._columns[place] = self._few[place].take(self._numbers)
        return column

    def find(self, places: Sequence[int]) -> list[Repeated] | None:
        """Return the columns at these places; None unless all of them repeat the few rows."""
        found = [
            Repeated(self._few[place], self._numbers, in_order=self._in_order)
            for place in places
            if place in self._few
        ]
        if len(found) < len(places):
            return None
        self._demand.few = True
        return found

    def estimate_bytes(self) -> int:
        """Return about how many bytes of memory the values take, once all have been read."""
        height = len(self._numbers)
        return sum(
            height * _estimate_bytes(self._few[place]) // max(len(self._few[place]), 1)
            if column is None
            else _estimate_bytes(column)
            for place, column in enumerate(self._columns)
        )

    def project(self, sources: Sequence[int | Column]) -> RepeatingColumns:
        """Return some columns: the number of a place is the column there, another is itself."""
        columns = [self._columns[each] if isinstance(each, int) else each for each in sources]
        few = {
            new: self._few[each]
            for new, each in enumerate(sources)
            if isinstance(each, int) and each in self._few
        }
        return RepeatingColumns(columns, few, self._numbers, self._demand, in_order=self._in_order)

    def pick(self, rows: Any) -> Sequence[Column]:
        """Return the columns of these rows: numbers or a slice.

        If these are fewer than the few rows, they are no longer kept.
        """
        numbers = self._numbers[rows]
        columns = [
            None if place in self._few or column is None else column[rows]
            for place, column in enumerate(self._columns)
        ]
        picked = RepeatingColumns(columns, self._few, numbers, self._demand, in_order=False)
        are_few = all(len(column) <= len(numbers) for column in self._few.values())
        return picked if are_few else [*picked]


NO_FIELDS = pl.Schema()


class Coded:
    """Numbers of the keys in the columns of these ``names``, by their owner.

    ``owner`` is a ``KeyCoder``, which gives each number to one key for good. ``find`` is called
    when they are first read, unless they are known, and sets ``codes``.
    """

    __slots__ = ("_codes", "_find", "names", "owner")

    def __init__(
        self,
        names: tuple[str, ...],
        owner: Any,
        codes: Array | None = None,
        find: Callable[[], object] | None = None,
    ) -> None:
        self.names, self.owner = names, owner
        self._codes, self._find = codes, find

    @property
    def are_known(self) -> bool:
        """True if the numbers have been found."""
        return self._codes is not None

    @property
    def codes(self) -> Array:
        """The number of each row, ``int64[height]``."""
        if self._codes is None:
            if (find := self._find) is not None:  # else another thread has just found them
                find()
            assert self._codes is not None
        return self._codes

    @codes.setter
    def codes(self, codes: Array) -> None:
        self._codes, self._find = codes, None

    def take(self, rows: Array) -> Coded:
        """Return the numbers of the rows with these numbers."""
        if self._codes is not None:
            return Coded(self.names, self.owner, self._codes.take(rows))
        return self._find_later(lambda: self.codes.take(rows))

    @staticmethod
    def concat(parts: Sequence[Coded | None]) -> Coded | None:
        """Return the numbers of the rows of all parts, in order; None if they are not of one kind.

        They are of one kind if the same owner has numbered the same columns of all.
        """
        first, *others = parts
        if first is None:
            return None
        each = [first]
        for other in others:
            if other is None or other.owner is not first.owner or other.names != first.names:
                return None
            each.append(other)
        return first._find_later(lambda: np.concatenate([one.codes for one in each]))

    def _find_later(self, compute: Callable[[], Array]) -> Coded:
        """Return numbers of the same owner, which are computed when they are first read."""
        made = Coded(self.names, self.owner)

        def find() -> None:
            made.codes = compute()

        made._find = find
        return made


class Columns:
    """Named columns of one length, and the frame of the same values, each made when asked for.

    ``schema`` has their names and types, in order. Columns and frame are never modified.
    """

    __slots__ = ("_columns", "_frame", "_schema", "coded", "height")

    def __init__(self, schema: pl.Schema, columns: Sequence[Column], height: int) -> None:
        self._schema: pl.Schema | None = schema
        self._columns: Sequence[Column] | None = columns
        self._frame: pl.DataFrame | None = None
        self.height = height
        # the numbers of the keys in some of the columns, if somebody has found them before
        self.coded: Coded | None = None

    @classmethod
    def from_frame(cls, frame: pl.DataFrame) -> Columns:
        """Return the columns of a frame; a column is made when it is first read."""
        if not isinstance(frame, pl.DataFrame):
            raise SchemaError(f"a batch's payload is a polars frame, got {type_name(frame)}")
        columns = cls.__new__(cls)
        columns._schema, columns._columns = None, None
        columns._frame, columns.height = frame, frame.height
        columns.coded = None
        return columns

    def share(self, coded: Coded | None = None) -> Columns:
        """Return the same columns with these numbers of keys."""
        shared = Columns.__new__(Columns)
        shared._schema, shared._columns, shared._frame = self._schema, self._columns, self._frame
        shared.height, shared.coded = self.height, coded
        return shared

    @classmethod
    def empty(cls, schema: pl.Schema) -> Columns:
        """Return columns without rows."""
        return cls(schema, [_make_empty(dtype) for dtype in schema.values()], 0)

    @property
    def schema(self) -> pl.Schema:
        """The names and types of the columns."""
        if self._schema is None:
            assert self._frame is not None
            self._schema = self._frame.schema
        return self._schema

    @property
    def columns(self) -> Sequence[Column]:
        """The columns, in the order of the schema."""
        if self._columns is None:
            assert self._frame is not None
            self._columns = [make_column(series) for series in self._frame.get_columns()]
        return self._columns

    @property
    def frame(self) -> pl.DataFrame:
        """The columns as a frame."""
        if self._frame is None:
            series = list(self.list_series())
            self._frame = pl.DataFrame(series) if series else pl.DataFrame(height=self.height)
        return self._frame

    def list_series(self) -> Iterator[pl.Series]:
        """Yield each column as a series."""
        if self._frame is not None:
            yield from self._frame.get_columns()
            return
        for (name, dtype), column in zip(self.schema.items(), self.columns, strict=True):
            yield make_series(name, column, dtype)

    def estimate_bytes(self) -> int:
        """Return about how many bytes of memory the values take."""
        if self._columns is None:
            return int(self.frame.estimated_size())
        if type(self._columns) is RepeatingColumns:
            return self._columns.estimate_bytes()
        return sum(map(_estimate_bytes, self._columns))

    def __len__(self) -> int:
        return self.height

    def __getitem__(self, name: str) -> Column:
        """Return the column of this name; ``SchemaError`` if there is none."""
        columns = self._columns or self.columns
        for place, each in enumerate(self._schema or self.schema):
            if each == name:
                return columns[place]
        raise SchemaError(f"there is no field {name!r}; there are {list(self.schema)}")

    def series(self, name: str) -> pl.Series:
        """Return the column of this name as a series."""
        if self._frame is not None:
            return self._frame.get_column(name)
        return make_series(name, self[name], self.schema[name])

    def select(self, schema: pl.Schema) -> Columns:
        """Return the columns that this schema names, in its order."""
        if tuple(self.schema) == tuple(schema):
            return self
        at = {name: place for place, name in enumerate(self.schema)}
        columns, places = self.columns, [at[name] for name in schema]
        if type(columns) is RepeatingColumns:
            return Columns(schema, columns.project(places), self.height)
        return Columns(schema, [columns[place] for place in places], self.height)

    def find_repeated(self, names: Sequence[str]) -> list[Repeated] | None:
        """Return the columns of these names if their rows repeat a few others, else None."""
        columns = self._columns
        if type(columns) is not RepeatingColumns or not names:
            return None
        if any(name not in self.schema for name in names):
            return None
        at = {name: place for place, name in enumerate(self.schema)}
        return columns.find([at[name] for name in names])

    def take(self, rows: Array) -> Columns:
        """Return the rows with these numbers, or for which this mask is True."""
        numbers = rows.nonzero()[0] if rows.dtype == BOOL else rows
        columns = self._columns or self.columns
        taken: Sequence[Column]
        if type(columns) is RepeatingColumns:
            taken = columns.pick(numbers)
        else:
            taken = [column.take(numbers) for column in columns]
        made = Columns(self._schema or self.schema, taken, len(numbers))
        if self.coded is not None:
            made.coded = self.coded.take(numbers)
        is_few = self.height >= MANY and FEW * len(numbers) <= self.height
        return made.copy_texts() if is_few else made

    def copy_texts(self) -> Columns:
        """Return the same rows, whose texts keep those of no others in memory."""
        if not self.height or not any(isinstance(each, SeriesColumn) for each in self.columns):
            return self
        columns = [
            SeriesColumn(copy_values(column.series)) if isinstance(column, SeriesColumn) else column
            for column in self.columns
        ]
        made = Columns(self.schema, columns, self.height)
        made.coded = self.coded
        return made

    def copy_rows(self, rows: Array) -> Columns:
        """Return the rows with these numbers, which keep no others in memory.

        Their keys are not numbered.
        """
        made = self.take(rows).copy_texts()
        made.coded = None
        return made

    def slice(self, begin: int, end: int) -> Columns:
        """Return the rows from number ``begin`` up to ``end``, without copying them."""
        rows = slice(begin, end)
        inside = 0 <= begin <= end <= self.height
        height = end - begin if inside else len(range(self.height)[rows])
        columns = self._columns or self.columns
        taken: Sequence[Column]
        if type(columns) is RepeatingColumns:
            taken = columns.pick(rows)
        else:
            taken = [column[rows] for column in columns]
        return Columns(self._schema or self.schema, taken, height)

    @staticmethod
    def concat(parts: Sequence[Columns]) -> Columns:
        """Return the rows of one or more sets of columns, in order.

        Those that have rows are of one schema.
        """
        filled = [part for part in parts if part.height]
        if len(filled) <= 1:
            return filled[0] if filled else max(parts, key=lambda part: len(part.schema))
        each = zip(*(part.columns for part in filled), strict=True)
        columns = [concat_columns(columns) for columns in each]
        made = Columns(filled[0].schema, columns, sum(part.height for part in filled))
        made.coded = Coded.concat([part.coded for part in filled])
        return made


def _estimate_bytes(column: Column) -> int:
    if isinstance(column, SeriesColumn):
        return int(column.series.estimated_size())
    if isinstance(column, Nullable):
        return column.values.nbytes + column.valid.nbytes
    return column.nbytes


def _make_empty(dtype: pl.DataType) -> Column:
    physical = _PHYSICAL.get(type(dtype))
    return SeriesColumn(pl.Series([], dtype=dtype)) if physical is None else np.empty(0, physical)


# Times --------------------------------------------------------------------------------------------


def time_series(
    name: str, times: Int64s, form: Literal["datetime", "ticks"], *, endless: bool = False
) -> pl.Series:
    """Return ticks as a polars column; with ``endless``, ``MAX_TIME`` becomes null."""
    series = pl.Series(name, times, dtype=pl.Int64)
    if endless and len(times) and times.max() == MAX_TIME:
        series = series.set(series == MAX_TIME, None)
    return series.cast(_UTC) if form == "datetime" else series


def time_column(series: pl.Series, *, null: int | None = None) -> Int64s:
    """Return a column of times (aware datetimes, or ints of ticks) as ticks.

    A null becomes ``null``, or is an error if ``null`` is None. Finer units are floored.
    """
    return read_times(series, null=null)[0]


def read_times(series: pl.Series, *, null: int | None = None) -> tuple[Int64s, bool]:
    """Return a column of times as ``time_column`` does, and True if the times never fall."""
    name, dtype = series.name, series.dtype
    if isinstance(dtype, pl.Datetime):
        if dtype.time_zone is None:
            raise EventError(
                f"column {name!r} holds naive datetimes, which name no instant. "
                f'Hint: pl.col("{name}").dt.replace_time_zone("UTC"), or the zone they mean; '
                "from_polars, from_pandas and from_arrow take it as time_zone=."
            )
        if dtype.time_unit != "us":  # it would copy
            series = series.dt.cast_time_unit("us")
        series = series.cast(pl.Int64)
    elif dtype == pl.Null():
        series = series.cast(pl.Int64)
    elif not dtype.is_integer():
        from rxtemporal.core.safe_text import hint_column

        raise EventError(
            f"column {name!r} of type {dtype} is not a time; a time is an aware Datetime or an "
            f"integer of ticks. {hint_column(name, dtype)}"
        )
    if series.null_count():
        if null is None:
            row = series.is_null().arg_max()
            raise EventError(
                f"column {name!r} is null in row {row}, but every row needs a start. "
                f'Hint: filter with pl.col("{name}").is_not_null(), and count what you leave out.'
            )
        series = series.fill_null(null)
    times = np.ascontiguousarray(series.to_numpy())
    in_order = is_ascending(times)
    # of times in order the first and the last one say all
    if len(times) and not (
        (times[0] if in_order else times.min()) >= MIN_TIME
        and (times[-1] if in_order else times.max()) <= MAX_TIME
    ):
        raise EventError(f"column {name!r} holds times outside of time, {MIN_TIME} to {MAX_TIME}")
    return times.astype(np.int64, copy=False), in_order


def is_ascending(values: Array) -> bool:
    """Return True if values never fall. O(n), up to the first block in which they do."""
    for begin in range(0, len(values) - 1, _BLOCK):
        block = values[begin : begin + _BLOCK + 1]
        if np.count_nonzero(block[1:] < block[:-1]):
            return False
    return True


def end_column(start: pl.Series, end: pl.Series, starts: Int64s) -> Int64s:
    """Return the ends of rows as ticks, given their starts, also as ticks; null: never ends."""
    ends = time_column(end, null=MAX_TIME)
    # a lifetime that is empty only because of flooring becomes one tick
    longer = _below_a_tick(end) > _below_a_tick(start)
    return np.where((ends == starts) & longer, ends + TICK, ends) if longer.any() else ends


def _below_a_tick(times: pl.Series) -> Int64s:
    """Return the nanoseconds that flooring removed from each time; one 0 if it removed none."""
    if getattr(times.dtype, "time_unit", None) != "ns":
        return np.zeros(1, np.int64)
    return (times.to_physical() % 1_000).fill_null(0).to_numpy()
