"""Tables of text with aligned columns, for terminals and logs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rxtemporal.display.plain_text import measure_width

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
