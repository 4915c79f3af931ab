"""Event batches as HTML, for notebooks: a small timeline and a table."""

from __future__ import annotations

from typing import Any

import polars as pl

from rxtemporal.core.lanes import make_lane
from rxtemporal.core.row_text import format_rows
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.display.html import MOST_ROWS, section, table
from rxtemporal.display.time_axis import Form
from rxtemporal.display.timeline import Timeline
from rxtemporal.display.timeline_svg import timeline_svg

# rows of the timeline
MOST_BARS = 40
# times below are ticks of some small unit, later ones microseconds of a date
DATES = 86_400_000_000 * 365
TIMES = ("start_time", "end_time")


def format_batch(batch: Any) -> str:
    """Return the first rows of a batch as a timeline and a table; the others are counted."""
    first = batch.slice(0, MOST_BARS)
    form = guess_form(first)
    lane = make_lane("rows", [first.replace(keys=())])
    text = format_rows(_frame(first, form), MOST_ROWS)
    return section(
        repr(batch),
        timeline_svg(Timeline((lane,), form)) if len(batch) else "",
        table(text.header, text.rows, units=text.units, total=len(batch), right=text.numeric),
    )


def guess_form(batch: Any) -> Form:
    """Return the form in which times are read: a batch does not know that of its source."""
    finite = batch.start[batch.start < MAX_TIME]
    return "datetime" if len(finite) and int(finite.max()) > DATES else "ticks"


def _frame(batch: Any, form: Form) -> pl.DataFrame:
    names = {name: f"{name} (payload)" for name in TIMES if name in batch.schema}
    payload = batch.payload.rename(names) if names else batch.payload
    frame: pl.DataFrame = batch.replace(payload=payload).to_polars(form)
    return frame
