"""Plans as SVG: a box for each source and operator, from left to right."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from rxtemporal.display.html import escape
from rxtemporal.display.plain_text import shorten
from rxtemporal.display.svg import COLORS, element, fit_text, label, make_mark, picture

WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 196, 62, 40, 16, 12
# a larger plan is cut, and says so
MOST_BOXES = 60


@dataclasses.dataclass(frozen=True, slots=True)
class PlanBox:
    """A source or an operator: its name, two lines below it, and the numbers of its inputs.

    Inputs stand before the boxes that they lead to. ``tip`` is its tooltip.
    """

    name: str
    lines: tuple[str, ...] = ()
    inputs: tuple[int, ...] = ()
    tip: str = ""


def plan_svg(boxes: Sequence[PlanBox], *, title: str = "Plan", alone: bool = False) -> str:
    """Return a plan as SVG: sources to the left, each operator right of its inputs.

    >>> plan_svg([PlanBox("readings"), PlanBox("where", inputs=(0,))])[:21]
    '<svg xmlns="http://ww'
    """
    drawn = boxes[:MOST_BOXES]
    layout = _Layout(drawn)
    columns, rows = layout.size
    size = (columns * (WIDTH + GAP_X) - GAP_X + 2 * MARGIN,
            rows * (HEIGHT + GAP_Y) - GAP_Y + 2 * MARGIN)  # fmt: skip
    parts = [*_lines(drawn, layout), *_boxes(drawn, layout)]
    if len(boxes) > MOST_BOXES:
        size = (size[0], size[1] + 18)
        more = f"… {len(boxes) - MOST_BOXES} more operators"
        parts.append(label(MARGIN, size[1] - 8, more, class_="s"))
    return picture(
        size,
        parts,
        title=title,
        text=", ".join(shorten(box.name, 40) for box in drawn),
        mark=make_mark((title, tuple(boxes))),
        alone=alone,
    )


class _Layout:
    """The places of boxes in columns and rows, and the rows of the lines between them."""

    def __init__(self, boxes: Sequence[PlanBox]) -> None:
        self._taken = set[tuple[int, int]]()
        self.columns = _choose_columns(boxes)
        self.rows = [0] * len(boxes)
        # operators go right of their inputs, in the row of the first
        for number, box in enumerate(boxes):
            above = min((self.rows[each] for each in box.inputs), default=0)
            self.rows[number] = self._take_row(above, [self.columns[number]])
        # a line that passes other columns has a row of its own there
        self.passes: dict[tuple[int, int], int] = {}
        for number, box in enumerate(boxes):
            for each in box.inputs:
                between = range(self.columns[each] + 1, self.columns[number])
                if between:
                    row = self._take_row(self.rows[each], between)
                    self.passes[each, number] = row

    def _take_row(self, row: int, columns: Sequence[int]) -> int:
        while any((column, row) in self._taken for column in columns):
            row += 1
        self._taken |= {(column, row) for column in columns}
        return row

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of columns and rows."""
        columns = max((column for column, _ in self._taken), default=0) + 1
        return columns, max((row for _, row in self._taken), default=0) + 1

    def corner(self, number: int) -> tuple[float, float]:
        """Return the upper left corner of a box."""
        return _corner(self.columns[number], self.rows[number])


def _choose_columns(boxes: Sequence[PlanBox]) -> list[int]:
    """Return the column of each box: right of its inputs; a source stands left of its first use."""
    columns: list[int] = []
    for box in boxes:
        columns.append(max((columns[each] + 1 for each in box.inputs), default=0))
    for number, box in enumerate(boxes):
        uses = [columns[user] for user, each in enumerate(boxes) if number in each.inputs]
        if not box.inputs and uses:
            columns[number] = min(uses) - 1
    return columns


def _corner(column: int, row: int) -> tuple[float, float]:
    return (MARGIN + column * (WIDTH + GAP_X), MARGIN + row * (HEIGHT + GAP_Y))


def _lines(boxes: Sequence[PlanBox], layout: _Layout) -> Iterator[str]:
    for number, box in enumerate(boxes):
        for each in box.inputs:
            (left, top), (x, y) = layout.corner(each), layout.corner(number)
            begin, end, row = top + HEIGHT / 2, y + HEIGHT / 2, layout.passes.get((each, number))
            path = f"M{left + WIDTH:.0f} {begin:.0f}"
            if row is not None:
                begin, path = _pass_through(path, left + WIDTH, begin, x, row)
            bend = f"{x - GAP_X / 2:.0f}"
            path += f"C{bend} {begin:.0f} {bend} {end:.0f} {x - 6:.0f} {end:.0f}"
            yield element("path", d=path, fill="none", stroke="currentColor",
                          stroke_opacity="0.5", stroke_width=1.4)  # fmt: skip
            yield element("path", d=f"M{x - 1:.0f} {end:.0f}l-7 -4v8z", opacity=0.6)


def _pass_through(path: str, left: float, begin: float, x: float, row: int) -> tuple[float, str]:
    """Return a line that has gone along a row up to the gap before ``x``, and where it is."""
    middle = _corner(0, row)[1] + HEIGHT / 2
    bend = f"{left + GAP_X / 2:.0f}"
    path += f"C{bend} {begin:.0f} {bend} {middle:.0f} {left + GAP_X:.0f} {middle:.0f}"
    return middle, f"{path}H{x - GAP_X:.0f}"


def _boxes(boxes: Sequence[PlanBox], layout: _Layout) -> Iterator[str]:
    for number, box in enumerate(boxes):
        x, y = layout.corner(number)
        color = COLORS[1] if box.inputs else COLORS[0]
        frame = {"x": x, "y": y, "width": WIDTH, "height": HEIGHT, "rx": 6}
        yield element(
            "g",
            element("title", escape(shorten(box.tip or box.name, 400))),
            element("rect", fill=color, fill_opacity="0.16", **frame),
            element("rect", fill="none", stroke=color, stroke_width=1.4, **frame),
            label(x + 10, y + 20, fit_text(box.name, WIDTH - 24, 13.2), class_="b"),
            *(
                label(x + 10, y + 37 + 15 * place, fit_text(line, WIDTH - 18, 10.5), class_="s")
                for place, line in enumerate(box.lines[:2])
            ),
        )
