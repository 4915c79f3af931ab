"""Charts of how far events are behind the newest one, with the delay of their stream as a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rxtemporal.core.batch import Bools, Int64s, TimeForm
from rxtemporal.core.spans import describe_span
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.causes.history import ADJUSTED, CTI, EDGE_END, LATE, Arrivals
from rxtemporal.plots import figures
from rxtemporal.plots.figures import GRID, INK, Path
from rxtemporal.query.streamable import Streamable
from rxtemporal.text.plain_text import shorten
from rxtemporal.text.svg import COLORS
from rxtemporal.text.svg import LATE as LATE_COLOR
from rxtemporal.view.lineage.capture import capture
from rxtemporal.view.lineage.flow import Flow

# a second is the unit of datetimes on the axis, unless all is shorter or much longer
_UNITS = ((86_400_000_000, "days"), (3_600_000_000, "hours"), (60_000_000, "minutes"),
          (1_000_000, "seconds"), (1_000, "milliseconds"))  # fmt: skip


class LateStream(NamedTuple):
    """The events of one stream in order of arrival: starts, distances, and who came too late."""

    name: str
    start: Int64s
    behind: Int64s
    late: Bools
    delay: int | None
    form: TimeForm


def lateness(
    source: Streamable | Flow | Mapping[str, Streamable],
    path: Path = None,
    *,
    title: str = "Lateness of events",
    time_zone: str = "UTC",
) -> Any:
    """Draw how far each event is behind the newest one, and return the matplotlib figure.

    ``source`` is a stream or a query, whose input streams are drawn one below the other; the
    streams of a recording (``replay(folder)``); or a captured ``Flow``. Across is the time of the
    event, up its distance from the highest start that had come before it: 0 in order. Events that
    the stream counted as late are filled triangles. The line is the delay of the stream's
    ``advance_time``: of events of one source, those above it are late. ``path`` is the file to
    save, PNG, SVG or PDF.

    >>> import rxtemporal as rxt
    >>> events = [rxt.PointEvent(time, time) for time in (1, 9, 3)]
    >>> figure = lateness(rxt.from_events(events, advance_time=2, name="clicks"))
    >>> figure.axes[0].get_ylabel()
    'behind in ticks'
    """
    streams = _list_streams(source)
    figure, panels = figures.make_figure(1.4 + 2.4 * len(streams), "", panels=len(streams))
    figure.suptitle(
        shorten(title, 120),
        parse_math=False,
        x=0.01,
        ha="left",
        color=INK,
        fontweight="bold",
        fontsize="large",
    )
    for axes, stream in zip(panels, streams, strict=True):
        _draw(axes, stream)
    figures.name_time_axis(panels[-1], streams[-1].form, time_zone)
    return figures.save_figure(figure, path)


def _list_streams(source: Any) -> list[LateStream]:
    if isinstance(source, Streamable):
        source = capture(source._node, every=0)
    if isinstance(source, Mapping):
        return [each for stream in source.values() for each in _list_streams(stream)]
    if not isinstance(source, Flow):
        raise ArgumentError(
            f"lateness draws a stream, the streams of a recording, or a flow, got {source!r}"
        )
    if source.error is not None:
        raise source.error
    delays = {each.origin: each.node.cti_delay for each in source.histories if each.origin}
    return [
        _measure(name, arrivals, delays.get(name), source.time)
        for name, arrivals in source.arrivals.items()
    ]


def _measure(name: str, arrivals: Arrivals, delay: int | None, form: TimeForm) -> LateStream:
    rows = (arrivals.kind != CTI) & (arrivals.kind != EDGE_END)
    start = arrivals.start[rows]
    late = np.isin(arrivals.verdict[rows], (LATE, ADJUSTED))
    highest = np.maximum.accumulate(start) if len(start) else start
    return LateStream(name, start, highest - start, late, delay, form)


def _draw(axes: Any, stream: LateStream) -> None:
    size, unit = _choose_unit(stream)
    x, y = figures.to_axis(stream.start, stream.form), stream.behind / size
    late = stream.late
    many = {"alpha": 0.45} if len(x) > 2_000 else {}
    axes.plot(x[~late], y[~late], "o", color=COLORS[0], markersize=4, label="in time", **many)
    axes.plot(x[late], y[late], "^", color=LATE_COLOR, markersize=6, label="late", **many)
    if stream.delay is not None:
        axes.axhline(stream.delay / size, color=INK, linestyle="--", linewidth=1.2)
        text = f"delay {_describe(stream.delay, stream.form)}"
        axes.annotate(text, (1, stream.delay / size), xycoords=("axes fraction", "data"),
                      xytext=(0, 3), textcoords="offset points", ha="right", color=INK)  # fmt: skip
    counts = f"{shorten(stream.name, 60)}: {len(x):,} events, {int(late.sum()):,} late"
    axes.set_title(counts, loc="left", color=INK, fontsize="medium", parse_math=False)
    axes.set_ylabel(f"behind in {unit}", color=INK)
    axes.set_ylim(bottom=min(0, (stream.delay or 0) / size) - 0.04 * max(y.max(initial=1), 1))
    if stream.form == "ticks":
        axes.yaxis.get_major_locator().set_params(integer=True)
    axes.grid(color=GRID)
    if late.any():
        axes.legend(frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1, 0.98))


def _choose_unit(stream: LateStream) -> tuple[int, str]:
    if stream.form == "ticks":
        return 1, "ticks"
    most = max(int(stream.behind.max(initial=0)), abs(stream.delay or 0))
    return next(((size, unit) for size, unit in _UNITS if most >= 2 * size), _UNITS[-1])


def _describe(span: int, form: TimeForm) -> str:
    return f"{span:,}" if form == "ticks" else describe_span(span)
