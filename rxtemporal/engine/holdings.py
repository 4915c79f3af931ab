"""Kinds of values that a state holds: which of them belong to a key, and which refer to which.

A state is *split* by taking from it the entries of some keys, and two states of one step that hold
no key in common and have the same CTI are *merged*. Entries are numbered: keys by their codes, rows
by their row numbers. Such a numbering is a *space*; ``"key"`` and ``"row"`` are the spaces of most
steps. Each kind says in which space its entries are numbered and which numbers they contain, so
that one walk over ``Stateful.held`` splits and merges the state of any step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.columns import Column, Columns
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.key_store import KeptKeys, follow

if TYPE_CHECKING:
    from rxtemporal.engine.keys import KeyCoder

Array = Any

KEY = 0
"""The column of a record that has the code of its key, or a negative number once it is released."""


class Selection:
    """The keys whose entries stay in a state, and the entries that stay because of them.

    ``contains`` is given the values of some fields and returns the mask of the rows that stay;
    ``fields`` are the names of these fields, for each input of the step. Without ``contains`` all
    rows stay, and only keys are dropped that have none. ``kept`` has the entries that stay, by
    space; the walk fills it in. Of a space that it does not have all entries stay.
    """

    __slots__ = ("contains", "fields", "kept")

    def __init__(
        self,
        contains: Callable[[Sequence[Column]], Bools] | None,
        fields: Sequence[Sequence[str]] = (),
        kept: Mapping[str, KeptKeys] | None = None,
    ) -> None:
        self.contains = contains
        self.fields = fields
        self.kept = dict(kept or {})

    @classmethod
    def of_keys(cls, kept: KeptKeys) -> Self:
        """Return the selection of these keys, where others have no rows."""
        return cls(None, kept={"key": kept})

    @property
    def all_rows_stay(self) -> bool:
        """True if only keys without rows are dropped."""
        return self.contains is None

    def find(self, rows: Columns, side: int = 0) -> Bools:
        """Return the mask of the rows of an input that stay."""
        assert self.contains is not None
        return self.contains([rows[name] for name in self.fields[side]])

    def nest(self) -> Selection:
        """Return the same for a part of the step that has spaces of its own."""
        return Selection(self.contains, self.fields, self.kept)

    def swap(self) -> Selection:
        """Return the same for a part of the step that has the inputs in the other order."""
        return Selection(self.contains, self.fields[::-1])


@dataclasses.dataclass(slots=True)
class Moves:
    """New numbers of the entries of the state that is merged into another, by space.

    ``moved``: by the number that an entry had; -1 for one that is no longer in use. ``counts``: how
    many numbers are in use afterwards. The walk fills both in.
    """

    moved: dict[str, Int64s] = dataclasses.field(default_factory=dict)
    counts: dict[str, int] = dataclasses.field(default_factory=dict)

    def nest(self) -> Moves:
        """Return the same for a part of the step that has spaces of its own."""
        return Moves(dict(self.moved), dict(self.counts))

    def add(self, space: str, moved: Int64s, count: int) -> None:
        """Set the new numbers of a space."""
        self.moved[space], self.counts[space] = moved, count

    def move(self, space: str, numbers: Int64s) -> Int64s:
        """Return the new numbers of these entries."""
        return follow(self.moved[space], numbers)


class Held(Protocol):
    """Kind of a value that a state holds."""

    def keep(self, value: Any, selection: Selection) -> Any:
        """Return the value with the entries that stay; ``value`` may be changed."""

    def merge(self, value: Any, other: Any, moves: Moves) -> Any:
        """Return the value with the entries of another one; both may be changed."""


class Hold(NamedTuple):
    """Keys that hold an output CTI below that of the input.

    ``keys`` are rows with the fields of the keys, as an input has them (of two the left one), or
    the coder of such rows, of which ``codes`` are held. ``times`` has for each key, or for all, the
    time above which the output CTI must not go.
    """

    keys: Columns | KeyCoder
    times: Int64s | int
    codes: Int64s | None = None

    @classmethod
    def find(cls, keys: KeyCoder, since: Int64s) -> Hold:
        """Return the keys that wait since some time; ``since`` is the end of time for others."""
        codes = np.flatnonzero(since[: len(keys)] < MAX_TIME)
        return cls(keys, since[codes], codes)


class _Latest:
    """A CTI, or what it decides: one for all keys, and the higher of two."""

    def keep(self, value: Any, selection: Selection) -> Any:
        return value

    def merge(self, value: Any, other: Any, moves: Moves) -> Any:
        if isinstance(value, list):
            return [self.merge(*pair, moves) for pair in zip(value, other, strict=True)]
        return max((each for each in (value, other) if each is not None), default=None)


class NextEdge(_Latest):
    """The number of the next edge id, and the higher of two; the lower, if ids are falling.

    No id is given out twice while states that were one are apart: each goes on above the others.
    """

    def __init__(self, *, falls: bool = False) -> None:
        self._choose = min if falls else max

    def merge(self, value: Any, other: Any, moves: Moves) -> Any:
        """Return the number above those given out by both."""
        return self.join(value, other)

    def join(self, value: int, other: int) -> int:
        """Return the number above those given out by both."""
        return self._choose(value, other)


def pair_parts(value: Any, other: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the states in a value of the kind ``PART``, each with that of an equal value."""
    are_lists = isinstance(value, list)
    for mine, its in zip(value, other, strict=True) if are_lists else [(value, other)]:
        if mine is not None:
            yield mine, its


