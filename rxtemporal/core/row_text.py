"""Frames of rows with lifetimes as texts, for tables in a terminal and in HTML."""

from __future__ import annotations

import itertools
import shutil
import sys
from typing import Any, NamedTuple

import polars as pl

from rxtemporal.text.plain_text import (
    GAP,
    count_noun,
    format_value,
    measure_columns,
    shorten,
    text_table,
)

# characters of a cell and columns of a table; what is longer ends in "…"
MOST_CHARACTERS = 40
MOST_COLUMNS = 16
# characters of a text in a table that has to fit into a width: the first that do
FEWER_CHARACTERS = (40, 24, 12)


class RowText(NamedTuple):
    """A table as texts: the names of its columns, their units or types, and its rows."""

    header: list[str]
    units: list[str]
    rows: list[list[str]]
    numeric: list[int]


def format_rows(frame: pl.DataFrame, most: int, characters: int = MOST_CHARACTERS) -> RowText:
    """Return the first ``most`` rows of a frame as texts; those of strings have ``characters``."""
    columns = list(frame.schema.items())[:MOST_COLUMNS]
    return RowText(
        [shorten(name, MOST_CHARACTERS) for name, _ in columns],
        [_name_unit(name, dtype) for name, dtype in columns],
        [
            [
                _format_cell(name, value, characters)
                for (name, _), value in zip(columns, row, strict=False)
            ]
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


def _format_cell(name: str, value: Any, characters: int) -> str:
    if value is None and name == "end_time":
        return "never ends"
    return shorten(format_value(value), characters if isinstance(value, str) else MOST_CHARACTERS)


def get_width() -> int | None:
    """Return the width of the terminal that standard output is, in characters; else None."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def format_frame(
    frame: pl.DataFrame, most: int, width: int | None = None, *, whole: bool = False
) -> str:
    """Return a frame as an aligned table: names, units, at most ``most`` rows, ``…`` for others.

    In a table for a terminal of so many characters, ``width``, long texts are shorter, and the
    last columns are left out. Of a ``whole`` result the other rows are counted.

    >>> print(format_frame(pl.DataFrame({"start_time": [4, 5], "temp": [20.5, None]}), 1))
    start_time     temp
         ticks  Float64
             4     20.5
    … more rows
    """
    text, shown = _fit(frame, most, width)
    parts = [text_table([text.header, text.units, *text.rows], right=text.numeric)]
    if (more := frame.height - most) > 0:
        parts.append(f"… {count_noun(more, 'more row')}" if whole else "… more rows")
    if frame.width > shown:
        parts.append(f"… {count_noun(frame.width - shown, 'more column')}")
    return "\n".join(parts)


def _fit(frame: pl.DataFrame, most: int, width: int | None) -> tuple[RowText, int]:
    """Return the texts of a frame that fit into a width, and the number of columns."""
    if width is None:
        return format_rows(frame, most), min(frame.width, MOST_COLUMNS)
    for characters in FEWER_CHARACTERS:
        text = format_rows(frame, most, characters)
        ends = list(itertools.accumulate(
            size + len(GAP) for size in measure_columns([text.header, text.units, *text.rows])
        ))  # fmt: skip
        if not ends or ends[-1] - len(GAP) <= width:
            break
    shown = max(1, sum(end - len(GAP) <= width for end in ends))
    return format_rows(frame[:, :shown], most, characters), shown
