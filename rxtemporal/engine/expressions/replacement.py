"""replace_strict: a table of constants, in which each value is looked up."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.columns import Array, Bools, physical_type
from rxtemporal.engine.expressions.casts import UnfitRowsError
from rxtemporal.engine.expressions.parts import Constant, Pair, Part, lift_pairs, require
from rxtemporal.engine.expressions.tree import Term


def translate_replacement(term: Term, parts: list[Part]) -> Part:
    """Translate replace_strict of integers by numbers; what is not in the table is the default.

    Without a default polars gets the batch, and raises.
    """
    part, *tables = parts
    require(part.dtype.is_integer() and term.dtype.is_numeric())
    old, new = (_read_list(table) for table in tables[:2])
    inner = [table.dtype.inner for table in tables[:2] if isinstance(table.dtype, pl.List)]
    require(inner == [part.dtype, term.dtype] and len(old) == len(new) == len(set(old)) > 0)
    keys = np.array(sorted(old), physical_type(part.dtype))
    order = sorted(range(len(old)), key=old.__getitem__)
    values = np.array([new[number] for number in order], physical_type(term.dtype))
    default = _read_default(term, tables[2:])

    def find(numbers: Array) -> tuple[Array, Bools]:
        places = np.minimum(keys.searchsorted(numbers), len(keys) - 1)
        return values.take(places), np.asarray(keys.take(places) == numbers)

    def replace(one: Pair) -> Pair:
        result, known = find(one[0])
        if default is not None:
            return np.where(known if one[1] is True else known & one[1], result, default), True
        if not (known if one[1] is True else known | ~one[1]).all():
            raise UnfitRowsError
        return result, one[1]

    return lift_pairs(replace, [part], term.dtype)


def _read_list(part: Part) -> list[Any]:
    require(isinstance(part, Constant) and isinstance(part.dtype, pl.List))
    assert isinstance(part, Constant)
    listed: Any = part.value
    require(listed is not None and None not in listed)
    return list(listed)


def _read_default(term: Term, rest: list[Part]) -> Array | None:
    if not rest:
        return None
    (default,) = rest
    require(isinstance(default, Constant) and default.dtype.is_numeric())
    assert isinstance(default, Constant)
    require(default.value is not None)
    require(default.dtype == term.dtype or default.dtype == pl.Int32())  # as of a Python int
    return np.asarray(default.value, physical_type(term.dtype))