class _HeldParts:
    """Another state, which knows its own kinds, or a list of such states; None for none."""

    def keep(self, value: Any, selection: Selection) -> Any:
        for part, _ in pair_parts(value, value):
            part.keep_selected(selection)
        return value

    def merge(self, value: Any, other: Any, moves: Moves) -> Any:
        for mine, its in pair_parts(value, other):
            mine.merge_from(its, moves)
        return value


class _HeldKeys:
    """A ``KeyCoder`` whose keys contain the fields by which states are split."""

    def keep(self, value: KeyCoder, selection: Selection) -> KeyCoder:
        if selection.all_rows_stay:
            return value
        known = np.arange(len(value))
        selection.kept["key"] = value.select_keys(selection.find(value.decode(known)))
        return value

    def merge(self, value: KeyCoder, other: KeyCoder, moves: Moves) -> KeyCoder:
        moved = value.encode(other.decode(np.arange(len(other))))
        moves.add("key", moved, len(value))
        return value


class _Batches:
    """Rows as batches: a list of them, or one or None."""

    def keep(self, value: Any, selection: Selection) -> Any:
        if selection.all_rows_stay:
            return value
        if value is None or isinstance(value, EventBatch):
            kept = self.keep([] if value is None else [value], selection)
            return kept[0] if kept else None
        taken = [batch.take(selection.find(batch.columns)) for batch in value]
        return [batch for batch in taken if len(batch)]

    def merge(self, value: Any, other: Any, moves: Moves) -> Any:
        if isinstance(value, list):
            return [*value, *other]
        if value is None or other is None:
            return other if value is None else value
        return EventBatch.concat([value, other])


class _Owned:
    """A value that only its owner can split and merge, which knows to what it refers."""

    def keep(self, value: Any, selection: Selection) -> Any:
        raise NotImplementedError("its owner splits it")

    def merge(self, value: Any, other: Any, moves: Moves) -> Any:
        raise NotImplementedError("its owner merges it")


class _Unchanged(_Owned):
    """A value that the walk leaves as it is, and its owner changes afterwards."""

    def keep(self, value: Any, selection: Selection) -> Any:
        return value

    def merge(self, value: Any, other: Any, moves: Moves) -> Any:
        return value


class _ByEdge:
    """Dicts by edge id of rows of which no key is known: each part keeps all, and asks for its own.

    An entry that is taken out of one part stays in another until both are merged and dropped.
    """

    def keep(self, value: Any, selection: Selection) -> Any:
        return value

    def merge(self, value: Any, other: Any, moves: Moves) -> Any:
        return [{**mine, **its} for mine, its in zip(value, other, strict=True)]


OWNED, SAME = _Owned(), _Unchanged()
LATEST, NEXT_EDGE = _Latest(), NextEdge()
PART, KEYS, BATCHES = _HeldParts(), _HeldKeys(), _Batches()


