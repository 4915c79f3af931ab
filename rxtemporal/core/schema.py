"""Payload schemas: flat records of named, typed fields that polars, Arrow and Spark all support.

Spark has no unsigned integers, polars' finer time units have no tick, and a nested value has no
key. So unsigned integers are widened, times are floored to microseconds, and anything else is
refused by name.
"""

from __future__ import annotations

import enum
import functools
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from types import NoneType, UnionType
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.record_classes import find_record, is_record_class, list_annotations
from rxtemporal.core.safe_text import show, type_name
from rxtemporal.errors import SchemaError

# the field that a bare scalar payload gets
SCALAR_FIELD = "payload"
# the names by which users' expressions read the times of a row
START, END = "start", "end"

_WIDENED: dict[Any, pl.DataType] = {
    pl.UInt8: pl.Int16(),
    pl.UInt16: pl.Int32(),
    pl.UInt32: pl.Int64(),
}
_KEPT = (
    pl.Boolean, pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Float32, pl.Float64,
    pl.String, pl.Binary, pl.Date, pl.Decimal, pl.Null,
)  # fmt: skip
_PYTHON: dict[Any, pl.DataType] = {
    bool: pl.Boolean(),
    int: pl.Int64(),
    float: pl.Float64(),
    str: pl.String(),
    bytes: pl.Binary(),
    datetime: pl.Datetime("us", "UTC"),
    date: pl.Date(),
    timedelta: pl.Duration("us"),
    NoneType: pl.Null(),
}
# pydantic's names of datetimes and dates that it checks, which are no classes of datetimes
_PYDANTIC: dict[str, Any] = {
    **dict.fromkeys(("AwareDatetime", "PastDatetime", "FutureDatetime"), datetime),
    **dict.fromkeys(("PastDate", "FutureDate"), date),
    "NaiveDatetime": pl.Datetime("us"),
}
_ALLOWED = "bool, int, float, str, bytes, datetime, date, timedelta, Decimal or None"


def payload_type(name: str, dtype: Any, *, lists: bool = False) -> pl.DataType:
    """Return the payload type for a field of polars type ``dtype``; raise if there is none.

    With ``lists`` it may be a list of scalars: lists exist only inside a query, from ``select`` to
    ``explode``.
    """
    if isinstance(dtype, type) and issubclass(dtype, pl.DataType):
        dtype = dtype()
    if isinstance(dtype, _KEPT):
        return dtype
    if type(dtype) in _WIDENED:
        return _WIDENED[type(dtype)]
    if isinstance(dtype, pl.Datetime):
        return pl.Datetime("us", dtype.time_zone)
    if isinstance(dtype, pl.Duration):
        return pl.Duration("us")
    if lists and isinstance(dtype, pl.List):
        return pl.List(payload_type(name, dtype.inner))
    hint = "a payload is a flat record; keep nested values outside or flatten them"
    if isinstance(dtype, pl.List) and not lists:
        hint = "a payload is a flat record; lists exist only inside a query, from select to explode"
    if isinstance(dtype, pl.UInt64):
        hint = "Spark has no UInt64; cast it to Int64, Decimal or String"
    elif isinstance(dtype, (pl.Categorical, pl.Enum)):
        hint = "cast it to String"
    raise SchemaError(f"field {name!r} has type {dtype}, which no payload can carry. Hint: {hint}.")


def payload_schema(given: Any, *, lists: bool = False) -> pl.Schema:
    """Return a schema from a mapping name → type, or from a class that names the fields of a row.

    Such a class is a dataclass, a NamedTuple, a TypedDict, a pydantic model, a msgspec Struct or an
    attrs class. Types are polars types or Python's own; ``X | None`` means ``X``, for any field may
    be null. With ``lists`` also lists of scalars, which exist only inside a query.
    """
    if isinstance(given, Mapping):
        fields: Iterable[tuple[str, Any]] = given.items()
    elif is_record_class(given):
        fields = list_annotations(given).items()
    else:
        raise SchemaError(
            "schema= is a mapping of names to types, or a class with typed fields: a dataclass, "
            "a NamedTuple, a TypedDict, a pydantic model, a msgspec Struct or an attrs class; "
            f"got {given!r}. Hint: schema={{'room': str, 'temp': float}}."
        )
    return pl.Schema(
        {_check_name(name): declared_type(name, type_, lists=lists) for name, type_ in fields}
    )


