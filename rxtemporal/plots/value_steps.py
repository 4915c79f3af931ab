"""Charts of a value over time, as steps."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import END, START, TimeForm
from rxtemporal.core.columns import time_column
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.plots.figures import (
    GRID,
    INK,
    Path,
    limit_time,
    make_figure,
    name_time_axis,
    save_figure,
    to_axis,
)
from rxtemporal.text.plain_text import shorten
from rxtemporal.text.svg import COLORS


def step_chart(
    frame: pl.DataFrame,
    path: Path = None,
    *,
    value: str,
    by: str | None = None,
    title: str = "",
    time_zone: str = "UTC",
    between: tuple[datetime | int, datetime | int] | None = None,
    missing: float | None = None,
) -> Any:
    """Draw a value over time, for rows with lifetimes, and return the matplotlib figure.

    ``frame`` is a result of ``to_polars``, with ``start_time``, ``end_time`` (datetimes or ticks)
    and the field ``value``; each value of the field ``by`` has a line. While none of its rows is
    alive, a line has a gap; with ``missing`` it has that value there, for example 0 for counts. A
    row that never ends reaches to the end of the chart. ``between`` limits the chart to the time
    between two times. ``path`` is the file to save, PNG, SVG or PDF.

    ``SchemaError``: a column is missing. ``ArgumentError``: rows of one line overlap, so there is
    no single value; ``timeline`` draws such rows.
    """
    for name in (START, END, value, *([] if by is None else [by])):
        if name not in frame.columns:
            raise SchemaError(f"there is no column {name!r}; there are {frame.columns}")
    form: TimeForm = "ticks" if frame[START].dtype.is_integer() else "datetime"
    figure, (axes,) = make_figure(4.5, title)
    last = _find_last(frame)
    groups = (
        [("", frame)]
        if by is None
        else [(str(k[0]), g) for k, g in sorted(frame.group_by(by), key=str)]
    )
    for number, (name, rows) in enumerate(groups):
        times, values = _make_steps(rows, value, last, missing, name)
        axes.step(to_axis(times, form), values, where="post", linewidth=1.8,
                  label=shorten(name, 40), color=COLORS[number % len(COLORS)])  # fmt: skip
    axes.set_ylabel(shorten(value, 60), color=INK, parse_math=False)
    if missing == 0:
        axes.set_ylim(bottom=0)
    axes.margins(x=0.01)
    axes.grid(color=GRID)
    name_time_axis(axes, form, time_zone)
    limit_time(axes, between, form)
    if by is not None and groups:
        legend = axes.legend(title=shorten(by, 40), frameon=False)
        for text in (legend.get_title(), *legend.get_texts()):
            text.set_parse_math(False)
    return save_figure(figure, path)


def _find_last(frame: pl.DataFrame) -> int:
    """Return the last start or end in ticks."""
    ends = time_column(frame[END], null=MAX_TIME)
    times = np.concatenate([time_column(frame[START]), ends[ends < MAX_TIME]])
    return int(times.max()) if len(times) else 0


def _make_steps(
    rows: pl.DataFrame, value: str, last: int, missing: float | None, name: str
) -> tuple[list[int], list[float]]:
    """Return the times at which the value changes, and the values from then on."""
    rows = rows.sort(START)
    starts, ends = time_column(rows[START]), time_column(rows[END], null=MAX_TIME)
    overlap = np.flatnonzero(starts[1:] < ends[:-1])
    if len(overlap):
        raise ArgumentError(
            f"rows of {name or value!r} overlap at {rows[START][int(overlap[0]) + 1]}, and a line "
            "has one value at a time. Hint: snapshot_window().aggregate(…) makes one of them; by= "
            "gives each value of a field its own line; timeline() draws rows that overlap."
        )
    gap = float("nan") if missing is None else missing
    numbers = rows[value].cast(pl.Float64).fill_null(float("nan")).to_list()
    times, values = list[int](), list[float]()
    following = [*starts[1:].tolist(), None]
    for start, end, number, after in zip(
        starts.tolist(), ends.tolist(), numbers, following, strict=False
    ):
        times.append(start)
        values.append(number)
        if after != end:
            times.append(min(end, max(last, start)))
            values.append(number if end == MAX_TIME else gap)
    return times, values