@dataclasses.dataclass(frozen=True, slots=True)
class StoredRows:
    """A ``RowStore`` or ``RecordStore``: the rows of the keys that stay.

    ``key`` is the column of their codes; a row with a negative code, and any row if there is no
    such column, is judged by its payload. ``refs``: for each column of numbers the space that they
    are of.
    """

    key: int | None = None
    refs: Mapping[int, str] = dataclasses.field(default_factory=dict)
    space: str = "row"

    def keep(self, value: Any, selection: Selection) -> Any:
        """Return the rows that stay, numbered anew."""
        if selection.all_rows_stay:
            if self.key is not None:
                value.renumber_keys(self.key, selection.kept["key"])
            return value
        mask = self._find(value, selection)
        selection.kept[self.space] = value.select_rows(mask)
        for column, space in self._list_refs(value):
            numbers = value.columns[column]
            numbers[:] = selection.kept[space].renumber(numbers)
        return value

    def merge(self, value: Any, other: Any, moves: Moves) -> Any:
        """Return the rows of both; those of the other come last."""
        moves.add(self.space, *value.append_rows(other))
        moved = moves.moved[self.space]
        first = value.height - int((moved >= 0).sum())
        for column, space in self._list_refs(value):
            numbers = value.columns[column]
            numbers[first:] = moves.move(space, numbers[first:])
        return value

    def _find(self, value: Any, selection: Selection) -> Bools:
        """Return the mask of the row numbers that stay, if their rows are alive."""
        if self.key is None:
            return selection.find(value.payload(np.arange(value.height)))
        key: Int64s = value.columns[self.key]
        mask: Bools = selection.kept["key"].renumber(key) >= 0
        without = np.flatnonzero((key < 0) & value.alive)
        if len(without):
            mask[without] = selection.find(value.payload(without))
        return mask

    def _list_refs(self, value: Any) -> list[tuple[int, str]]:
        refs = dict(self.refs)
        if self.key is not None:
            refs[self.key] = "key"
        # a step that needs less of its rows has fewer columns
        return [(column, space) for column, space in refs.items() if column < len(value.columns)]


@dataclasses.dataclass(frozen=True, slots=True)
class Entries:
    """A ``Queue`` whose entries are numbers above ``bits`` flags.

    ``odd``: the space of the entries with the lowest flag, if it is another one.
    """

    space: str = "row"
    bits: int = 0
    odd: str | None = None

    def keep(self, value: Any, selection: Selection) -> Any:
        """Return the entries that stay."""
        kept = {space: each.new for space, each in selection.kept.items()}
        if self.space in kept or self.odd in kept:
            value.replace(self._renumber(value, kept))
        return value

    def merge(self, value: Any, other: Any, moves: Moves) -> Any:
        """Return the entries of both."""
        for time, what in self._renumber(other, moves.moved):
            value.push(time, what, in_order=True)
        return value

    def _renumber(self, queue: Any, new: Mapping[str, Int64s]) -> list[tuple[Int64s, Int64s]]:
        runs = []
        for time, what in queue.runs:
            number, flags = what >> self.bits, what & ((1 << self.bits) - 1)
            moved = follow(new[self.space], number) if self.space in new else number
            if self.odd is not None:
                moved = np.where(flags & 1, follow(new[self.odd], number), moved)
            stay = moved >= 0
            if stay.any():
                runs.append((time[stay], (moved[stay] << self.bits) | flags[stay]))
        return runs


@dataclasses.dataclass(frozen=True, slots=True)
class Edges:
    """``OpenEdges``: numbers by edge id."""

    space: str = "row"

    def keep(self, value: Any, selection: Selection) -> Any:
        """Return the entries that stay."""
        if self.space in selection.kept and len(value):
            value.renumber(selection.kept[self.space].new)
        return value

    def merge(self, value: Any, other: Any, moves: Moves) -> Any:
        """Return the entries of both."""
        edges, numbers = other.entries[:2]
        value.open(edges, moves.move(self.space, numbers))
        return value