def make_query(schema: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """Return a query over no rows of a schema, which tells the types of expressions."""
    return _make_query(tuple(schema.items()))


# polars takes a millisecond to make one of ten fields, and an operator asks for several
@functools.lru_cache(maxsize=256)
def _make_query(fields: tuple[tuple[str, pl.DataType], ...]) -> pl.LazyFrame:
    return pl.LazyFrame(schema=dict(fields))


def check_field(name: str, schema: pl.Schema, operator: str, stream: str = "") -> None:
    """Raise an error if the stream that an operator takes has no such field."""
    if name not in schema:
        # imported here: only a mistake needs it
        from rxtemporal.core.safe_text import hint_near

        found = f"{stream} has no field {name!r}; it has"
        if not stream:
            found = f"there is no field {name!r}; there are"
        raise SchemaError(f"{operator}: {found} {list(schema)}{hint_near(name, schema)}")


def check_added(names: Iterable[str], schema: pl.Schema, operator: str) -> None:
    """Raise an error if a field that an operator adds exists already."""
    for name in names:
        if name in schema:
            raise SchemaError(
                f"{operator} adds the field {name!r}, which exists already. Hint: rename it "
                "first with select()."
            )


def declared_type(name: str, type_: Any, *, lists: bool = False) -> pl.DataType:
    """Return the payload type of a field declared with a polars or a Python type."""
    return payload_type(name, _polars_type(name, type_), lists=lists)


def _check_name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise SchemaError(f"a field's name is a non-empty str, got {name!r}")
    if name[0] == "^" and name[-1] == "$":
        raise SchemaError(
            f"a field cannot be called {name!r}: polars takes a name between ^ and $ for a pattern "
            "of names. Hint: rename it."
        )
    return name


def _polars_type(name: str, type_: Any) -> Any:
    kinds = [kind for kind in _list_kinds(type_) if kind is not NoneType] or [NoneType]
    first, *others = [_find_own(name, kind) for kind in kinds]
    if first is not None and all(other == first for other in others):
        return first
    raise SchemaError(
        f"field {name!r} has type {type_!r}; a field is {_ALLOWED}. "
        f"Hint: {'name one type' if others else _hint_type(kinds[0])}."
    )


def _find_own(name: str, kind: Any) -> Any:
    """Return the polars type for one type; None if there is none."""
    if _is_polars(kind):
        return kind
    if typing.get_origin(kind) is list:
        return pl.List(_polars_type(name, typing.get_args(kind)[0]))
    # a StrEnum is a str; a datetime is a date too, and first in the table
    own = [each for each in _PYTHON if isinstance(kind, type) and issubclass(kind, each)]
    return _PYTHON[own[0]] if own else None


def _list_kinds(type_: Any) -> Iterator[Any]:
    """Yield the types that a value of an annotated type may have, NoneType for null."""
    origin, parts = typing.get_origin(type_), typing.get_args(type_)
    if origin in (typing.Union, UnionType):
        for part in parts:
            yield from _list_kinds(part)
    elif origin is typing.Annotated:
        # Annotated[Decimal, pl.Decimal(10, 2)] says what a type of Python cannot
        own = [each for each in parts[1:] if _is_polars(each)]
        yield from own or _list_kinds(parts[0])
    elif origin is typing.Literal:
        yield from map(type, parts)
    elif isinstance(type_, typing.NewType):
        yield from _list_kinds(type_.__supertype__)
    elif type(type_).__name__ == "TypeAliasType":  # type X = …, from Python 3.12 on
        yield from _list_kinds(type_.__value__)
    elif getattr(type_, "__module__", "") == "pydantic.types":
        yield _PYDANTIC.get(type_.__name__, type_)
    else:
        yield type_


def _is_polars(type_: Any) -> bool:
    is_class = isinstance(type_, type) and issubclass(type_, pl.DataType)
    return is_class or isinstance(type_, pl.DataType)


def _hint_type(type_: Any) -> str:
    if isinstance(type_, str | typing.ForwardRef):
        text = getattr(type_, "__forward_arg__", type_)
        return f"write the type itself, {text}, without quotes"
    if type_ is Decimal:
        return (
            "name a Decimal field's type as pl.Decimal(precision, scale), in a class as "
            "Annotated[Decimal, pl.Decimal(precision, scale)]"
        )
    if isinstance(type_, type) and issubclass(type_, enum.Enum):
        return "derive it from str too, as enum.StrEnum does, or from int"
    if is_record_class(type_):
        return "a payload is a flat record; make a field of each part"
    return "declare the type of its plain form, for example str, and give that"


def infer_type(name: str, value: Any) -> pl.DataType:
    """Infer the type of the field ``name`` from its first ``value``."""
    _check_name(name)
    if isinstance(value, Decimal) and value.is_finite():
        return pl.Decimal(38, max(0, -int(value.as_tuple().exponent)))
    if isinstance(value, datetime):
        return pl.Datetime("us", "UTC" if value.tzinfo is not None else None)
    for type_, dtype in _PYTHON.items():
        if isinstance(value, type_):
            return dtype
    raise SchemaError(
        f"field {name!r} holds {show(value)} ({type_name(value)}); a payload is a flat record "
        f"whose fields are {_ALLOWED}. Hint: {_hint_parts(value)}."
    )


def _hint_parts(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return "its .value is a payload; or derive the enum from str too, as enum.StrEnum does"
    return "make a field of each part"


def refuse_lists(schema: pl.Schema) -> None:
    """Raise an error if the results of a query have list fields."""
    for name, dtype in schema.items():
        if isinstance(dtype, pl.List):
            raise SchemaError(
                f"field {name!r} is {dtype}; lists exist only inside a query. "
                f"Hint: explode({name!r}) gives a row for each element; or make a string of it, "
                f'with pl.col("{name}").cast(pl.List(pl.String)).list.join(",").'
            )


def can_hold(dtype: pl.DataType, values: Sequence[Any]) -> bool:
    """Return True if a field of this type can hold all these values unchanged; null always fits.

    An integer is a float too; a bool is not a number, and a naive datetime is not an aware one.
    """
    kinds = set(map(type, values)) - {NoneType}
    if isinstance(dtype, pl.List):
        each = [value for many in values if isinstance(many, (list, tuple)) for value in many]
        return all(issubclass(kind, (list, tuple)) for kind in kinds) and can_hold(
            payload_type("", dtype.inner), each
        )
    if isinstance(dtype, pl.Datetime):
        naive = {value.tzinfo is None for value in values if isinstance(value, datetime)}
        return all(issubclass(kind, datetime) for kind in kinds) and naive <= {
            dtype.time_zone is None
        }
    if isinstance(dtype, pl.Decimal):
        return all(issubclass(kind, Decimal) for kind in kinds) and all(
            value is None or -int(value.as_tuple().exponent) <= dtype.scale for value in values
        )
    allowed, refused = _python_types(dtype)
    return all(issubclass(kind, allowed) and not issubclass(kind, refused) for kind in kinds)


def _python_types(dtype: pl.DataType) -> tuple[tuple[type, ...], tuple[type, ...]]:
    if dtype.is_integer():
        return (int, np.integer), (bool,)
    if dtype.is_float():
        return (int, float, np.integer, np.floating), (bool,)
    if dtype == pl.Boolean():
        return (bool, np.bool_), ()
    if dtype == pl.Date():
        return (date,), (datetime,)
    return tuple(type_ for type_, own in _PYTHON.items() if own == dtype), ()


def to_fields(payload: Any) -> dict[str, Any]:
    """Return a payload as a flat dict: of a dict, of a record, or of a bare scalar."""
    if isinstance(payload, dict):
        return payload
    record = find_record(type(payload))
    return {SCALAR_FIELD: payload} if record is None else record.read(payload)


def _can_widen(have: pl.DataType, want: pl.DataType) -> bool:
    """Return True if a cast from one type to the other loses nothing, or else fails in polars."""
    return (
        have == want
        or have == pl.Null()
        or (have.is_integer() and want.is_integer())
        or (have.is_float() and want == pl.Float64())
    )


def conform(frame: pl.DataFrame, schema: pl.Schema | None = None) -> pl.DataFrame:
    """Return the frame with every field cast to its payload type.

    With ``schema`` the frame must have exactly its fields, in types that cast without loss.
    """
    if schema is None:
        for name in frame.columns:
            _check_name(name)
        if all(isinstance(dtype, _KEPT) for dtype in frame.dtypes):
            return frame
        schema = pl.Schema(
            {name: payload_type(name, dtype) for name, dtype in frame.schema.items()}
        )
    elif set(frame.columns) != set(schema):
        raise SchemaError(
            f"fields {sorted(frame.columns)} do not fit the stream's fields {sorted(schema)}"
        )
    else:
        for name, dtype in schema.items():
            if not _can_widen(frame.schema[name], dtype):
                raise SchemaError(
                    f"field {name!r} is {frame.schema[name]}, and the stream's is {dtype}. "
                    "Hint: a field keeps its type; cast it before it enters."
                )
    if frame.schema == schema:
        return frame
    try:
        return pl.DataFrame(
            [frame.get_column(name).cast(dtype, strict=True) for name, dtype in schema.items()]
        )
    except pl.exceptions.PolarsError as error:
        raise SchemaError(f"a field does not fit the stream's schema: {error}") from error
