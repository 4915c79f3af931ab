"""Tables and headings as HTML, with everything escaped."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape as _escape

from rxtemporal.text.plain_text import count_noun, make_visible, shorten

MOST_ROWS = 10
MOST_COLUMNS = 16
MOST_CHARACTERS = 60

_STYLE = (
    "<style>.rxtemporal table,table.rxtemporal{border-collapse:collapse;font-size:.86em;"
    "font-variant-numeric:tabular-nums;margin:.3em 0 .8em}"
    ".rxtemporal th,.rxtemporal td{padding:.12em 1.2em .12em 0;text-align:left;vertical-align:top}"
    ".rxtemporal thead{border-bottom:1px solid;border-color:#8888}"
    ".rxtemporal th small{font-weight:normal;opacity:.7}"
    ".rxtemporal .r{text-align:right}</style>"
)


def escape(text: str) -> str:
    """Return a text as it stands in HTML and SVG, between tags or inside of quotes.

    >>> escape("</script> & 'x'")
    '&lt;/script&gt; &amp; &#x27;x&#x27;'
    """
    return _escape(make_visible(text), quote=True)


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    units: Sequence[str] = (),
    total: int | None = None,
    caption: str = "",
    most: int = MOST_ROWS,
    right: Collection[int] = (),
) -> str:
    """Return a table of texts: at most ``most`` rows, then a line that counts the others.

    ``units`` stand below the names of the columns; ``total`` is the number of all rows, if ``rows``
    are only the first. The columns ``right`` are aligned to the right. Long texts are cut, and
    columns after the sixteenth are left out.

    >>> table(["id", "temp"], [["a", "<b>"]])[-60:]
    '<tbody><tr><td>a</td><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    listed = list(rows)
    total = len(listed) if total is None else total
    parts = [f'<table class="rxtemporal">{_STYLE}']
    if caption:
        parts.append(f"<caption>{escape(caption)}</caption>")
    parts.append(f"<thead>{_head(header, units, right)}</thead><tbody>")
    parts += [_row(row, right) for row in listed[:most]]
    if total > min(len(listed), most):
        width = min(len(header), MOST_COLUMNS + 1)
        more = total - min(len(listed), most)
        parts.append(f'<tr><td colspan="{width}">… {count_noun(more, "more row")}</td></tr>')
    return "".join([*parts, "</tbody></table>"])


def _head(header: Sequence[str], units: Sequence[str], right: Collection[int]) -> str:
    names = "".join(
        f'<th scope="col"{_side(column, right)}>{escape(shorten(name, MOST_CHARACTERS))}'
        f"{_unit(units[column]) if column < len(units) else ''}</th>"
        for column, name in enumerate(header[:MOST_COLUMNS])
    )
    return f"<tr>{names}{'<th>…</th>' if len(header) > MOST_COLUMNS else ''}</tr>"


def _unit(unit: str) -> str:
    return f"<br><small>{escape(unit)}</small>" if unit else ""


def _side(column: int, right: Collection[int]) -> str:
    return ' class="r"' if column in right else ""


def _row(row: Sequence[str], right: Collection[int]) -> str:
    cells = "".join(
        f"<td{_side(column, right)}>{escape(shorten(cell, MOST_CHARACTERS))}</td>"
        for column, cell in enumerate(row[:MOST_COLUMNS])
    )
    return f"<tr>{cells}{'<td>…</td>' if len(row) > MOST_COLUMNS else ''}</tr>"


def fixed_width(text: str) -> str:
    """Return lines of text as they are, in a font of one width."""
    lines = "\n".join(map(escape, text.split("\n")))
    return f'<pre style="line-height:1.35;overflow-x:auto">{lines}</pre>'


def section(heading: str, *parts: str) -> str:
    """Return parts of HTML below a heading."""
    return (
        '<div class="rxtemporal"><div style="margin:.2em 0 .4em"><strong>'
        f"{escape(heading)}</strong></div>{''.join(parts)}</div>"
    )
