"""Pictures of figures, as SVG: lines over two logarithmic axes, and bars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

Points = Sequence[tuple[float, float]]
WIDTH, HEIGHT = 640, 360
# right of the axes there is room for names, which have at most so many pixels a letter
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 34, 44
LETTER = 7
# readable on a light and on a dark page, and by who sees few colours
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
INK = "#777"


class Axis:
    """A logarithmic axis from one place of a picture to another."""

    def __init__(self, values: Sequence[float], begin: float, end: float) -> None:
        self._low = math.floor(math.log10(min(values)))
        self._high = max(math.ceil(math.log10(max(values))), self._low + 1)
        self.begin, self.end = begin, end

    @property
    def marks(self) -> list[float]:
        """The powers of ten on it."""
        return [10.0**power for power in range(self._low, self._high + 1)]

    def place(self, value: float) -> float:
        """Return where a value is."""
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return self.begin + share * (self.end - self.begin)


def draw(title: str, across: str, up: str, curves: Mapping[str, Points]) -> str:
    """Return a picture of some curves, each with its name at its last point."""
    points = [point for curve in curves.values() for point in curve]
    right = max(RIGHT, 16 + LETTER * max(map(len, curves)))
    x = Axis([each for each, _ in points], LEFT, WIDTH - right)
    y = Axis([each for _, each in points], HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="12" fill="{INK}">',
        _text(LEFT, 18, title, "start", ' font-weight="bold"'),
        *(_mark_x(mark, x) for mark in x.marks),
        *(_mark_y(mark, y, x) for mark in y.marks),
        _text((x.begin + x.end) / 2, HEIGHT - 8, across),
        f'<g transform="rotate(-90 14 {HEIGHT / 2})">{_text(14, HEIGHT / 2, up)}</g>',
    ]
    names = _spread([(y.place(curve[-1][1]), name) for name, curve in curves.items()])
    for (name, curve), colour in zip(curves.items(), COLOURS, strict=False):
        parts += _line([(x.place(a), y.place(b)) for a, b in curve], name, names[name], colour)
    return "\n".join([*parts, "</svg>\n"])


def _spread(places: list[tuple[float, str]], apart: float = 15) -> dict[str, float]:
    """Return heights for the names of curves, at which none covers another."""
    found, last = {}, -math.inf
    for height, name in sorted(places):
        last = max(height, last + apart)
        found[name] = last
    return found


def _line(points: Points, name: str, height: float, colour: str) -> list[str]:
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    dots = (f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in points)
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
        *dots,
        _text(points[-1][0] + 8, height + 4, name, "start", f' fill="{colour}"'),
    ]


def _mark_x(value: float, axis: Axis) -> str:
    at = axis.place(value)
    return _grid(at, TOP, at, HEIGHT - BOTTOM) + _text(at, HEIGHT - BOTTOM + 16, _short(value))


def _mark_y(value: float, axis: Axis, across: Axis) -> str:
    at = axis.place(value)
    return _grid(across.begin, at, across.end, at) + _text(LEFT - 6, at + 4, _short(value), "end")


def _grid(x1: float, y1: float, x2: float, y2: float) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{INK}" stroke-opacity="0.3"/>'
    )


def _text(x: float, y: float, words: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def draw_bars(title: str, bars: Mapping[str, Mapping[str, float]]) -> str:
    """Return a picture of groups of bars; ``bars`` has the values of each group by their names."""
    names = list(dict.fromkeys(name for group in bars.values() for name in group))
    colours = dict(zip(names, COLOURS, strict=False))
    most = max(value for group in bars.values() for value in group.values())
    parts, at = [_text(LEFT, 18, title, "start", ' font-weight="bold"')], TOP
    left, width = 150, WIDTH - 150 - 60
    for group, values in bars.items():
        parts.append(_text(left - 8, at + 4 + 8 * len(values), group, "end"))
        for name, value in values.items():
            length = max(1.0, value / most * width)
            parts.append(
                f'<rect x="{left}" y="{at}" width="{length:.1f}" height="13" rx="2" '
                f'fill="{colours[name]}"/>'
            )
            parts.append(_text(left + length + 6, at + 11, f"{value:.3g}", "start"))
            at += 16
        at += 10
    for number, name in enumerate(names):
        x = left + number * 150
        parts.append(f'<rect x="{x}" y="{at}" width="12" height="12" fill="{colours[name]}"/>')
        parts.append(_text(x + 18, at + 10, name, "start"))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {at + 24}" '
        f'font-family="sans-serif" font-size="12" fill="{INK}">'
    )
    return "\n".join([head, *parts, "</svg>\n"])
