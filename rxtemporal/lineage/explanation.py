"""The answer to "why is this row here": the events that it stands on, operator by operator."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from rxtemporal.core.batch import TimeForm
from rxtemporal.display import html
from rxtemporal.display.plain_text import make_visible
from rxtemporal.operators.causes.causes import BOUNDARY, HISTORY, ROW
from rxtemporal.operators.causes.row_text import write_lifetime, write_place, write_values

# rows of each operator that the text and the tables show
MOST_ROWS = 5
MOST_TABLE_ROWS = 50

_ROLES = {ROW: "row", BOUNDARY: "boundary", HISTORY: "history"}


@dataclasses.dataclass(frozen=True, slots=True)
class CausedRow:
    """A row on the way to the result: its times in ticks, its payload, and the role that it has.

    ``role`` is ``"row"`` if its payload or lifetime is in the result, ``"boundary"`` if it only
    bounds a row that is, and ``"history"`` if a function with a state has seen it before.
    """

    start: int
    end: int
    payload: Mapping[str, Any]
    role: str


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class ExplainedStep:
    """An operator or an input stream on the way to the result: the rows on which the row stands.

    ``number`` is that of the step, and ``inputs`` those of the steps that it reads. ``rows`` is the
    number of its rows on the way, of which ``shown`` are the first. ``line`` is the line that
    composed the operator; None for an input stream.
    """

    number: int
    name: str
    line: str | None
    inputs: tuple[int, ...]
    rows: int
    shown: tuple[CausedRow, ...]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """Answer to "why is this row in the result", by ``why``.

    ``row`` is the row: its times and its payload. ``causes`` maps the name of each input stream to
    the rows of it on which the row stands, as a frame: ``start_time``, ``end_time`` and the
    payload, as they entered the query. ``bounds`` maps it to rows that only bound the row or one of
    its causes, as neighbours in snapshot windows do: with them the causes are enough to compute the
    row again. ``arrivals`` has the events that brought the causes: ``cause`` is the row in
    ``causes``, ``position`` the number of the event in its stream (the record of a recording, the
    row of a file), then how the event came, and how late it was. ``steps`` are the operators on the
    way, the result first. It prints as a tree, and shows as HTML.
    """

    row: Mapping[str, Any]
    causes: Mapping[str, pl.DataFrame]
    bounds: Mapping[str, pl.DataFrame]
    arrivals: Mapping[str, pl.DataFrame]
    steps: tuple[ExplainedStep, ...]
    time: TimeForm

    def __str__(self) -> str:
        by_number = {step.number: step for step in self.steps}
        return "\n".join(self._list_lines(self.steps[0], by_number, "", "", set()))

    def _list_lines(
        self,
        step: ExplainedStep,
        steps: Mapping[int, ExplainedStep],
        first: str,
        rest: str,
        seen: set[int],
    ) -> Iterator[str]:
        """Yield a step, its rows, and the steps that it reads; the lines begin with ``rest``."""
        again = step.number in seen
        seen.add(step.number)
        count = "1 row" if step.rows == 1 else f"{step.rows:,} rows"
        yield f"{first}{self._write_name(step)}: {count}{', as above' if again else ''}"
        if again:
            return
        below = [steps[number] for number in dict.fromkeys(step.inputs) if number in steps]
        bar = "│  " if below else "   "
        if len(below) != 1 or below[0].shown != step.shown:  # else they stand below
            yield from (f"{rest}{bar}{self._write_row(row)}" for row in step.shown)
            if step.rows > len(step.shown):
                yield f"{rest}{bar}… and {step.rows - len(step.shown):,} more"
        for each in below:
            last = each is below[-1]
            corner, indent = ("└─ ", "   ") if last else ("├─ ", "│  ")
            yield from self._list_lines(each, steps, rest + corner, rest + indent, seen)

    def _write_name(self, step: ExplainedStep) -> str:
        return make_visible(write_place(step.name, step.line))

    def _write_row(self, row: CausedRow) -> str:
        lifetime = write_lifetime(row.start, row.end, self.time)
        role = "" if row.role == "row" else f" ({row.role})"
        return make_visible(f"{lifetime} {write_values(row.payload)}{role}")

    def _repr_html_(self) -> str:
        tables = [
            html.table(
                frame.columns,
                [[str(value) for value in row] for row in frame.head(MOST_TABLE_ROWS).rows()],
                caption=f"{name}: {frame.height:,} rows",
            )
            for name, frame in self.causes.items()
        ]
        return html.section("Why this row", html.fixed_width(str(self)), *tables)


def name_role(role: int) -> str:
    """Return the name of a role of causes."""
    return _ROLES[role]
