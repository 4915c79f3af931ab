"""A row that no row of an operator stands on, and helpers to say why."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s, TimeForm
from rxtemporal.core.columns import time_series
from rxtemporal.core.spans import format_delay
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, describe, to_datetime
from rxtemporal.operators.causes.history import History
from rxtemporal.text.plain_text import count_noun, format_span, format_value, shorten

MOST_CHARACTERS = 40
MOST_FIELDS = 8
MOST_EXPRESSION = 400


def write_time(tick: int, form: TimeForm) -> str:
    """Return a time as text, as ticks or in ISO 8601.

    >>> write_time(5, "ticks"), write_time(0, "datetime"), write_time(MAX_TIME, "ticks")
    ('5', '1970-01-01T00:00:00Z', 'the end of time')
    """
    if tick in (MIN_TIME, MAX_TIME):
        return describe(tick)
    return str(tick) if form == "ticks" else format_value(to_datetime(tick))


def write_span(length: int, form: TimeForm) -> str:
    """Return a span of time as text.

    >>> write_span(1, "ticks"), write_span(90_000_000, "datetime")
    ('1 tick', '1m 30s')
    """
    if form == "ticks":
        return count_noun(length, "tick")
    return format_span(length)


def write_delay(length: int, form: TimeForm) -> str:
    """Return a delay as text, never shorter than it is.

    >>> write_delay(9, "ticks"), write_delay(3_723_000_001, "datetime")
    ('9 ticks', '62 min 3.1 s')
    """
    return write_span(length, form) if form == "ticks" else format_delay(length)


def write_lifetime(start: int, end: int, form: TimeForm) -> str:
    """Return a lifetime as text: a point as its time, an interval half-open.

    >>> write_lifetime(5, 6, "ticks"), write_lifetime(5, 9, "ticks")
    ('5', '[5, 9)')
    """
    if end - start == 1:
        return write_time(start, form)
    last = "never ends" if end >= MAX_TIME else write_time(end, form)
    return f"[{write_time(start, form)}, {last})"


def write_values(values: Mapping[str, Any]) -> str:
    """Return fields and values as text, long ones cut.

    >>> write_values({"k": "a", "x": 2.0, "y": None})
    "k='a' x=2 y=null"
    """
    shown = [f"{_shorten(name)}={_write_value(value)}" for name, value in values.items()]
    more = ["…"] if len(shown) > MOST_FIELDS else []
    return " ".join([*shown[:MOST_FIELDS], *more])


def _write_value(value: Any) -> str:
    if isinstance(value, str):
        return repr(_shorten(value)).replace("\\\\", "\\")
    return _shorten(format_value(value))


def _shorten(text: str) -> str:
    return shorten(text, MOST_CHARACTERS)


def write_expression(expression: pl.Expr) -> str:
    """Return a polars expression as text, without the types of its constants.

    >>> write_expression((pl.col("x") > 1) & (pl.col("k") == "a"))
    '[x > 1] & [k == "a"]'
    """
    text = re.sub(r"dyn (?:int|float): ", "", shorten(str(expression), MOST_EXPRESSION))
    text = re.sub(r"col\(\"(\w+)\"\)", r"\1", text)
    before = None
    while before != text:  # the innermost parentheses of names and constants first
        before = text
        text = re.sub(r"(?<![\w.])\((\w+|-?[\d.]+|\"[^\"()]*\"|\[[^()]*\])\)", r"\1", text)
    return text[1:-1] if re.fullmatch(r"\[.*\]", text) else text


def write_place(operator: str, line: str | None) -> str:
    """Return an operator and the line that composed it as text, without the folder."""
    return operator if line is None else f"{operator} ({Path(line).name})"


FateKind: TypeAlias = Literal[
    "late",
    "dropped",
    "no partner",
    "removed",
    "removes",
    "outside",
    "worse",
    "waiting",
    "elsewhere",
    "ended",
]
"""Kinds of fates.

``late``: the event came too late. ``dropped``: a ``where`` dropped it. ``no partner``: nothing
joined it. ``removed``: an anti join removed it. ``removes``: it gives no row itself, and removes
or ends rows of another stream. ``outside``: it lies in no window. ``worse``: others ranked before
it. ``waiting``: its result is not final. ``elsewhere``: it is in a result of another time or with
other values. ``ended``: it ended at an operator for another reason.
"""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Fate:
    """The end of a row's way through a query.

    ``operator`` and ``line`` are the place, None for an event that came late. ``values`` are those
    that decided, by field. ``others`` are rows that decided, with ``start_time`` and ``end_time``:
    the nearest partners, the rows that removed it or that it removes, better ones, or the results
    in which it is. ``late_by`` and ``delay`` are spans in ticks: how late the event came, and the
    least delay that would have kept it, None if the stream makes no CTIs by a delay. ``until`` is
    the CTI in ticks that a result waits for.
    """

    kind: FateKind
    message: str
    operator: str | None = None
    line: str | None = None
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    others: pl.DataFrame | None = None
    late_by: int | None = None
    delay: int | None = None
    until: int | None = None

    def __str__(self) -> str:
        return self.message


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """An event that might have been in the missing row, and its fate.

    ``position`` is the number of the event in its stream, from 0, and ``input`` its sender, where a
    stream merges several. ``start`` and ``end`` are in ticks.
    """

    stream: str
    position: int
    input: str | None
    start: int
    end: int
    payload: Mapping[str, Any]
    fate: Fate


def make_frame(history: History, rows: Int64s, form: TimeForm) -> pl.DataFrame:
    """Return rows of a history as a frame: ``start_time``, ``end_time`` and the payload."""
    times = [
        time_series("start_time", history.start[rows], form),
        time_series("end_time", history.end[rows], form, endless=True),
    ]
    return pl.DataFrame(times).hstack(history.payload[rows])


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
