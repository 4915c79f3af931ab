"""group_by: what follows is computed for each key."""

from __future__ import annotations

import dataclasses

import polars as pl

from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators.operator import Keys, Operator
from rxtemporal.steps.grouping import GroupStep
from rxtemporal.steps.step import Step

__all__ = ["GroupBy"]


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class GroupBy(Operator):
    """A grouped stream: everything after it is per key."""

    name = "group_by"
    by: Keys

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
        return schema

    def keys_after(self, keys: Keys) -> Keys:
        """Return the keys."""
        return self.by

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        return GroupStep(schema, self.by)
