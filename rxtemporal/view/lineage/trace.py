"""Trace of a row through a flow, down to the arrivals, as an explanation."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import END, START, EventBatch, Int64s, TimeForm
from rxtemporal.core.columns import time_series
from rxtemporal.core.events import EdgeEvent, EdgeType, RowEvent
from rxtemporal.core.schema import to_fields
from rxtemporal.core.ticks import MAX_TIME, time_ticks
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.causes.causes import BOUNDARY, HISTORY, ROW, Causes
from rxtemporal.operators.causes.history import History, code_rows
from rxtemporal.operators.causes.lost_row import write_lifetime, write_place, write_values
from rxtemporal.text import html
from rxtemporal.text.plain_text import count_noun, make_visible
from rxtemporal.view.lineage.flow import Flow

# rows of each operator that the text and the tables show
MOST_ROWS = 5
MOST_TABLE_ROWS = 50
_ROLES = {ROW: "row", BOUNDARY: "boundary", HISTORY: "history"}


@dataclasses.dataclass(frozen=True, slots=True)
class CausedRow:
    """A row on the way to the result: its times in ticks, its payload, and the role that it has.

    ``role`` is ``"row"`` if its payload or lifetime is in the result, ``"boundary"`` if it only
    bounds a row that is, and ``"history"`` if a function with a state has seen it before. ``part``
    is the part that it has in the result: of a match, the variable that it is; else empty.
    """

    start: int
    end: int
    payload: Mapping[str, Any]
    role: str
    part: str = ""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class ExplainedStep:
    """An operator or an input stream on the way to the result: the rows on which the row stands.

    ``number`` is that of the step, and ``inputs`` those of the steps that it reads. ``rows`` is the
    number of its rows on the way; ``shown`` has the first of them. ``line`` is the line that
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
        count = count_noun(step.rows, "row")
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
        notes = [each for each in (row.part, "" if row.role == "row" else row.role) if each]
        note = f" ({', '.join(notes)})" if notes else ""
        return make_visible(f"{lifetime} {write_values(row.payload)}{note}")

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


MOST_SHOWN = 5
TEXTS = pl.String, pl.Categorical, pl.Enum


def find_row(flow: Flow, row: Any) -> int:
    """Return the number of the one row of the result that an event or a mapping of fields names.

    Of rows that are equal in everything it is the first. ``ArgumentError``: no row, or several.
    """
    history = flow.result
    values = dict(row) if isinstance(row, Mapping) else _read_event(row)
    rows = np.flatnonzero(_match(history, values))
    if not len(rows):
        raise ArgumentError(
            f"the result has no row with {_write(values)}. Hint: why_not(query, where=…) says why; "
            "or name the row by its number in to_polars()."
        )
    codes, _ = code_rows(_to_frame(history, rows), _to_frame(history, rows[:0]))
    if len(np.unique(codes)) > 1:
        shown = [
            f"{write_lifetime(int(history.start[n]), int(history.end[n]), flow.time)} "
            f"{write_values(history.payload.row(n, named=True) if history.payload.width else {})}"
            for n in rows[:MOST_SHOWN].tolist()
        ]
        more = f", and {len(rows) - MOST_SHOWN:,} more" if len(rows) > MOST_SHOWN else ""
        raise ArgumentError(
            f"the result has {len(rows):,} rows with {_write(values)}: {'; '.join(shown)}{more}. "
            "Hint: name more of the row's fields, or its start_time."
        )
    return int(rows[0])


def find_numbered_row(flow: Flow, results: pl.DataFrame, number: int) -> int:
    """Return the number in the history of a row of the results as ``to_polars`` has them."""
    if not -len(results) <= number < len(results):
        raise ArgumentError(f"the result has {len(results):,} rows, and no row {number}")
    number %= len(results)
    batch = EventBatch.from_polars(results)
    frame = pl.DataFrame(
        [pl.Series("\0start", batch.start), pl.Series("\0end", batch.end), *batch.payload]
    )
    every = np.arange(len(flow.result))
    codes, others = code_rows(frame, _to_frame(flow.result, every))
    # equal rows are told apart by their order
    nth = int((codes[:number] == codes[number]).sum())
    same = np.flatnonzero(others == codes[number])
    return int(same[min(nth, len(same) - 1)])


