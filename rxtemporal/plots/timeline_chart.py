"""Timelines as charts: bars with lifetimes, points, CTIs and late events, lane below lane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from rxtemporal.core.batch import END, START, EventBatch, TimeForm
from rxtemporal.core.lanes import MOST_LANE_BARS, guess_form, make_lane
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.causes.history import History
from rxtemporal.plots.figures import (
    GRID,
    INK,
    WIDTH,
    Path,
    make_figure,
    name_time_axis,
    save_figure,
    to_axis,
)
from rxtemporal.query.streamable import Streamable
from rxtemporal.query.timelines import make_timeline
from rxtemporal.text.plain_text import shorten
from rxtemporal.text.svg import LATE, measure_text
from rxtemporal.text.timeline import Bar, Lane, Scale, Timeline, find_range
from rxtemporal.text.timeline_svg import FADE, LABEL, LanePicture, choose_color

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
        lane.top = top
        chart.draw(lane)
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
            self._axes.plot([self.find_x(x)], [middle], marker="o", color=LATE, markersize=6,
                            fillstyle="none")  # fmt: skip
        else:
            self._fill(x, max(end - x, 2), middle, 16, "none", edgecolor=LATE, linestyle="--")
        if lane.narrow:
            return
        arrow = {"arrowstyle": "->", "color": LATE, "shrinkA": 4 if bar in lane.dots else 0,
                 "shrinkB": 0}  # fmt: skip
        self._axes.annotate("", (self.find_x(target), middle), (self.find_x(x), middle),
                            arrowprops=arrow)  # fmt: skip
        after, text = max(target, end) + 5, lane.distance(bar)
        self._write(self.find_x(after), middle, text, color=LATE, va="center", size=SMALL)
        self._label(lane, bar, after + measure_text(text, 11.5) + 8, middle)

    def _label(self, lane: LanePicture, bar: Bar, place: float, middle: float) -> None:
        if bar.label and not lane.narrow:
            self._write(self.find_x(place), middle, shorten(bar.label, LABEL), va="center")

    def _write(self, x: float, y: float, text: str, *, aside: bool = False, **options: Any) -> None:
        """Write a text at a time; ``aside``: at a share of the width of the axes."""
        where = self._axes.get_yaxis_transform() if aside else self._axes.transData
        options = {"color": INK, "fontsize": options.pop("size", 9.0), **options}
        # the text of a payload is no formula
        self._axes.text(x, y, text, transform=where, parse_math=False, **options)
