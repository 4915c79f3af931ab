"""The oracle, lifetimes: the operators that change when rows are alive, and what goes row by row.

Each model takes the rows of a canonical history and returns those of the result. A `key` names
the fields of `group_by`; a model without one is run for each key by `per_key`. The functions
`cti_...` give the output CTI for an input CTI t; an operator that has none here passes t on.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import groupby, pairwise
from typing import Any

from oracle import (
    MAX_TIME,
    MIN_TIME,
    Event,
    Payload,
    Row,
    Window,
    freeze,
    groups,
    lifetime,
    saturate,
    shift_time,
)

MANY = 100_000  # what a model counts out one by one before it gives up

TimeFunction = Callable[[int], int]
Duration = Callable[[Row], int] | int


class UnboundedWindow(Exception):  # noqa: N818 (as the error of the same meaning is called)
    """All pieces or windows were asked for of a row that never ends."""


class TooMany(Exception):  # noqa: N818
    """More pieces or windows than a model counts out: rows that reach an end of time."""


# what the models share


def lasting(start: int, duration: int, payload: Payload) -> list[Row]:
    """The row of that duration, or none: “a row whose lifetime becomes empty is no row”.

    It is measured from the tick at which it starts, also from MIN_TIME: a point there is one.
    """
    end = saturate(start + duration)
    return [Row(start, end, payload)] if start < end else []


def through(f: TimeFunction, t: int) -> int:
    """“Sending them through a user's time function leaves them as they are”, the infinities."""
    return t if t in (MIN_TIME, MAX_TIME) else saturate(f(t))


def counted(numbers: range) -> range:
    """The numbers, if they are not too many to be gone through."""
    if len(numbers) > MANY:
        raise TooMany(f"{len(numbers)} of them, at most {MANY}")
    return numbers


def place(value: Any) -> tuple[Any, ...]:
    """Return a value's sort key: “nulls first”; NaN last, as in polars."""
    if value is None:
        return (0,)
    return (2,) if isinstance(value, float) and math.isnan(value) else (1, value)


def ordered(rows: Iterable[Row]) -> list[Row]:
    """“User code gets rows by (start, payload in schema order, nulls first)”.

    Rows of equal start and payload are told apart by nothing that user code may see; here the
    one that ends first goes first.
    """
    return sorted(rows, key=lambda row: (row.start, [*map(place, row.payload.values())], row.end))


def per_key(
    rows: Iterable[Row], key: Sequence[str], model: Callable[[list[Row]], list[Row]]
) -> list[Row]:
    """“Everything after group_by is per key”; a lifetime operator keeps the payload as it is."""
    return [row for _, members in groups(rows, key) for row in model(members)]


