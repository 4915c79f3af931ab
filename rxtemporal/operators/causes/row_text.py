"""Rows and times as short texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from rxtemporal.core.batch import TimeForm
from rxtemporal.core.spans import describe_span
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, describe, to_datetime
from rxtemporal.display.plain_text import format_span, format_value, shorten

MOST_CHARACTERS = 40
MOST_FIELDS = 8
MOST_EXPRESSION = 400


def write_time(tick: int, form: TimeForm) -> str:
    """Return a time as text, as ticks or in ISO 8601.

    >>> write_time(5, "ticks"), write_time(0, "datetime"), write_time(MAX_TIME, "ticks")
    ('5', '1970-01-01T00:00:00Z', 'the end of time')
    """
    if tick in (MIN_TIME, MAX_TIME):
        return describe(tick)
    return str(tick) if form == "ticks" else format_value(to_datetime(tick))


def write_span(length: int, form: TimeForm) -> str:
    """Return a span of time as text.

    >>> write_span(1, "ticks"), write_span(90_000_000, "datetime")
    ('1 tick', '1m 30s')
    """
    if form == "ticks":
        return f"{length:,} tick" + ("" if length == 1 else "s")
    return format_span(length)


def write_delay(length: int, form: TimeForm) -> str:
    """Return a delay as text, never shorter than it is.

    >>> write_delay(9, "ticks"), write_delay(3_723_000_001, "datetime")
    ('9 ticks', '62 min 3.1 s')
    """
    return write_span(length, form) if form == "ticks" else format_delay(length)


def format_delay(delay: int) -> str:
    """Return a delay in two units at most, rounded up to tenths of the smaller.

    >>> format_delay(852_000_001), format_delay(5), format_delay(90_000_000)
    ('14 min 12.1 s', '5 ticks', '1 min 30 s')
    """
    if delay < 100_000:
        return describe_span(delay)
    tenths = -(-delay // 100_000)
    minutes, tenths = divmod(tenths, 600)
    if minutes >= 600:
        return f"{-(-(minutes + (tenths > 0)) // 60)} h"
    seconds = f"{tenths / 10:g} s"
    if not minutes:
        return seconds
    return f"{minutes} min {seconds}" if tenths else f"{minutes} min"


def write_lifetime(start: int, end: int, form: TimeForm) -> str:
    """Return a lifetime as text: a point as its time, an interval half-open.

    >>> write_lifetime(5, 6, "ticks"), write_lifetime(5, 9, "ticks")
    ('5', '[5, 9)')
    """
    if end - start == 1:
        return write_time(start, form)
    last = "never ends" if end >= MAX_TIME else write_time(end, form)
    return f"[{write_time(start, form)}, {last})"


def write_values(values: Mapping[str, Any]) -> str:
    """Return fields and values as text, long ones cut.

    >>> write_values({"k": "a", "x": 2.0, "y": None})
    "k='a' x=2 y=null"
    """
    shown = [f"{_shorten(name)}={_write_value(value)}" for name, value in values.items()]
    more = ["…"] if len(shown) > MOST_FIELDS else []
    return " ".join([*shown[:MOST_FIELDS], *more])


def _write_value(value: Any) -> str:
    if isinstance(value, str):
        return repr(_shorten(value)).replace("\\\\", "\\")
    return _shorten(format_value(value))


def _shorten(text: str) -> str:
    return shorten(text, MOST_CHARACTERS)


def write_expression(expression: pl.Expr) -> str:
    """Return a polars expression as text, without the types of its constants.

    >>> write_expression((pl.col("x") > 1) & (pl.col("k") == "a"))
    '[x > 1] & [k == "a"]'
    """
    text = re.sub(r"dyn (?:int|float): ", "", shorten(str(expression), MOST_EXPRESSION))
    text = re.sub(r"col\(\"(\w+)\"\)", r"\1", text)
    before = None
    while before != text:  # the innermost parentheses of names and constants first
        before = text
        text = re.sub(r"(?<![\w.])\((\w+|-?[\d.]+|\"[^\"()]*\"|\[[^()]*\])\)", r"\1", text)
    return text[1:-1] if re.fullmatch(r"\[.*\]", text) else text


def write_place(operator: str, line: str | None) -> str:
    """Return an operator and the line that composed it as text, without the folder."""
    return operator if line is None else f"{operator} ({Path(line).name})"
