"""scan: a user-defined stream operator, a function that goes along the rows with a state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import polars as pl

from rxtemporal.core.schema import payload_schema
from rxtemporal.engine.steps.step import Step
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators.operator import Keys, Operator
from rxtemporal.operators.partition_keys import Apart, each_by
from rxtemporal.reactive.synchronize import composed_at

ScanFunction = Callable[[Any, int, dict[str, Any]], tuple[Any, Any]]


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Scan(Operator):
    """What a function makes of each row and of the state so far; ``fields`` are its results'."""

    name = "scan"
    seed: Any
    fn: ScanFunction
    fields: pl.Schema
    holds = "rows not yet committed, what open rows gave, and the function's state for each key"

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the keys, then the fields of the results."""
        for key in keys:
            if key in self.fields:
                raise SchemaError(
                    f"scan: {key!r} is a group key, which a grouped stream puts in front of the "
                    "results. Hint: leave it out of schema= and of what the function returns."
                )
        return pl.Schema({**{key: schema[key] for key in keys}, **self.fields})

    def apart(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> Apart:
        """Each key has a state of its own; what the function returns is anything."""
        return each_by(keys, keys)

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        # kernels are loaded by the first query that runs, not by importing the package
        from rxtemporal.engine.steps.scan import ScanStep

        return ScanStep(self.seed, self.fn, self.fields, schema, keys)


def scan(seed: Any, fn: ScanFunction, *, schema: Any) -> Scan:
    """Go along the rows with a state: ``fn(state, start, payload) -> (state, result)``."""
    if not callable(fn):
        raise ArgumentError(
            f"scan takes a seed and a function fn(state, start, payload), got {fn!r}. "
            "Hint: scan(0, fn, schema={…})."
        )
    return Scan(seed=seed, fn=fn, fields=payload_schema(schema), line=composed_at())
