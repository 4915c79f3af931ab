"""Joins, and the matching of rows and fields of two streams."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.core.lines import find_owners
from rxtemporal.core.schema import check_field
from rxtemporal.engine.expressions.evaluator import Predicate
from rxtemporal.engine.key_matcher import KeyMatcher
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators.causes.carried_rows import CarriedRows, carry, match_output
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.causes.lost_row import (
    MOST_OTHERS,
    Fate,
    LostRow,
    write_expression,
    write_span,
    write_values,
)
from rxtemporal.operators.expressions import check_row_by_row, infer_schema
from rxtemporal.operators.join.key_pairs import KeyPairs, On
from rxtemporal.operators.operator import Keys, PartialOperator, RowExpression, TwoInputs
from rxtemporal.operators.partition_keys import Fields, PartitionRule
from rxtemporal.operators.stream import Other

if TYPE_CHECKING:
    from rxtemporal.engine.step import TwoInputStep

Handed = tuple[str, Fields]
# the name of the stream that a row of side 0 or 1 is matched with
OTHER_SIDE = ("right", "left")


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Matcher(TwoInputs):
    """Base class of operators that match rows of two streams."""

    on: tuple[tuple[str, str], ...] = ()
    where: pl.Expr | None = None
    suffix: str | None = None

    def __post_init__(self) -> None:
        if self.where is not None:
            check_row_by_row(self.where, self.name)
        if self.suffix is not None and (not isinstance(self.suffix, str) or not self.suffix):
            raise ArgumentError(f"suffix is a non-empty str, got {self.suffix!r}")

    @property
    def holds(self) -> str:
        """The rows that may still match others."""
        return "rows of both inputs until they end before both CTIs, and open pairs"

    def assume_fields(self, missing: int, known: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the fields used for matching: an input without rows needs no others."""
        types = {key: known[key] for key in keys}
        for pair in self.on:
            if pair[1 - missing] in known:
                types[pair[missing]] = known[pair[1 - missing]]
        return pl.Schema(types)

    def key_types(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> list[pl.DataType]:
        """Return the types in which keys are compared, the group's keys first."""
        types = [self._common(key, key, left, right) for key in keys]
        return types + [self._common(mine, other, left, right) for mine, other in self.on]

    def _common(self, mine: str, other: str, left: pl.Schema, right: pl.Schema) -> pl.DataType:
        for name, schema, side in ((mine, left, "left"), (other, right, "right")):
            check_field(name, schema, self.name, f"the {side} stream")
        a, b = left[mine], right[other]
        for kinds in ("is_integer", "is_float"):
            if getattr(a, kinds)() and getattr(b, kinds)():
                return pl.Int64() if kinds == "is_integer" else pl.Float64()
        for name, dtype in ((mine, a), (other, b)):
            if isinstance(dtype, pl.List):
                raise SchemaError(f"{self.name}: {name!r} is {dtype}, which cannot be a key")
        if a == b:
            return a
        if pl.Null() in (a, b):
            return b if a == pl.Null() else a
        raise SchemaError(
            f"{self.name}: {mine!r} is {a} and {other!r} is {b}, which cannot be equal. "
            "Hint: cast one of them with with_columns(…) first."
        )

    def with_suffix(self) -> Self:
        """Return the operator with a suffix for the names that both sides have."""
        return self if self.suffix else dataclasses.replace(self, suffix="_right")

    def merge_fields(
        self, left: pl.Schema, right: pl.Schema, keys: Keys
    ) -> tuple[dict[str, str], pl.Schema]:
        """Return the new names of the right fields that are added, and the joined schema."""
        types = self.key_types(left, right, keys)
        once = set(keys) | {mine for mine, other in self.on if mine == other}
        names = [*keys, *(mine for mine, _ in self.on)]
        same = {name: dtype for name, dtype in zip(names, types, strict=True) if name in once}
        fields = {name: same.get(name, dtype) for name, dtype in left.items()}
        taken: dict[str, str] = {}
        # a field that moves along a line is renamed with the parts of that
        owners = find_owners(right)
        clashes = {owners.get(name, name) for name in right if name in left and name not in once}
        for name, dtype in right.items():
            if name in once:
                continue
            new, owner = name, owners.get(name, name)
            if owner in clashes:
                if self.suffix is None:
                    raise SchemaError(
                        f"{self.name}: both streams have a field {name!r}. Hint: suffix='_right' "
                        "renames the right one's fields that clash; or select() before."
                    )
                new = owner + self.suffix + name.removeprefix(owner)
            if new in fields:
                raise SchemaError(
                    f"{self.name}: two fields would be named {new!r}. Hint: choose another suffix."
                )
            taken[new], fields[new] = name, dtype
        return taken, pl.Schema(fields)

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return the rule: rows that agree in the group's keys and in ``on`` are seen together."""
        left, right = schemas
        pairs = (*((key, key) for key in keys), *self.on)
        return PartitionRule(pairs, tuple(self.trace_fields(left, right, keys)))

    def trace_fields(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> Sequence[Handed]:
        """Return the input fields whose values the output fields have."""
        raise NotImplementedError

    def list_expressions(
        self, schemas: tuple[pl.Schema, ...], keys: Keys
    ) -> Sequence[RowExpression]:
        """Return the condition of pairs."""
        if self.where is None:
            return ()
        left, right = schemas
        joined = self.with_suffix().merge_fields(left, right, keys)[1]
        return [RowExpression("where", self.where, joined)]

    def check_where(self, joined: pl.Schema) -> None:
        """Raise an error if ``where`` is not a bool over the joined fields."""
        if self.where is None:
            return
        types = infer_schema(joined, [self.where], self.name)
        if len(types) != 1 or next(iter(types.values())) not in (pl.Boolean, pl.Null):
            shown = ", ".join(f"{name}: {dtype}" for name, dtype in types.items())
            raise SchemaError(
                f"{self.name}: where= takes a predicate, got {self.where}, which gives {shown}"
            )


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Join(Matcher):
    """Both payloads while both rows are alive; ``name`` is the method that composed it."""

    pairs_rows = True
    name: str = "join"

    def output(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the left fields, then the right fields that are not shared through ``on``."""
        if self.name == "join" and not (self.on or keys) and self.where is None:
            raise ArgumentError(
                "join has neither on= nor where=, so each row would meet every row of the other "
                "stream. Hint: join(other, on=…) names the fields that have to be equal; "
                "cross_join(other) means every pair."
            )
        _, schema = self.merge_fields(left, right, keys)
        self.check_where(schema)
        return schema

    def trace_fields(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> Sequence[Handed]:
        """Return the fields of both sides."""
        return list_joined_fields(self, left, right, keys)

    def make(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> TwoInputStep:
        """Return a new step."""
        from rxtemporal.operators.join.step import JoinedPayload, JoinStep

        keying = KeyMatcher(keys, self.on, self.key_types(left, right, keys))
        taken, schema = self.merge_fields(left, right, keys)
        merged = JoinedPayload(taken, schema, equal=self._find_equal(schema, right, keys))
        return JoinStep(keying, (left, right), merged, self.where, keys)

    def _find_equal(self, schema: pl.Schema, right: pl.Schema, keys: Keys) -> dict[str, str]:
        """Return the right fields that are equal to left ones in each pair, by the left names."""
        pairs = {**{key: key for key in keys}, **dict(self.on)}
        # of floats, zeros of two signs are equal
        return {
            mine: other
            for mine, other in pairs.items()
            if schema[mine] == right[other] and not schema[mine].is_float()
        }

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        return find_joined_rows(self, inputs, output, rows)

    def explain_loss(self, lost: LostRow) -> Fate:
        """Return why a row of an input has given no row."""
        return explain_no_partner(self, lost)


def list_joined_fields(
    operator: Matcher, left: pl.Schema, right: pl.Schema, keys: Keys
) -> list[Handed]:
    """Return the fields of a result with both payloads, and the input fields they are."""
    taken, _ = operator.merge_fields(left, right, keys)
    once = [*keys, *(mine for mine, other in operator.on if mine == other)]
    rights = {**taken, **{name: name for name in once}}
    return [
        *((name, (name, None)) for name in left),
        *((new, (None, name)) for new, name in rights.items()),
    ]


def join(
    other: Other, on: On = None, where: pl.Expr | None = None, *, suffix: str | None = None
) -> PartialOperator:
    """Return both payloads for each pair of matching rows, while both rows are alive.

    Fields in ``on`` with the same name on both sides appear once. If other fields have the same
    name, the right one gets ``suffix``, and so do the parts of its line; without a suffix this is
    an error. A pair is emitted when
    both CTIs have passed its start, as a start edge while its end is not certain. Rows are held
    until they have ended before both CTIs. The cost is proportional to the new rows and their
    pairs.
    Points meet points only at the same instant: ``to_signal`` or ``extend_lifetime`` lets the rows
    of one side last.
    Source: StreamInsight's and Trill's ``Join``.

    ``on`` is a field's name, names, or a mapping left -> right; null matches nothing, NaN equals
    NaN and -0.0 equals 0.0. A key may be an expression, which is computed and left out of the
    result: ``on=[(pl.col("a") % 10, "key")]`` is a list of pairs, since an expression cannot be a
    key of a dict. ``where`` is a polars predicate over the joined fields; null is false.
    Without both an ungrouped join is an error: ``cross_join`` pairs every row with every row.
    Both streams must be ungrouped, or grouped by the same keys; then rows match only within their
    group, where null equals null. The output CTI is the lower of the two input CTIs: an input that
    does not advance holds everything back.

    >>> import rxtemporal as rxt
    >>> cars = rxt.from_events([rxt.IntervalEvent(1, 9, {"k": 1, "plate": "A"})])
    >>> tolls = rxt.from_events([rxt.IntervalEvent(4, 20, {"k": 1, "toll": 7})])
    >>> cars.join(tolls, on="k").to_events()
    [IntervalEvent(4, 9, {'k': 1, 'plate': 'A', 'toll': 7})]
    """
    keys = KeyPairs.read(on, "join")
    return keys.bind(Join(on=keys.names, where=where, suffix=suffix), other)


def cross_join(
    other: Other, where: pl.Expr | None = None, *, suffix: str | None = None
) -> PartialOperator:
    """Join every row with every row of the other stream that is alive at the same time.

    The output, the CTI and the held rows are as in ``join``.
    """
    operator = Join(name="cross_join", where=where, suffix=suffix)
    return PartialOperator(operator, other)


def find_joined_rows(
    operator: Join, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each row its pair: a row of the left input and one of the right."""
    made = find_pairs(operator, inputs)
    of, at = match_output(output, made, rows)
    return of_both_sides(of, made.take(at))


def of_both_sides(of: Int64s, pairs: CarriedRows) -> Causes:
    """Return the two rows of a pair as the causes of each row."""
    left, right = pairs.numbers
    side = np.repeat([0, 1], len(of))
    return Causes.of_pairs(np.tile(of, 2), np.concatenate([left, right]), side=side)


def find_pairs(operator: Matcher, inputs: Sequence[History]) -> CarriedRows:
    """Return the pairs of rows that match and are alive together, with the time of that."""
    where, suffix = operator.where, operator.with_suffix().suffix
    join = Join(on=operator.on, where=where, suffix=suffix, line=operator.line)
    if where is None or '"Selector":' not in where.meta.serialize(format="json"):
        return carry(join, inputs)
    # such a predicate would see the fields that carry the row numbers
    pairs = carry(dataclasses.replace(join, where=None), inputs)
    matches = Predicate(where, pairs.payload.schema)
    return pairs.take(matches(Columns.from_frame(pairs.payload)))


def code_keys(operator: Matcher, inputs: Sequence[History]) -> tuple[Int64s, Int64s]:
    """Return a number for the key of each row of both inputs; -1 for rows that match nothing."""
    left, right = (each.payload for each in inputs)
    keys = inputs[0].keys
    matcher = KeyMatcher(keys, operator.on, operator.key_types(left.schema, right.schema, keys))
    columns = (Columns.from_frame(each) for each in (left, right))
    first, second = (matcher.encode(side, each) for side, each in enumerate(columns))
    return first, second


def explain_no_partner(operator: Join, lost: LostRow) -> Fate:
    """Return that no row matched: the key that no row has, or the nearest one with the key."""
    other = lost.inputs[1 - lost.side]
    values, partners = find_partners(operator, lost)
    if not len(partners):
        return tell_missing_key(lost, values)
    if (found := _explain_overlap(operator, lost, partners)) is not None:
        return found
    nearest = lost.order_by_stretch(other, partners)[:MOST_OTHERS]
    first = int(nearest[0])
    return lost.tell(
        "no partner",
        f"{write_nearest(lost, values, first)}, {_write_gap(lost, other, first)}",
        values=values,
        others=lost.frame(other, nearest),
    )


def tell_missing_key(lost: LostRow, values: dict[str, Any]) -> Fate:
    """Return that no row of the other side has the row's key."""
    missing = f"no partner in {lost.place}: "
    if None in values.values():
        return lost.tell("no partner", f"{missing}{write_values(values)}, and null matches nothing",
                         values=values)  # fmt: skip
    other = f"no row of the {OTHER_SIDE[lost.side]} stream{_write_keys(values)}"
    return lost.tell("no partner", missing + other, values=values)


def write_nearest(lost: LostRow, values: dict[str, Any], row: int) -> str:
    """Return that this is the nearest row of the other side that has the row's key, as text."""
    return (
        f"no partner in {lost.place}: the nearest row of the {OTHER_SIDE[lost.side]} stream"
        f"{_write_keys(values)} is {lost.write_row(lost.inputs[1 - lost.side], row)}"
    )


def _write_keys(values: dict[str, Any]) -> str:
    return f" with {write_values(values)}" if values else ""


def _write_gap(lost: LostRow, other: History, row: int) -> str:
    """Return how far another row is from the time asked about, or from the lost row, as text."""
    start, end = int(other.start[row]), int(other.end[row])
    low, high = lost.stretch
    if start >= high:
        gap, word = start - high + 1, "after" if high - low == 1 else "later"
    else:
        gap, word = low - end + 1, "before" if high - low == 1 else "earlier"
    span = f"{write_span(gap, lost.form)} {word}"
    return f"{span} {lost.write(low)}" if high - low == 1 else span


def _explain_overlap(operator: Join, lost: LostRow, partners: Int64s) -> Fate | None:
    """Return why there is no pair with the partners that are alive at the same time."""
    other = lost.inputs[1 - lost.side]
    alive = lost.find_alive(other, partners)
    if not len(alive):
        return None
    begin = int(np.maximum(other.start[alive], lost.start).min())
    if begin >= lost.cti:
        return lost.wait(begin + 1)
    if operator.where is None:  # the run has failed before
        return lost.tell_end()
    nearest = alive[:MOST_OTHERS]
    return lost.tell(
        "no partner",
        f"no partner in {lost.place}: {lost.write_row(other, int(alive[0]))} does not satisfy "
        f"where={write_expression(operator.where)}",
        others=lost.frame(other, nearest),
    )


def find_partners(operator: Matcher, lost: LostRow) -> tuple[dict[str, Any], Int64s]:
    """Return the values of the row's key, under the other side's names, and the rows with it."""
    codes = code_keys(operator, lost.inputs)
    pairs = [*((key, key) for key in lost.source.keys), *operator.on]
    values = {pair[1 - lost.side]: lost.payload[pair[lost.side]] for pair in pairs}
    code = codes[lost.side][lost.row]
    found = np.flatnonzero(codes[1 - lost.side] == code) if code >= 0 else np.empty(0, np.int64)
    return values, found
