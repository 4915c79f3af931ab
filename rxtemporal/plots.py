"""Charts of streams and results, with matplotlib (the ``plots`` extra).

Each function returns a matplotlib ``Figure``, and saves it if it gets a ``path``: PNG, SVG or PDF,
as the suffix says.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path as FilePath
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.batch import END, START, Bools, EventBatch, Int64s, TimeForm
from rxtemporal.core.columns import time_column
from rxtemporal.core.spans import describe_span
from rxtemporal.core.ticks import MAX_TIME, ticks
from rxtemporal.core.timeline_lanes import MOST_LANE_BARS, guess_form, make_lane
from rxtemporal.errors import ArgumentError, BindingError, SchemaError
from rxtemporal.operators.causes.history import ADJUSTED, CTI, EDGE_END, LATE, Arrivals, History
from rxtemporal.query.streamable import Streamable
from rxtemporal.query.timelines import make_timeline
from rxtemporal.text.plain_text import shorten
from rxtemporal.text.svg import COLORS, measure_text
from rxtemporal.text.svg import LATE as LATE_COLOR
from rxtemporal.text.timeline import Bar, Lane, Scale, Timeline, find_range
from rxtemporal.text.timeline_svg import FADE, LABEL, LanePicture, choose_color
from rxtemporal.view.lineage.capture import capture
from rxtemporal.view.lineage.flow import Flow

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


# places as in the picture of a timeline, one for a hundredth of an inch
RIGHT = WIDTH * 100 - 160
SMALL = 8.5


def timeline(
    source: Streamable | EventBatch | pl.DataFrame | History | Mapping[str, Any],
    path: Path = None,
    *,
    by: str | None = None,
    inputs: bool = True,
    title: str = "",
    time_zone: str = "UTC",
    most: int = MOST_LANE_BARS,
) -> Any:
    """Draw rows over application time, and return the matplotlib figure.

    Rows are bars from start to end, rows of one tick dots; a row that never ends fades out. CTIs
    are dashed lines with a triangle. A late event is hollow, with an arrow to the CTI that it broke
    and its distance. ``source`` is

    - a stream: it runs to its end, and each of its input streams has a lane above the result
      (``inputs=False``: the result alone);
    - an event batch, or a frame with ``start_time`` and ``end_time`` (a result of ``to_polars``);
    - a history of a run, from ``rxtemporal.view.lineage``;
    - a mapping from names to any of these, which gives each a lane.

    ``by`` is a field whose values have colours of their own. Each lane draws its first ``most``
    rows and counts the others. ``path`` is the file to save, PNG, SVG or PDF.

    >>> import rxtemporal as rxt
    >>> readings = rxt.from_events([rxt.PointEvent(4, {"x": 1}), rxt.PointEvent(7, {"x": 2})])
    >>> len(timeline(readings.extend_lifetime(5)).axes)
    1
    """
    what = _make_timeline(source, by, inputs, most, title)
    scale = Scale(*find_range(what.list_times()), 0.0, RIGHT)
    lanes = [
        LanePicture(lane, number, scale, what, int(WIDTH * 100), 0.0, "")
        for number, lane in enumerate(what.lanes)
    ]
    height = sum(lane.height + 18 for lane in lanes)
    figure, (axes,) = make_figure(max(height / 66 + 0.9, 1.6), title)
    chart = _Chart(axes, scale, what.form)
    top = 0.0
    for lane in lanes:
        chart.draw(dataclasses.replace(lane, top=top))
        top += lane.height + 18
    axes.set_ylim(top, -8)
    axes.set_xlim(chart.find_x(-14), chart.find_x(RIGHT + FADE + 20))
    axes.set_yticks([])
    axes.grid(axis="x", color=GRID)
    name_time_axis(axes, what.form, time_zone)
    return save_figure(figure, path)


def _make_timeline(source: Any, by: str | None, inputs: bool, most: int, title: str) -> Timeline:
    if isinstance(source, Streamable):
        return make_timeline(source, inputs=inputs, by=by, most=most, title=title)
    if not isinstance(source, Mapping):
        name = source.name if isinstance(source, History) else "rows"
        source = {name: source}
    lanes, forms = list[Lane](), set[TimeForm]()
    for name, each in source.items():
        if isinstance(each, Streamable):
            made = make_timeline(each, name=name, inputs=False, by=by, most=most)
            lanes += made.lanes
            forms.add(made.form)
            continue
        batch, form = _read_rows(each)
        field = by if by in batch.schema else None
        lanes.append(make_lane(name, [batch], by=field, most=most))
        forms.add(form)
    if len(forms) > 1:
        raise ArgumentError("lanes of one timeline have times of one form, datetimes or ticks")
    return Timeline(tuple(lanes), forms.pop() if forms else "ticks", title)


def _read_rows(source: Any) -> tuple[EventBatch, TimeForm]:
    """Return the rows of a batch, a frame or a history, and the form of its times."""
    if isinstance(source, EventBatch):
        return source, guess_form(source)
    if isinstance(source, History):
        cti = int(source.ctis[-1]) if len(source.ctis) else None
        rows = EventBatch.of_rows(source.start, source.end, source.payload, 0)
        return rows if cti is None else rows.replace(cti=cti), guess_form(rows)
    if isinstance(source, pl.DataFrame):
        form: TimeForm = "ticks" if source[START].dtype.is_integer() else "datetime"
        return EventBatch.from_polars(source, start=START, end=END), form
    raise ArgumentError(
        "timeline draws a stream, an event batch, a frame, a history, or a mapping of these, "
        f"got {source!r}"
    )


class _Chart:
    """The axes of a timeline: time across, places of rows down."""

    def __init__(self, axes: Any, scale: Scale, form: TimeForm) -> None:
        self._axes, self._scale, self._form = axes, scale, form

    def find_x(self, place: float) -> float:
        """Return the number of the axis at a place."""
        low, high = self._scale.low, self._scale.high
        share = (place - self._scale.left) / (self._scale.right - self._scale.left)
        first, last = to_axis([low, high], self._form)
        return float(first + share * (last - first))

    def draw(self, lane: LanePicture) -> None:
        """Draw a lane with its name, its CTIs and its rows."""
        name, note = shorten(lane.lane.name, 24), shorten(lane.lane.note, 30)
        self._write(-0.01, lane.top + 10, name, ha="right", fontweight="bold", aside=True)
        self._write(-0.01, lane.top + 24, note, ha="right", size=SMALL - 1, alpha=0.7, aside=True)
        self._draw_ctis(lane)
        for bar, row in lane.rows:
            middle = lane.top + (row + 0.5) * lane.step
            if bar.broken_cti is not None:
                self._draw_late(lane, bar, middle)
            else:
                self._draw_bar(lane, bar, middle)
        if lane.more:
            self._write(self.find_x(0), lane.top + lane.height - 6, f"… {lane.more:,} more rows")

    def _draw_ctis(self, lane: LanePicture) -> None:
        for cti in lane.lane.ctis:
            x = self.find_x(RIGHT + FADE) if cti is None else to_axis([cti], self._form)[0]
            self._axes.plot([x, x], [lane.top - 2, lane.bottom + 2], color=INK, alpha=0.5,
                            linewidth=0.9, linestyle=(0, (3, 3)))  # fmt: skip
            self._axes.plot([x], [lane.bottom + 5], marker="^", color=INK, markersize=4.5)
            if cti is None:
                self._write(x, lane.bottom + 17, "∞", ha="center", size=SMALL)

    def _draw_bar(self, lane: LanePicture, bar: Bar, middle: float) -> None:
        x, color = self._scale.place(bar.start), choose_color(bar, lane.number)
        thick = 5 if lane.narrow else 18
        if bar in lane.dots:
            size = 3 if lane.narrow else 6
            self._axes.plot([self.find_x(x)], [middle], marker="o", color=color, markersize=size)
            self._label(lane, bar, x + 9, middle)
            return
        end = lane.end_of(bar)
        if bar.end is None:
            self._fade(x, end, middle, thick, color)
        else:
            self._fill(x, max(end - x, 2), middle, thick, color, alpha=0.26)
            self._fill(x, max(end - x, 2), middle, thick, "none", edgecolor=color, linewidth=1.3)
        inside = measure_text(shorten(bar.label, LABEL)) + 10 <= end - x
        self._label(lane, bar, x + 6 if inside else end + 5, middle)

    def _fill(
        self, x: float, width: float, middle: float, thick: float, color: str, **k: Any
    ) -> None:
        left, right = self.find_x(x), self.find_x(x + width)
        self._axes.barh(middle, right - left, thick, left, color=color, **k)

    def _fade(self, x: float, end: float, middle: float, thick: float, color: str) -> None:
        left, half, y = self.find_x(x), self.find_x((x + end) / 2), thick / 2
        self._axes.plot([half, left, left, half], [middle - y, middle - y, middle + y, middle + y],
                        color=color, linewidth=1.3)  # fmt: skip
        self._fill(x, (end - x) / 2, middle, thick, color, alpha=0.26)
        slices, begin = 24, x + (end - x) / 2
        for number in range(slices):
            width = (end - begin) / slices
            alpha = 0.26 * (1 - (number + 0.5) / slices)
            self._fill(
                begin + number * width, width, middle, thick, color, alpha=alpha, linewidth=0
            )

    def _draw_late(self, lane: LanePicture, bar: Bar, middle: float) -> None:
        assert bar.broken_cti is not None
        x, target = self._scale.place(bar.start), self._scale.place(bar.broken_cti)
        end = lane.end_of(bar)
        if bar in lane.dots:
            self._axes.plot([self.find_x(x)], [middle], marker="o", color=LATE_COLOR, markersize=6,
                            fillstyle="none")  # fmt: skip
        else:
            self._fill(x, max(end - x, 2), middle, 16, "none", edgecolor=LATE_COLOR, linestyle="--")
        if lane.narrow:
            return
        arrow = {"arrowstyle": "->", "color": LATE_COLOR, "shrinkA": 4 if bar in lane.dots else 0,
                 "shrinkB": 0}  # fmt: skip
        self._axes.annotate("", (self.find_x(target), middle), (self.find_x(x), middle),
                            arrowprops=arrow)  # fmt: skip
        after, text = max(target, end) + 5, lane.distance(bar)
        self._write(self.find_x(after), middle, text, color=LATE_COLOR, va="center", size=SMALL)
        self._label(lane, bar, after + measure_text(text, 11.5) + 8, middle)

    def _label(self, lane: LanePicture, bar: Bar, place: float, middle: float) -> None:
        if bar.label and not lane.narrow:
            self._write(self.find_x(place), middle, shorten(bar.label, LABEL), va="center")

    def _write(self, x: float, y: float, text: str, *, aside: bool = False, **options: Any) -> None:
        """Write a text at a time; ``aside``: at a share of the width of the axes."""
        where = self._axes.get_yaxis_transform() if aside else self._axes.transData
        options = {"color": INK, "fontsize": options.pop("size", 9.0), **options}
        # the text of a payload is not a formula
        self._axes.text(x, y, text, transform=where, parse_math=False, **options)


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
    figure, panels = make_figure(1.4 + 2.4 * len(streams), "", panels=len(streams))
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
    name_time_axis(panels[-1], streams[-1].form, time_zone)
    return save_figure(figure, path)


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
    x, y = to_axis(stream.start, stream.form), stream.behind / size
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
