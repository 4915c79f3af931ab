"""Running aggregates: each with its state arrays and the kernel that updates them."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Context, Decimal
from types import MappingProxyType
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core import columns as core
from rxtemporal.core.batch import Int64s
from rxtemporal.core.columns import Nullable, SeriesColumn, make_column
from rxtemporal.engine.holdings import BY_KEY, OWNED, PART, ByKey, KeyRecords, Moves, Selection
from rxtemporal.engine.kernels.exact_sums import (
    LEAST,
    SIZE,
    SQUARES,
    STOPPED,
    clear_all,
    move_rests,
)
from rxtemporal.engine.key_store import KeptKeys, follow
from rxtemporal.engine.rows import LARGE, Column, grow, grow_rows
from rxtemporal.engine.state import Stateful
from rxtemporal.errors import SchemaError
from rxtemporal.operators.windows.field_values import read_floats, read_integers, read_valid
from rxtemporal.operators.windows.kernels import aggregates as kernels
from rxtemporal.operators.windows.kernels.cells import find_least
from rxtemporal.operators.windows.kernels.extremes import (
    NEW_RECORD,
    NODES,
    add_unused,
    drop_lists,
    find_extremes,
    find_used,
)
from rxtemporal.operators.windows.kernels.float_sums import (
    RUNNING,
    TOO_LONG,
    TURN,
    sum_floats,
    sum_windows,
)
from rxtemporal.operators.windows.kernels.variance import compute_variance

Own = Sequence[Column]
Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]
# value, weight, sums, tally, rest, counts and mean of a kernel in ``float_sums``
SumInput: TypeAlias = tuple[Column, Column, Column, Column, Column | None, Column, bool]
# sums or means, and the mask of those that have values; None: all have
SumResult: TypeAlias = tuple[Floats, Bools | None]
# more values than ever run
MOST_RUNNING = 1 << 53
# the records of extremes
RECORDS = KeyRecords(NEW_RECORD)


@dataclasses.dataclass(slots=True, eq=False)
class Changes:
    """Starts and ends of rows, in the order in which they are applied.

    ``what`` ``int64[n]``: row number ``what >> 3`` begins; where ``what & 1`` it ends, where
    ``what & 2`` it is not needed after this, and where ``what & 4`` the next ``span`` windows hold
    it, so that its end is not a change of its own. ``key`` ``int64[rows]``: the keys by row number.
    """

    what: Int64s
    key: Int64s
    span: int = 0

    def __len__(self) -> int:
        return len(self.what)


@dataclasses.dataclass(slots=True, eq=False)
class Samples:
    """Points at which aggregates are read: of key ``of``, before change number ``at``.

    ``at`` never falls. ``keys`` is the number of keys; ``window`` has another number for each
    window, where one window is for all keys.
    """

    at: Int64s
    of: Int64s
    keys: int
    window: Int64s | None = None

    @property
    def windows(self) -> Int64s:
        """The numbers of the samples' windows; where there are none, they are not looked at."""
        return self.at if self.window is None else self.window


class RunningAggregate(Protocol):
    """Aggregate that is updated as rows begin and end, for all keys at once."""

    once: bool
    """True if it takes rows that ``span`` windows hold as a single change."""

    objects: bool
    """True if it reads values as Python objects, from a series."""

    chooses: bool
    """True if it depends on one row of each cell, which ``choose`` finds."""

    @property
    def dtypes(self) -> Sequence[Any]:
        """The types of the arrays that ``columns`` returns."""

    def columns(self, field: core.Column) -> list[Column | bool]:
        """Return the arrays to keep for each row: the values that this aggregate reads."""

    def keep_selected(self, selection: Selection) -> None:
        """Drop all keys that are not selected."""

    def sweep(self, changes: Changes, own: Own, samples: Samples) -> core.Column:
        """Apply the changes (``own``: this aggregate's columns by row) and return the samples."""


def grow_sums(sums: Column, span: int, keys: int) -> Column:
    """Return sums ``[1 + span, keys, …]`` with room for so many keys; new ones are 0."""
    have = sums.shape[1]
    if have >= keys:
        return sums
    larger = np.zeros((1 + span, max(keys, 2 * have, 64), *sums.shape[2:]), sums.dtype)
    if have:
        larger[:, :have] = sums
    return larger


