"""left_outer_join and full_outer_join: joins that keep the rows without a match."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.columns import Columns, cast_column, make_nulls
from rxtemporal.engine.holdings import PART, Moves, Selection
from rxtemporal.engine.state import Stateful
from rxtemporal.engine.step import TwoInputStep
from rxtemporal.operators.anti_join.plan import LeftAntiJoin, SwappedAntiJoin, find_gaps
from rxtemporal.operators.causes.carried_rows import CarriedRows, carry, match_output
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.join.key_pairs import KeyPairs, On
from rxtemporal.operators.join.plan import (
    Handed,
    Join,
    Matcher,
    find_pairs,
    of_both_sides,
)
from rxtemporal.operators.operator import Keys, PartialOperator
from rxtemporal.operators.stream import Other


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class OuterJoin(Matcher):
    """A join that keeps rows while they have no match, with the missing fields null."""

    full: bool = False

    @property
    def name(self) -> str:
        """The method that composed it."""
        return "full_outer_join" if self.full else "left_outer_join"

    def _join(self) -> Join:
        return Join(
            name=self.name, on=self.on, where=self.where, suffix=self.suffix, line=self.line
        )

    def output(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the joined fields."""
        return self._join().output(left, right, keys)

    def trace_fields(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> Sequence[Handed]:
        """Return the left fields; in a full join only those that both sides have."""
        if not self.full:
            return [(name, (name, None)) for name in left]
        once = [*keys, *(mine for mine, other in self.on if mine == other)]
        return [(name, (name, name)) for name in once]

    def make(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> TwoInputStep:
        """Return a new step."""
        join = self._join()
        taken, schema = join.merge_fields(left, right, keys)
        lonely = [LeftAntiJoin(on=self.on, where=self.where, suffix=self.suffix, line=self.line)]
        missing = [NullFields({name: name for name in left}, schema)]
        if self.full:
            lonely.append(self._swap(left, right, keys))
            both = {mine for mine, other in self.on if mine == other} | set(keys)
            names = {name: name for name in both} | taken
            missing.append(NullFields(names, schema))
        antis = [lonely[0].make(left, right, keys)]
        antis += [each.make(right, left, keys) for each in lonely[1:]]
        return OuterJoinStep(join.make(left, right, keys), antis, missing)

    def _swap(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> LeftAntiJoin:
        """Return the anti join of the right input with the left one, ``where`` in its names."""
        on = tuple((other, mine) for mine, other in self.on)
        if self.where is None:
            return LeftAntiJoin(on=on, line=self.line)
        taken, schema = self._join().merge_fields(left, right, keys)
        return SwappedAntiJoin(on=on, where=self.where, line=self.line, taken=taken, joined=schema)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        return find_outer_rows(self, inputs, output, rows)


def left_outer_join(
    other: Other, on: On = None, where: pl.Expr | None = None, *, suffix: str | None = None
) -> PartialOperator:
    """Join, and keep left rows while nothing matches them, with the right fields null.

    The output, the CTI and the held rows are as in ``join`` and ``left_anti_join``.
    """
    keys = KeyPairs.read(on, "left_outer_join")
    return keys.bind(OuterJoin(on=keys.names, where=where, suffix=suffix), other)


def full_outer_join(
    other: Other, on: On = None, where: pl.Expr | None = None, *, suffix: str | None = None
) -> PartialOperator:
    """Join, and keep rows of both sides while nothing matches them.

    Missing fields are null; fields in ``on`` with the same name on both sides always have a value.
    The output, the CTI and the held rows are as in ``join`` and ``left_anti_join``.
    """
    keys = KeyPairs.read(on, "full_outer_join")
    operator = OuterJoin(on=keys.names, where=where, suffix=suffix, full=True)
    return keys.bind(operator, other)


def find_outer_rows(
    operator: OuterJoin, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each row its pair, or the causes that it would have in an anti join."""
    pairs = find_pairs(operator, inputs)
    parts = [pairs, *_find_lonely(operator, inputs, output.payload.schema)]
    sizes = [len(each) for each in parts]
    everything = CarriedRows(
        np.concatenate([each.start for each in parts]),
        np.concatenate([each.end for each in parts]),
        pl.concat([each.payload.select(output.payload.columns) for each in parts]),
        (np.repeat(np.arange(len(parts)), sizes), np.concatenate([np.arange(n) for n in sizes])),
    )
    of, at = match_output(output, everything, rows)
    part, place = everything.numbers[0][at], everything.numbers[1][at]
    found = [of_both_sides(of[part == 0], pairs.take(place[part == 0]))]
    for own, pieces in enumerate(parts[1:]):
        mine = part == own + 1
        found.append(find_gaps(of[mine], pieces.take(place[mine]), pairs, own=own))
    return Causes.concat(found)


def _find_lonely(
    operator: OuterJoin, inputs: Sequence[History], schema: pl.Schema
) -> list[CarriedRows]:
    """Return the pieces of each side that nothing covers, with the fields of the join."""
    left, right = inputs
    alone = LeftAntiJoin(
        on=operator.on, where=operator.where, suffix=operator.suffix, line=operator.line
    )
    parts = [_fill(carry(alone, inputs), {name: name for name in left.payload.columns}, schema)]
    if operator.full:
        schemas = left.payload.schema, right.payload.schema
        taken, _ = operator.merge_fields(*schemas, left.keys)
        both = {mine for mine, other in operator.on if mine == other} | set(left.keys)
        swapped = carry(_Swapped(operator), [right, left])
        parts.append(_fill(swapped, {name: name for name in both} | taken, schema))
    return parts


class _Swapped:
    """The anti join of the right input with the left one."""

    def __init__(self, operator: OuterJoin) -> None:
        self._operator = operator

    def make(self, right: pl.Schema, left: pl.Schema, keys: tuple[str, ...]) -> object:
        """Return a new step."""
        return self._operator._swap(left, right, keys).make(right, left, keys)


def _fill(pieces: CarriedRows, names: dict[str, str], schema: pl.Schema) -> CarriedRows:
    """Return pieces with the fields of the join, null where they have none."""
    payload = NullFields(names, schema)(Columns.from_frame(pieces.payload)).frame
    return CarriedRows(pieces.start, pieces.end, payload, pieces.numbers)


class NullFields:
    """Payloads of rows without a partner: own fields under their joined names, the others null."""

    def __init__(self, names: dict[str, str], schema: pl.Schema) -> None:
        self._names = names
        self._schema = schema

    def __call__(self, payload: Columns) -> Columns:
        """Return the payload with the joined fields."""
        names, height = self._names, payload.height
        columns = [
            cast_column(payload[names[name]], dtype) if name in names else make_nulls(dtype, height)
            for name, dtype in self._schema.items()
        ]
        return Columns(self._schema, columns, height)


class OuterJoinStep(Stateful):
    """Union of a join with one anti join, or with one for each side.

    Holds what those hold.
    """

    held = MappingProxyType({"_join": PART, "_antis": PART})

    def __init__(
        self,
        join: TwoInputStep,
        antis: Sequence[TwoInputStep],
        missing: Sequence[NullFields],
    ) -> None:
        self._join = join
        self._antis = list(antis)
        self._missing = missing

    @property
    def rows(self) -> int:
        """The number of rows that all of them hold."""
        return self._join.rows + sum(anti.rows for anti in self._antis)

    def keep_selected(self, selection: Selection) -> None:
        """Drop the rows of all keys that are not selected."""
        join: Any = self._join
        join.keep_selected(selection.nest())
        for each, inputs in zip(self._antis, (selection, selection.swap()), strict=False):
            anti: Any = each
            anti.keep_selected(inputs.nest())

    def merge_from(self, other: Self, moves: Moves) -> None:
        """Take over the rows of other keys."""
        pairs = zip([self._join, *self._antis], [other._join, *other._antis], strict=True)
        for each, its in pairs:
            mine: Any = each
            mine.merge_from(its, moves.nest())

    def on_left(self, batch: EventBatch) -> EventBatch:
        """Take a batch of the left input."""
        unmatched = [self._antis[0].on_left(batch), *(a.on_right(batch) for a in self._antis[1:])]
        return self._unite(self._join.on_left(batch), unmatched)

    def on_right(self, batch: EventBatch) -> EventBatch:
        """Take a batch of the right input."""
        unmatched = [self._antis[0].on_right(batch), *(a.on_left(batch) for a in self._antis[1:])]
        return self._unite(self._join.on_right(batch), unmatched)

    def _unite(self, joined: EventBatch, unmatched: list[EventBatch]) -> EventBatch:
        """Return the rows of all parts, with distinct ids."""
        parts = [joined, *(
            batch.replace(payload=missing(batch.columns))
            for batch, missing in zip(unmatched, self._missing, strict=True)
        )]  # fmt: skip
        apart = [
            part.replace(edge=part.edge * len(parts) + number * (part.edge != 0))
            if part.has_edges
            else part
            for number, part in enumerate(parts)
        ]
        return EventBatch.concat(apart)
