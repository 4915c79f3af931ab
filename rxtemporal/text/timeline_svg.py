"""Timelines as SVG: bars with lifetimes, points, CTIs, windows and late events, lane below lane."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from rxtemporal.text.html import escape
from rxtemporal.text.plain_text import count_noun, format_span, shorten
from rxtemporal.text.svg import COLORS, LATE, element, label, make_mark, measure_text, picture
from rxtemporal.text.timeline import (
    Bar,
    Lane,
    Scale,
    Timeline,
    describe_axis,
    find_dots,
    find_marks,
    find_range,
    format_brief,
    format_marks,
    format_time,
    place_rows,
)

# open rows fade to the right of the axis
FADE = 46
ROW, BAR, STRIP, MORE = 24, 18, 22, 16
LABEL = 28
# a lane with more rows than this is drawn narrow and without labels; further ones are counted
MOST_ROWS, MOST_NARROW = 12, 60
# numbers of the colours of keys 6, 1, 2 …: the colour of the second lane, often the result, is last
KEY_COLORS = (1, 0, 2, 3, 4, 5)


def choose_color(bar: Bar, lane: int) -> str:
    """Return the colour of a row: that of its key, or of its lane."""
    return COLORS[KEY_COLORS[bar.key % len(COLORS)] if bar.key else lane % len(COLORS)]


@dataclasses.dataclass(slots=True)
class LanePicture:
    """A lane at its place: ``draw`` yields its parts, ``height`` is what it takes."""

    lane: Lane
    number: int
    scale: Scale
    timeline: Timeline
    width: int
    top: float
    mark: str
    rows: list[tuple[Bar, int]] = dataclasses.field(init=False)
    narrow: bool = dataclasses.field(init=False, default=False)
    more: int = dataclasses.field(init=False)
    dots: set[Bar] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.dots = find_dots(self.lane, self.timeline.form)
        self.rows = place_rows(self.lane.bars, self.extent)
        if self._count() > MOST_ROWS:
            self.narrow = True
            self.rows = place_rows(self.lane.bars, self.extent)
        self.more = self.lane.more + sum(row >= MOST_NARROW for _, row in self.rows)
        self.rows = [(bar, row) for bar, row in self.rows if row < MOST_NARROW]

    def _count(self) -> int:
        return max((row + 1 for _, row in self.rows), default=1)

    @property
    def step(self) -> float:
        """The distance from one row of bars to the next."""
        return 7 if self.narrow else ROW

    @property
    def bottom(self) -> float:
        """The place below the last row of bars."""
        return self.top + max(self._count() * self.step, 30)

    @property
    def height(self) -> float:
        """The height with the strip of CTIs."""
        below = (STRIP if self.lane.ctis else 0) + (MORE if self.more else 0)
        return self.bottom - self.top + below

    def extent(self, bar: Bar) -> tuple[float, float]:
        """Return the places at which a bar, its label included, begins and ends."""
        begin = self.scale.place(bar.start)
        end = self.end_of(bar)
        text = 0.0 if self.narrow else measure_text(shorten(bar.label, LABEL))
        if bar.broken_cti is not None:
            distance = 0.0 if self.narrow else measure_text(self.distance(bar), 10.5) + 7
            return begin - 7, max(end, self.scale.place(bar.broken_cti) + distance) + text + 14
        if bar in self.dots:
            return begin - 6, begin + 10 + text
        inside = text + 10 <= end - begin
        return begin, max(end, begin + 4) + (0 if inside else text + 10)

    @property
    def overflow(self) -> float:
        """The room that labels need to the right of the picture."""
        return max((self.extent(bar)[1] for bar, _ in self.rows), default=0.0) - self.width + 12

    def end_of(self, bar: Bar) -> float:
        """Return the place at which a bar ends."""
        if bar.end is None:
            return self.scale.right + FADE
        return self.scale.place(bar.start if bar in self.dots else bar.end)

    def distance(self, bar: Bar) -> str:
        """Return text that says how late an event is."""
        late = (bar.broken_cti or 0) - bar.start
        return f"late by {late:,}" if self.timeline.form == "ticks" else f"{format_span(late)} late"

    def draw(self) -> Iterator[str]:
        """Yield the parts of the picture."""
        yield from self._heading()
        yield from self._windows()
        yield from self._ctis()
        for bar, row in self.rows:
            y = self.top + row * self.step
            yield element(
                "g",
                element("title", escape(self._tooltip(bar))),
                *(self._late(bar, y) if bar.broken_cti is not None else self._bar(bar, y)),
            )
        if self.more:
            yield label(
                self.scale.left,
                self.top + self.height - 4,
                f"… {count_noun(self.more, 'more row')}",
                class_="s",
            )

    def _heading(self) -> Iterator[str]:
        name = shorten(self.lane.name, 15)
        tip = element("title", escape(shorten(self.lane.name, 200)))
        yield element("g", tip, label(16, self.top + 14, name, class_="b"))
        if self.lane.note:
            yield label(16, self.top + 28, shorten(self.lane.note, 18), class_="s")

    def _windows(self) -> Iterator[str]:
        for begin, end in self.lane.windows:
            x, right = self.scale.place(begin), self.scale.place(end)
            height = self.bottom - self.top + 4
            yield element("rect", x=x, y=self.top - 4.0, width=right - x, height=height, class_="w")
            for edge in (x, right):
                yield element(
                    "line", x1=edge, x2=edge, y1=self.top - 4.0, y2=self.bottom, class_="e"
                )

    def _ctis(self) -> Iterator[str]:
        if not self.lane.ctis:
            return
        yield label(16, self.bottom + 14, "CTI", class_="s")
        free = 0.0
        for cti in self.lane.ctis:
            x = self.scale.right + FADE if cti is None else self.scale.place(cti)
            y = self.bottom
            yield element("line", x1=x, x2=x, y1=self.top - 2.0, y2=y + 2, class_="c")
            yield element("path", d=f"M{x:.1f} {y + 2:.1f}l4 7h-8z", opacity=0.8)
            text = format_brief(cti, self.timeline.form)
            half = measure_text(text, 10.5) / 2
            if x - half - 3 > free:
                yield label(x, y + 19, text, text_anchor="middle", class_="s")
                free = x + half

    def _bar(self, bar: Bar, y: float) -> Iterator[str]:
        x, end, color = (
            self.scale.place(bar.start),
            self.end_of(bar),
            choose_color(bar, self.number),
        )
        middle = y + self.step / 2
        if bar in self.dots:
            radius = 2.5 if self.narrow else 5
            yield element("circle", cx=x, cy=middle, r=radius, fill=color)
            yield from self._text(bar, x + 9, middle)
            return
        thick = 5 if self.narrow else BAR
        # an open row fades out
        fill = color if bar.end is not None else f"url(#f{self.mark}{color[1:]})"
        box = {"x": x, "y": middle - thick / 2, "width": max(end - x, 2.0), "height": float(thick)}
        yield element("rect", rx=2, fill=fill, class_="f", **box)
        yield element("rect", rx=2, fill="none", stroke=fill, stroke_width=1.4, **box)
        inside = measure_text(shorten(bar.label, LABEL)) + 10 <= end - x
        yield from self._text(bar, x + 6 if inside else end + 5, middle)

    def _late(self, bar: Bar, y: float) -> Iterator[str]:
        assert bar.broken_cti is not None
        x, middle = self.scale.place(bar.start), y + self.step / 2
        target, end = self.scale.place(bar.broken_cti), self.end_of(bar)
        dashed = {"fill": "none", "stroke": LATE, "stroke_width": 1.6}
        if bar in self.dots:
            yield element("circle", cx=x, cy=middle, r=2.5 if self.narrow else 4.5, **dashed)
        else:
            box = {"x": x, "y": middle - 8, "width": max(end - x, 2.0), "height": 16.0}
            yield element("rect", rx=2, stroke_dasharray="4 2", **box, **dashed)
        if self.narrow:
            return
        begin = x + 5 if bar in self.dots else x
        if target - begin > 6:
            arrow = f"M{begin:.1f} {middle:.1f}H{target - 1:.1f}m-5 -3.5l5 3.5l-5 3.5"
            yield element("path", d=arrow, **dashed)
        after = max(target, end) + 5
        text = self.distance(bar)
        yield label(after, middle + 4, text, class_="late", font_size="10.5")
        yield from self._text(bar, after + measure_text(text, 10.5) + 9, middle)

    def _text(self, bar: Bar, x: float, middle: float) -> Iterator[str]:
        if bar.label and not self.narrow:
            yield label(x, middle + 4, shorten(bar.label, LABEL))

    def _tooltip(self, bar: Bar) -> str:
        form = self.timeline.form
        begin, end = format_time(bar.start, form), format_time(bar.end, form)
        when = begin if bar.is_point else f"{begin} … {end}"
        late = f", {self.distance(bar)}" if bar.broken_cti is not None else ""
        return shorten(f"{self.lane.name} {when}{late}: {bar.detail or bar.label}", 300)


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

    >>> from rxtemporal.text.timeline import Bar, Lane
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
