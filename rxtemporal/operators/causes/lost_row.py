"""A row that no row of an operator stands on, and helpers to say why."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from rxtemporal.core.batch import Int64s, TimeForm
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.operators.causes.fate import Fate, FateKind, make_frame
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.causes.row_text import (
    write_lifetime,
    write_place,
    write_time,
    write_values,
)

# rows of others that a fate names
MOST_OTHERS = 3


@dataclasses.dataclass(frozen=True, eq=False)
class LostRow:
    """Row ``row`` of an input of an operator that has not come out of it.

    ``output`` is the operator's history, ``inputs`` those of its inputs, ``side`` the number of the
    input. ``at`` is the time of the missing result, if it was given.
    """

    output: History
    inputs: tuple[History, ...]
    side: int
    row: int
    at: int | None
    form: TimeForm

    @property
    def source(self) -> History:
        """The history that the row is of."""
        return self.inputs[self.side]

    @property
    def start(self) -> int:
        """The start of the row."""
        return int(self.source.start[self.row])

    @property
    def end(self) -> int:
        """The end of the row."""
        return int(self.source.end[self.row])

    @property
    def stretch(self) -> tuple[int, int]:
        """The time asked about, if the row is alive then, else the row's lifetime."""
        if self.at is not None and self.start <= self.at < self.end:
            return self.at, self.at + 1
        return self.start, self.end

    @property
    def payload(self) -> dict[str, Any]:
        """The payload of the row."""
        return dict(self.source.payload.row(self.row, named=True))

    @property
    def cti(self) -> int:
        """The CTI that all inputs have reached at the end of the run."""
        return min(int(each.ctis[-1]) if len(each.ctis) else MIN_TIME for each in self.inputs)

    @property
    def place(self) -> str:
        """The operator and the line that composed it."""
        return write_place(self.output.name, self.output.line)

    def tell(self, kind: FateKind, message: str, **more: Any) -> Fate:
        """Return a fate at this operator."""
        return Fate(kind, message, self.output.name, self.output.line, **more)

    def wait(self, until: int) -> Fate:
        """Return the fate of a row whose result needs a CTI that has not come."""
        return self.tell(
            "waiting",
            f"not final: {self.place} waits for the CTI {self.write(until)}, and it is "
            f"{self.write(self.cti)}",
            until=until,
        )

    def tell_end(self) -> Fate:
        """Return the fate of a row of which nothing more is known."""
        if self.start >= self.cti:
            return self.wait(self.start + 1)
        return self.tell("ended", f"no row of {self.place} stands on it")

    def tell_removal(self, rows: Int64s, verb: str) -> Fate:
        """Return the fate of a right row that removes or ends left rows, and gives none itself."""
        left = self.inputs[0]
        shown = self.list_rows(left, rows) if len(rows) else "no row"
        return self.tell(
            "removes",
            f"gives no row in {self.place}: it {verb} {shown}",
            others=self.frame(left, rows[:MOST_OTHERS]),
        )

    def list_rows(self, history: History, rows: Int64s) -> str:
        """Return the first of some rows as text."""
        shown = ", ".join(self.write_row(history, row) for row in rows[:MOST_OTHERS].tolist())
        more = f" and {len(rows) - MOST_OTHERS:,} more" if len(rows) > MOST_OTHERS else ""
        return shown + more

    def write(self, tick: int) -> str:
        """Return a time as text."""
        return write_time(tick, self.form)

    def write_row(self, history: History, row: int) -> str:
        """Return a row as text: its lifetime and its payload."""
        lifetime = write_lifetime(int(history.start[row]), int(history.end[row]), self.form)
        return f"{lifetime} {write_values(history.payload.row(row, named=True))}"

    def frame(self, history: History, rows: Int64s) -> Any:
        """Return rows as a frame."""
        return make_frame(history, rows, self.form)

    def order_by_distance(self, history: History, rows: Int64s) -> Int64s:
        """Return rows of another history, those nearest to the row's lifetime first."""
        return self._order(history, rows, (self.start, self.end))

    def order_by_stretch(self, history: History, rows: Int64s) -> Int64s:
        """Return rows of another history, those nearest to ``stretch`` first."""
        return self._order(history, rows, self.stretch)

    def _order(self, history: History, rows: Int64s, stretch: tuple[int, int]) -> Int64s:
        after = history.start[rows] - (stretch[1] - 1)
        before = stretch[0] - (history.end[rows] - 1)
        return rows[np.argsort(np.maximum(np.maximum(after, before), 0), kind="stable")]

    def find_alive(self, history: History, rows: Int64s) -> Int64s:
        """Return those rows of another history that are alive in ``stretch``."""
        low, high = self.stretch
        return rows[(history.start[rows] < high) & (history.end[rows] > low)]
