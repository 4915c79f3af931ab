"""Figures of one look: light grid, colours of timelines, axes of datetimes or of ticks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path as FilePath
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from rxtemporal.core.batch import TimeForm
from rxtemporal.core.ticks import ticks
from rxtemporal.errors import ArgumentError, BindingError
from rxtemporal.text.plain_text import shorten

Path = str | os.PathLike[str] | None
INK, GRID = "#3b4252", "#d7dbe2"
WIDTH = 10.0
# matplotlib counts time in days since 1970
DAY = 86_400_000_000
SUFFIXES = (".png", ".svg", ".pdf")


def make_figure(height: float, title: str, *, panels: int = 1) -> tuple[Any, list[Any]]:
    """Return a figure without a window, and its axes, one below the other."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise BindingError(
            "charts need matplotlib. Hint: pip install 'rxtemporal[plots]'."
        ) from error
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(panels, squeeze=False)[:, 0])
    for each in axes:
        each.spines[["top", "right", "left"]].set_visible(False)
        each.spines["bottom"].set_color(GRID)
        each.tick_params(colors=INK, length=0)
        each.set_axisbelow(True)
    if title:
        words = shorten(title, 120)
        axes[0].set_title(words, loc="left", color=INK, fontweight="bold", parse_math=False)
    return figure, axes


def to_axis(times: Iterable[int] | npt.NDArray[np.int64], form: TimeForm) -> Any:
    """Return times (ticks) as numbers of an axis: days since 1970, or ticks."""
    listed = np.asarray(times if isinstance(times, np.ndarray) else list(times), np.float64)
    return listed / DAY if form == "datetime" else listed


def name_time_axis(axes: Any, form: TimeForm, time_zone: str) -> None:
    """Give the axis of time its marks and its name."""
    if form == "ticks":
        axes.set_xlabel("time in ticks", color=INK)
        axes.xaxis.get_major_locator().set_params(integer=True)
        return
    from matplotlib import dates

    zone = ZoneInfo(time_zone)
    locator = dates.AutoDateLocator(tz=zone)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=zone))
    axes.set_xlabel(f"time ({time_zone})", color=INK)


def limit_time(axes: Any, between: tuple[Any, Any] | None, form: TimeForm) -> None:
    """Limit the axis of time to two times, datetimes or ticks."""
    if between is not None:
        ends = [each if isinstance(each, int) else ticks(each) for each in between]
        axes.set_xlim(*to_axis(ends, form))


def save_figure(figure: Any, path: Path) -> Any:
    """Save a figure if there is a path, and return it; an SVG is the same each time."""
    if path is None:
        return figure
    if FilePath(path).suffix.lower() not in SUFFIXES:
        raise ArgumentError(
            f"a chart is saved as {', '.join(SUFFIXES)}, as its name ends, got {os.fspath(path)!r}"
        )
    import matplotlib

    settings = {"svg.hashsalt": "rxtemporal", "svg.fonttype": "none"}
    metadata = {"Date": None} if FilePath(path).suffix.lower() == ".svg" else None
    with matplotlib.rc_context(settings):
        figure.savefig(path, dpi=120, metadata=metadata)
    return figure