def _to_frame(history: History, rows: Int64s) -> pl.DataFrame:
    times = pl.Series("\0start", history.start[rows]), pl.Series("\0end", history.end[rows])
    return pl.DataFrame([*times, *(history.payload[rows] if history.payload.width else ())])


def _read_event(event: Any) -> dict[str, Any]:
    if not isinstance(event, RowEvent):
        raise ArgumentError(
            "why takes a row of the result: an event, a mapping of its fields, or its number in "
            f"to_polars(); got {event!r}"
        )
    values = {START: event.start, **to_fields(event.payload)}
    if not (isinstance(event, EdgeEvent) and event.edge_type is EdgeType.START):
        values[END] = event.end
    return values


def _match(history: History, values: Mapping[str, Any]) -> Any:
    matches = np.ones(len(history), np.bool_)
    for name, value in values.items():
        if name == START:
            matches &= history.start == time_ticks(value)
        elif name == END:
            matches &= history.end == (MAX_TIME if value is None else time_ticks(value))
        elif name in history.payload.columns:
            matches &= _equals(history.payload.get_column(name), name, value)
        else:
            fields = ", ".join([START, END, *history.payload.columns])
            raise ArgumentError(f"the result has no field {name!r}; it has {fields}")
    return matches


def _equals(column: pl.Series, name: str, value: Any) -> Any:
    dtype = column.dtype
    try:
        given = pl.Series([value])
        wanted = given.cast(dtype)
        if value is not None and not dtype.is_temporal():
            _check_text(dtype, value)
        if _is_exact(dtype) and wanted.cast(given.dtype).ne_missing(given).any():
            return np.zeros(len(column), np.bool_)
    except (pl.exceptions.PolarsError, TypeError, OverflowError) as error:
        raise ArgumentError(f"field {name!r} is {dtype}, and {value!r} is not") from error
    return column.eq_missing(wanted.new_from_index(0, len(column))).to_numpy()


def _check_text(dtype: pl.DataType, value: Any) -> None:
    """Raise a ``TypeError`` if a text should equal a number, or a number a text."""
    if isinstance(value, str) != (dtype in TEXTS):
        raise TypeError(f"{value!r} is not {dtype}")


def _is_exact(dtype: pl.DataType) -> bool:
    """Return True if a cast to a type might silently give another value."""
    return dtype == pl.Boolean or dtype.is_integer() or dtype.is_decimal()


def _write(values: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value!r}" for name, value in values.items()) or "anything"


KIND_NAMES = pl.Series(["point", "interval", "edge start", "edge end", "cti"])
VERDICT_NAMES = pl.Series(["accepted", "adjusted", "late", "cti"])


def explain_row(flow: Flow, row: int) -> Explanation:
    """Return on which rows a row of the result stands, by its number in the result's history."""
    found = trace_roles(flow, flow.output, row)
    causes, bounds, arrivals = {}, {}, {}
    for number in _list_sources(flow):
        history, roles = flow.histories[number], found.get(number, {})
        rows = np.array(sorted(each for each in roles if roles[each] != BOUNDARY), np.int64)
        others = np.array(sorted(each for each in roles if roles[each] == BOUNDARY), np.int64)
        causes[history.name] = to_frame(history, rows, flow.time)
        bounds[history.name] = to_frame(history, others, flow.time)
        arrivals[history.name] = _list_arrivals(flow, history, rows)
    (first,) = to_frame(flow.result, np.array([row]), flow.time).to_dicts()
    parts = _trace_parts(flow, found)
    steps = [
        _describe(flow.histories[each], found[each], parts.get(each, {}))
        for each in sorted(found, reverse=True)
    ]
    return Explanation(first, causes, bounds, arrivals, tuple(steps), flow.time)


def _list_sources(flow: Flow) -> list[int]:
    """Return the sources that the result reads, directly or not."""
    read = {flow.output}
    for number in range(flow.output, -1, -1):
        if number in read:
            read.update(flow.histories[number].inputs)
    return [number for number in sorted(read) if flow.histories[number].origin]


