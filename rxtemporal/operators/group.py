"""group_by: what follows is computed for each key."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import polars as pl
from reactivex import Observable
from reactivex import operators as rx_operators

from rxtemporal.core.batch import EventBatch
from rxtemporal.engine.steps.group import GroupStep, UngroupStep
from rxtemporal.engine.steps.step import Step
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators.operator import Keys, RowByRow
from rxtemporal.reactive.synchronize import composed_at


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class GroupBy(RowByRow):
    """A grouped stream: everything after it is per key."""

    name = "group_by"
    by: Keys

    @property
    def holds(self) -> str:
        """Keys have numbers, which they keep."""
        return "every key seen"

    def __post_init__(self) -> None:
        if not self.by:
            raise ArgumentError("group_by takes at least one field")
        for key in self.by:
            if not isinstance(key, str):
                raise ArgumentError(
                    f"group_by takes names of fields, got {key!r}. "
                    "Hint: compute a key with with_columns(…) first."
                )
        if len(set(self.by)) < len(self.by):
            raise ArgumentError(f"group_by names a field twice: {list(self.by)}")

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the same schema, if the keys are in it."""
        if keys:
            raise SchemaError(f"the stream is grouped already, by {list(keys)}")
        for key in self.by:
            if key not in schema:
                raise SchemaError(f"group_by: there is no field {key!r}; there are {list(schema)}")
            if isinstance(schema[key], pl.List):
                raise SchemaError(f"group_by: {key!r} is {schema[key]}, which cannot be a key")
        return schema

    def keys_after(self, keys: Keys) -> Keys:
        """Return the keys."""
        return self.by

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        return GroupStep(schema, self.by)


def group_by(*keys: str) -> GroupBy:
    """Group the stream: everything after it is per key, until an aggregate ends the grouping."""
    return GroupBy(by=keys, line=composed_at())


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Ungroup(RowByRow):
    """The end of a grouping; ``keys_first`` puts the keys first in the payload."""

    name = "ungroup"
    keys_first: bool = False

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the same fields."""
        if not self.keys_first:
            return schema
        names = [*keys, *(name for name in schema if name not in keys)]
        return pl.Schema({name: schema[name] for name in names})

    def keys_after(self, keys: Keys) -> Keys:
        """Return nothing."""
        return ()

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        return UngroupStep(list(self.output(schema, keys)))


def ungroup() -> Ungroup:
    """End a grouping; rows and fields stay as they are."""
    return Ungroup(line=composed_at())


Batches = Observable[EventBatch]
Branch = Callable[[Batches], Batches]


def multicast(fn: Branch) -> Branch:
    """Give ``fn`` the stream as one that may be used several times and is computed once."""
    return rx_operators.publish(_branch(fn, "multicast"))


def apply(fn: Branch) -> Branch:
    """Run a whole branch for each key of a grouped stream, and end the grouping.

    The keys come first in the payload.
    """
    branch = multicast(_branch(fn, "apply"))
    end = Ungroup(keys_first=True, line=composed_at())
    return lambda source: end(branch(source))


def _branch(fn: Branch, operator: str) -> Branch:
    if not callable(fn):
        raise ArgumentError(f"{operator} takes a function from a stream to a stream, got {fn!r}")
    return fn
