"""Functions of a match, in conditions and measures: columns that are named after what they give.

``pt.first("A.temp") > 30`` is a polars expression over a column named ``pt.first(A.temp)``. The
operator finds such columns by their names, and computes them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import Any, Literal, get_args

import polars as pl

from rxtemporal.core.schema import check_field
from rxtemporal.errors import SchemaError
from rxtemporal.operators.detect.text import NAME
from rxtemporal.operators.row_times import START_FIELD

Kind = Literal[
    "prev", "first", "last", "count", "sum", "mean", "min", "max", "variable", "match_start"
]
START = "start"
"""The name by which conditions and measures read the start of a row."""
STARTS = (START, START_FIELD)
"""That name, and the one of ``rxt.start()``."""
_NUMBERED = ("prev", "last")
_COLUMN = re.compile(rf"pt\.({'|'.join(get_args(Kind))})\((.*)\)", re.DOTALL)
# what stands in the parentheses
_VARIABLE, _FIELD, _N = rf"(?P<variable>{NAME.pattern})", "(?P<field>.+)", r", (?P<n>\d+)"
_INSIDE = dict.fromkeys(get_args(Kind), rf"{_VARIABLE}\.{_FIELD}") | {
    "prev": _FIELD + _N,
    "last": rf"{_VARIABLE}\.{_FIELD}{_N}",
    "count": rf"{_VARIABLE}(?:\.{_FIELD})?",
    "variable": "",
    "match_start": "",
}
_COMPUTES = ("sum", "mean", "min", "max")


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    """A function of the rows matched so far, or of all rows of a match.

    ``variable`` is that whose rows it reads; ``prev``, ``variable`` and ``match_start`` have none.
    ``field`` is None for a count of rows. ``n`` is how many rows it goes back.
    """

    kind: Kind
    variable: str = ""
    field: str | None = None
    n: int = 0

    @property
    def column(self) -> str:
        """The name of the column."""
        what = ".".join(each for each in (self.variable, self.field) if each)
        return f"pt.{self.kind}({f'{what}, {self.n}' if self.kind in _NUMBERED else what})"

    @property
    def reads_row(self) -> bool:
        """True if it gives a value of one row of a variable."""
        return self.kind in ("first", "last", "min", "max")

    def infer_type(self, schema: pl.Schema, time: pl.DataType, who: str) -> pl.DataType:
        """Return the type of its values over rows of ``schema``; raise if it is not defined."""
        if self.kind == "count":
            if self.field is not None:
                _infer_field(self.field, schema, time, who)
            return pl.Int64()
        if self.kind == "variable":
            return pl.String()
        if self.kind == "match_start":
            return time
        assert self.field is not None
        given = _infer_field(self.field, schema, time, who)
        if self.kind in _COMPUTES:
            self._check_number(given, who)
        if self.kind == "sum":
            return pl.Float64() if given.is_float() else pl.Int64()
        return pl.Float64() if self.kind == "mean" else given

    def _check_number(self, given: pl.DataType, who: str) -> None:
        """Raise if no sum or extreme is computed over values of a type."""
        is_number = given.is_float() or given.is_integer() or given == pl.Boolean
        if is_number or (self.kind in ("min", "max") and given.is_temporal()):
            return
        raise SchemaError(
            f"{who}: {self.column} computes with {self.field!r}, which is {given}. Hint: convert "
            "it to a number first with with_columns(); pt.first, pt.last and pt.count take any "
            "field."
        )


def _infer_field(name: str, schema: pl.Schema, time: pl.DataType, who: str) -> pl.DataType:
    if name == START:
        return time
    check_times(name, schema, who)
    check_field(name, schema, who)
    return schema[name]


def check_times(name: str, schema: pl.Schema, who: str) -> None:
    """Raise if a name that is no field is one that results have for the times of a row."""
    if name in schema or name not in ("start_time", "end_time", "end"):
        return
    if name == "start_time":
        raise SchemaError(
            f"{who}: there is no field 'start_time'. Hint: pl.col('start') is the start of the "
            "row, and pt.first('A.start') that of a row of A."
        )
    raise SchemaError(
        f"{who}: there is no field {name!r}, and the ends of rows play no part in a pattern. "
        "Hint: with_columns(until=rxt.end()) in front of detect makes the end a field."
    )


def check_columns(functions: Iterable[Function], schema: pl.Schema, who: str) -> None:
    """Raise if a field has the name of the column of a function, which would be read instead."""
    for each in functions:
        if each.column in schema:
            raise SchemaError(
                f"{who}: {each.column!r} is a function of a match, and there is a field of this "
                "name. Hint: rename the field first with select()."
            )


def parse_column(name: str) -> Function | None:
    """Return the function that a column is named after; None if it is a field.

    >>> parse_column("pt.last(A.temp, 1)")
    Function(kind='last', variable='A', field='temp', n=1)
    >>> parse_column("temp") is None
    True
    """
    found = _COLUMN.fullmatch(name)
    if found is None:
        return None
    kind, what = found.groups()
    inside = re.fullmatch(_INSIDE[kind], what, re.DOTALL)
    if inside is None:
        return None
    given: dict[str, Any] = inside.groupdict()
    return Function(kind, **given | {"n": int(given.get("n", 0))})  # type: ignore[arg-type]


def list_functions(expressions: Iterable[pl.Expr]) -> list[Function]:
    """Return the functions that expressions read, each once, in the order of their names."""
    names = sorted({name for each in expressions for name in each.meta.root_names()})
    return [each for each in map(parse_column, names) if each is not None]


def split_name(name: str) -> tuple[str, str] | None:
    """Return a variable and a field written as ``A.temp``; None if they are not."""
    variable, dot, field = name.partition(".")
    return (variable, field) if dot and field and NAME.fullmatch(variable) else None
