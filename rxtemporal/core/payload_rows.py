"""Payloads as Python objects: a dict for each row of some columns, or a bare value."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.columns import Column, Columns, Nullable, SeriesColumn, make_series
from rxtemporal.core.schema import SCALAR_FIELD

# types whose columns are integers, and whose values are not
_TIMES = frozenset({pl.Date, pl.Time, pl.Datetime, pl.Duration})


def list_payloads(columns: Columns) -> list[Any]:
    """Return each row as a payload: a dict, or the bare value of a scalar."""
    if tuple(columns.schema) == (SCALAR_FIELD,):
        return list_values(columns.columns[0], columns.schema[SCALAR_FIELD])
    return list_dicts(columns)


def list_dicts(columns: Columns) -> list[dict[str, Any]]:
    """Return each row as a dict of its fields."""
    names = tuple(columns.schema)
    if not names:
        return [{} for _ in range(columns.height)]
    return make_zipper(names)(*map(list_values, columns.columns, columns.schema.values()))


def list_values(column: Column, dtype: pl.DataType) -> list[Any]:
    """Return the values of a column as Python objects."""
    if isinstance(column, SeriesColumn) or type(dtype) in _TIMES:
        return make_series("", column, dtype).to_list()
    if not isinstance(column, Nullable):
        return column.tolist()  # type: ignore[no-any-return]
    values: list[Any] = column.values.tolist()
    for row in np.flatnonzero(~column.valid).tolist():
        values[row] = None
    return values


@lru_cache(maxsize=256)
def make_zipper(names: tuple[str, ...]) -> Callable[..., list[dict[str, Any]]]:
    """Return a function that makes a dict of each row from lists of the values of these fields.

    The function is generated: a dict display with constant keys takes half the time of
    ``dict(zip(names, row))``.
    """
    values = [f"v{number}" for number in range(len(names))]
    lists = [f"c{number}" for number in range(len(names))]
    display = ", ".join(f"{name!r}: {value}" for name, value in zip(names, values, strict=True))
    rows = f"zip({', '.join(lists)})" if len(lists) > 1 else "c0"
    code = f"lambda {', '.join(lists)}: [{{{display}}} for {', '.join(values)} in {rows}]"
    # the names of fields are in it as literals alone
    make: Callable[..., list[dict[str, Any]]] = eval(code)
    return make
