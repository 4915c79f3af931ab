"""Text of unknown origin made safe to show, and tables of such texts."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

# joiners belong to scripts and emoji; every other invisible character is written out
_JOINERS = {"\u200c", "\u200d"}
_INVISIBLE = {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}
# a longer text is cut before its characters are looked at
MOST_CHARACTERS = 2_000


def make_visible(text: str) -> str:
    r"""Return a text with its control, direction and other invisible characters written out.

    >>> make_visible("a\x1b[2Jb\u202ec")
    'a\\x1b[2Jb\\u202ec'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_escape, text))


def count_noun(number: int, noun: str) -> str:
    """Return a number of things as text.

    >>> count_noun(1, "row"), count_noun(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _escape(character: str) -> str:
    if character in _JOINERS or unicodedata.category(character) not in _INVISIBLE:
        return character
    return character.encode("unicode_escape").decode()


def shorten(text: str, most: int) -> str:
    """Return a text of at most so many characters; one that is cut ends with ``…``.

    >>> shorten("temperature", 5)
    'temp…'
    """
    text = make_visible(text[: MOST_CHARACTERS + 1])
    return text if len(text) <= most else text[: max(most - 1, 0)] + "…"


def measure_width(text: str) -> int:
    """Return the number of columns that a text takes in a terminal.

    >>> measure_width("abc"), measure_width("温度")
    (3, 4)
    """
    if text.isascii():
        return len(text)
    return sum(map(_measure_character, text))


def _measure_character(character: str) -> int:
    if unicodedata.combining(character) or character in _JOINERS:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def format_value(value: Any) -> str:
    """Return a value as the text of a cell: times in ISO 8601, null for None, six digits.

    >>> format_value(None), format_value(20.0), format_value(1 / 3)
    ('null', '20', '0.333333')
    """
    if value is None:
        return "null"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, float):
        return f"{value:g}"
    try:
        return make_visible(str(value))
    except Exception:  # the value's own code
        return f"<{type(value).__name__}>"


_UNITS = (("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000),
          ("ms", 1_000), ("µs", 1))  # fmt: skip


def format_span(microseconds: int) -> str:
    """Return a span of time in its two largest units.

    >>> format_span(90_000_000), format_span(3_600_000_000), format_span(-1_500)
    ('1m 30s', '1h', '-1ms 500µs')
    """
    left, parts = abs(microseconds), list[str]()
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
        if len(parts) == 2 or (parts and not count):
            break
    return ("-" if microseconds < 0 else "") + (" ".join(parts) or "0s")


GAP = "  "


def text_table(rows: Iterable[Sequence[str]], *, right: Collection[int] = ()) -> str:
    """Return rows of cells as text, each column as wide as its widest cell.

    The columns with the numbers ``right`` are aligned to the right. A row may be shorter than the
    others.

    >>> print(text_table([("name", "rows"), ("where", "1,024")], right=[1]))
    name    rows
    where  1,024
    """
    return "\n".join(align(list(rows), right=right))


def align(
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[int] = (),
    widths: Sequence[int] | None = None,
) -> list[str]:
    """Return rows of cells as lines; a column without any text takes no room.

    ``widths`` are the widths of the columns, by default those of their widest cells.
    """
    widths = measure_columns(rows) if widths is None else widths
    return [_join(row, widths, right) for row in rows]


def measure_columns(rows: Iterable[Sequence[str]], least: Sequence[int] = ()) -> list[int]:
    """Return the width of each column: that of its widest cell, and no less than in ``least``."""
    widths = list(least)
    for row in rows:
        widths += [0] * (len(row) - len(widths))
        for column, cell in enumerate(row):
            widths[column] = max(widths[column], measure_width(cell))
    return widths


def _join(row: Sequence[str], widths: Sequence[int], right: Collection[int]) -> str:
    cells = (
        pad(cell, width, column in right)
        for column, (cell, width) in enumerate(zip(row, widths, strict=False))
        if width
    )
    return GAP.join(cells).rstrip()


def pad(cell: str, width: int, right: bool = False) -> str:
    """Return a cell with spaces up to a width, behind it or in front of it."""
    space = " " * (width - measure_width(cell))
    return space + cell if right else cell + space
