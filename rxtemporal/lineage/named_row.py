"""The row of a result that a user names: by an event, by some of its fields, or by its number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import END, START, EventBatch, Int64s
from rxtemporal.core.events import EdgeEvent, EdgeType, RowEvent
from rxtemporal.core.schema import to_fields
from rxtemporal.core.ticks import MAX_TIME, time_ticks
from rxtemporal.errors import ArgumentError
from rxtemporal.lineage.flow import Flow
from rxtemporal.operators.causes.equal_rows import code_rows
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.causes.row_text import write_lifetime, write_values

MOST_SHOWN = 5
TEXTS = pl.String, pl.Categorical, pl.Enum


def find_row(flow: Flow, row: Any) -> int:
    """Return the number of the one row of the result that an event or a mapping of fields names.

    Of rows that are equal in everything it is the first. ``ArgumentError``: no row, or several.
    """
    history = flow.result
    values = dict(row) if isinstance(row, Mapping) else _read_event(row)
    rows = np.flatnonzero(_match(history, values))
    if not len(rows):
        raise ArgumentError(
            f"the result has no row with {_write(values)}. Hint: why_not(query, where=…) says why; "
            "or name the row by its number in to_polars()."
        )
    codes, _ = code_rows(_to_frame(history, rows), _to_frame(history, rows[:0]))
    if len(np.unique(codes)) > 1:
        shown = [
            f"{write_lifetime(int(history.start[n]), int(history.end[n]), flow.time)} "
            f"{write_values(history.payload.row(n, named=True) if history.payload.width else {})}"
            for n in rows[:MOST_SHOWN].tolist()
        ]
        more = f", and {len(rows) - MOST_SHOWN:,} more" if len(rows) > MOST_SHOWN else ""
        raise ArgumentError(
            f"the result has {len(rows):,} rows with {_write(values)}: {'; '.join(shown)}{more}. "
            "Hint: name more of the row's fields, or its start_time."
        )
    return int(rows[0])


def find_numbered_row(flow: Flow, results: pl.DataFrame, number: int) -> int:
    """Return the number in the history of a row of the results as ``to_polars`` has them."""
    if not -len(results) <= number < len(results):
        raise ArgumentError(f"the result has {len(results):,} rows, and no row {number}")
    number %= len(results)
    batch = EventBatch.from_polars(results)
    frame = pl.DataFrame(
        [pl.Series("\0start", batch.start), pl.Series("\0end", batch.end), *batch.payload]
    )
    every = np.arange(len(flow.result))
    codes, others = code_rows(frame, _to_frame(flow.result, every))
    # equal rows are told apart by their order
    nth = int((codes[:number] == codes[number]).sum())
    same = np.flatnonzero(others == codes[number])
    return int(same[min(nth, len(same) - 1)])


def _to_frame(history: History, rows: Int64s) -> pl.DataFrame:
    times = pl.Series("\0start", history.start[rows]), pl.Series("\0end", history.end[rows])
    return pl.DataFrame([*times, *(history.payload[rows] if history.payload.width else ())])


def _read_event(event: Any) -> dict[str, Any]:
    if not isinstance(event, RowEvent):
        raise ArgumentError(
            "why takes a row of the result: an event, a mapping of its fields, or its number in "
            f"to_polars(); got {event!r}"
        )
    values = {START: event.start, **to_fields(event.payload)}
    if not (isinstance(event, EdgeEvent) and event.edge_type is EdgeType.START):
        values[END] = event.end
    return values


def _match(history: History, values: Mapping[str, Any]) -> Any:
    matches = np.ones(len(history), np.bool_)
    for name, value in values.items():
        if name == START:
            matches &= history.start == time_ticks(value)
        elif name == END:
            matches &= history.end == (MAX_TIME if value is None else time_ticks(value))
        elif name in history.payload.columns:
            matches &= _equals(history.payload.get_column(name), name, value)
        else:
            fields = ", ".join([START, END, *history.payload.columns])
            raise ArgumentError(f"the result has no field {name!r}; it has {fields}")
    return matches


def _equals(column: pl.Series, name: str, value: Any) -> Any:
    dtype = column.dtype
    try:
        given = pl.Series([value])
        wanted = given.cast(dtype)
        if value is not None and not dtype.is_temporal():
            _check_text(dtype, value)
        if _is_exact(dtype) and wanted.cast(given.dtype).ne_missing(given).any():
            return np.zeros(len(column), np.bool_)
    except (pl.exceptions.PolarsError, TypeError, OverflowError) as error:
        raise ArgumentError(f"field {name!r} is {dtype}, and {value!r} is not") from error
    return column.eq_missing(wanted.new_from_index(0, len(column))).to_numpy()


def _check_text(dtype: pl.DataType, value: Any) -> None:
    """Raise a ``TypeError`` if a text should equal a number, or a number a text."""
    if isinstance(value, str) != (dtype in TEXTS):
        raise TypeError(f"{value!r} is not {dtype}")


def _is_exact(dtype: pl.DataType) -> bool:
    """Return True if a cast to a type might silently give another value."""
    return dtype == pl.Boolean or dtype.is_integer() or dtype.is_decimal()


def _write(values: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value!r}" for name, value in values.items()) or "anything"
