"""A rehearsal as text and as HTML: the counts, and the first rows of each side."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from rxtemporal.core.row_text import format_frame
from rxtemporal.display import html
from rxtemporal.display.plain_text import format_value
from rxtemporal.testing.frame_difference import Difference
from rxtemporal.testing.rehearsal_picture import draw_difference

# rows shown of each side
MOST_ROWS = 10


def as_text(found: Difference, names: tuple[str, str]) -> str:
    """Return the counts, then the first rows of each side."""
    lines = [_count(found, names), *_describe_fields(found)]
    for whose, frame in (("old", found.only_old), ("new", found.only_new)):
        if len(frame):
            lines.append(f"only in {whose}: {_rows(len(frame))}")
            table = format_frame(frame, MOST_ROWS, whole=True)
            lines += [f"  {line}" for line in table.splitlines()]
    return "\n".join(lines)


def as_html(found: Difference, names: tuple[str, str]) -> str:
    """Return the counts, a timeline of the difference, then a table of each side."""
    tables = [
        html.table(
            frame.columns, _cells(frame, MOST_ROWS), total=len(frame), most=MOST_ROWS,
            caption=f"only in {whose}: {_rows(len(frame))}",
        )
        for whose, frame in (("old", found.only_old), ("new", found.only_new)) if len(frame)
    ]  # fmt: skip
    notes = [f"<p>{html.escape(line)}</p>" for line in _describe_fields(found)]
    return html.section(_count(found, names), *notes, draw_difference(found), *tables)


def _count(found: Difference, names: tuple[str, str]) -> str:
    both, old, new = len(found.both), len(found.only_old), len(found.only_new)
    text = f"old: {names[0]}, {_rows(both + old)}. new: {names[1]}, {_rows(both + new)}. "
    if not old and not new:
        return f"{text}All are in both."
    return f"{text}{_rows(both)} {'is' if both == 1 else 'are'} in both."


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _describe_fields(found: Difference) -> Iterator[str]:
    for whose, names in (("old", found.fields_only_old), ("new", found.fields_only_new)):
        if names:
            yield f"not compared, since only {whose} has this field and type: {', '.join(names)}"


def _cells(frame: pl.DataFrame, most: int) -> list[list[str]]:
    return [
        ["never ends" if name == "end_time" and value is None else format_value(value)
         for name, value in row.items()]
        for row in frame.head(most).to_dicts()
    ]  # fmt: skip
