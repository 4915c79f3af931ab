"""Fields of a declared type that read single values exactly, and many as a column.

A field takes what ``schema.can_hold`` allows and its type can store, and returns it as a value of
exactly one builtin type: no code of the value's own runs afterwards, and nobody can change it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from rxtemporal.core.safe_text import brief, type_name
from rxtemporal.core.schema import can_hold
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, ticks, to_datetime

_EPOCH = datetime(1970, 1, 1)
_DAY = 86_400_000_000
_INT64 = np.iinfo(np.int64)
_FLOAT32_MAX = float(np.finfo(np.float32).max)
_DECIMAL_DIGITS = 38
# up to here every int is a float
_EXACT = 2**53


_JSON_VALUES: dict[type, Any] = {str: "", int: 0, float: 0.5, bool: True, dict: {}}


class UnfitError(Exception):
    """A value that a field cannot hold; the message is the reason."""


class Field:
    """A field of one type, to read values with.

    ``check`` returns a value in its plain form; ``UnfitError`` if the field cannot hold it. Null
    always fits.

    >>> from rxtemporal.core.fields import field_of
    >>> temp = field_of("temp", pl.Float64())
    >>> temp.check(20), temp.column([20.5, 21]).to_list()
    (20.0, [20.5, 21.0])
    """

    plain: ClassVar[frozenset[type]] = frozenset()
    """Types of which polars takes every value exactly, or raises."""
    condition: str | None = None
    """The source of a condition on ``value`` that most values meet which are in their plain form
    and fit, and no others; None if there is none."""

    def __init__(self, name: str, dtype: pl.DataType) -> None:
        self.name, self.dtype = name, dtype
        # types of JSON that have no fitting value
        self._unfit = {kind for kind, each in _JSON_VALUES.items() if not can_hold(dtype, [each])}

    def check(self, value: Any) -> Any:
        """Return a value in its plain form; raise ``UnfitError`` if the field cannot hold it."""
        if value is None:
            return None
        try:
            if type(value) not in self._unfit and can_hold(self.dtype, [value]):
                return self._to_plain(value)
        except Exception:  # the value's own code, or the range of the type
            pass
        raise UnfitError(
            f"field {self.name!r} is {self.dtype} and cannot hold {brief(value)} "
            f"({type_name(value)}){self._hint(value)}"
        )

    def _hint(self, value: Any) -> str:
        """Return what to write in place of a value that the field cannot hold, if that is known."""
        return ""

    def column(self, values: Sequence[Any]) -> pl.Series:
        """Return values as a column; raise if the field cannot hold one of them."""
        if not self.plain.issuperset(map(type, values)):
            values = list(map(self.check, values))
        return pl.Series(self.name, values, dtype=self.dtype, strict=True)

    def is_in_range(self, column: pl.Series) -> bool:
        """Return True if every value of a column of the field's type can be read back."""
        return True

    def _to_plain(self, value: Any) -> Any:
        raise NotImplementedError


class _NullField(Field):
    plain = frozenset({NoneType})


class _BoolField(Field):
    plain = frozenset({bool, NoneType})
    condition = "type(value) is bool"

    def _to_plain(self, value: Any) -> bool:
        return bool(value)


class _IntField(Field):
    def __init__(self, name: str, dtype: pl.DataType) -> None:
        super().__init__(name, dtype)
        self._bits = pl.Series([], dtype=dtype).to_numpy().dtype
        self._least, self._most = int(np.iinfo(self._bits).min), int(np.iinfo(self._bits).max)
        self.condition = f"type(value) is int and {self._least} <= value <= {self._most}"

    def check(self, value: Any) -> Any:
        if type(value) is int and self._least <= value <= self._most:
            return value
        return super().check(value)

    def column(self, values: Sequence[Any]) -> pl.Series:
        if set(map(type, values)) == {int}:
            # numpy raises for any int that is too large; polars also tries to write it out
            return pl.Series(self.name, np.array(values, self._bits))
        return super().column(values)

    def _to_plain(self, value: Any) -> int:
        number = _to_int(value)
        if not self._least <= number <= self._most:
            raise OverflowError
        return number


class _FloatField(Field):
    plain = frozenset({float, NoneType})
    condition: str | None = "type(value) is float"

    def check(self, value: Any) -> Any:
        if type(value) is float:
            return value
        if type(value) is int and -_EXACT <= value <= _EXACT:
            return float(value)
        return super().check(value)

    def _to_plain(self, value: Any) -> float:
        if isinstance(value, float):
            return float.__float__(value)
        return float(value if isinstance(value, np.floating) else _to_int(value))


class _SmallFloatField(_FloatField):
    # polars makes infinity of what is too large
    plain = frozenset()
    condition = None

    def check(self, value: Any) -> Any:
        return Field.check(self, value)

    def _to_plain(self, value: Any) -> float:
        number = super()._to_plain(value)
        if math.isfinite(number) and abs(number) > _FLOAT32_MAX:
            raise OverflowError
        return number