@dataclasses.dataclass(frozen=True, slots=True)
class ByKey:
    """An array with an element, or a row of them, for each key; or a list of such arrays.

    ``axis`` is that of the keys; ``fill`` is what a key has at first. ``refs``: the space of the
    elements, if they are numbers. In a list each array has its own ``fills``, and ``listed`` are
    the arrays to which ``refs`` applies.
    """

    fill: Any = 0
    axis: int = -1
    refs: str | None = None
    fills: Sequence[Any] = ()
    listed: Sequence[int] = ()

    def keep(self, value: Any, selection: Selection) -> Any:
        """Return the elements of the keys that stay."""
        if self.fills:
            return [kind.keep(array, selection) for kind, array in self._list(value)]
        picked = selection.kept["key"].pick(value, self.axis)
        kept = None if self.refs is None else selection.kept.get(self.refs)
        return picked if kept is None else kept.renumber(picked)

    def merge(self, value: Any, other: Any, moves: Moves) -> Any:
        """Return the elements of the keys of both."""
        if self.fills:
            each = zip(self._list(value), other, strict=True)
            return [kind.merge(array, its, moves) for (kind, array), its in each]
        moved = moves.moved["key"][: other.shape[self.axis]]
        elements = np.moveaxis(other, self.axis, 0)[: len(moved)]
        if self.refs is not None:
            elements = moves.move(self.refs, elements)
        mine = np.moveaxis(value, self.axis, 0)
        made = np.full(
            (max(moves.counts["key"], len(mine)), *mine.shape[1:]), self.fill, mine.dtype
        )
        made[: len(mine)] = mine
        made[moved] = elements
        return np.ascontiguousarray(np.moveaxis(made, 0, self.axis))

    def _list(self, value: Sequence[Array]) -> list[tuple[ByKey, Array]]:
        kinds = [
            ByKey(fill, self.axis, self.refs if number in self.listed else None)
            for number, fill in enumerate(self.fills)
        ]
        return list(zip(kinds, value, strict=True))


@dataclasses.dataclass(frozen=True, slots=True)
class KeyRecords:
    """An array ``int64[keys, columns]`` with a record for each key; ``fills`` is that of a new one.

    ``refs``: for each column of numbers the space that they are of.
    """

    fills: Sequence[int]
    refs: Mapping[int, str] = dataclasses.field(default_factory=dict)

    def grow(self, records: Int64s, keys: int) -> Int64s:
        """Return the records, with those of new keys behind them."""
        have = len(records)
        if have >= keys:
            return records
        larger = np.empty((max(keys, 2 * have, 64), len(self.fills)), np.int64)
        larger[:have] = records
        # numpy repeats one record several times as slowly as it copies many
        new, done = larger[have:], 64
        new[:done] = self.fills
        while done < len(new):
            new[done : 2 * done] = new[: len(new) - done][:done]
            done *= 2
        return larger

    def keep(self, value: Int64s, selection: Selection) -> Int64s:
        """Return the records of the keys that stay."""
        records = selection.kept["key"].pick(value, 0)
        for column, space in self.refs.items():
            if space in selection.kept:
                records[:, column] = selection.kept[space].renumber(records[:, column])
        return records

    def merge(self, value: Int64s, other: Int64s, moves: Moves) -> Int64s:
        """Return the records of the keys of both."""
        moved = moves.moved["key"][: len(other)]
        records = other[: len(moved)].copy()
        for column, space in self.refs.items():
            records[:, column] = moves.move(space, records[:, column])
        made = self.grow(value, moves.counts["key"])
        made[moved] = records
        return made


class _ByKeyDict:
    """A dict with an entry for each key that has one."""

    def keep(self, value: dict[int, Any], selection: Selection) -> dict[int, Any]:
        return selection.kept["key"].pick_entries(value)

    def merge(self, value: dict[int, Any], other: dict[int, Any], moves: Moves) -> dict[int, Any]:
        moved = moves.moved["key"].tolist()
        return {**value, **{moved[key]: entry for key, entry in other.items()}}


class _KeyList:
    """An array of codes of keys."""

    def keep(self, value: Int64s, selection: Selection) -> Int64s:
        codes = selection.kept["key"].renumber(value)
        return codes[codes >= 0]

    def merge(self, value: Int64s, other: Int64s, moves: Moves) -> Int64s:
        return np.concatenate([value, moves.move("key", other)])


BY_EDGE, BY_KEY, KEY_LIST = _ByEdge(), _ByKeyDict(), _KeyList()
