"""Columns of the event-flow page: arrays as base64, text coded by a dictionary, all of it bounded.

A column is a dict that JSON can hold. ``{"type": "i32", "n": 2, "data": …}`` has little-endian
numbers; ``f64`` and ``u8`` likewise. ``{"type": "dict", "codes": …, "values": […]}`` has one code
for each row, -1 for null. Two keys may follow: ``nulls``, a column of ones and zeros, and
``origin``, the number that has to be added to each value, as text: times do not fit into a float
otherwise. ``as`` is ``time`` for ticks since 1970 and ``span`` for a number of ticks.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.safe_text import brief, json_text
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME

Column: TypeAlias = dict[str, Any]

# a longer text is cut, and all the texts of a column have at most so many characters together
MOST_CHARACTERS, MOST_IN_COLUMN = 200, 4_000_000
_LEAST_CHARACTERS = 16
# the integers that a float holds exactly
_EXACT = 1 << 53
_I32 = np.iinfo(np.int32)
_TYPES = {"f64": "<f8", "i32": "<i4", "u8": "|u1"}
_TICKS_PER_DAY = 86_400_000_000


def encode_array(kind: str, values: npt.ArrayLike) -> Column:
    """Return numbers as a column of type ``f64``, ``i32`` or ``u8``.

    >>> encode_array("u8", [1, 2])
    {'type': 'u8', 'n': 2, 'data': 'AQI='}
    """
    array = np.ascontiguousarray(values, _TYPES[kind])
    return {"type": kind, "n": len(array), "data": base64.b64encode(array.tobytes()).decode()}


def encode_ticks(times: Int64s) -> Column:
    """Return times as offsets from the first of them; the ends of time are infinite.

    >>> encode_ticks(np.array([5, 7]))["origin"]
    '5'
    """
    finite = (times > MIN_TIME) & (times < MAX_TIME)
    origin = int(times[finite].min()) if finite.any() else 0
    # in integers, and not where there is no finite time, so that nothing is rounded or wraps
    offsets = np.where(finite, times - origin, 0).astype(np.float64)
    offsets[times >= MAX_TIME] = np.inf
    offsets[times <= MIN_TIME] = -np.inf
    return {**encode_array("f64", offsets), "origin": str(origin)}


def encode_texts(texts: Sequence[str | None] | pl.Series) -> Column:
    """Return texts as a column with a dictionary; long ones are cut and end in ``…``."""
    series = pl.Series(texts, dtype=pl.String)
    values = series.drop_nulls().unique(maintain_order=True)
    codes = _find_codes(series, values)
    return {"type": "dict", "codes": codes, "values": cut_texts(values.to_list())}


def cut_texts(texts: Sequence[str]) -> list[str]:
    """Return texts of limited length, shorter ones if there are very many.

    >>> cut_texts(["short", "long" * 99])[1][-3:]
    'on…'
    """
    most = MOST_CHARACTERS
    if sum(min(len(each), most) for each in texts) > MOST_IN_COLUMN:
        most = max(_LEAST_CHARACTERS, MOST_IN_COLUMN // len(texts))
    return [cut_text(each, most) for each in texts]


def cut_text(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return a text of at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def encode_series(series: pl.Series) -> Column:
    """Return a column of a payload, whatever its type."""
    dtype = series.dtype
    if dtype == pl.Boolean:
        codes = series.cast(pl.Int32).fill_null(-1).to_numpy()
        return {"type": "dict", "codes": encode_array("i32", codes), "values": [False, True]}
    if dtype.is_temporal():
        return _encode_temporal(series)
    if dtype.is_integer():
        return _encode_integers(series)
    if dtype.is_float():
        return _add_nulls(encode_array("f64", series.fill_null(0).to_numpy()), series)
    if dtype in (pl.String, pl.Categorical, pl.Enum) or isinstance(dtype, pl.Decimal):
        return encode_texts(series.cast(pl.String))
    return encode_texts([None if each is None else _write(each) for each in series.to_list()])


def _find_codes(series: pl.Series, values: pl.Series) -> Column:
    if values.is_empty():
        return encode_array("i32", np.full(len(series), -1))
    numbers = pl.Series(np.arange(len(values)), dtype=pl.Int32)
    codes = series.replace_strict(values, numbers, default=None, return_dtype=pl.Int32)
    return encode_array("i32", codes.fill_null(-1).to_numpy())


def _encode_integers(series: pl.Series) -> Column:
    least, most = series.min(), series.max()
    if least is None or (least >= _I32.min and most <= _I32.max):  # type: ignore[operator]
        filled = series.fill_null(0).cast(pl.Int32).to_numpy()
        return _add_nulls(encode_array("i32", filled), series)
    if least >= -_EXACT and most <= _EXACT:  # type: ignore[operator]
        filled = series.fill_null(0).cast(pl.Float64).to_numpy()
        return _add_nulls(encode_array("f64", filled), series)
    return encode_texts(series.cast(pl.String))


def _encode_temporal(series: pl.Series) -> Column:
    """Return times and spans in ticks; a date is its midnight, a time of day the span since it."""
    if series.dtype == pl.Date:
        ticks = series.to_physical().cast(pl.Int64) * _TICKS_PER_DAY
    elif series.dtype == pl.Time:
        ticks = series.to_physical() // 1_000
    else:
        ticks = series.dt.cast_time_unit("us").to_physical()
    kind = "time" if isinstance(series.dtype, (pl.Date, pl.Datetime)) else "span"
    given = ticks.drop_nulls().to_numpy()
    filled = ticks.fill_null(int(given[0]) if len(given) else 0).to_numpy()
    if kind == "span":
        return _add_nulls({**encode_array("f64", filled), "as": kind}, series)
    return _add_nulls({**encode_ticks(filled), "as": kind}, series)


def _add_nulls(column: Column, series: pl.Series) -> Column:
    if series.null_count():
        column["nulls"] = encode_array("u8", series.is_null().to_numpy())
    return column


def _write(value: Any) -> str:
    """Return the text of a value that is neither a number nor a text."""
    if isinstance(value, (bytes, bytearray)):
        return value[: MOST_CHARACTERS // 2 + 1].hex()
    if isinstance(value, (list, dict, tuple)):
        return json_text(value)
    return brief(value)
