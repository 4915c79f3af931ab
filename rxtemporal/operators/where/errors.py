"""Errors of Python functions of rows that are told what a row is."""

from __future__ import annotations

from typing import Any


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