def by_value(rows: Iterable[Row]) -> list[list[Row]]:
    """The rows of each payload: “in distinct and stitch null equals null”."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(freeze(row.payload), []).append(row)
    return list(found.values())


def open_rows(events: Iterable[Event]) -> list[tuple[int, Any]]:
    """(start, payload) of the start edges that have no end edge yet."""
    opened: list[tuple[int, Any]] = []
    for event in events:
        if event[0] == "start":
            opened.append((event[1], freeze(event[-1])))
        elif event[0] == "end":
            opened.remove((event[1], freeze(event[-1])))
    return opened


# altered lifetimes


def alter_event_lifetime(
    rows: Iterable[Row], f: TimeFunction, g: Duration, reads_end: bool = True
) -> list[Row]:
    """“Start f(start), then duration g(row)”; g, or a number, is of the row as it came in.

    “If g names no end rows are complete at once, else an open row stays open.” “A duration that
    is not positive is an error in every shape.”
    """
    altered: list[Row] = []
    for row in rows:
        start = through(f, row.start)
        if callable(g) and reads_end and row.end == MAX_TIME:
            altered += lasting(start, MAX_TIME - start, row.payload)
            continue
        duration = g(row) if callable(g) else g
        if duration <= 0:
            raise ValueError(f"the duration of {row} is {duration}")
        altered += lasting(start, duration, row.payload)
    return altered


def alter_event_start_time(rows: Iterable[Row], f: TimeFunction) -> list[Row]:
    """“The same with the other part kept (the duration)”: a row that never ends never ends."""
    return alter_event_lifetime(rows, f, lambda row: row.end - row.start)


def alter_event_duration(rows: Iterable[Row], g: Duration, reads_end: bool = True) -> list[Row]:
    """“The same with the other part kept (the start)”."""
    return alter_event_lifetime(rows, lambda t: t, g, reads_end)


def to_point_events(rows: Iterable[Row]) -> list[Row]:
    """“[start, start + 1 tick)”."""
    return [point for row in rows for point in lasting(row.start, 1, row.payload)]


def point_at_end(rows: Iterable[Row]) -> list[Row]:
    """“[end, end + 1 tick) (rows that never end give none)”."""
    return [p for row in rows if row.end < MAX_TIME for p in lasting(row.end, 1, row.payload)]


def extend_lifetime(rows: Iterable[Row], d: int) -> list[Row]:
    """“End moved by d; with d < 0 rows not longer than -d vanish”."""
    moved = [row._replace(end=shift_time(row.end, d)) for row in rows]
    return [row for row in moved if row.start < row.end]


def clip_to_limit(rows: Iterable[Row], limit: int) -> list[Row]:
    """“End at most start + limit; rows that never end do”."""
    return [row._replace(end=min(row.end, saturate(row.start + limit))) for row in rows]


def to_signal(rows: Iterable[Row], on: Sequence[str] = (), null_matches: bool = False) -> list[Row]:
    """“Each lasts until the next one of the same key (two at the same tick both live on)”.

    “Only starts count.” “In `on`, null matches nothing”: such a row lives on for ever. Without
    `on` all rows share one key.
    """
    signal: list[Row] = []
    for fields, members in groups(rows, on):
        alone = not null_matches and None in fields.values()
        for row in members:
            later = [other.start for other in members if other.start > row.start and not alone]
            signal.append(row._replace(end=min(later, default=MAX_TIME)))
    return signal


def linear_signal(
    rows: Iterable[Row],
    fields: Sequence[str],
    on: Sequence[str] = (),
    max_gap: int | None = None,
    null_matches: bool = False,
) -> list[Row]:
    """“Between two readings the value moves along a straight line”; each row knows both.

    “A reading whose successor does not come within `max_gap`, or at all, is a point”. Of readings
    that start together the successor is the first in order.
    """
    signal: list[Row] = []
    for _, members in groups(rows, on):
        in_order = ordered(row._replace(end=row.start + 1) for row in members)
        for row in in_order:
            ends = row
            if null_matches or all(row.payload[name] is not None for name in on):
                ends = next((other for other in in_order if other.start > row.start), row)
            if max_gap is not None and ends.start - row.start > max_gap:
                ends = row
            end = row.end if ends is row else ends.start
            line: Payload = {}
            for name in fields:
                line |= {f"{name}_after": ends.payload[name], f"{name}_line_start": row.start}
                line |= {f"{name}_line_end": end}
            signal.append(Row(row.start, end, row.payload | line))
    return signal


def read_line(payload: Payload, field: str, at: Fraction | int) -> float | Fraction | None:
    """The value of a line at a time; “NaN if an end is not finite”."""
    before, after = payload[field], payload[f"{field}_after"]
    if before is None or after is None:
        return None
    if not (math.isfinite(before) and math.isfinite(after)):
        return math.nan
    first, last = payload[f"{field}_line_start"], payload[f"{field}_line_end"]
    passed = Fraction(at - first) / (last - first)
    return Fraction(before) + (Fraction(after) - Fraction(before)) * passed


def drop_lines(rows: Iterable[Row], fields: Sequence[str]) -> list[Row]:
    """Points with “the values of linear fields at that time”."""
    parts = "after", "line_start", "line_end"
    gone = {f"{name}_{part}" for name in fields for part in parts}
    points: list[Row] = []
    for row in rows:
        values = {name: read_line(row.payload, name, row.start) for name in fields}
        values = {name: None if each is None else float(each) for name, each in values.items()}
        payload = {name: each for name, each in row.payload.items() if name not in gone}
        points.append(row._replace(payload=payload | values))
    return points


def reference(
    rows: Iterable[Row], on: Sequence[str], since: Callable[[Row], int] | None = None
) -> list[Row]:
    """“Of the rows of a key that have begun, the one with the latest start is valid, and of equal
    starts the one that was told last.” Rows in the order in which they were told.

    `since` gives the start that a row was told with, where it begins later, at the CTI.
    """
    found: list[Row] = []
    for _, members in groups(rows, on):
        ranks = [(since(row) if since else row.start, row.start, n)
                 for n, row in enumerate(members)]  # fmt: skip
        starts = sorted({row.start for row in members})
        best = [max(rank for rank in ranks if rank[1] <= start)[2] for start in starts]
        for number, same in groupby(zip(best, starts, strict=True), key=lambda each: each[0]):
            times = [start for _, start in same]
            end = next((start for start in starts if start > times[-1]), MAX_TIME)
            found.append(members[number]._replace(start=times[0], end=end))
    return found


# cut and joined lifetimes


def chop(rows: Iterable[Row], period: int, offset: int = 0, upto: int | None = None) -> list[Row]:
    """“Lifetimes cut at every boundary strictly inside”, boundaries at offset + n x period.

    “Of an endless row, the pieces up to the CTI, and at the end of time UnboundedWindowError”:
    with `upto` those that start before it, each to its boundary; without, the error.
    """
    pieces: list[Row] = []
    for start, end, payload in rows:
        if end == MAX_TIME and upto is None:
            raise UnboundedWindow(f"[{start}, never) has no last piece")
        limit = MAX_TIME if upto is None or end < MAX_TIME else upto
        first = offset + ((start - offset) // period + 1) * period
        inside = counted(range(first, min(end, limit + period), period))
        cuts = pairwise([start, *inside, end])
        pieces += [Row(s, e, payload) for s, e in cuts if s < limit]
    return pieces


def sample(rows: Iterable[Row], every: int, offset: int = 0, upto: int | None = None) -> list[Row]:
    """“The rows alive at each multiple of `every`, as points there”.

    Of an endless row those before `upto`; without it, the error.
    """
    points: list[Row] = []
    for start, end, payload in rows:
        if end == MAX_TIME and upto is None:
            raise UnboundedWindow(f"[{start}, never) has no last point")
        limit = end if end < MAX_TIME or upto is None else upto
        first = offset + -((offset - start) // every) * every
        points += [Row(t, t + 1, payload) for t in counted(range(first, limit, every))]
    return points


def deadband(rows: Iterable[Row], field: str, by: float, keys: Sequence[str] = ()) -> list[Row]:
    """“A reading passes if it differs by more than `by` from the last that passed”."""

    def judge(state: Any, start: int, payload: Any) -> Any:
        value = payload[field]
        number = value is not None and value == value
        if not state:
            passes = True
        elif number and state[0] == "number":
            passes = abs(float(value) - float(state[1])) > by
        else:
            kind = "number" if number else "null" if value is None else "nan"
            passes = kind != state[0]
        if not passes:
            return state, None
        return ("number" if number else "null" if value is None else "nan", value), payload

    return scan(rows, (), judge, keys)


def previous(
    rows: Iterable[Row],
    fields: Sequence[str],
    keys: Sequence[str] = (),
    n: int = 1,
    max_gap: int | None = None,
) -> list[Row]:
    """“Fields <name>_before and time_before of the n-th reading before, null if there is none”.

    With `max_gap` also null if that began earlier than so many ticks before.
    """

    def look_back(state: Any, start: int, payload: Any) -> Any:
        before = state[-n] if len(state) >= n else None
        if before is not None and max_gap is not None and start - before[0] > max_gap:
            before = None
        added = {f"{name}_before": before and before[1][name] for name in fields}
        row = payload | added | {"time_before": None if before is None else before[0]}
        return [*state, (start, payload)], row

    return scan(rows, [], look_back, keys)


def compare_neighbours(
    rows: Iterable[Row], fields: Sequence[str], keys: Sequence[str] = ()
) -> list[Row]:
    """Rows with “rises between neighbouring readings”, “a fall is a reset and counts from zero”.

    Each field ``f`` of a number gives ``f increase`` and ``f resets``, and any one ``f changes``.
    Null is no reading; for the first two NaN is none, but its own rise is NaN.
    """

    def compare(state: dict[str, Any], start: int, payload: Any) -> Any:
        state, made = dict(state), dict(payload)
        for field in fields:
            value = payload[field]
            number = isinstance(value, (int, float))
            for kind in ("increase", "resets", "changes"):
                before = state.get(f"{field} {kind}")
                made[f"{field} {kind}"] = None
                if value is None:
                    continue
                same = value == before or (number and value != value and before != before)
                counts = kind == "changes" or (number and value == value)
                if counts:
                    state[f"{field} {kind}"] = value
                if before is None:
                    continue
                if kind == "changes":
                    made[f"{field} {kind}"] = int(not same)
                elif number:
                    fell = value < before
                    rise = value if fell else value - before
                    made[f"{field} {kind}"] = int(fell) if kind == "resets" else rise
        return state, made

    return scan(rows, {}, compare, keys)


def stitch(rows: Iterable[Row]) -> list[Row]:
    """“Touching lifetimes of equal payload joined”; equal payloads that overlap stay rows apart.

    “Where several rows end at the same boundary the one with the oldest start goes on”: of the
    chains that end where n rows start, the n oldest. Which of these n rows goes on which chain
    nothing says (they differ in their ends alone); here the later a row ends the older its chain.
    """
    stitched: list[Row] = []
    for members in by_value(rows):
        chains: list[tuple[int, int]] = []
        in_time = sorted((row.start, row.end) for row in members)
        for boundary, starting in groupby(in_time, key=lambda times: times[0]):
            ends = [end for _, end in starting]
            going_on = sorted(start for start, end in chains if end == boundary)[: len(ends)]
            for start in going_on:
                chains.remove((start, boundary))
            own = [boundary] * (len(ends) - len(going_on))
            chains += zip([*own, *reversed(going_on)], ends, strict=True)
        stitched += [Row(start, end, members[0].payload) for start, end in chains]
    return stitched


def distinct(rows: Iterable[Row], fields: Sequence[str] = ()) -> list[Row]:
    """“Payload = the named fields (all if none): one row for each maximal stretch in which the
    value is alive”; stretches that touch are one.
    """
    named = [
        row._replace(payload={name: row.payload[name] for name in fields or row.payload})
        for row in rows
    ]
    return [row for members in by_value(named) for row in _stretches(members)]


def _stretches(rows: list[Row]) -> list[Row]:
    merged: list[Row] = []
    for row in sorted(rows, key=lambda row: row.start):
        if merged and row.start <= merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, row.end))
        else:
            merged.append(row)
    return merged


# sessions


def sessions(rows: Iterable[Row], timeout: int, max_duration: int | None = None) -> list[Window]:
    """The sessions of one key: [first start, last start + timeout or the cap), and their rows.

    “Rows whose starts follow each other by less than `timeout` share a session (a gap of exactly
    `timeout` closes)”; “the session ends at the cap if that is earlier”.
    """
    found: list[Window] = []
    cap = MAX_TIME
    for row in sorted(rows, key=lambda row: row.start):
        end = row.start + timeout
        if found and row.start < found[-1].end:
            start, members = found[-1].start, found.pop().rows
        else:
            # less than `timeout` after a start, only a cap can have closed the session
            after_cap = bool(found) and row.start < found[-1].rows[-1].start + timeout
            cap = session_cap(row.start, max_duration, after_cap)
            start, members = row.start, []
        found.append(Window(start, saturate(min(end, cap)), [*members, row]))
    return found


def session_cap(first: int, max_duration: int | None, after_cap: bool = False) -> int:
    """“With c = snap(first start, 0, M), the cap is c + M if the session starts at c, or starts
    *less than* `timeout` after the last start of a session that its cap closed; else c + 2M”.
    """
    if max_duration is None:
        return MAX_TIME
    c = first // max_duration * max_duration
    return saturate(c + max_duration * (1 if first == c or after_cap else 2))


def session_lifetimes(
    rows: Iterable[Row], timeout: int, max_duration: int | None = None, key: Sequence[str] = ()
) -> list[Row]:
    """“Each row lives from its start to the session's end”; “only starts count”."""
    return [
        row._replace(end=window.end)
        for _, members in groups(rows, key)
        for window in sessions(members, timeout, max_duration)
        for row in window.rows
    ]