class _TextField(Field):
    plain = frozenset({str, NoneType})
    condition = "type(value) is str and value.isascii()"

    def check(self, value: Any) -> Any:
        if type(value) is str and value.isascii():
            return value
        return super().check(value)

    def _to_plain(self, value: Any) -> str:
        text = str.__str__(value)
        text.encode()  # a lone surrogate has no form in UTF-8
        return text


class _BytesField(Field):
    plain = frozenset({bytes, NoneType})
    condition = "type(value) is bytes"

    def _to_plain(self, value: Any) -> bytes:
        return value if type(value) is bytes else bytes(memoryview(value))


class _DateField(Field):
    plain = frozenset({date, NoneType})

    def _to_plain(self, value: Any) -> date:
        return date.fromordinal(date.toordinal(value))

    def is_in_range(self, column: pl.Series) -> bool:
        return _is_between(column, date.min.toordinal() - _EPOCH.toordinal(), _LAST_DAY)


_LAST_DAY = date.max.toordinal() - _EPOCH.toordinal()


class _TimeField(Field):
    """A field of datetimes, naive or aware; an aware one leaves in UTC."""

    def __init__(self, name: str, dtype: pl.Datetime) -> None:
        super().__init__(name, dtype)
        zone = dtype.time_zone
        self._zone = None if zone in (None, "UTC") else ZoneInfo(zone or "UTC")
        self._naive = zone is None

    def _hint(self, value: Any) -> str:
        if not isinstance(value, datetime) or (value.tzinfo is None) is self._naive:
            return ""
        if self._naive:
            return ". Hint: the field has no zone: value.replace(tzinfo=None)."
        return ". Hint: it has no zone: datetime(…, tzinfo=UTC) is an instant."

    def _to_plain(self, value: datetime) -> datetime:
        if self._naive:
            return _EPOCH + datetime.__sub__(value, _EPOCH)
        time = to_datetime(ticks(value))
        if self._zone is not None:
            time.astimezone(self._zone)  # near the end of time another zone may have no such date
        return time.replace(tzinfo=UTC)

    def is_in_range(self, column: pl.Series) -> bool:
        margin = 0 if self._zone is None else _DAY
        return _is_between(column, MIN_TIME + margin, MAX_TIME - margin)


class _SpanField(Field):
    def _to_plain(self, value: timedelta) -> timedelta:
        length = ticks(value)
        if not _INT64.min < length <= _INT64.max:
            raise OverflowError
        return timedelta(microseconds=length)


class _DecimalField(Field):
    def __init__(self, name: str, dtype: pl.Decimal) -> None:
        super().__init__(name, dtype)
        self._before_point = (dtype.precision or _DECIMAL_DIGITS) - dtype.scale

    def _to_plain(self, value: Decimal) -> Decimal:
        number = Decimal(value)
        if not number:
            return Decimal(0)
        if number.adjusted() >= self._before_point:
            raise OverflowError
        return number


_KINDS: dict[type[pl.DataType], type[Field]] = {
    pl.Null: _NullField,
    pl.Boolean: _BoolField,
    pl.Float64: _FloatField,
    pl.Float32: _SmallFloatField,
    pl.String: _TextField,
    pl.Binary: _BytesField,
    pl.Date: _DateField,
    pl.Datetime: _TimeField,
    pl.Duration: _SpanField,
    pl.Decimal: _DecimalField,
}


def field_of(name: str, dtype: pl.DataType) -> Field:
    """Return the field of this name and payload type."""
    return _KINDS.get(type(dtype), _IntField)(name, dtype)


def _to_int(value: Any) -> int:
    return int.__int__(value) if isinstance(value, int) else int(value)


def _is_between(column: pl.Series, least: int, most: int) -> bool:
    numbers = column.to_physical()
    low: Any = numbers.min()
    high: Any = numbers.max()
    return bool(low is None or (least <= low and high <= most))


def make_row_reader(
    fields: Sequence[Field], checks: Mapping[str, Callable[[Any], Any]]
) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return a function that reads the fields of a row, each in its plain form.

    ``checks`` has a function for each field, for the values that do not meet its condition.
    ``KeyError``: a field is missing. The function is generated, which takes three quarters of the
    time of a loop over the fields, or less: it is called once for each row that is pushed.

    >>> fields = [field_of("device", pl.String()), field_of("temp", pl.Float64())]
    >>> read = make_row_reader(fields, {field.name: field.check for field in fields})
    >>> read({"temp": 20, "device": "a", "ts": 5})
    {'device': 'a', 'temp': 20.0}
    """
    lines = ["def read_row(row):"]
    # names are in it as literals alone, also those of a class of its own
    names = [str.__repr__(field.name) for field in fields]
    for number, field in enumerate(fields):
        lines.append(f"    value = row[{names[number]}]")
        check = f"check_{number}(value)"
        is_plain = field.condition or "False"
        lines.append(f"    value_{number} = value if {is_plain} else {check}")
    values = ", ".join(f"{name}: value_{n}" for n, name in enumerate(names))
    lines.append(f"    return {{{values}}}")
    defined: dict[str, Any] = {f"check_{n}": checks[each.name] for n, each in enumerate(fields)}
    exec("\n".join(lines), defined)
    read: Callable[[Mapping[str, Any]], dict[str, Any]] = defined["read_row"]
    return read
