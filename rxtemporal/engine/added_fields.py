"""Saved states of operators whose inputs have got more fields: those are null in what is held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.columns import Columns
from rxtemporal.engine.codec import dumps, loads
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.errors import CheckpointError

Fields: TypeAlias = Sequence[tuple[pl.Schema, pl.Schema]]


def only_adds(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return True if all fields of ``before`` are in ``after``, with their types, and others too.

    >>> only_adds({"a": pl.Int64()}, {"b": pl.String(), "a": pl.Int64()})
    True
    >>> only_adds({"a": pl.Int64()}, {"a": pl.String(), "b": pl.Int64()})
    False
    """
    is_more = len(after) > len(before)
    return is_more and all(after.get(name) == dtype for name, dtype in before.items())


def add_fields(frame: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """Return a frame with all fields of a schema, in its order: those that are missing are null."""
    missing = [
        pl.lit(None, dtype).alias(name)
        for name, dtype in schema.items()
        if name not in frame.columns
    ]
    if not frame.width:
        return pl.DataFrame(schema=schema).clear(frame.height)
    return frame.with_columns(missing).select(schema.names()) if missing else frame


def add_fields_to_batch(batch: EventBatch, schema: pl.Schema) -> EventBatch:
    """Return a batch with all fields of a schema."""
    return batch.replace(payload=add_fields(batch.payload, schema))


def add_fields_to_state(held: bytes, fields: Fields, keys: tuple[str, ...]) -> bytes:
    """Return the state of a stage, for the same operator over more fields.

    ``fields`` are the fields of its inputs and its output, before and after. ``CheckpointError``:
    its meaning depends on all fields, as that of ``distinct`` does.
    """
    seen, waiting, step = loads("operator", held)
    seen, waiting = _add(seen, fields, keys), _add(waiting, fields, keys)
    if step is not None:
        state = loads("step", step)["state"]
        # the fields are another operator's by name, so nothing says for what it was made
        step = dumps("step", {"for": "", "state": _add(state, fields, keys)})
    return dumps("operator", [seen, waiting, step])


def _add(value: Any, fields: Fields, keys: tuple[str, ...]) -> Any:
    if isinstance(value, EventBatch):
        after = _find(value.schema, fields)
        return value if after is None else add_fields_to_batch(value, after)
    if isinstance(value, Columns):
        after = _find(value.schema, fields)
        return value if after is None else Columns.from_frame(add_fields(value.frame, after))
    if isinstance(value, pl.DataFrame):
        after = _find(value.schema, fields)
        return value if after is None else add_fields(value, after)
    if isinstance(value, KeyCoder):
        names = {*value.state().columns}
        if names != {*keys} and any(names >= {*before} for before, _ in fields):
            raise CheckpointError("the rows are told apart by all of their fields")
        return value
    if isinstance(value, dict):
        return {key: _add(each, fields, keys) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)([_add(each, fields, keys) for each in value])
    return value


def _find(schema: pl.Schema, fields: Fields) -> pl.Schema | None:
    found = [after for before, after in fields if before == schema]
    if any(after != found[0] for after in found):
        raise CheckpointError("an input and the output have the same fields, and get others")
    return found[0] if found else None
