"""Translation of a resolved expression into a part of a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter

import polars as pl

from rxtemporal.engine.expressions import (
    arithmetic,
    casts,
    comparison,
    dates,
    horizontal,
    logic,
    membership,
    nulls,
    replacement,
    spans,
)
from rxtemporal.engine.expressions.parts import (
    Computation,
    Constant,
    Part,
    make_constant,
    require,
)
from rxtemporal.engine.expressions.tree import Term, UnknownExpressionError, walk

Translate = Callable[[Term, list[Part]], Part]

_BOOLEAN: dict[str, Translate] = {
    "IsNull": nulls.translate_is_null,
    "IsNotNull": nulls.translate_is_null,
    "IsNan": nulls.translate_float_check,
    "IsNotNan": nulls.translate_float_check,
    "IsFinite": nulls.translate_float_check,
    "IsInfinite": nulls.translate_float_check,
    "IsIn": membership.translate_is_in,
    "IsBetween": comparison.translate_between,
    "Not": logic.translate_not,
    "AllHorizontal": logic.translate_horizontal_logic,
    "AnyHorizontal": logic.translate_horizontal_logic,
}
_DATE_PARTS = (
    "Year", "Quarter", "Month", "Day", "OrdinalDay", "WeekDay",
    "Hour", "Minute", "Second", "Millisecond", "Microsecond",
)  # fmt: skip
_TOTALS = (
    "TotalDays", "TotalHours", "TotalMinutes", "TotalSeconds", "TotalMilliseconds",
    "TotalMicroseconds",
)  # fmt: skip
_TABLE: dict[str, Translate] = {
    **dict.fromkeys(("Plus", "Minus", "Multiply"), arithmetic.translate_arithmetic),
    "fused": arithmetic.translate_fused,
    "TrueDivide": arithmetic.translate_division,
    "FloorDivide": arithmetic.translate_floor_division,
    "Modulus": arithmetic.translate_modulo,
    "pow": arithmetic.translate_power,
    **dict.fromkeys(("negate", "abs", "sign", "sqrt", "floor", "ceil"), arithmetic.translate_unary),
    **dict.fromkeys(("Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq"), comparison.translate_comparison),
    **dict.fromkeys(("EqValidity", "NotEqValidity"), comparison.translate_missing_comparison),
    **dict.fromkeys(("And", "Or", "Xor", "LogicalAnd", "LogicalOr"), logic.translate_logic),
    **{f"BooleanFunction.{name}": translate for name, translate in _BOOLEAN.items()},
    **{f"TemporalFunction.{name}": dates.translate_date_part for name in _DATE_PARTS},
    "TemporalFunction.Date": casts.translate_date,
    "TemporalFunction.Truncate": spans.translate_truncate,
    "TemporalFunction.TimeStamp": spans.translate_timestamp,
    **{f"TemporalFunction.{name}": spans.translate_total for name in _TOTALS},
    "to_physical": spans.translate_physical,
    "clip": horizontal.translate_clip,
    "replace_strict": replacement.translate_replacement,
    **dict.fromkeys(("fill_null", "coalesce"), nulls.translate_fill),
    **dict.fromkeys(("min_horizontal", "max_horizontal"), horizontal.translate_extreme),
    "Cast": casts.translate_cast,
    "Ternary": nulls.translate_choice,
}


def translate(term: Term, positions: Mapping[str, int]) -> Part:
    """Return the part that computes a term; columns are found by their positions.

    Raises ``UnknownExpressionError`` if it is left to polars.
    """
    if term.name == "Column":
        return _read_column(positions[term.options[0]], term.dtype)
    if term.name == "Literal":
        (value,) = term.options
        if isinstance(term.dtype, (pl.String, pl.List, pl.Null)):
            return Constant(value, term.dtype)
        return make_constant(value, term.dtype)
    if term.name not in _TABLE:
        raise UnknownExpressionError(term.name)
    parts = [translate(each, positions) for each in term.inputs]
    if all(isinstance(part, Constant) for part in parts):
        require(term.name == "Cast")  # polars folds constants by itself
    result = _TABLE[term.name](term, parts)
    # an operand that is not needed may yet raise an error
    require(isinstance(result, Computation) or not any(map(_may_fail, term.inputs)))
    return result


def _may_fail(term: Term) -> bool:
    names = [(each.name, *each.options) for each in walk(term)]
    return ("Cast", "strict") in names or any(name == "replace_strict" for name, *_ in names)


def _read_column(position: int, dtype: pl.DataType) -> Part:
    return Computation(itemgetter(position), dtype)
