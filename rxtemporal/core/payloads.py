"""Conversion of payload objects to columns, with a given schema or one inferred from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.schema import can_hold, conform, infer_type, to_fields
from rxtemporal.errors import SchemaError

_REFUSED = (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError)


class BadPayloadError(SchemaError):
    """A payload that does not fit; ``row`` is its index in the batch."""

    row: int = 0


class PayloadReader:
    """A converter of payloads (dicts, dataclasses, NamedTuples, scalars) to frames of one schema.

    Without a schema the first payload names the fields, and each takes its type from its first
    value that is not null. Until every field has one, ``is_complete`` is false.

    >>> reader = PayloadReader()
    >>> dict(reader.frame([{"x": None}, {"x": 2}]).schema)
    {'x': Int64}
    """

    def __init__(self, schema: pl.Schema | None = None) -> None:
        self.schema = schema
        self._given = schema is not None
        # the stream was made with schema=
        self._declared = self._given

    @property
    def is_complete(self) -> bool:
        """True if the type of every field is known."""
        if self.schema is None:
            return False
        return self._given or pl.Null() not in self.schema.values()

    def save(self) -> list[Any]:
        """Return the fields known so far, and True if they are final: plain values."""
        known = None if self.schema is None else pl.DataFrame(schema=self.schema)
        return [known, self._given]

    def load(self, state: Sequence[Any]) -> None:
        """Continue with the fields that ``save`` returned."""
        known, self._given = state
        self.schema = None if known is None else known.schema

    def learn(self, payloads: Sequence[Any]) -> None:
        """Infer fields and types from these payloads, unless the schema is complete."""
        if self.is_complete or not payloads:
            return
        rows = [to_fields(payload) for payload in payloads]
        types = dict(self.schema or {})
        for row, fields in enumerate(rows):
            for name, value in fields.items():
                if self.schema is not None and name not in types:
                    continue  # frame() refuses it by name
                if types.get(name, pl.Null()) == pl.Null():
                    types[name] = _learn_type(name, value, row)
            self.schema = self.schema or pl.Schema(types)
        self.schema = pl.Schema(types)

    def frame(self, payloads: Sequence[Any]) -> pl.DataFrame:
        """Return the payloads as a frame; raise for the first one that does not fit.

        The first frame fixes the schema: a field that has been null so far is of type null.
        """
        self.learn(payloads)
        self._given = self.schema is not None
        schema = self.schema or pl.Schema()
        plain = set(map(type, payloads)) <= {dict}
        rows = payloads if plain else [to_fields(payload) for payload in payloads]
        try:
            if rows and max(map(len, rows)) > len(schema):
                raise ValueError
            columns = [
                _make_column(name, dtype, [row[name] for row in rows])
                for name, dtype in schema.items()
            ]
            return pl.DataFrame(columns) if columns else pl.DataFrame(height=len(rows))
        except (KeyError, *_REFUSED):
            raise self._first_bad(rows, schema) from None

    def conform(self, batch: EventBatch) -> EventBatch:
        """Return the batch in the stream's schema, which the first batch may set."""
        if self.schema is None:
            self.schema = batch.schema
        self._given = True
        if batch.schema == self.schema:
            return batch
        return batch.replace(payload=conform(batch.payload, self.schema))

    def _first_bad(self, rows: Sequence[dict[str, Any]], schema: pl.Schema) -> BadPayloadError:
        for number, row in enumerate(rows):
            if reason := _explain_misfit(row, schema, self._declared):
                error = BadPayloadError(reason)
                error.row = number
                return error
        return BadPayloadError("payloads do not fit the stream's schema")


def _learn_type(name: str, value: Any, row: int) -> pl.DataType:
    try:
        return infer_type(name, value)
    except SchemaError as error:
        bad = BadPayloadError(str(error))
        bad.row = row
        raise bad from None


def _make_column(name: str, dtype: pl.DataType, values: list[Any]) -> pl.Series:
    # polars would silently convert some values of another type
    if not can_hold(dtype, values):
        raise TypeError
    return pl.Series(name, values, dtype=dtype, strict=True)


def _explain_misfit(row: dict[str, Any], schema: pl.Schema, declared: bool) -> str | None:
    """Return the reason why one row does not fit; None if it does."""
    there = ", ".join(f"{name}: {dtype}" for name, dtype in schema.items())
    if more := [name for name in row if name not in schema]:
        return f"field {more[0]!r} appears in mid-stream, in {row}; the stream's fields are {there}"
    if missing := [name for name in schema if name not in row]:
        return f"field {missing[0]!r} is missing in {row}; the stream's fields are {there}"
    for name, dtype in schema.items():
        try:
            _make_column(name, dtype, [row[name]])
        except _REFUSED:
            value = row[name]
            return (
                f"field {name!r} is {dtype} and cannot hold {value!r} ({type(value).__name__}). "
                f"Hint: {_hint(dtype, declared)}."
            )
    return None


def _hint(dtype: pl.DataType, declared: bool) -> str:
    if declared:
        return "change schema= or convert the value"
    if dtype == pl.Null:
        return "the field has been null so far, so its type was not known; give schema="
    return "a field keeps its type; convert it before it enters, or give schema="
