"""Programs: expressions computed over the columns of a batch."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.columns import (
    Column,
    Columns,
    Nullable,
    SeriesColumn,
    make_column,
    physical_type,
)
from rxtemporal.core.schema import make_query
from rxtemporal.engine.expressions.comparison import (
    translate_between,
    translate_clip,
    translate_comparison,
    translate_extreme,
    translate_is_in,
    translate_missing_comparison,
    translate_replacement,
)
from rxtemporal.engine.expressions.dates import (
    translate_date_part,
    translate_physical,
    translate_timestamp,
    translate_total,
    translate_truncate,
)
from rxtemporal.engine.expressions.logic import (
    translate_choice,
    translate_fill,
    translate_float_check,
    translate_horizontal_logic,
    translate_is_null,
    translate_logic,
    translate_not,
)
from rxtemporal.engine.expressions.numbers import (
    UnfitRowsError,
    cast,
    translate_arithmetic,
    translate_cast,
    translate_date,
    translate_division,
    translate_floor_division,
    translate_fused,
    translate_modulo,
    translate_power,
    translate_unary,
)
from rxtemporal.engine.expressions.parts import (
    Computation,
    Constant,
    Part,
    make_constant,
    require,
)
from rxtemporal.engine.expressions.tree import (
    Term,
    UnknownExpressionError,
    resolve,
    walk,
)


class FrameQuery:
    """Expressions over rows of ``schema`` that polars computes.

    Costs the frame and the query, some 50 microseconds and more, however few the rows.
    """

    def __init__(self, expressions: Sequence[pl.Expr], schema: pl.Schema) -> None:
        self._expressions = list(expressions)
        frame = make_query(schema)
        self.names = list(frame.select(self._expressions).collect_schema())
        read = {name for each in self._expressions for name in each.meta.root_names()}
        selects = any(each.meta.has_multiple_outputs() for each in self._expressions)
        self._reads = [name for name in schema if selects or name in read]

    def __call__(self, columns: Columns) -> list[pl.Series]:
        """Return each output, with one entry for each row."""
        if self._reads:
            frame = pl.DataFrame([columns.series(name) for name in self._reads])
        else:
            frame = pl.DataFrame(height=columns.height)
        # a select would give a literal only once
        frame = frame.with_columns(self._expressions)
        return [frame.get_column(name) for name in self.names]


Translate = Callable[[Term, list[Part]], Part]
_BOOLEAN: dict[str, Translate] = {
    "IsNull": translate_is_null,
    "IsNotNull": translate_is_null,
    "IsNan": translate_float_check,
    "IsNotNan": translate_float_check,
    "IsFinite": translate_float_check,
    "IsInfinite": translate_float_check,
    "IsIn": translate_is_in,
    "IsBetween": translate_between,
    "Not": translate_not,
    "AllHorizontal": translate_horizontal_logic,
    "AnyHorizontal": translate_horizontal_logic,
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
    **dict.fromkeys(("Plus", "Minus", "Multiply"), translate_arithmetic),
    "fused": translate_fused,
    "TrueDivide": translate_division,
    "FloorDivide": translate_floor_division,
    "Modulus": translate_modulo,
    "pow": translate_power,
    **dict.fromkeys(("negate", "abs", "sign", "sqrt", "floor", "ceil"), translate_unary),
    **dict.fromkeys(("Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq"), translate_comparison),
    **dict.fromkeys(("EqValidity", "NotEqValidity"), translate_missing_comparison),
    **dict.fromkeys(("And", "Or", "Xor", "LogicalAnd", "LogicalOr"), translate_logic),
    **{f"BooleanFunction.{name}": translate for name, translate in _BOOLEAN.items()},
    **{f"TemporalFunction.{name}": translate_date_part for name in _DATE_PARTS},
    "TemporalFunction.Date": translate_date,
    "TemporalFunction.Truncate": translate_truncate,
    "TemporalFunction.TimeStamp": translate_timestamp,
    **{f"TemporalFunction.{name}": translate_total for name in _TOTALS},
    "to_physical": translate_physical,
    "clip": translate_clip,
    "replace_strict": translate_replacement,
    **dict.fromkeys(("fill_null", "coalesce"), translate_fill),
    **dict.fromkeys(("min_horizontal", "max_horizontal"), translate_extreme),
    "Cast": translate_cast,
    "Ternary": translate_choice,
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


# long columns are computed in blocks of this length, whose temporaries stay in the cache
_BLOCK = 8_192
# columns up to this length are computed at once; new memory for large temporaries costs most
_LONG = 131_072
# an expression of more terms than this, and functions that make many temporaries
_MANY = 12
_LAVISH = (
    "TemporalFunction", "min_horizontal", "max_horizontal", "BooleanFunction.IsIn", "Ternary",
    "fill_null", "coalesce", "clip", "replace_strict",
)  # fmt: skip


class Program:
    """An expression, translated once, that computes a column from the columns of a batch.

    The result equals that of polars bit for bit, and does not depend on a batch's other rows. In
    polars the last bit of a quotient and the sign of a zero may: it computes with a constant
    otherwise than with a column, and takes a column for a constant if it has one row, or if all its
    rows come from the same constant of a ``when`` or of a ``fill_null``. A batch that it cannot
    compute, as where a strict cast fails, is left to polars. Costs about half a microsecond for
    each operation. Not to be called by two threads at once.
    """

    def __init__(
        self,
        expression: pl.Expr,
        name: str,
        term: Term,
        schema: pl.Schema,
        dtype: pl.DataType | None = None,
    ) -> None:
        names = list(schema)
        part = translate(term, {each: number for number, each in enumerate(names)})
        if dtype is not None:
            part = cast(part, dtype, "strict")
        self.dtype = part.dtype
        self._expression = expression
        self._name = name
        self._names = names
        self._schema = schema
        terms = list(walk(term))
        self._reads = sorted({names.index(n.options[0]) for n in terms if n.name == "Column"})
        self._constant = part if isinstance(part, Constant) else None
        self._compute: Any = None if isinstance(part, Constant) else part.run
        # the number of the column, if it is only one, which is given as it is
        is_column = len(terms) == 1 and self._reads and part.dtype == schema[names[self._reads[0]]]
        self.position = self._reads[0] if is_column else None
        lavish = len(terms) > _MANY or any(each.name.startswith(_LAVISH) for each in terms)
        self._limit = _BLOCK if lavish else _LONG
        # overflow and NaN are not errors here; to enter errstate for each batch costs 0.8 µs
        with np.errstate(all="ignore"):
            self._context = contextvars.copy_context()

    def __call__(self, columns: Columns) -> Column:
        """Return the result, with one entry for each row."""
        if self._constant is not None:
            return _repeat(self._constant, columns.height)
        same = columns.schema is self._schema
        arrays = columns.columns if same else self._arrange(columns)
        if self.position is not None:
            return arrays[self.position]
        try:
            if columns.height > self._limit:
                return self._context.run(self._compute_blocks, arrays, columns.height)
            return self._context.run(self._compute, arrays)  # type: ignore[no-any-return]
        except UnfitRowsError:
            query = FrameQuery([self._expression], self._schema)
            series = query(columns)[query.names.index(self._name)]
            return make_column(series.cast(self.dtype))

    def _arrange(self, columns: Columns) -> Sequence[Column]:
        """Return the columns in the order of the schema for which this was made."""
        if list(columns.schema) != self._names:
            return [columns[name] for name in self._names]
        self._schema = columns.schema
        return columns.columns

    def _compute_blocks(self, arrays: Sequence[Column], height: int) -> Column:
        if any(isinstance(arrays[number], SeriesColumn) for number in self._reads):
            return self._compute(arrays)  # type: ignore[no-any-return]
        values = np.empty(height, physical_type(self.dtype))
        valid = None
        block: list[Any] = [None] * len(arrays)
        for begin in range(0, height, _BLOCK):
            rows = slice(begin, begin + _BLOCK)
            for number in self._reads:
                block[number] = arrays[number][rows]
            part = self._compute(block)
            if type(part) is np.ndarray:
                values[rows] = part
                continue
            if valid is None:
                valid = np.ones(height, np.bool_)
            values[rows], valid[rows] = part.values, part.valid
        return values if valid is None else Nullable(values, valid)


def _repeat(constant: Constant, height: int) -> Column:
    """Return a constant for each of this many rows."""
    physical = physical_type(constant.dtype)
    if physical is None:
        series = pl.Series([constant.value], dtype=constant.dtype)
        return SeriesColumn(series.new_from_index(0, height))
    if constant.value is None:
        return Nullable(np.zeros(height, physical), np.zeros(height, np.bool_))
    return np.full(height, constant.value)


def compile_expression(expression: pl.Expr, schema: pl.Schema) -> Program | None:
    """Return the program of an expression of one output over rows of ``schema``.

    None if polars has to run it: a part of it is not known here.
    """
    programs = compile_outputs(expression, schema)
    return next(iter(programs.values())) if programs and len(programs) == 1 else None


def compile_outputs(
    expression: pl.Expr, schema: pl.Schema, types: pl.Schema | None = None
) -> dict[str, Program] | None:
    """Return the program of each output of an expression, by its name; None if polars runs it.

    With ``types`` the outputs are cast to these types, by their names.
    """
    wanted = {} if types is None else dict(types)
    try:
        return {
            name: Program(expression, name, term, schema, wanted.get(name))
            for name, term in resolve(expression, schema).items()
        }
    except (UnknownExpressionError, pl.exceptions.PolarsError):
        return None
