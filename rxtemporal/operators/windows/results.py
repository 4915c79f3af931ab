"""Results computed over each window, for every kind of window."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np
import polars as pl

from rxtemporal.core import columns as core
from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.columns import Columns, Nullable, SeriesColumn, get_valid, make_column
from rxtemporal.engine.expressions.evaluator import Evaluator, Predicate
from rxtemporal.engine.holdings import PART, Moves, Selection
from rxtemporal.engine.kernels.compiled import freeze
from rxtemporal.engine.rows import Column
from rxtemporal.engine.state import Stateful
from rxtemporal.operators.windows.aggregates import (
    Changes,
    FloatSum,
    RunningAggregate,
    Samples,
    SumInput,
)
from rxtemporal.operators.windows.bounds import Windows
from rxtemporal.operators.windows.combinations import hide_rows
from rxtemporal.operators.windows.field_values import make_arrays
from rxtemporal.operators.windows.kernels.cells import number_cells
from rxtemporal.operators.windows.kernels.ranks import find_contenders, sort_groups
from rxtemporal.operators.windows.overlaps import OVERLAP, SlicePlan
from rxtemporal.operators.windows.rows import (
    ROW_START,
    WINDOW,
    Contents,
    ListedAggregate,
)

# it costs less to hold fewer rows than to choose some of them
FEW = 16
# columns beside the fields of rows that are sorted
_GROUP, _ROW, _BY = "__group__", "__row__", "__by__"
# returns fields of rows, by name: of these numbers, or of all rows
ReadFields: TypeAlias = Callable[[Sequence[str], "Int64s | None"], Sequence[core.Column]]
# returns the places of rows on the axis of the windows
FindPlaces: TypeAlias = Callable[[EventBatch], tuple[Int64s, Int64s]]
# the results of running aggregates; None for what is computed from the rows of each window
Swept: TypeAlias = list[core.Column | None]


@dataclasses.dataclass(slots=True, eq=False)
class ResultRows:
    """Result rows: their fields without the keys, and the number of each row's window.

    ``of``: None if there is one row for each window. ``lifetimes``: starts and ends if they differ
    from the windows'.
    """

    columns: Sequence[core.Column]
    of: Int64s | None = None
    lifetimes: tuple[Int64s, Int64s] | None = None


class WindowResults(Protocol):
    """Computation of result rows from windows."""

    lists: bool
    """True if it needs the individual rows of a window."""

    finished: bool
    """True if it needs the end of a window."""

    once: bool
    """True if it takes rows that ``span`` windows hold as a single change."""

    @property
    def dtypes(self) -> Sequence[Any]:
        """The types of the arrays kept for each row."""

    def columns(self, payload: Columns) -> list[Column | bool]:
        """Return the arrays to keep for each row: the values that are read.

        True stands for an array filled with it.
        """

    def find_contenders(
        self, rows: EventBatch, key: Int64s, values: Sequence[Any], places: FindPlaces
    ) -> Bools | None:
        """Return the mask of the rows that a result may depend on; None if all are to be kept.

        ``key`` ``int64[n]``; ``values``: what ``columns`` returns; ``places`` returns the places on
        the axis from which on, and up to which, rows are held, ``int64[n]``. All ends are known.
        """

    def prepare_sum(self, own: Sequence[Column], span: int, keys: int) -> SumInput | None:
        """Return the input of a sum of floats that may be computed with the windows, if any."""

    def sweep(self, windows: Windows, changes: Changes, own: Sequence[Column], keys: int) -> Swept:
        """Apply the changes to running aggregates; return a column for each of their fields."""

    def keep_selected(self, selection: Selection) -> None:
        """Drop all keys that are not selected."""

    def merge_from(self, other: Any, moves: Moves) -> None:
        """Take over the state of other keys."""

    def compute(self, swept: Swept, contents: Contents | None) -> ResultRows:
        """Return the result rows."""


class ReadValues:
    """The values that aggregates read of the rows of a batch: each expression is computed once.

    ``shown`` is the mask of the rows that count for all aggregates but those by time; None: all.
    """

    __slots__ = ("_known", "_payload", "_shown")

    def __init__(self, payload: Columns, shown: Bools | None) -> None:
        self._payload = payload
        self._shown = shown
        self._known: dict[int, Any] = {}

    @property
    def overlaps(self) -> core.Column:
        """For how long each row overlaps its window."""
        return self._payload[OVERLAP]

    def read(self, reads: Evaluator, *, as_objects: bool) -> core.Column:
        """Return the value of an expression for each row."""
        if as_objects:
            return SeriesColumn(reads.make_series(self._payload))
        found = self._known.get(id(reads))
        if found is None:
            found = self._known[id(reads)] = reads(self._payload)
        return found

    def find(self, where: Predicate | None, *, by_time: bool) -> Bools | None:
        """Return the mask of the rows that count; None: all do."""
        shown = None if by_time else self._shown
        if where is None:
            return shown
        found: Bools | None = self._known.get(id(where))
        if found is None:
            found = self._known[id(where)] = where(self._payload)
        return found if shown is None else found & shown


@dataclasses.dataclass(slots=True)
class Output(Stateful):
    """One field of the result: the aggregate (None: count rows), and what it reads of each row.

    ``where``: the rows that count; None: all. ``by_time``: it reads the overlaps of rows with their
    windows. ``weighed``: these are weights.
    """

    name: str
    reads: Evaluator | None
    by: RunningAggregate | ListedAggregate | None
    by_time: bool = False
    weighed: bool = False
    where: Predicate | None = None
    held = MappingProxyType({"by": PART})

    @property
    def running(self) -> RunningAggregate | None:
        """The running aggregate, if it has one."""
        return None if isinstance(self.by, ListedAggregate) else self.by

    @property
    def parts(self) -> Sequence[Output]:
        """The parts that are swept for this field: itself."""
        return [self]

    def columns(self, values: ReadValues) -> list[Column | bool]:
        """Return the arrays to keep for each row, which the running aggregate reads."""
        by: Any = self.by
        reads: Any = self.reads
        field = values.read(reads, as_objects=by.objects)
        if self.weighed:
            return list(by.weigh(field, values.overlaps))
        where = values.find(self.where, by_time=self.by_time)
        found: list[Column | bool] = by.columns(field if where is None else hide_rows(field, where))
        return found

    def finish(self, swept: Sequence[core.Column | None], windows: Windows) -> core.Column | None:
        """Return the column of the results."""
        if self.by is None:
            return windows.alive.copy()  # results that are kept would hold all columns
        return swept[0]


@dataclasses.dataclass(slots=True)
class SharedOutput(Output):
    """Several fields of the result of one aggregate, which differ in the rows that count."""

    wheres: Sequence[Predicate | None] = (None,)

    def columns(self, values: ReadValues) -> list[Column | bool]:
        """Return the arrays to keep for each row, which the running aggregate reads."""
        by: Any = self.by
        reads: Any = self.reads
        field = values.read(reads, as_objects=by.objects)
        masks = [values.find(where, by_time=self.by_time) for where in self.wheres]
        found: list[Column | bool] = by.columns(field, masks)
        return found


class SharedField(Stateful):
    """One field of the result that a shared aggregate computes; the first one has its state."""

    by = None

    def __init__(self, name: str, part: SharedOutput, number: int) -> None:
        self.name = name
        self.parts = [part]
        self._number = number
        self.held = MappingProxyType({} if number else {"parts": PART})

    def finish(self, swept: Sequence[Any], windows: Windows) -> core.Column | None:
        """Return the column of the results."""
        column: core.Column = swept[0][self._number]
        return column


@dataclasses.dataclass(slots=True)
class Combination(Stateful):
    """One field of the result that is computed from sums over each window, and from its length."""

    name: str
    parts: list[Output]
    combine: Callable[[Sequence[Any], Windows], core.Column]
    held = MappingProxyType({"parts": PART})
    by = None

    def finish(self, swept: Sequence[core.Column | None], windows: Windows) -> core.Column | None:
        """Return the column of the results."""
        return self.combine(swept, windows)


class AggregateResults(Stateful):
    """One row for each window: the aggregates over its rows.

    ``hidden`` are fields of the rows that users' code does not see. With ``slicing`` the rows are
    pieces of others.
    """

    held = MappingProxyType({"_outputs": PART})

    def __init__(
        self,
        outputs: list[Output | SharedField | Combination],
        hidden: Collection[str] = (),
        slicing: SlicePlan | None = None,
    ) -> None:
        self._outputs = outputs
        self._hidden = [*hidden]
        self._slicing = slicing
        listed = [output.by for output in outputs if isinstance(output.by, ListedAggregate)]
        self.lists = bool(listed)
        self.finished = any(each.finished for each in listed)
        # a part that several share comes once
        parts = {id(part): part for output in outputs for part in output.parts}.values()
        self._runs = [(part, part.running) for part in parts if part.running is not None]
        self.once = not self.lists and all(running.once for _, running in self._runs)
        self._chooses = not self.lists and all(
            part.running is not None and part.running.chooses
            for output in outputs
            for part in output.parts
        )
        self.dtypes = [np.dtype(dtype) for _, running in self._runs for dtype in running.dtypes]
        # the sum of floats that may be computed with the windows, and its place in the values
        places = accumulate((len(running.dtypes) for _, running in self._runs), initial=0)
        each = zip((running for _, running in self._runs), places, strict=False)
        sums = [(running, place) for running, place in each if isinstance(running, FloatSum)]
        self._sum: FloatSum | None = None
        self._sum_at = 0
        if sums:
            self._sum, self._sum_at = sums[0]

    def columns(self, payload: Columns) -> list[Column | bool]:
        """Return the values that the running aggregates read."""
        shown = None
        if self._slicing is not None and any(not part.by_time for part, _ in self._runs):
            masks = [~get_valid(payload[name]) for name in self._slicing.marks]
            shown = np.logical_and.reduce(masks) if masks else None
        values = ReadValues(payload, shown)
        return [column for part, _ in self._runs for column in part.columns(values)]

    def find_contenders(
        self, rows: EventBatch, key: Int64s, values: Sequence[Any], places: FindPlaces
    ) -> Bools | None:
        """Return the mask of the rows that have the least or greatest values of their cells.

        None if there are other aggregates, or few rows.
        """
        count = len(rows)
        if not self._chooses or count < FEW:
            return None
        cell, cells = number_cells(freeze(key), *places(rows))
        own, stays = make_arrays(values, self.dtypes, count), np.zeros(count, np.bool_)
        for _, running in self._runs:
            choosing: Any = running
            used = len(choosing.dtypes)
            choosing.choose(cell, cells, own[:used], stays)
            own = own[used:]
        return stays

    def prepare_sum(self, own: Sequence[Column], span: int, keys: int) -> SumInput | None:
        """Return the input of the first sum of floats, if there is one."""
        return None if self._sum is None else self._sum.prepare(own[self._sum_at :], span, keys)

    def sweep(self, windows: Windows, changes: Changes, own: Sequence[Column], keys: int) -> Swept:
        """Return a column for each output; None for one that reads the rows one by one."""
        samples = Samples(windows.at, windows.key, keys, windows.window)
        found: dict[int, core.Column] = {}
        used = 0
        for part, running in self._runs:
            mine = own[used : used + len(running.dtypes)]
            used += len(running.dtypes)
            if running is self._sum and windows.sums is not None:
                found[id(part)] = self._sum.complete(changes, mine, samples, *windows.sums)
            else:
                found[id(part)] = running.sweep(changes, mine, samples)
        return [
            output.finish([found.get(id(part)) for part in output.parts], windows)
            for output in self._outputs
        ]

    def compute(self, swept: Swept, contents: Contents | None) -> ResultRows:
        """Return one row for each window."""
        columns = []
        counted = contents if contents is None else self._pick_counted(contents)
        for output, column in zip(self._outputs, swept, strict=True):
            if column is None:
                assert counted is not None
                assert isinstance(output.by, ListedAggregate)
                column = output.by.values(output.name, counted)
            columns.append(column)
        return ResultRows(columns)

    def _pick_counted(self, contents: Contents) -> Contents:
        """Return the rows that are not only there for aggregates by time, with the user's fields.

        Each window has one of them.
        """
        if not self._hidden:
            return contents
        rows = contents.rows
        if self._slicing is not None:
            rows = rows.filter(*(pl.col(name).is_null() for name in self._slicing.marks))
        return dataclasses.replace(contents, rows=rows.drop(self._hidden, strict=False))


class ListedResults(Stateful):
    """Base of results computed from the rows of each window; keeps no columns, holds nothing."""

    lists = True
    finished = False
    once = False
    dtypes: ClassVar[Sequence[Any]] = ()

    def columns(self, payload: Columns) -> list[Column | bool]:
        """Return nothing."""
        return []

    def find_contenders(
        self, rows: EventBatch, key: Int64s, values: Sequence[Any], places: FindPlaces
    ) -> Bools | None:
        """Return nothing: results depend on all rows."""
        return None

    def prepare_sum(self, own: Sequence[Column], span: int, keys: int) -> None:
        """Return nothing: nothing is summed."""

    def sweep(self, windows: Windows, changes: Changes, own: Sequence[Column], keys: int) -> Swept:
        """Return nothing."""
        return []


class Order(NamedTuple):
    """Rows in order of group and rank.

    ``rows`` ``int64[n]``: their numbers in the order. ``tie`` ``int64[n]``: rising, and equal for
    rows of a group that share a rank. ``base`` ``int64[groups + 1]``: the first place of each
    group.
    """

    rows: Int64s
    tie: Int64s
    base: Int64s


class TopKResults(ListedResults):
    """Rows of rank ``k`` or better; nulls come last.

    With ``shares`` rows that are equal by all orders share a rank, else they are in the order of
    (start, payload). ``orders`` are expressions, each with True if the greatest value is first.
    ``schema`` has the fields of the rows.
    """

    def __init__(
        self,
        k: int,
        orders: Sequence[tuple[pl.Expr, bool]],
        fields: list[str],
        rank: str | None,
        schema: pl.Schema,
        *,
        shares: bool,
    ) -> None:
        self._by = [by for by, _ in orders]
        self._falls = [falls for _, falls in orders]
        # the fields that are ranked by; None for what is computed
        self._named = [_find_name(by, schema) for by in self._by]
        self._rank = rank
        self._shares = shares
        self._schema = schema
        sortable = {name: type_ for name, type_ in schema.items() if not isinstance(type_, pl.List)}
        self._sortable = pl.Schema(sortable)
        self.k = k
        self.fields = fields

    def sort(
        self, group: Int64s, groups: int, start: Int64s, number: Int64s, read: ReadFields
    ) -> Order:
        """Return the order of rows by group, and in a group by rank; costs one sort.

        ``group``, ``start``, ``number`` ``int64[n]``; ``read`` returns fields of rows. Rows that
        are equal by all orders are in that of (start, payload), nulls first, and of their numbers.
        """
        codes = np.array(self._list_codes(len(group), read))
        base, order, tie, same = sort_groups(group, groups, codes, start, number)
        if same.any():
            self._sort_equal(order, same, number, read)
        return Order(order, tie if self._shares else np.arange(len(order)), base)

    def find_contenders(
        self, rows: EventBatch, key: Int64s, values: Sequence[Any], places: FindPlaces
    ) -> Bools | None:
        """Return the mask of the rows that may be of rank ``k`` or better, given these rows alone.

        Of the rows of a key that the same windows hold, those stay that are among the best; so a
        key and window has O(k) rows of a batch, beside those that share a rank.
        """
        if len(rows) <= self.k:
            return None

        def read(names: Sequence[str], numbers: Int64s | None) -> Sequence[core.Column]:
            return [rows.columns[name] for name in names]

        codes = self._list_codes(len(rows), read)
        if not self._shares:
            codes.append(rows.start)
        return find_contenders(freeze(key), *places(rows), np.array(codes), self.k)

    def _list_codes(self, count: int, read: ReadFields) -> list[Int64s]:
        """Return integers by which rows are in order of the ranks, for each order."""
        codes = []
        for by, name, falls in zip(self._by, self._named, self._falls, strict=True):
            if name is None:
                rows = Columns(self._schema, read([*self._schema], None), count).frame
                field = make_column(rows.with_columns(by.alias(_BY))[_BY])
            else:
                (field,) = read([name], None)
            codes.append(_encode(field, falls=falls))
        return codes

    def _sort_equal(self, order: Int64s, same: Bools, number: Int64s, read: ReadFields) -> None:
        """Sort rows that are equal so far, and start at one time, by payload."""
        is_equal = same.copy()
        is_equal[:-1] |= same[1:]
        equal = np.flatnonzero(is_equal)
        rows = order[equal]
        stretch = pl.Series(_GROUP, np.cumsum(~same)[equal])
        payload = Columns(self._sortable, read([*self._sortable], rows), len(rows)).list_series()
        given = pl.DataFrame([stretch, *payload, pl.Series(_ROW, number[rows])])
        found = given.select(pl.arg_sort_by(given.columns, nulls_last=False, maintain_order=True))
        order[equal] = rows[found.to_series().to_numpy()]

    def compute(self, swept: Swept, contents: Contents | None) -> ResultRows:
        """Return the rows of the best ranks, in order of window and rank."""
        assert contents is not None
        rows = contents.rows
        window: Int64s = rows[WINDOW].to_numpy()
        count = len(window)

        def read(names: Sequence[str], numbers: Int64s | None) -> Sequence[core.Column]:
            chosen = rows.select(names)[slice(None) if numbers is None else numbers]
            return Columns.from_frame(chosen).columns

        start = rows[ROW_START].to_physical().to_numpy()
        order, tie, base = self.sort(window, len(contents), start, np.arange(count), read)
        window, places = window[order], np.arange(count)
        begins = np.diff(tie, prepend=-1) != 0
        begins[base[base < count]] = True
        rank = np.maximum.accumulate(np.where(begins, places, 0)) - base[window] + 1
        best = np.flatnonzero(rank <= self.k)
        columns = Columns.from_frame(rows.select(self.fields)[order[best]]).columns
        return ResultRows(self.add_ranks(columns, rank[best]), window[best])

    def add_ranks(self, columns: Sequence[core.Column], rank: Int64s) -> list[core.Column]:
        """Return the columns of results, with their ranks if there is a field for them."""
        return [*columns] if self._rank is None else [*columns, rank]


def _find_name(by: pl.Expr, schema: pl.Schema) -> str | None:
    """Return the name of the field that an expression is, if it is one."""
    return next((name for name in schema if by.meta.eq(pl.col(name))), None)


_HIGHEST = np.iinfo(np.int64).max


def _encode(field: core.Column, *, falls: bool) -> Int64s:
    """Return integers in the order of the values: equal for equal ones, the highest for nulls."""
    if isinstance(field, SeriesColumn):
        series = field.series
        found = series.rank("dense", descending=falls).cast(pl.Int64)
        return found.fill_null(_HIGHEST).to_numpy()
    if isinstance(field, Nullable):
        codes = _encode(field.values, falls=falls)
        if (codes[field.valid] == _HIGHEST).any():
            codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
        return np.where(field.valid, codes, _HIGHEST)
    if field.dtype.kind == "f":
        values = field.astype(np.float64) + 0.0  # -0.0 ties with 0.0
        values[np.isnan(values)] = np.nan  # of either sign: the greatest
        bits = values.view(np.int64)
        codes = bits ^ ((bits >> 63) & _HIGHEST)
    elif field.dtype == np.uint64:
        codes = (field ^ np.uint64(1 << 63)).view(np.int64)
    else:
        codes = field.astype(np.int64)
    return ~codes if falls else codes
