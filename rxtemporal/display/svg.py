"""Elements of SVG as text: attributes and texts escaped, numbers short, the look in one style."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from rxtemporal.display.html import escape
from rxtemporal.display.plain_text import shorten

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