def make_room(rest: Int64s) -> Int64s:
    """Return the rests of exact sums with room for more of them."""
    return grow_rows(rest, max(2 * len(rest), 512))


_uses_digits: ContextVar[bool] = ContextVar("uses_digits", default=False)


@contextmanager
def use_digits() -> Iterator[None]:
    """Let sums that are made inside the block call the kernels of sums that need digits.

    They do so whatever their values, which costs time, and compiles these kernels.
    """
    token = _uses_digits.set(True)
    try:
        yield
    finally:
        _uses_digits.reset(token)


def make_rest() -> Int64s:
    """Return the rests of sums that have none."""
    rest = np.zeros((1, 3), np.int64)
    return make_room(rest) if _uses_digits.get() else rest


def get_rest(rest: Int64s) -> Int64s | None:
    """Return the rests of exact sums as kernels take them: None until there is room for one."""
    return rest if len(rest) > 1 else None


def _turn_ring(its: Column, turns: int) -> Column:
    """Return sums ``[1 + span, keys, …]`` with the ring turned by so many places."""
    return np.concatenate([its[:1], np.roll(its[1:], turns, axis=0)]) if len(its) > 1 else its


def _merge_sums(mine: Column, its: Column, moves: Moves) -> Column:
    """Return sums ``[1 + span, keys, …]`` with those of the keys of another state."""
    if not mine.shape[1]:
        mine = np.zeros((len(its), 0, *its.shape[2:]), its.dtype)
    merged: Column = ByKey(axis=1).merge(mine, its, moves) if its.shape[1] else mine
    return merged


def _count_floats(sums: Floats) -> int:
    """Return how many floats hold a sum: two that of values, four that of squares."""
    return 2 if sums.shape[-1] == 4 else 4


def _release_rests(sums: Floats, rest: Int64s, kept: KeptKeys) -> None:
    """Release the rests of the sums ``[n, keys, …]`` of keys that are not kept."""
    gone = kept.gone[kept.gone < sums.shape[1]]
    for each in sums:
        clear_all(gone, each, _count_floats(sums), rest)


def _merge_exact_sums(
    mine: tuple[Floats, Int64s], its: tuple[Floats, Int64s], moves: Moves
) -> tuple[Floats, Int64s]:
    """Return exact sums ``[n, keys, …]`` and their rests, with those of another state."""
    (sums, rest), (other, other_rest) = mine, its
    merged = _merge_sums(sums, other, moves)
    moved = moves.moved["key"]
    ring, key = np.nonzero(other[:, : len(moved), -1])
    places, others = ring * merged.shape[1] + moved[key], ring * other.shape[1] + key
    size = merged.shape[-1]
    into, source = merged.reshape(-1, size), np.ascontiguousarray(other).reshape(-1, size)
    into[places, -1] = 0.0
    floats = _count_floats(merged)
    digits, least = (SIZE, LEAST) if floats == 2 else (SQUARES, 2 * LEAST)
    done = 0
    while True:
        done = move_rests(
            done, places, into, rest, others, source, other_rest, floats, digits, least
        )
        if done == len(places):
            return merged, rest
        rest = make_room(rest)


class Count(Stateful):
    """Count of the values that are not null."""

    once, objects, chooses = True, False, False
    dtypes = (np.bool_,)
    held = MappingProxyType({"_n": OWNED, "_turn": OWNED})

    def __init__(self) -> None:
        self._n = np.zeros((1, 0), np.int64)
        self._turn = np.ones(1, np.int64)

    def columns(self, field: core.Column) -> list[Column | bool]:
        """Return which values are not null."""
        return [read_valid(field)]

    def keep_selected(self, selection: Selection) -> None:
        """Drop the counts of all keys that are not selected."""
        self._n = selection.kept["key"].pick(self._n)

    def merge_from(self, other: Self, moves: Moves) -> None:
        """Take over the counts of other keys."""
        its = _turn_ring(other._n, self._turn[0] - other._turn[0])
        self._n = _merge_sums(self._n, its, moves)

    def sweep(self, changes: Changes, own: Own, samples: Samples) -> Int64s:
        """Return the counts, Int64."""
        self._n = grow_sums(self._n, changes.span, samples.keys)
        return kernels.count(
            changes.what, changes.key, own[0], samples.at, samples.of, samples.windows,
            self._n, self._turn,
        )  # fmt: skip


