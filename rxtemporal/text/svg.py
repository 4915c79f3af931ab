"""Elements of SVG as text: attributes and texts escaped, numbers short, the look in one style."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Sequence

from rxtemporal.text.html import escape
from rxtemporal.text.plain_text import shorten

# readable on light and dark ground, and told apart by colour-blind readers (Okabe and Ito)
COLORS = ("#2086d1", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
LATE = "#d55e00"
# inside a page the ink is that of the page
STYLE = (
    ".rxt{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;"
    "font-size:12px;fill:currentColor;max-width:100%;height:auto}"
    ".rxt .s{font-size:10.5px;opacity:.72}.rxt .b{font-weight:600}.rxt .h{font-size:14px;"
    "font-weight:600}.rxt .g{stroke:currentColor;opacity:.13}.rxt .f{fill-opacity:.26}"
    ".rxt .late{fill:" + LATE + "}.rxt .c{stroke:currentColor;stroke-dasharray:3 3;opacity:.5}"
    ".rxt .w{fill:currentColor;opacity:.06}.rxt .e{stroke:currentColor;opacity:.25}"
)
# a file of its own knows no page: it brings ink and ground, for light and for dark
ALONE = (
    ".rxt{color:#1f2328}.rxt .ground{fill:#fff}@media(prefers-color-scheme:dark){"
    ".rxt{color:#e6edf3}.rxt .ground{fill:#0d1117}.rxt .late{fill:#ff8f57}}"
)


def number(value: float) -> str:
    """Return a number with at most one decimal.

    >>> number(3.0), number(1 / 3)
    ('3', '0.3')
    """
    return f"{value:.1f}".removesuffix(".0").replace("-0", "0", value > -0.05)


def element(name: str, *content: str, **attributes: object) -> str:
    """Return an element; an attribute ``stroke_width`` is ``stroke-width``, None leaves it out.

    The content is SVG; use ``label`` for text.

    >>> element("line", x1=0, y1=2.5, stroke_width=1)
    '<line x1="0" y1="2.5" stroke-width="1"/>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = "".join(content)
    return f"<{name}{written}>{inside}</{name}>" if inside else f"<{name}{written}/>"


def _attribute(value: object) -> str:
    return number(value) if isinstance(value, float) else escape(str(value))


def label(x: float, y: float, text: str, **attributes: object) -> str:
    """Return a text at a place."""
    return element("text", escape(text), x=float(x), y=float(y), **attributes)


def measure_text(text: str, size: float = 12) -> float:
    """Return about how wide a text is drawn."""
    wide = sum(character in "mwMW@%—…" or ord(character) > 0x2E80 for character in text)
    thin = sum(character in "ijlt.,:;'|!()[] " for character in text)
    return size * (0.58 * len(text) + 0.36 * wide - 0.27 * thin)


def fit_text(text: str, width: float, size: float = 12) -> str:
    """Return a text that is cut to a width, with ``…`` at its end."""
    text = shorten(text, 200)
    while len(text) > 1 and measure_text(text, size) > width:
        text = text.removesuffix("…")[:-1] + "…"
    return text


def make_mark(content: object) -> str:
    """Return a mark for the ids of a picture, which depends on its content alone."""
    return hashlib.sha256(repr(content).encode("utf-8", "replace")).hexdigest()[:10]


def picture(
    size: tuple[float, float],
    parts: Iterable[str],
    *,
    title: str,
    text: str,
    mark: str,
    alone: bool,
) -> str:
    """Return a whole picture with its name and description, whose ids end with ``mark``.

    ``alone`` is for a file of its own, which follows the reader's choice of light or dark; inside a
    page the picture takes the page's colour of text.
    """
    width, height = map(number, size)
    ground = element("rect", width="100%", height="100%", rx=6, class_="ground") if alone else ""
    return element(
        "svg",
        element("title", escape(title or "Timeline"), id=f"t{mark}"),
        element("desc", escape(text) or " ", id=f"d{mark}"),
        element("style", STYLE + (ALONE if alone else "")),
        ground,
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_labelledby=f"t{mark} d{mark}",
        class_="rxt",
    )


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
