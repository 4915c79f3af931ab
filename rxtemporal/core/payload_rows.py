"""Payloads as Python objects: a dict for each row of some columns, or a bare value."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import repeat, starmap
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.columns import Column, Columns, SeriesColumn, make_series
from rxtemporal.core.schema import SCALAR_FIELD

# types whose columns are integers, and whose values are not
_TIMES = frozenset({pl.Date, pl.Time, pl.Datetime, pl.Duration})
# Python's dicts do not share more keys than these
MOST_SHARED = 28


class PayloadLister:
    """Lister of the rows of columns of one schema, as payloads.

    A payload is a dict, or with ``bare`` the value itself if the schema is that of scalars.
    """

    __slots__ = ("_types", "_zip", "schema")

    def __init__(self, schema: pl.Schema, *, bare: bool = True) -> None:
        self.schema = schema
        self._types = tuple(schema.values())
        names = tuple(schema)
        # None: the payloads are the values of the only field, or there is no field
        is_bare = not names or (bare and names == (SCALAR_FIELD,))
        self._zip = None if is_bare else make_zipper(names)

    def list_rows(self, columns: Columns) -> list[Any]:
        """Return each row as a payload."""
        if self._zip is not None:
            return self._zip(*map(list_values, columns.columns, self._types))
        if self._types:
            return list_values(columns.columns[0], self._types[0])
        return [{} for _ in range(columns.height)]


def list_payloads(columns: Columns) -> list[Any]:
    """Return each row as a payload: a dict, or the bare value of a scalar."""
    return PayloadLister(columns.schema).list_rows(columns)


def list_dicts(columns: Columns) -> list[dict[str, Any]]:
    """Return each row as a dict of its fields."""
    return PayloadLister(columns.schema, bare=False).list_rows(columns)


def list_values(column: Column, dtype: pl.DataType) -> list[Any]:
    """Return the values of a column as Python objects."""
    if type(dtype) in _TIMES or isinstance(column, SeriesColumn):
        return make_series("", column, dtype).to_list()
    if isinstance(column, np.ndarray):
        return column.tolist()  # type: ignore[no-any-return]
    values: list[Any] = column.values.tolist()
    for row in np.flatnonzero(~column.valid).tolist():
        values[row] = None
    return values


@lru_cache(maxsize=256)
def make_zipper(names: tuple[str, ...]) -> Callable[..., list[dict[str, Any]]]:
    """Return a function that makes a dict of each row from lists of the values of these fields.

    The function is generated, which takes half the time of ``dict(zip(names, row))``. Rows are
    copies of one dict with which they share their keys: each has half the size of a dict of its
    own, and many take two thirds of the time.
    """
    # of a class with a text of its own, too
    fields = [(str.__repr__(name), f"c{n}", f"v{n}") for n, name in enumerate(names)]
    lists = ", ".join(each for _, each, _ in fields)
    # the names of fields are in it as literals alone
    code = f"""
def list_rows({lists}):
    if len(c0) == 1:
        return [{{{", ".join(f"{name}: {each}[0]" for name, each, _ in fields)}}}]
    rows = list(starmap(copy, repeat((), len(c0))))
    for row, {", ".join(value for *_, value in fields)} in zip(rows, {lists}):
        {"; ".join(f"row[{name}] = {value}" for name, _, value in fields)}
    return rows
"""
    defined: dict[str, Any] = {
        "starmap": starmap,
        "repeat": repeat,
        "copy": _make_first(names).copy,
    }
    exec(code, defined)
    make: Callable[..., list[dict[str, Any]]] = defined["list_rows"]
    return make


def _make_first(names: tuple[str, ...]) -> dict[str, Any]:
    """Return a dict of these fields, all None, whose copies share its keys if they are few.

    Python makes such dicts for the attributes of objects; the room that they have for other keys
    falls with each object of the class.
    """
    if len(names) > MOST_SHARED:
        return dict.fromkeys(names)
    kind = type("Row", (), {})
    for _ in range(MOST_SHARED + 1):
        first: dict[str, Any] = vars(kind())
        for name in names:
            first[name] = None
    return first