class IntegerSum(Stateful):
    """Exact sum of integers or bools; 0 for no values."""

    once, objects, chooses = True, False, False
    dtypes = (np.int64, np.bool_)
    held = MappingProxyType(dict.fromkeys(("_total", "_rough", "_turn"), OWNED))

    def __init__(self, name: str) -> None:
        self._name = name
        self._total = np.zeros((1, 0), np.int64)
        self._rough = np.zeros((1, 0), np.float64)
        self._turn = np.ones(1, np.int64)

    def columns(self, field: core.Column) -> list[Column | bool]:
        """Return the values, and which are not null."""
        return [read_integers(field), read_valid(field)]

    def keep_selected(self, selection: Selection) -> None:
        """Drop the sums of all keys that are not selected."""
        kept = selection.kept["key"]
        self._total, self._rough = kept.pick(self._total), kept.pick(self._rough)

    def merge_from(self, other: Self, moves: Moves) -> None:
        """Take over the sums of other keys."""
        turns = self._turn[0] - other._turn[0]
        self._total = _merge_sums(self._total, _turn_ring(other._total, turns), moves)
        self._rough = _merge_sums(self._rough, _turn_ring(other._rough, turns), moves)

    def sweep(self, changes: Changes, own: Own, samples: Samples) -> core.Column:
        """Return the sums as Int64; raise if one overflows."""
        self._total = grow_sums(self._total, changes.span, samples.keys)
        self._rough = grow_sums(self._rough, changes.span, samples.keys)
        sums, overflow = kernels.sum_integers(
            changes.what, changes.key, own[0], own[1], samples.at, samples.of, samples.windows,
            self._total, self._rough, self._turn,
        )  # fmt: skip
        if overflow >= 0:
            raise SchemaError(
                f"the sum {self._name!r} is larger than an Int64 holds. "
                "Hint: cast the field to Float64 before summing."
            )
        return sums


class FloatSum(Stateful):
    """Exact sum of floats, rounded once; 0 for no values.

    If it is ``weighed``, each value is multiplied by the length of its overlap.
    """

    once, objects, chooses = True, False, False
    held = MappingProxyType(dict.fromkeys(("_sums", "_rest", "_counts"), OWNED))
    _mean = False

    def __init__(self, *, weighed: bool = False) -> None:
        self._weighed = weighed
        self.dtypes: tuple[Any, ...] = (np.float64, np.int64 if weighed else np.bool_)
        self._sums = np.zeros((1, 0, 4), np.float64)
        self._rest = make_rest()
        self._counts = np.array([0, 0, 0, 1, 0])
        self._uses_digits = _uses_digits.get()

    def columns(self, field: core.Column) -> list[Column | bool]:
        """Return the values, and which are not null."""
        return [read_floats(field), read_valid(field)]

    def weigh(self, field: core.Column, overlap: core.Column) -> list[Column | bool]:
        """Return the values and their weights, 0 where a value or its overlap is null."""
        weight, there = read_integers(overlap), read_valid(overlap) & read_valid(field)
        return [read_floats(field), weight if there is True else weight * there]

    @property
    def _tally(self) -> Column:
        """The array that has the sums of weights."""
        return self._sums.view(np.int64) if self._weighed else self._sums

    def keep_selected(self, selection: Selection) -> None:
        """Drop the sums of all keys that are not selected."""
        kept = selection.kept["key"]
        _release_rests(self._sums, self._rest, kept)
        self._sums = kept.pick(self._sums, 1)
        # at least the number of values; lengths may add up to more than an int64
        weights = self._tally[0, :, 2].sum(dtype=np.float64)
        self._counts[RUNNING] = min(weights, MOST_RUNNING)

    def merge_from(self, other: Self, moves: Moves) -> None:
        """Take over the sums of other keys."""
        its = _turn_ring(other._sums, self._counts[TURN] - other._counts[TURN])
        mine = self._sums, self._rest
        self._sums, self._rest = _merge_exact_sums(mine, (its, other._rest), moves)
        self._counts[RUNNING] += other._counts[RUNNING]

    def sweep(self, changes: Changes, own: Own, samples: Samples) -> core.Column:
        """Return the sums, Float64."""
        self.prepare(own, changes.span, samples.keys)
        out, there = np.empty(len(samples.at)), np.empty(len(samples.at), np.bool_)
        empty = self._continue(changes, own, samples, out, there)
        return self.finish(out, there if empty else None)

    def prepare(self, own: Own, span: int, keys: int) -> SumInput:
        """Return the values and the state, with room for so many keys."""
        self._sums = grow_sums(self._sums, span, keys)
        self._counts[:TURN] = 0
        return self._list_input(own)

    def _list_input(self, own: Own) -> SumInput:
        rest = get_rest(self._rest)
        return own[0], own[1], self._sums, self._tally, rest, self._counts, self._mean

    def complete(
        self, changes: Changes, own: Own, samples: Samples, sums: Floats, there: Bools | None
    ) -> core.Column:
        """Return the column of sums that were computed with the windows; compute the others."""
        if self._counts[STOPPED] or self._uses_digits:
            if there is None:
                there = np.ones(len(sums), np.bool_)
            if self._counts[STOPPED]:
                self._resume()
            self._continue(changes, own, samples, sums, there)
        return self.finish(sums, there)

    def _continue(
        self, changes: Changes, own: Own, samples: Samples, out: Floats, there: Bools
    ) -> int:
        """Compute the sums that are left; return how many of them have no values."""
        what, key, at, of = changes.what, changes.key, samples.at, samples.of
        empty = 0
        while True:
            state = *self._list_input(own), out, there
            if changes.span:
                empty += sum_windows(what, key, at, of, samples.windows, *state)
            else:
                empty += sum_floats(what, key, at, of, *state)
            if not self._counts[STOPPED]:
                return empty
            self._resume()

    def _resume(self) -> None:
        """Let a kernel continue that has stopped."""
        if self._counts[STOPPED] == TOO_LONG:
            raise SchemaError(
                "the overlaps of rows with a window add up to more ticks than an Int64 holds. "
                "Hint: clip_event_duration(limit) ends rows, and group_by(…) divides them."
            )
        self._rest = make_room(self._rest)

    def finish(self, sums: Floats, there: Bools | None) -> core.Column:
        """Return the column of the sums."""
        return sums


