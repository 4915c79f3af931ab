"""group_by, ungroup and apply: operators computed for each key; multicast: a stream used twice."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.schema import check_field
from rxtemporal.engine.step import Stateless
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators.operator import Branch, Chain, Keys, RowOperator
from rxtemporal.operators.row_times import surround
from rxtemporal.operators.where import Select

if TYPE_CHECKING:
    from rxtemporal.core.batch import Int64s
    from rxtemporal.engine.step import Step
    from rxtemporal.operators.causes.causes import Causes
    from rxtemporal.operators.causes.history import History


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class GroupBy(RowOperator):
    """A grouping of the stream: everything after it is computed for each key."""

    keeps_lifetimes = True
    name = "group_by"
    by: Keys

    def __post_init__(self) -> None:
        if not self.by:
            raise ArgumentError("group_by takes at least one field. Hint: group_by('field').")
        names: tuple[Any, ...] = self.by
        for key in names:
            if not isinstance(key, str):
                listed = isinstance(key, (list, tuple))
                raise ArgumentError(
                    f"group_by takes names of fields, got {key!r}. Hint: "
                    + (
                        "without the brackets: group_by('a', 'b')."
                        if listed
                        else "group_by('field'); a key that is computed has a name: "
                        "group_by(ten=pl.col('x') // 10)."
                    )
                )
        if len(set(self.by)) < len(self.by):
            raise ArgumentError(f"group_by names a field twice: {list(self.by)}")

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the same schema; raise if a key is missing."""
        if keys:
            raise SchemaError(
                f"the stream is grouped already, by {list(keys)}. "
                "Hint: name all keys at once, or ungroup()."
            )
        for key in self.by:
            check_field(key, schema, "group_by")
            if isinstance(schema[key], pl.List):
                raise SchemaError(f"group_by: {key!r} is {schema[key]}, which cannot be a key")
        return schema

    def output_keys(self, keys: Keys) -> Keys:
        """Return the keys."""
        return self.by

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        return GroupStep(self.by)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        from rxtemporal.operators.causes.carried_rows import find_same_rows

        return find_same_rows(inputs, output, rows)


def group_by(*keys: str, **computed: pl.Expr) -> GroupBy | Chain:
    """Group the stream by fields: everything after it is computed for each key.

    Rows, lifetimes and CTIs pass unchanged. Null is an ordinary key, and NaN equals NaN.
    ``aggregate`` ends the grouping and puts the keys first in the payload. Nothing is held.

    A named key is an expression, computed row by row as a field of this name; it comes after the
    others.

    >>> import polars as pl
    >>> import rxtemporal as rxt
    >>> from rxtemporal import agg
    >>> bids = rxt.from_events([rxt.PointEvent(t, {"price": t}) for t in (1, 5, 12)])
    >>> tens = bids.group_by(ten=pl.col("price") // 10).tumbling_window(100)
    >>> tens.aggregate(n=agg.count()).to_polars().rows()
    [(0, 100, 0, 2), (0, 100, 1, 1)]
    """
    if not computed:
        return GroupBy(by=keys)
    for name, key in computed.items():
        if not isinstance(key, pl.Expr):
            raise ArgumentError(
                f"group_by: {name}= is an expression, got {key!r}. Hint: "
                f"{name}=pl.col('x') // 10; a field is named without {name}=."
            )
    expressions = tuple(key.alias(name) for name, key in computed.items())
    groups = GroupBy(by=(*keys, *computed))
    return Chain((*surround(expressions, Select(expressions=expressions, adds=True)), groups))


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Ungroup(RowOperator):
    """The end of a grouping; ``keys_first`` puts the keys first in the payload."""

    keeps_lifetimes = True
    ends_grouping = True
    name = "ungroup"
    keys_first: bool = False

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the same fields."""
        if not self.keys_first:
            return schema
        names = [*keys, *(name for name in schema if name not in keys)]
        return pl.Schema({name: schema[name] for name in names})

    def output_keys(self, keys: Keys) -> Keys:
        """Return nothing."""
        return ()

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        return UngroupStep(self.output(schema, keys))

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        from rxtemporal.operators.causes.carried_rows import find_same_rows

        return find_same_rows(inputs, output, rows)


def ungroup() -> Ungroup:
    """End a grouping; rows, fields, lifetimes and CTIs pass unchanged."""
    return Ungroup()


def multicast(fn: Callable[[Any], Any]) -> Branch:
    """Use a stream several times and compute it once.

    ``fn`` takes the stream and returns a stream. A plan computes a stream only once even if it is
    used twice; in a ``pipe`` this operator ensures it. Rows and CTIs pass unchanged to each use,
    and nothing is held.
    """
    return Branch("multicast", fn)


def apply(fn: Callable[[Any], Any]) -> Branch:
    """Run a branch of the query for each key of a grouped stream, and end the grouping.

    ``fn`` takes the grouped stream and returns a stream; its operators are computed for each key.
    Results of windows are ungrouped: after them, ``group_by`` groups again. The keys come first in
    the payload. The CTI and the held rows are those of the branch: a key that holds the CTI back
    holds it back for all keys.

    ``ArgumentError``: an operator after the results of windows would take rows of different keys
    together. If that is meant, ``ungroup()`` before it says so.

    >>> import rxtemporal as rxt
    >>> from rxtemporal import agg
    >>> sales = rxt.from_events([rxt.IntervalEvent(1, 4, {"k": "a", "x": 2})])
    >>> def total(group):
    ...     return group.snapshot_window().aggregate(total=agg.sum("x"))
    >>> sales.group_by("k").apply(total).to_events()
    [IntervalEvent(1, 4, {'k': 'a', 'total': 2})]
    """
    return Branch("apply", fn, Ungroup(keys_first=True))


class GroupStep(Stateless):
    """Names the keys in the batch, for the operators that follow. Holds nothing."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._keys = keys

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the same rows, grouped."""
        return batch.replace(keys=self._keys)


class UngroupStep(Stateless):
    """Removes the keys' names from the batch. Holds nothing."""

    def __init__(self, schema: pl.Schema) -> None:
        self._schema = schema

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the same rows, ungrouped."""
        return batch.replace(payload=batch.columns.select(self._schema), keys=())
