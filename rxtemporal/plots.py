"""Charts of results, with matplotlib (the ``plots`` extra)."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from rxtemporal.core.batch import END, START
from rxtemporal.errors import BindingError, SchemaError

__all__ = ["step_chart"]


def step_chart(
    frame: pl.DataFrame,
    path: Path,
    *,
    value: str,
    by: str,
    title: str,
    time_zone: str = "UTC",
    between: tuple[datetime, datetime] | None = None,
) -> None:
    """Draw a value over time, for rows with lifetimes, and save the chart as PNG.

    ``frame`` is a result of ``to_polars``, with ``start_time``, ``end_time``, the field ``by`` (one
    line for each of its values) and the field ``value``. A line is at 0 while none of its rows is
    alive. ``between`` limits the chart to the time between two datetimes.
    """
    if missing := [name for name in (START, END, value, by) if name not in frame.columns]:
        raise SchemaError(f"there is no column {missing[0]!r}; there are {frame.columns}")
    figure, axes, dates = _axes()
    for name, rows in sorted(frame.group_by(by)):
        steps = _steps(rows, value)
        axes.step(
            steps["time"].to_list(), steps["value"].to_list(), where="post", label=str(name[0])
        )
    zone = frame[START].dt.convert_time_zone(time_zone).dtype.time_zone  # type: ignore[attr-defined]
    axes.xaxis.set_major_formatter(dates.DateFormatter("%H:%M", tz=zone))
    axes.set_title(title, loc="left")
    axes.set_xlabel(f"time of day ({time_zone})")
    axes.set_ylabel(value)
    axes.set_ylim(bottom=0)
    axes.margins(x=0.01)
    if between is not None:
        axes.set_xlim(*between)
    axes.grid(alpha=0.25)
    axes.legend(title=by, frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def _axes() -> tuple[Any, Any, Any]:
    try:
        from matplotlib import dates
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise BindingError(
            "charts need matplotlib. Hint: pip install 'rxtemporal[plots]'."
        ) from error
    figure = Figure(figsize=(10, 4.5))
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot(), dates


def _steps(rows: pl.DataFrame, value: str) -> pl.DataFrame:
    """Return the times at which the value changes, and the new values; 0 when no row is alive."""
    rows = rows.sort(START)
    begins = rows.select(time=START, value=pl.col(value).cast(pl.Float64))
    ends = rows.filter(pl.col(END).is_not_null() & ~pl.col(END).is_in(rows[START].implode()))
    return pl.concat([begins, ends.select(time=END, value=pl.lit(0.0))]).sort("time")