def trace_roles(flow: Flow, number: int, row: int) -> dict[int, dict[int, int]]:
    """Return for each node the rows on which a row stands, with the strongest role of each.

    What a boundary stands on is no more than a boundary itself.
    """
    found: dict[int, dict[int, int]] = {number: {row: ROW}}
    for each in range(number, -1, -1):  # inputs have lower numbers
        causes = flow.causes(each, list(found.get(each, ())))
        for side, below in enumerate(flow.histories[each].inputs):
            mine = causes.side == side
            pairs = (causes.of[mine], causes.row[mine], causes.role[mine])
            for of, other, role in zip(*(part.tolist() for part in pairs), strict=True):
                roles = found.setdefault(below, {})
                weaker = max(role, found[each][of])
                roles[other] = min(weaker, roles.get(other, weaker))
    return found


def _trace_parts(flow: Flow, found: dict[int, dict[int, int]]) -> dict[int, dict[int, list[str]]]:
    """Return the parts that rows have in a result, for each node of the rows on which it stands.

    An operator that does not change a row leaves it the part that it has.
    """
    parts: dict[int, dict[int, list[str]]] = {}
    for each in sorted(found, reverse=True):
        above = flow.histories[each]
        names = () if above.node.operator is None else above.node.operator.cause_parts
        causes = (
            flow.causes(each, list(found[each]))
            if names or any(parts.get(each, {}).values())
            else Causes.none()
        )
        for of, side, row, part in zip(
            *(a.tolist() for a in (causes.of, causes.side, causes.row, causes.part)), strict=True
        ):
            number = above.inputs[side]
            mine = parts.setdefault(number, {}).setdefault(row, [])
            if part >= 0:
                its = [names[part]]
            elif not names and _is_same_row(above, of, flow.histories[number], row):
                its = parts[each].get(of, [])
            else:
                its = []
            mine += [name for name in its if name not in mine]
    return parts


def _is_same_row(one: History, row: int, other: History, row2: int) -> bool:
    """Return True if two rows have one lifetime and one payload."""
    times = one.start[row] == other.start[row2] and one.end[row] == other.end[row2]
    return bool(times) and one.payload[row].equals(other.payload[row2])


def to_frame(history: History, rows: Int64s, time: TimeForm) -> pl.DataFrame:
    """Return rows of a node as a frame: ``start_time``, ``end_time`` (null: never), the payload."""
    payload = history.payload[rows]
    if not payload.width:
        payload = pl.DataFrame(height=len(rows))
    start, end = history.start[rows], history.end[rows]
    if {START, END} & set(payload.columns):  # inside a query a field may have such a name
        payload = payload.rename({name: f"{name} (field)" for name in payload.columns})
    return EventBatch.of_rows(start, end, payload, 0).to_polars(time)


def _describe(
    history: History, roles: dict[int, int], parts: dict[int, list[str]]
) -> ExplainedStep:
    # rows before those that only bound it or came before
    rows = sorted(roles, key=lambda row: (roles[row], row))
    shown = [
        CausedRow(
            int(history.start[row]),
            int(history.end[row]),
            history.payload.row(row, named=True) if history.payload.width else {},
            name_role(roles[row]),
            " ".join(parts.get(row, ())),
        )
        for row in rows[:MOST_ROWS]
    ]
    return ExplainedStep(
        history.number, history.name, history.line, history.inputs, len(rows), tuple(shown)
    )


def _list_arrivals(flow: Flow, history: History, rows: Int64s) -> pl.DataFrame:
    """Return the arrivals that brought rows of a source."""
    arrivals = flow.arrivals[history.origin]
    at = flow.find_arrivals(history.number, rows)
    if history.name == history.origin:
        cause = np.searchsorted(rows, arrivals.row[at])
    else:  # of a stream of late events each row is one arrival
        cause = np.arange(len(at))
    late_by: Any = pl.Series("late_by", arrivals.by[at])
    return pl.DataFrame(
        [
            pl.Series("cause", cause, pl.Int64),
            pl.Series("position", arrivals.position[at], pl.Int64),
            KIND_NAMES.gather(arrivals.kind[at].tolist()).alias("kind"),
            time_series(START, arrivals.start[at], flow.time),
            time_series(END, arrivals.end[at], flow.time, endless=True),
            VERDICT_NAMES.gather(arrivals.verdict[at].tolist()).alias("verdict"),
            arrivals.reason.gather(at.tolist()).alias("reason"),
            late_by if flow.time == "ticks" else late_by.cast(pl.Duration("us")),
            arrivals.input.gather(at.tolist()).alias("input"),
        ]
    )