class Average(FloatSum):
    """Mean of the values that are not null; null for no values."""

    _mean = True

    def finish(self, sums: Floats, there: Bools | None) -> core.Column:
        """Return the column of the means."""
        return sums if there is None else Nullable(sums, there)


class Variance(Stateful):
    """Exact variance of the sample, or its root; null for fewer than two values."""

    once, objects, chooses = False, False, False
    dtypes = (np.float64, np.bool_)
    held = MappingProxyType(dict.fromkeys(("_sums", "_squares", "_rest"), OWNED))

    def __init__(self, *, root: bool) -> None:
        self._root = root
        self._sums = np.zeros((0, 4), np.float64)
        self._squares = np.zeros((0, 5), np.float64)
        self._rest = make_rest()

    def columns(self, field: core.Column) -> list[Column | bool]:
        """Return the values, and which are not null."""
        return [read_floats(field), read_valid(field)]

    def keep_selected(self, selection: Selection) -> None:
        """Drop the sums of all keys that are not selected."""
        kept = selection.kept["key"]
        for sums in self._sums, self._squares:
            _release_rests(sums[np.newaxis], self._rest, kept)
        self._sums, self._squares = kept.pick(self._sums, 0), kept.pick(self._squares, 0)

    def merge_from(self, other: Self, moves: Moves) -> None:
        """Take over the sums of other keys."""
        merged = []
        for mine, its in (self._sums, other._sums), (self._squares, other._squares):
            both = (mine[np.newaxis], self._rest), (its[np.newaxis], other._rest)
            sums, self._rest = _merge_exact_sums(*both, moves)
            merged.append(sums[0])
        self._sums, self._squares = merged

    def sweep(self, changes: Changes, own: Own, samples: Samples) -> core.Column:
        """Return the variances, Float64."""
        self._sums = grow_rows(self._sums, samples.keys)
        self._squares = grow_rows(self._squares, samples.keys)
        out, there = np.zeros(len(samples.at)), np.empty(len(samples.at), np.bool_)
        progress = np.zeros(3, np.int64)
        while True:
            compute_variance(
                changes.what, changes.key, own[0], own[1], samples.at, samples.of, self._root,
                self._sums, self._squares, get_rest(self._rest), progress, out, there,
            )  # fmt: skip
            if not progress[STOPPED]:
                return Nullable(out, there)
            self._rest = make_room(self._rest)


