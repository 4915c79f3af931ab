"""Payloads as Python objects: a dict for each row of some columns, or a bare value."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import polars as pl

from rxtemporal.core.schema import SCALAR_FIELD


def list_payloads(frame: pl.DataFrame) -> list[Any]:
    """Return each row of a frame as a payload: a dict, or the bare value of a scalar."""
    names = tuple(frame.columns)
    if names == (SCALAR_FIELD,):
        return frame[SCALAR_FIELD].to_list()
    if not names:
        return [{} for _ in range(frame.height)]
    return make_zipper(names)(*(column.to_list() for column in frame.get_columns()))


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
