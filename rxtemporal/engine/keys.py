"""Integer codes for keys, the same in every batch of a stream."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.columns import (
    Coded,
    Column,
    Columns,
    Nullable,
    Repeated,
    SeriesColumn,
    concat_columns,
    make_column,
)
from rxtemporal.engine.key_store import (
    GrowingColumn,
    GrowingSeries,
    KeptKeys,
    KeyStore,
    make_growing,
)
from rxtemporal.errors import CheckpointError

if TYPE_CHECKING:
    from rxtemporal.engine.kernels.value_codes import PairCodes, ValueCodes


Codes = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Integers: TypeAlias = npt.NDArray[np.int64] | npt.NDArray[np.int32]
_INT64, _INT32 = np.dtype(np.int64), np.dtype(np.int32)


class KeyColumn(Protocol):
    """Numbers the distinct values of one column in order of first appearance."""

    @property
    def hashed(self) -> bool:
        """True if values are hashed and compared; otherwise they stand for integers."""

    @property
    def next_code(self) -> int:
        """The number of distinct values."""

    @property
    def values(self) -> GrowingColumn | None:
        """The distinct values by code, if they are stored."""

    def number(self, values: Column) -> Codes:
        """Return the code of each value; null has a code of its own."""

    def identify(self, values: Column) -> tuple[Integers, Bools | None]:
        """Return integers that are equal if the values are, and only then, in all batches.

        They are the codes if values are hashed. And the mask of those that are not null; None: all
        are. Where it is False, the integer has no meaning.
        """


def make_key_column(dtype: pl.DataType) -> KeyColumn:
    """Return an empty numbering for a column of this type."""
    from rxtemporal.engine.kernels.value_codes import ValueCodes

    if isinstance(dtype, pl.String | pl.Binary | pl.Decimal):
        return _HashedColumn(ValueCodes(), pl.Series([], dtype=dtype))
    return _IntegerColumn(ValueCodes())


class _IntegerColumn:
    """Numbers a column by the integers that stand for its values: their ticks, days or bits."""

    __slots__ = ("_table",)

    hashed = False
    values = None

    def __init__(self, table: ValueCodes) -> None:
        self._table = table

    @property
    def next_code(self) -> int:
        return self._table.next_code

    def number(self, values: Column) -> Codes:
        return self._table.number(*self.identify(values))

    def identify(self, values: Column) -> tuple[Integers, Bools | None]:
        if isinstance(values, SeriesColumn):
            values = make_column(values.series.cast(pl.Int64))
        if isinstance(values, np.ndarray):
            return _to_integers(values), None
        assert isinstance(values, Nullable)
        return _to_integers(values.values), values.valid


class _HashedColumn:
    """Numbers a column by 64-bit hashes; compares each value with the one stored under its code.

    Two values rarely have the same hash; if so, all values are looked up in a dict from then on.
    """

    __slots__ = ("_exact", "_table", "values")

    hashed = True

    def __init__(self, table: ValueCodes, empty: pl.Series) -> None:
        self._table = table
        self.values = GrowingSeries(empty)
        self._exact: dict[Hashable, int] | None = None

    @property
    def next_code(self) -> int:
        return self._table.next_code if self._exact is None else len(self._exact)

    def number(self, values: Column) -> Codes:
        assert isinstance(values, SeriesColumn)
        if self._exact is not None:
            return self._look_up(values)
        known = self._table.next_code
        codes = self._table.number(_hash_values(values.series))
        count = self._table.next_code
        if count > known:
            self.values.append(values[find_first_rows(codes, known, count)])
        if count - known == len(values) or self._match_codes(values.series, codes):
            return codes
        self.values.cut(known)
        stored = self.values.take(np.arange(known)).series.to_list()
        self._exact = {value: code for code, value in enumerate(stored)}
        return self._look_up(values)

    def identify(self, values: Column) -> tuple[Integers, Bools | None]:
        return self.number(values), None

    def _match_codes(self, values: pl.Series, codes: Codes) -> bool:
        """Return True if each value is the one stored under its code."""
        return values.equals(self.values.take(codes).series, null_equal=True)

    def _look_up(self, values: SeriesColumn) -> Codes:
        exact = self._exact
        assert exact is not None
        known, given = len(exact), values.series.to_list()
        codes = np.array([exact.setdefault(value, len(exact)) for value in given], np.int64)
        if len(exact) > known:
            self.values.append(values[find_first_rows(codes, known, len(exact))])
        return codes


def _number_from(column: KeyColumn, values: Column, begin: int) -> Codes:
    return column.number(values[begin:])


def find_first_rows(codes: Codes, known: int, count: int) -> Codes:
    """Return for each of the codes ``known … count - 1``, which are new, the first row with it."""
    from rxtemporal.engine.kernels import value_codes

    return value_codes.find_first_rows(codes, known, count)


def to_hashable(column: Column, dtype: pl.DataType) -> list[Any]:
    """Return a column's values as Python values that are equal exactly if the keys are.

    Times are integers: when clocks are set back, Python finds two aware datetimes equal that are an
    hour apart. NaN becomes a value that equals itself.
    """
    if isinstance(column, SeriesColumn):
        return column.series.to_list()
    if isinstance(column, Nullable):
        values = to_hashable(column.values, dtype)
        return [v if there else None for v, there in zip(values, column.valid, strict=True)]
    values = column.tolist()
    return ["NaN" if v != v else v for v in values] if dtype.is_float() else values


def _hash_values(values: pl.Series) -> Codes:
    # not hash_rows of a frame, which wakes other threads for each batch
    return values.hash().to_numpy().view(np.int64)


def _to_integers(values: npt.NDArray[Any]) -> Integers:
    """Return integers that are equal exactly if the values are; of floats the bits."""
    if values.dtype == _INT64 or values.dtype == _INT32:
        return values
    if values.dtype.kind != "f":
        return values.astype(np.int64)
    floats = values.astype(np.float64) + 0.0  # one zero
    floats[np.isnan(floats)] = np.nan
    return floats.view(np.int64)


# up to so many rows with strings are looked up one by one, since hashing and comparing costs more
FEW_ROWS = 512
# keys are forgotten when so many more are known than so many times those that are held
MANY_KEYS, TIMES_HELD = 1024, 2
# To forget costs as much for a few keys as for many. So where fewer batches than this have brought
# as many, more may be known the next time, up to so many.
MANY_BATCHES, MOST_SPARE = 4, 16_384


class _Translation:
    """The codes that a coder gives to the keys that another one, the owner, has numbered."""

    __slots__ = ("_count", "_is_same", "codes", "owner")

    def __init__(self, owner: KeyCoder) -> None:
        self.owner = owner
        # by the owner's numbers; -1 for those that have not come
        self.codes = np.full(0, -1)
        # how many have come, and True if each is the owner's number
        self._count, self._is_same = 0, True

    def find(self, numbers: Codes) -> Codes | None:
        """Return the codes for these numbers; None if one is missing."""
        count = len(self.owner)
        if self._is_same and self._count == count:
            return numbers
        if len(self.codes) < count:
            have, self.codes = self.codes, np.full(max(count, 2 * len(self.codes)), -1)
            self.codes[: len(have)] = have
        codes: Codes = self.codes.take(numbers)
        return None if codes.min(initial=0) < 0 else codes

    def list_missing(self, numbers: Codes) -> Codes:
        """Return those of the numbers that have no code, each once, as they appear first."""
        missing = numbers[self.codes[numbers] < 0]
        found: Codes = missing[np.sort(np.unique(missing, return_index=True)[1])]
        return found

    def note(self, numbers: Codes, codes: Codes) -> None:
        """Note the codes of numbers that had none."""
        self.codes[numbers] = codes
        self._count += len(numbers)
        self._is_same = self._is_same and bool((codes == numbers).all())


class KeyGroup:
    """Batches whose keys are numbered together, when the numbers of one are first read.

    Any thread may do so: ``lock`` is that of the coder's owner.
    """

    def __init__(self, coder: KeyCoder, lock: AbstractContextManager[Any]) -> None:
        self._coder, self._lock = coder, lock
        self._find = self._number
        self._parts: list[tuple[Coded, list[Column]]] = []

    def add(self, names: tuple[str, ...], columns: list[Column]) -> Coded:
        """Add the rows of a batch, whose keys are in these columns; return their numbers."""
        coded = Coded(names, self._coder, find=self._find)
        with self._lock:
            self._parts.append((coded, columns))
        return coded

    def _number(self) -> None:
        """Number the keys of the batches so far."""
        with self._lock:
            if not self._parts:  # another thread was first
                return
            columns = map(concat_columns, zip(*(each for _, each in self._parts), strict=True))
            codes, begin = self._coder.encode_columns([*columns]), 0
            parts, self._parts = self._parts, []
            for coded, (first, *_) in parts:
                end = begin + len(first)
                coded.codes, begin = codes[begin:end], end


class KeyCoder:
    """Numbers the distinct keys of a stream, 0, 1, 2 … in order of first appearance.

    Null equals null, NaN equals NaN and -0.0 equals 0.0. Without fields all rows have one key. Each
    row of a batch costs a look-up in a hash table for each field at most, however many keys there
    are; each row of a small batch with strings a look-up in a dict of the keys of small batches.

    A coder whose first rows another one has numbered follows that one: it takes its numbers, and
    stores no keys, until it forgets some or gets rows that the other has not numbered.

    >>> coder = KeyCoder({"k": pl.String()})
    >>> coder.encode(Columns.from_frame(pl.DataFrame({"k": ["b", "a", "b"]}))).tolist()
    [0, 1, 0]
    >>> coder.decode(np.array([1])).frame["k"].to_list()
    ['a']
    """

    __slots__ = (
        "_batches", "_columns", "_count", "_few", "_few_codes", "_keys", "_leader", "_limit",
        "_pairs", "_shared", "_spare", "_translations", "generation", "names", "schema",
    )  # fmt: skip

    _columns: list[KeyColumn]
    _pairs: list[PairCodes]
    _few_codes: dict[Hashable, int]
    _shared: GrowingColumn | None

    def __init__(self, schema: Mapping[str, pl.DataType]) -> None:
        self.schema = pl.Schema(schema)
        self.names = tuple(self.schema)
        self._limit, self._spare = MANY_KEYS, 0
        # how many have been numbered since keys were forgotten
        self._batches = 0
        # as long as it is the same, each code is that of the same key
        self.generation = 0
        self._clear()

    def _clear(self) -> None:
        # imported here so that importing the package does not load numba
        from rxtemporal.engine.kernels.value_codes import PairCodes

        self.generation += 1
        self._columns = [make_key_column(dtype) for dtype in self.schema.values()]
        self._pairs = [PairCodes() for _ in self._columns[1:]]
        self._few = FEW_ROWS if any(column.hashed for column in self._columns) else 0
        # the values of a single column are the keys
        self._shared = self._columns[0].values if len(self._columns) == 1 else None
        fields = map(make_growing, self.schema.values())
        self._keys = KeyStore([self._shared] if self._shared is not None else list(fields))
        self._count = 0 if self.names else 1
        self._few_codes = {}
        # the coder that this one follows
        self._leader: KeyCoder | None = None
        # of other coders, by their ids
        self._translations: dict[int, _Translation] = {}

    def __len__(self) -> int:
        return self._count

    def encode(self, rows: Columns) -> Codes:
        """Return the code of each row's key, numbering those that are new."""
        if not self.names:
            return np.zeros(rows.height, np.int64)
        if rows.coded is not None and rows.coded.names == self.names:
            return self.translate(rows.coded)
        return self.encode_columns(self.select(rows))

    def translate(self, *parts: Coded) -> Codes:
        """Return the codes of rows in order, given the numbers that another coder has found.

        A row costs a look-up in an array, or nothing as long as this coder follows the other.
        """
        owner: KeyCoder = parts[0].owner
        if any(part.owner is not owner for part in parts):
            return np.concatenate([self.translate(part) for part in parts])
        numbers: Codes = parts[0].codes
        if len(parts) > 1:
            numbers = np.concatenate([part.codes for part in parts])
        if owner is self:
            return numbers
        if not self._count or self._leader is owner:
            self._leader, self._count = owner, len(owner)
            return numbers
        self._stop_following()
        known = self._translations.get(id(owner))
        if known is None:
            known = self._translations[id(owner)] = _Translation(owner)
        codes = known.find(numbers)
        if codes is None:
            new = known.list_missing(numbers)
            known.note(new, self.encode_columns(owner.take(new)))
            codes = known.find(numbers)
            assert codes is not None
        return codes

    def select(self, rows: Columns) -> Sequence[Column | Repeated]:
        """Return the key's columns, in their order."""
        repeated = rows.find_repeated(self.names)
        return [rows[name] for name in self.names] if repeated is None else repeated

    def _stop_following(self) -> None:
        """Store the keys that another coder has numbered so far, with the same numbers."""
        leader = self._leader
        if leader is None:
            return
        old = np.arange(self._count)
        keys, limit = leader.take(old), self._limit
        self._clear()
        self._number(keys)
        self._limit = limit
        known = self._translations[id(leader)] = _Translation(leader)
        known.find(old)
        known.note(old, old)

    def encode_columns(self, columns: Sequence[Column | Repeated]) -> Codes:
        """Return the code of each row's key, given the key's columns in their order.

        If rows repeat a few others, only these are looked up: all columns are of one kind then.
        """
        if isinstance(columns[0], Repeated):
            return self._encode_repeated(columns)  # type: ignore[arg-type]
        given: Sequence[Column] = columns  # type: ignore[assignment]
        self._stop_following()
        if self._few and len(given[0]) <= self._few:
            return self._encode_few(given)
        return self._number(given)

    def _encode_repeated(self, columns: Sequence[Repeated]) -> Codes:
        """Return the codes of rows that repeat a few others, which are those of all rows."""
        from rxtemporal.engine.kernels.rows import number_repeated

        first, few = columns[0], [column.few for column in columns]
        numbers = first.numbers
        if not first.in_order:  # codes are given by the order in which the rows come
            given, numbers = numbers, np.empty(len(numbers), np.int64)
            seen, distinct = np.full(len(few[0]), -1), np.empty(len(few[0]), np.int64)
            count = number_repeated(given, seen, numbers, distinct)
            few = [column.take(distinct[:count]) for column in few]
        return self.encode_columns(few).take(numbers)

    def decode(self, codes: Codes) -> Columns:
        """Return the keys with these codes."""
        return Columns(self.schema, self.take(codes), len(codes))

    def take(self, codes: Codes) -> list[Column]:
        """Return the columns of the keys with these codes."""
        return self._keys.take(codes) if self._leader is None else self._leader.take(codes)

    def columns(self, codes: Codes) -> list[pl.Series]:
        """Return the keys with these codes, as series."""
        return list(self.decode(codes).list_series())

    def state(self) -> pl.DataFrame:
        """Return all keys in order of their codes, for ``restore``."""
        return self.decode(np.arange(self._count)).frame

    @classmethod
    def restore(cls, state: pl.DataFrame) -> Self:
        """Return a coder in which the keys of a saved state have the codes that they had."""
        coder = cls(state.schema)
        coder.encode(Columns.from_frame(state))
        if len(coder) != state.height:
            raise CheckpointError(
                f"the saved keys {list(state.columns)} are {state.height} rows, of which "
                f"{len(coder)} differ; each key must be there once"
            )
        return coder

    @property
    def is_full(self) -> bool:
        """True if so many keys are known that its owner should see which ones it holds."""
        return self._count > self._limit + self._spare and bool(self.names)

    def forget(self, held: Bools) -> KeptKeys | None:
        """Forget the keys for which nothing is held, if those are most and no longer spared.

        ``held`` ``bool[keys]``, by code. Returns the codes kept, which are numbered anew in order;
        None if all stay. Is called when the coder is full, so each key is moved O(1) times.
        """
        self._limit = MANY_KEYS + TIMES_HELD * int(np.count_nonzero(held))
        if not self.is_full:
            return None
        are_few = self._batches < MANY_BATCHES
        self._spare = min(2 * self._spare + MANY_KEYS, MOST_SPARE) if are_few else self._spare // 2
        kept = self.select_keys(held)
        self._batches = 0
        return kept

    def select_keys(self, mask: Bools) -> KeptKeys:
        """Keep these keys, ``bool[keys]`` by code, which are numbered anew in order."""
        old, count = np.flatnonzero(mask), self._count
        kept = self.decode(old)
        self._limit = MANY_KEYS + TIMES_HELD * len(old)
        self._clear()
        self.encode(kept)
        return KeptKeys(old, count)

    def _encode_few(self, columns: Sequence[Column]) -> Codes:
        """Return the codes of few rows."""
        lists = [
            to_hashable(column, dtype)
            for column, dtype in zip(columns, self.schema.values(), strict=True)
        ]
        keys: list[Any] = lists[0] if len(lists) == 1 else list(zip(*lists, strict=True))
        asked = self._few_codes
        try:
            return np.fromiter(map(asked.__getitem__, keys), np.int64, len(keys))
        except KeyError:
            codes = self._number(columns)
            asked.update(zip(keys, codes.tolist(), strict=True))
            return codes

    def _number(self, columns: Sequence[Column]) -> Codes:
        """Return the rows' codes; store the new keys.

        Numbers the first column, then each pair of a code so far and a value of the next column;
        after the last column the codes are those of the keys.
        """
        self._batches += 1
        last = self._columns[0]
        codes = last.number(columns[0])
        count = last.next_code
        for i, pairs in enumerate(self._pairs, 1):
            column, values = self._columns[i], columns[i]
            partners, valid = column.identify(values)
            find_codes = None if column.hashed else partial(_number_from, column, values)
            pairs.number(codes, partners, count, valid, find_codes)
            count = pairs.next_code
        if count > self._count:
            if self._shared is None:
                self._keys.append(columns, find_first_rows(codes, self._count, count))
            self._count = count
        return codes