def _raise_nodes(nodes: Int64s, by: int) -> Int64s:
    """Return the numbers of nodes, raised; -1 stands for none."""
    return np.where(nodes < 0, nodes, nodes + by)


class Extreme(Stateful):
    """Least or greatest value; NaN if all values are NaN, null if there are none."""

    once, objects, chooses = True, False, True
    held = MappingProxyType({
        **dict.fromkeys(("_ring", "_there", "_turn"), OWNED),
        "_nans": PART,
        **dict.fromkeys(("_lists", "_least", "_value", "_left", "_right", "_free"), OWNED),
    })  # fmt: skip

    def __init__(self, dtype: pl.DataType, *, greatest: bool) -> None:
        self._float = dtype.is_float()
        self._greatest = greatest
        self.dtypes: tuple[Any, ...] = (np.int64, np.bool_)
        if self._float:
            self.dtypes = (np.float64, np.bool_, np.bool_)
        self._ring = np.zeros((1, 0), self.dtypes[0])
        self._there = np.zeros((1, 0), np.bool_)
        self._turn = np.ones(1, np.int64)
        self._nans = Count()
        self._lists = np.zeros((0, len(NEW_RECORD)), np.int64)
        # the least value of each key, and the values of nodes
        self._least, self._value = (np.zeros(0, self.dtypes[0]) for _ in range(2))
        self._left = np.zeros(0, np.int64)
        self._right = np.zeros(0, np.int64)
        # the first unused node, and their number
        self._free = np.array([-1, 0])

    def columns(self, field: core.Column) -> list[Column | bool]:
        """Return the values in the kernel's order, which ones count, and for floats the NaNs."""
        valid = read_valid(field)
        if not self._float:
            return [self._flip(np.asarray(read_integers(field), np.int64)), valid]
        values = read_floats(field)
        nan = np.isnan(values)
        return [self._flip(values), valid & ~nan, valid & nan]

    def choose(self, cell: Int64s, cells: int, own: Own, stays: Bools) -> None:
        """Set ``stays`` to True for a row of each cell, on whose value alone the others depend."""
        find_least(cell, cells, own[0], own[1], own[-1], stays)  # of floats the last are the NaNs

    def _flip(self, values: Column) -> Column:
        # the kernel finds the least value: reverse the order (-x does not for the least int64)
        if not self._greatest:
            return values
        return -values if self._float else ~values

    def keep_selected(self, selection: Selection) -> None:
        """Drop the values of all keys that are not selected."""
        kept = selection.kept["key"]
        drop_lists(kept.gone, self._lists, self._left, self._right, self._free)
        self._lists = RECORDS.keep(self._lists, selection)
        self._least = kept.pick(self._least)
        self._ring, self._there = kept.pick(self._ring), kept.pick(self._there)
        self._nans.keep_selected(selection)

    def merge_from(self, other: Self, moves: Moves) -> None:
        """Take over the values of other keys."""
        have = len(self._value)
        nodes = other._lists[:, :NODES]
        nodes[:] = _raise_nodes(nodes, have)
        self._lists = RECORDS.merge(self._lists, other._lists, moves)
        self._least = ByKey().merge(self._least, other._least, moves)
        turns = self._turn[0] - other._turn[0]
        self._ring = _merge_sums(self._ring, _turn_ring(other._ring, turns), moves)
        self._there = _merge_sums(self._there, _turn_ring(other._there, turns), moves)
        self._nans.merge_from(other._nans, moves)
        self._value = np.concatenate([self._value, other._value])
        self._left = np.concatenate([self._left, _raise_nodes(other._left, have)])
        self._right = np.concatenate([self._right, _raise_nodes(other._right, have)])
        add_unused(int(_raise_nodes(other._free[:1], have)[0]), self._right, self._free)

    def sweep(self, changes: Changes, own: Own, samples: Samples) -> core.Column:
        """Return the extremes, Float64 or Int64."""
        self._lists = RECORDS.grow(self._lists, samples.keys)
        self._least = grow(self._least, samples.keys)
        self._ring = grow_sums(self._ring, changes.span, samples.keys)
        self._there = grow_sums(self._there, changes.span, samples.keys)
        # rows that ``span`` windows hold, or that never end, need no nodes
        once = (changes.what & 6 != 0) & (changes.what & 1 == 0)
        self._make_room(len(changes) - int(np.count_nonzero(once)))
        values, there, empty = find_extremes(
            changes.what, changes.key, own[0], own[1], samples.at, samples.of, samples.windows,
            self._ring, self._there, self._turn, self._lists, self._least,
            self._value, self._left, self._right, self._free,
        )  # fmt: skip
        values = self._flip(values)
        if self._float:
            nans = self._nans.sweep(changes, (own[2],), samples)
            if empty:
                values[~there] = np.nan
                there |= nans > 0
        return Nullable(values, there) if empty else values

    def _make_room(self, more: int) -> None:
        """Make sure that at least ``more`` nodes are unused."""
        used = len(self._value) - int(self._free[1])
        if len(self._value) > LARGE and 8 * (used + more) < len(self._value):
            self._drop_unused()
        have, short = len(self._value), more - int(self._free[1])
        if short <= 0:
            return
        self._value = grow(self._value, have + short)
        self._left, self._right = grow(self._left, have + short), grow(self._right, have + short)
        self._right[have:] = np.arange(have + 1, len(self._right) + 1)
        self._right[-1] = -1
        add_unused(have, self._right, self._free)

    def _drop_unused(self) -> None:
        """Give up the room of a burst: number the nodes anew that are in use."""
        numbers = np.flatnonzero(find_used(self._right, self._free))
        new = np.full(len(self._value), -1)
        new[numbers] = np.arange(len(numbers))
        nodes = self._lists[:, :NODES]
        nodes[:] = follow(new, nodes)
        self._value = self._value[numbers]
        links = self._left, self._right
        self._left, self._right = (follow(new, each[numbers]) for each in links)
        self._free[:] = -1, 0


