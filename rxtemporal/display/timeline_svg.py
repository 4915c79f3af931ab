"""Timelines as SVG: bars with lifetimes, points, CTIs, windows and late events, lane below lane."""

from __future__ import annotations

from collections.abc import Iterator

from rxtemporal.display.lane_svg import FADE, LanePicture, choose_color
from rxtemporal.display.plain_text import shorten
from rxtemporal.display.svg import element, label, make_mark, picture
from rxtemporal.display.time_axis import describe_axis, find_marks, format_marks
from rxtemporal.display.timeline import Scale, Timeline, find_range

WIDTH = 760
# the names of lanes stand to the left
LEFT, RIGHT, GAP = 128, 30, 14
# room that labels may take at the right end
MOST_ROOM = 150


def timeline_svg(timeline: Timeline, *, width: int = WIDTH, alone: bool = False) -> str:
    """Return a timeline as SVG.

    Bars stand for rows, dots for rows of one tick; a row without an end fades out to the right.
    Dashed lines with a triangle are CTIs, shaded stretches windows. A late event is hollow, and an
    arrow leads to the CTI that it broke, with its distance. ``alone`` is for a file of its own: it
    follows the reader's choice of light or dark. The cost is linear in the rows, of which a lane
    shows a bounded number; the others are counted.

    >>> from rxtemporal.display.timeline import Bar, Lane
    >>> lane = Lane("readings", (Bar(0, 5, "a"), Bar(3, None, "b")), ctis=(5,))
    >>> timeline_svg(Timeline((lane,)))[:40]
    '<svg xmlns="http://www.w3.org/2000/svg" '
    """
    top = 34.0 if timeline.title else 12.0
    mark = make_mark((timeline, width))
    scale = _choose_scale(timeline, width)
    drawn = list[str]()
    height = top
    for number, lane in enumerate(timeline.lanes):
        if lane.result and number:
            drawn.append(_separator(width, height))
            height += GAP
        each = LanePicture(lane, number, scale, timeline, width, height, mark)
        drawn += each.draw()
        height += each.height + GAP
    grid = _grid(timeline, scale, top - 4, height - GAP + 4)
    title = [label(16, 22, shorten(timeline.title, 90), class_="h")] if timeline.title else []
    return picture(
        (width, height + 20),
        [*_gradients(timeline, mark), *title, *grid, *drawn],
        title=shorten(timeline.title or "Timeline", 200),
        text=timeline.describe(),
        mark=mark,
        alone=alone,
    )


def _choose_scale(timeline: Timeline, width: int) -> Scale:
    """Return a scale that leaves room to the right for the labels of the last rows."""
    low, high = find_range(timeline.list_times())
    scale = Scale(low, high, LEFT + 12, width - RIGHT - FADE)
    lanes = (
        LanePicture(lane, number, scale, timeline, width, 0, "")
        for number, lane in enumerate(timeline.lanes)
    )
    overflow = max((lane.overflow for lane in lanes), default=0)
    return Scale(low, high, scale.left, scale.right - min(max(overflow, 0), MOST_ROOM))


def _gradients(timeline: Timeline, mark: str) -> Iterator[str]:
    """Yield what open rows are filled with, in the colours that they have."""
    colors = {
        choose_color(bar, number)
        for number, lane in enumerate(timeline.lanes)
        for bar in lane.bars
        if bar.end is None
    }
    if colors:
        yield element("defs", *(_fading(color, mark) for color in sorted(colors)))


def _separator(width: float, y: float) -> str:
    return element("line", x1=16, x2=width - 16, y1=float(y), y2=float(y), class_="e")


def _grid(timeline: Timeline, scale: Scale, top: float, bottom: float) -> Iterator[str]:
    marks = find_marks(scale.low, scale.high, timeline.form)
    for mark, text in zip(marks, format_marks(marks, timeline.form), strict=True):
        x = scale.place(mark)
        yield element("line", x1=x, x2=x, y1=float(top), y2=float(bottom), class_="g")
        yield label(x, bottom + 15, text, text_anchor="middle", class_="s")
    name = describe_axis([scale.low, scale.high], timeline.form)
    yield label(16, bottom + 15, name, class_="s")


def _fading(color: str, mark: str) -> str:
    stops = [
        element("stop", offset="0", stop_color=color),
        element("stop", offset="0.5", stop_color=color),
        element("stop", offset="1", stop_color=color, stop_opacity="0"),
    ]
    return element("linearGradient", *stops, id=f"f{mark}{color[1:]}")