# row by row


def explode(rows: Iterable[Row], field: str) -> list[Row]:
    """“One row for each element of a list field; an empty or null list gives none”."""
    return [
        row._replace(payload=row.payload | {field: element})
        for row in rows
        for element in row.payload[field] or ()
    ]


def scan(
    rows: Iterable[Row],
    seed: Any,
    fn: Callable[[Any, int, Payload], tuple[Any, Any]],
    key: Sequence[str] = (),
) -> list[Row]:
    """“Takes each row once, in order of start; sees start and payload, never the end; what it
    returns lives as long as the row”: None, a payload or several. Each key has its own state.
    """
    results: list[Row] = []
    for fields, members in groups(rows, key):
        state = copy.deepcopy(seed)
        for row in ordered(members):
            state, result = fn(state, row.start, row.payload)
            payloads = [result] if isinstance(result, dict) else result or []
            results += [row._replace(payload=fields | payload) for payload in payloads]
    return results


# CTIs


def cti_shift_event_time(t: int, d: int) -> int:
    """“t + d”."""
    return shift_time(t, d)


def cti_alter_event_lifetime(t: int, f: TimeFunction) -> int:
    """“f(t)”, of alter_event_start_time too; alter_event_duration passes t on."""
    return through(f, t)


def cti_extend_lifetime(t: int, events: Iterable[Event], d: int) -> int:
    """“t; with d < 0 and rows still open: min(t, max(t + d, start of the oldest open row))”.

    The events are those that came before the CTI; an interval to MAX_TIME is complete, not open.
    """
    starts = [start for start, _ in open_rows(events)]
    return min(t, max(shift_time(t, d), min(starts))) if d < 0 and starts else t


def cti_linear_signal(
    t: int,
    events: Iterable[Event],
    on: Sequence[str] = (),
    max_gap: int | None = None,
    null_matches: bool = False,
) -> int:
    """“min(t, oldest reading that waits)”: for the next, or for its gap to pass; null waits not."""
    if t == MAX_TIME:
        return t
    held = [t]
    for members in starts_by_key(events, on):
        if not null_matches and any(members[0].payload[name] is None for name in on):
            continue
        latest = max((row.start for row in members if row.start < t), default=t)
        if max_gap is None or latest + max_gap >= t:
            held.append(latest)
    return min(held)


def starts_by_key(events: Iterable[Event], key: Sequence[str]) -> list[list[Row]]:
    """The rows of each key as far as they came: their starts count, whatever their ends."""
    rows = [Row(*lifetime(event), event[-1]) for event in events if event[0] not in ("end", "cti")]
    return [members for _, members in groups(rows, key)]
