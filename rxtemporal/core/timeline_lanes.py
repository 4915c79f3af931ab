"""Event batches as lanes of a timeline, and as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.row_text import format_rows
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, ticks
from rxtemporal.text.html import MOST_ROWS, section, table
from rxtemporal.text.plain_text import format_value, shorten
from rxtemporal.text.timeline import Bar, Form, Lane, Timeline
from rxtemporal.text.timeline_svg import timeline_svg

# rows of a lane that are looked at; the others are counted
MOST_LANE_BARS = 500
MOST_CTIS = 100
# characters of a value in a bar
MOST_CHARACTERS = 24
# fields of late events; a field of the payload with such a name has the suffix "_"
LATE = {"source", "reason", "by", "start", "end"}


class LaneBatch(Protocol):
    """The parts of an event batch that a lane shows."""

    start: npt.NDArray[np.int64]
    cti: int

    @property
    def end(self) -> npt.NDArray[np.int64]:
        """The end of each row."""

    @property
    def edge(self) -> npt.NDArray[np.int64]:
        """The edge id of each row; 0 for a complete row."""

    @property
    def schema(self) -> pl.Schema:
        """The payload's schema."""

    @property
    def payload(self) -> pl.DataFrame:
        """The payload as a frame."""

    def __len__(self) -> int: ...


def make_lane(
    name: str,
    batches: Iterable[LaneBatch],
    *,
    late: Iterable[Bar] = (),
    by: str | None = None,
    most: int = MOST_LANE_BARS,
    result: bool = False,
) -> Lane:
    """Return the rows and the CTIs of batches, edges included, as one lane.

    The first ``most`` rows are drawn, the others counted. ``by`` is the field whose values have
    colours of their own. ``late`` are bars of late events.
    """
    rows = _LaneRows(by, most)
    for batch in batches:
        rows.add(batch)
    return Lane(
        name,
        (*rows.bars.values(), *late),
        tuple(rows.ctis),
        note=", ".join(rows.fields),
        more=rows.more,
        result=result,
    )


class _LaneRows:
    """The rows of a stream so far, with the starts of those whose end is to come."""

    def __init__(self, by: str | None, most: int) -> None:
        self.bars: dict[int, Bar] = {}
        self.ctis: list[int | None] = []
        self.fields: list[str] = []
        self.more = 0
        self._open: dict[int, int] = {}
        self._by, self._most = by, most
        self._keys: dict[Any, int] = {}
        self._count = 0

    def add(self, batch: LaneBatch) -> None:
        """Add the rows of a batch, and its CTI if it advances."""
        self.fields = list(batch.schema)
        rows = batch.payload.iter_rows(named=True) if batch.payload.width else _empty(len(batch))
        times = zip(
            batch.start.tolist(), batch.end.tolist(), batch.edge.tolist(), rows, strict=True
        )
        for start, end, edge, fields in times:
            self._add_row(start, None if end >= MAX_TIME else end, edge, fields)
        cti = None if batch.cti >= MAX_TIME else batch.cti
        if batch.cti > MIN_TIME and cti not in self.ctis[-1:]:
            self.ctis = [*self.ctis, cti][-MOST_CTIS:]

    def _add_row(self, start: int, end: int | None, edge: int, fields: Mapping[str, Any]) -> None:
        if edge and end is not None:
            # the end of a row that has begun
            place = self._open.pop(edge, None)
            if place is not None:
                begun = self.bars[place]
                self.bars[place] = Bar(begun.start, end, begun.label, begun.detail, key=begun.key)
            return
        if len(self.bars) >= self._most:
            self.more += 1
            return
        if edge:
            self._open[edge] = self._count
        self.bars[self._count] = make_bar(start, end, fields, key=self._key(fields))
        self._count += 1

    def _key(self, fields: Mapping[str, Any]) -> int:
        if self._by is None:
            return 0
        return self._keys.setdefault(repr(fields.get(self._by)), len(self._keys) + 1)


def _empty(count: int) -> Iterator[Mapping[str, Any]]:
    return iter([{}] * count)


def make_bar(
    start: int,
    end: int | None,
    fields: Mapping[str, Any],
    *,
    broken_cti: int | None = None,
    key: int = 0,
) -> Bar:
    """Return a row as a bar with its values as label, and its fields as tooltip."""
    texts = {name: shorten(format_value(value), 80) for name, value in list(fields.items())[:12]}
    label = " · ".join(shorten(text, MOST_CHARACTERS) for text in texts.values())
    detail = ", ".join(f"{name}={text}" for name, text in texts.items())
    return Bar(start, end, label, detail, broken_cti, key)


def make_late_bars(rows: pl.DataFrame) -> Iterator[Bar]:
    """Yield the rows of ``late_events()``, with their CTIs in ticks, as bars."""
    own = {"start_time", "end_time", *LATE}
    for row in rows.iter_rows(named=True):
        start, end = row["start"], row["end"]
        payload = {
            name[:-1] if name[:-1] in LATE else name: value
            for name, value in row.items()
            if name not in own
        }
        yield make_bar(
            ticks(start), None if end is None else ticks(end), payload, broken_cti=row["start_time"]
        )


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