DIGITS = 38
_EXACT = Context(prec=2 * DIGITS)


class DecimalSum(Stateful):
    """Exact sum of Decimals, or their mean; the sum of no values is 0, and their mean is null.

    Values are integers in units of the last digit.
    """

    once, objects, chooses = False, True, False
    dtypes = (object,)
    held = MappingProxyType({"sums": BY_KEY})

    def __init__(self, dtype: pl.Decimal, name: str, *, mean: bool) -> None:
        self._scale, self._name, self._mean = dtype.scale, name, mean
        self._sums: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])

    @property
    def sums(self) -> dict[int, list[Any]]:
        """The sum of each key, and the number of its values, to be saved."""
        # integers of any size
        return {key: [str(total), count] for key, (total, count) in self._sums.items()}

    @sums.setter
    def sums(self, saved: dict[int, list[Any]]) -> None:
        self._sums.clear()
        self._sums.update((key, [int(total), count]) for key, (total, count) in saved.items())

    def columns(self, field: core.Column) -> list[Column | bool]:
        """Return the values as integers, null as None."""
        assert isinstance(field, SeriesColumn)
        values = np.empty(len(field), object)
        values[:] = field.series.to_physical().to_list()
        return [values]

    def sweep(self, changes: Changes, own: Own, samples: Samples) -> core.Column:
        """Return the sums as Decimal, or the means as Float64."""
        sums, results = self._sums, list[Any]()
        rows, ends = changes.what >> 3, (changes.what & 1).tolist()
        keys, values = changes.key[rows].tolist(), own[0][rows]
        at, of = samples.at.tolist(), samples.of.tolist()
        for i in range(len(changes) + 1):
            while len(results) < len(at) and at[len(results)] == i:
                results.append(self._finish(*sums[of[len(results)]]))
            if i == len(changes) or (value := values[i]) is None:
                continue
            of_key = sums[keys[i]]
            of_key[0] += -value if ends[i] else value
            of_key[1] += -1 if ends[i] else 1
        dtype = pl.Float64() if self._mean else pl.Decimal(DIGITS, self._scale)
        return make_column(pl.Series(results, dtype=dtype))

    def _finish(self, total: int, count: int) -> float | Decimal | None:
        if self._mean:
            return total / (count * 10**self._scale) if count else None
        if abs(total) >= 10**DIGITS:
            raise SchemaError(
                f"the sum {self._name!r} has more than the {DIGITS} digits that a Decimal holds. "
                "Hint: cast the field to Float64 before summing."
            )
        return _EXACT.scaleb(Decimal(total), -self._scale)
