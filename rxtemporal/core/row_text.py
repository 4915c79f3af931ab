"""Frames of rows with lifetimes as texts, for tables in a terminal and in HTML."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl

from rxtemporal.display.plain_text import format_value, shorten
from rxtemporal.display.text_table import text_table

# characters of a cell and columns of a table; what is longer ends in "…"
MOST_CHARACTERS = 40
MOST_COLUMNS = 16


class RowText(NamedTuple):
    """A table as texts: the names of its columns, their units or types, and its rows."""

    header: list[str]
    units: list[str]
    rows: list[list[str]]
    numeric: list[int]


def format_rows(frame: pl.DataFrame, most: int) -> RowText:
    """Return the first ``most`` rows of a frame as texts."""
    columns = list(frame.schema.items())[:MOST_COLUMNS]
    return RowText(
        [shorten(name, MOST_CHARACTERS) for name, _ in columns],
        [_name_unit(name, dtype) for name, dtype in columns],
        [
            [_format_cell(name, value) for (name, _), value in zip(columns, row, strict=False)]
            for row in frame.head(most).iter_rows()
        ],
        [number for number, (_, dtype) in enumerate(columns) if dtype.is_numeric()],
    )


def _name_unit(name: str, dtype: pl.DataType) -> str:
    if isinstance(dtype, pl.Datetime):
        return dtype.time_zone or "local time"
    if name in ("start_time", "end_time"):
        return "ticks"
    return str(dtype).partition("(")[0]


def _format_cell(name: str, value: Any) -> str:
    if value is None and name == "end_time":
        return "never ends"
    return shorten(format_value(value), MOST_CHARACTERS)


def format_frame(frame: pl.DataFrame, most: int) -> str:
    """Return a frame as an aligned table: names, units, at most ``most`` rows, ``…`` for others.

    >>> print(format_frame(pl.DataFrame({"start_time": [4, 5], "temp": [20.5, None]}), 1))
    start_time     temp
         ticks  Float64
             4     20.5
    … more rows
    """
    text = format_rows(frame, most)
    parts = [text_table([text.header, text.units, *text.rows], right=text.numeric)]
    if frame.height > most:
        parts.append("… more rows")
    if frame.width > MOST_COLUMNS:
        parts.append(f"… {frame.width - MOST_COLUMNS} more columns")
    return "\n".join(parts)
