"""Filters and projections; their steps hold nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.payloads import BadPayloadError, PayloadReader
from rxtemporal.engine.expressions.evaluator import Predicate, Projection
from rxtemporal.engine.step import Stateless
from rxtemporal.errors import SchemaError


def make_field_error(error: AttributeError, operator: str) -> AttributeError:
    """Return the error for ``row.name``; another error as it is."""
    row: Any = error.obj
    if type(row) is not dict or error.name not in row:
        return error
    name = error.name
    return AttributeError(
        f"the function given to {operator} gets the row as a dict, which has no attribute "
        f"{name!r}. Hint: row[{name!r}]; or pl.col({name!r}) instead of a function.",
        name=name,
        obj=row,
    )


class WhereStep(Stateless):
    """Keeps the rows whose payload satisfies a predicate; null is false. Holds nothing."""

    def __init__(self, predicate: pl.Expr, schema: pl.Schema) -> None:
        self._predicate = Predicate(predicate, schema)

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows that satisfy the predicate, with the same lifetimes and CTI."""
        if not len(batch.start):  # without a call of the batch
            return batch
        return batch.take(self._predicate(batch.columns))


class WhereRowStep(Stateless):
    """Keeps the rows for which a Python function of the payload is true. Holds nothing.

    Costs a dict and a call for each row, about a microsecond.
    """

    def __init__(self, predicate: Callable[[dict[str, object]], object]) -> None:
        self._predicate = predicate

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows that satisfy the predicate, with the same lifetimes and CTI."""
        if not len(batch):
            return batch
        try:
            verdicts = [self._verdict(row) for row in batch.payload.iter_rows(named=True)]
        except AttributeError as error:
            raise make_field_error(error, "where") from error
        return batch.take(np.array(verdicts, np.bool_))

    def _verdict(self, row: dict[str, object]) -> bool:
        verdict = self._predicate(row)
        if verdict is None or isinstance(verdict, (bool, np.bool_)):
            return bool(verdict)
        hint = ""
        if isinstance(verdict, pl.Expr):
            hint = ". Hint: where takes the expression itself: where(pl.col('x') > 1)."
        raise SchemaError(
            f"a predicate returns True, False or None, got {verdict!r} for {row}{hint}"
        )


class SelectStep(Stateless):
    """Computes a new payload for each row from its own. Holds nothing."""

    def __init__(
        self, expressions: Sequence[pl.Expr], schema: pl.Schema, fields: pl.Schema
    ) -> None:
        self._projection = Projection(expressions, schema, fields)

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows with their new payload, the same lifetimes and CTI."""
        return batch.replace(payload=self._projection(batch.columns))


class SelectRowStep(Stateless):
    """Computes a new payload for each row from its own, by a Python function. Holds nothing.

    ``schema`` has the fields that the function returns; ``keys`` are kept, in front of them. Costs
    two dicts and a call for each row, a few microseconds.
    """

    def __init__(
        self, function: Callable[[dict[str, Any]], Any], schema: pl.Schema, keys: tuple[str, ...]
    ) -> None:
        self._function = function
        self._schema = schema
        self._keys = keys

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows with their new payload, the same lifetimes and CTI."""
        try:
            results = [self._function(row) for row in batch.payload.iter_rows(named=True)]
        except AttributeError as error:
            raise make_field_error(error, "select") from error
        try:
            made = PayloadReader(self._schema).frame(results)
        except BadPayloadError as error:
            given = batch.payload.row(error.row, named=True)
            raise SchemaError(
                f"the function given to select returned {results[error.row]!r} for {given}: {error}"
            ) from error
        if self._keys:
            made = pl.DataFrame([*batch.payload.select(self._keys).get_columns(), *made])
        return batch.replace(payload=made)
