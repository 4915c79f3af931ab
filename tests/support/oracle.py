"""The oracle: every operator as its definition, in plain Python, slow and short.

It works on *canonical histories*: lists of rows (start, end, payload), lifetimes half-open, end
edges applied. Times are integer ticks. Physical streams are lists of tuples in arrival order:

    ("point", start, payload)          lives for one tick
    ("interval", start, end, payload)  both ends known
    ("start", start, payload)          a start edge: open, [start, MAX_TIME) until its end edge
    ("end", start, end, payload)       its end edge: names start and payload, gives the real end
    ("cti", t)                         nothing before t changes any more
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

MIN_TIME = -62_135_596_800_000_000  # minus infinity
MAX_TIME = 253_402_300_799_999_999  # plus infinity: never ends

Payload = Any  # a dict or a tuple; fields are reached by payload[name or position]
Event = tuple[Any, ...]
Aggregate = Callable[[list[Payload]], Any]


class Row(NamedTuple):
    """A row of a canonical history, alive during [start, end)."""

    start: int
    end: int
    payload: Payload


class Window(NamedTuple):
    """A window [start, end) and the rows that it holds."""

    start: int
    end: int
    rows: list[Row]


class CtiViolation(Exception):  # noqa: N818 (the field's term)
    """A stream without a policy broke a promise."""


class _NaN:
    """Stands for NaN where values are compared, since it equals itself."""

    def __repr__(self) -> str:
        return "NaN"


NAN = _NaN()


# values and times


def freeze(value: Any) -> Any:
    """`value` as a key: “NaN equals NaN and -0.0 equals 0.0 wherever a value is a key”."""
    if isinstance(value, dict):
        return tuple(sorted(((k, freeze(v)) for k, v in value.items()), key=repr))
    if isinstance(value, list | tuple):
        return tuple(freeze(v) for v in value)
    if isinstance(value, float) and math.isnan(value):
        return NAN
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return int(value)  # True == 1 == 1.0, as in Python; their repr must be one too
    return value


def saturate(t: int) -> int:
    """“Other results saturate; nothing wraps.”"""
    return max(MIN_TIME, min(MAX_TIME, t))


def shift_time(t: int, d: int) -> int:
    """“MIN_TIME, MAX_TIME: adding to them leaves them as they are. Other results saturate.”"""
    return t if t in (MIN_TIME, MAX_TIME) else saturate(t + d)


def _row(start: int, end: int, payload: Payload) -> list[Row]:
    """“A row whose lifetime becomes empty by saturation is no row.”"""
    start, end = saturate(start), saturate(end)
    return [Row(start, end, payload)] if start < end else []


# physical streams and canonical histories


def lifetime(event: Event) -> tuple[int, int]:
    """“Point: end = start + 1 tick. Interval: both known. A start edge says [start, MAX_TIME).”"""
    ends = {"point": event[1] + 1, "start": MAX_TIME}
    return event[1], ends[event[0]] if event[0] in ends else event[2]


def canonical(events: Iterable[Event]) -> list[Row]:
    """“The multiset of (payload, start, end) that a stream describes once end edges are applied”.

    “Identical open rows are closed oldest arrival first.” An end edge without an open row is an
    error here: what a policy does with it is decided by `door` and the subject, before this.
    """
    rows: list[Row] = []
    open_rows: list[int] = []
    for event in events:
        if event[0] == "cti":
            continue
        if event[0] == "end":
            _, start, end, payload = event
            named = (start, freeze(payload))
            found = [i for i in open_rows if (rows[i].start, freeze(rows[i].payload)) == named]
            if not found or end <= start:
                raise ValueError(f"{event} closes no open row")
            open_rows.remove(found[0])
            rows[found[0]] = rows[found[0]]._replace(end=end)
            continue
        if event[0] == "start":
            open_rows.append(len(rows))
        rows.append(Row(*lifetime(event), event[-1]))
    return rows


def violation(events: Iterable[Event]) -> str | None:
    """Why a stream is not legal, or None: the promise of a CTI, word by word.

    “Every later point, interval or start edge has start >= t, every later end edge has end >= t”;
    CTIs never go back; a lifetime is not empty; an end edge names an open row.
    """
    cti, open_rows = MIN_TIME, []
    for i, event in enumerate(events):
        if event[0] == "cti":
            if event[1] < cti:
                return f"event {i}: {event} goes back behind CTI {cti}"
            cti = event[1]
            continue
        start, end = lifetime(event)
        if not MIN_TIME <= start < end <= MAX_TIME:
            return f"event {i}: {event} has no lifetime"
        if (end if event[0] == "end" else start) < cti:
            return f"event {i}: {event} violates CTI {cti}"
        name = (start, freeze(event[-1]))
        if event[0] == "start":
            open_rows.append(name)
        elif event[0] == "end":
            if name not in open_rows:
                return f"event {i}: {event} closes no open row"
            open_rows.remove(name)
    return None


def clip(rows: Iterable[Row], t: int) -> list[Row]:
    """The history before t: “(payload, start, min(end, t)) of the rows with start < t”."""
    return [Row(r.start, min(r.end, t), r.payload) for r in rows if r.start < t]


def history(rows: Iterable[Row]) -> list[tuple[int, int, Any]]:
    """The multiset as a sorted list, payloads frozen: comparable with ==, readable in a diff."""
    frozen = [(row.start, row.end, freeze(row.payload)) for row in rows]
    return sorted(frozen, key=lambda row: (row[0], row[1], repr(row[2])))


def equal_up_to(
    a: Iterable[Row],
    b: Iterable[Row],
    t: int = MAX_TIME,
    tolerance: Callable[[Row], float] | float = 0.0,
) -> bool:
    """“The multisets of (payload, start, min(end, t)) of the rows with start < t are equal”.

    “Floats that come from arithmetic compare within the tolerance”: absolute, a number or (see
    `sum_tolerance`) a function of the row of `a`. It applies to float fields only.
    """
    left, right = clip(a, t), clip(b, t)
    if not tolerance:
        return history(left) == history(right)
    allowed = tolerance if callable(tolerance) else lambda _: tolerance
    near = [[j for j, r in enumerate(right) if _near(row, r, allowed(row))] for row in left]
    return len(left) == len(right) and _paired_off(near)


def _near(a: Row, b: Row, allowed: float) -> bool:
    if a[:2] != b[:2] or type(a.payload) is not type(b.payload) or len(a.payload) != len(b.payload):
        return False
    names = a.payload if isinstance(a.payload, dict) else range(len(a.payload))
    if isinstance(b.payload, dict) and set(names) != set(b.payload):
        return False
    return all(_near_value(a.payload[name], b.payload[name], allowed) for name in names)


def _near_value(a: Any, b: Any, allowed: float) -> bool:
    if freeze(a) == freeze(b):
        return True
    return isinstance(a, float) and isinstance(b, float) and abs(a - b) <= allowed < math.inf


def _paired_off(near: Sequence[Sequence[int]]) -> bool:
    """Can each i have a j of `near[i]` to itself? (bipartite matching by augmenting paths)"""
    owner: dict[int, int] = {}

    def place(i: int, tried: set[int]) -> bool:
        for j in near[i]:
            if j not in tried:
                tried.add(j)
                if j not in owner or place(owner[j], tried):
                    owner[j] = i
                    return True
        return False

    return all(place(i, set()) for i in range(len(near)))


# operators on histories


def where(rows: Iterable[Row], predicate: Callable[[Payload], Any]) -> list[Row]:
    """“Rows whose payload satisfies it; null is false.”"""
    return [row for row in rows if predicate(row.payload)]


def select(rows: Iterable[Row], fields: Callable[[Payload], Payload]) -> list[Row]:
    """“New payload, same lifetime.”"""
    return [row._replace(payload=fields(row.payload)) for row in rows]


def shift_event_time(rows: Iterable[Row], d: int) -> list[Row]:
    """“Both ends moved by d” (and a CTI at t becomes `shift_time(t, d)`)."""
    return [
        moved
        for row in rows
        for moved in _row(shift_time(row.start, d), shift_time(row.end, d), row.payload)
    ]


def first_window_ending_after(t: int, d: int, p: int, a: int = 0) -> int:
    """The smallest n with a + np + d > t."""
    return (t - a - d) // p + 1


def last_window_starting_before(t: int, p: int, a: int = 0) -> int:
    """The greatest n with a + np < t."""
    return -((a - t) // p) - 1


def snap_time(t: int, d: int, p: int, a: int = 0) -> int:
    """The altered start (and the altered CTI) for t: the end of the first window ending after t."""
    if t in (MIN_TIME, MAX_TIME):
        return t
    return saturate(a + first_window_ending_after(t, d, p, a) * p + d)


def snap_to_window_intervals(rows: Iterable[Row], d: int, p: int, a: int = 0) -> list[Row]:
    """“Each row's lifetime altered to cover the assigned interval of every window it touches”.

    The windows are [a + np, a + np + d) for every integer n; a window that ends at e is assigned
    [e, e + p), until the next one ends. “Gaps are allowed (p > d): rows that touch no window are
    dropped.” A row from MIN_TIME on touches all early windows, one that never ends all late ones.
    """
    snapped: list[Row] = []
    for start, end, payload in rows:
        last = last_window_starting_before(end, p, a)
        altered_end = MAX_TIME if end == MAX_TIME else a + last * p + d + p
        snapped += _row(snap_time(start, d, p, a), altered_end, payload)  # in a gap: nothing left
    return snapped


def snapshot_windows(rows: Iterable[Row]) -> list[Window]:
    """“One window for each maximal stretch in which the set of rows alive does not change”.

    “None where it is empty.” Rows are told apart: where one ends and an equal one starts, the set
    changes; neighbouring windows with equal contents stay separate.
    """
    rows = list(rows)
    edges = sorted({t for row in rows for t in row[:2]})
    windows = [
        Window(s, e, [row for row in rows if row.start < e and row.end > s])
        for s, e in pairwise(edges)
    ]
    return [window for window in windows if window.rows]


def hopping_window2(rows: Iterable[Row], d: int, p: int, a: int = 0) -> list[Window]:
    """“Snap, then snapshot windows: output only where the input changes”."""
    return snapshot_windows(snap_to_window_intervals(rows, d, p, a))


def groups(rows: Iterable[Row], key: Sequence[Any]) -> list[tuple[dict[Any, Any], list[Row]]]:
    """The rows of each key, with the key's fields: “in group_by null equals null”."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        found.setdefault(freeze([row.payload[name] for name in key]), []).append(row)
    return [({name: g[0].payload[name] for name in key}, g) for g in found.values()]


def snapshot_aggregate(
    rows: Iterable[Row], aggregates: dict[str, Aggregate], key: Sequence[Any] = ()
) -> list[Row]:
    """“One row for each window (and key)”, which lives for the whole window, the keys first."""
    results: list[Row] = []
    for fields, members in groups(rows, key):
        for start, end, alive in snapshot_windows(members):
            payloads = [row.payload for row in alive]
            values = {name: aggregate(payloads) for name, aggregate in aggregates.items()}
            results.append(Row(start, end, fields | values))
    return results


# aggregates: each takes the payloads alive in a window; "nulls are ignored"


def _values(payloads: list[Payload], field: Any) -> list[Any]:
    return [p[field] for p in payloads if p[field] is not None]


def count(field: Any = None) -> Aggregate:
    """“count() counts rows, count(x) non-nulls”."""
    return lambda payloads: len(payloads if field is None else _values(payloads, field))


def exact_sum(values: list[Any]) -> int | float:
    """The correctly rounded sum; NaN and infinities as plain adding has them.

    “The sum of nothing is 0”; “an integer sum that overflows is an error”.
    """
    if all(isinstance(v, int) for v in values):
        total = sum(values)
        if not -(2**63) <= total < 2**63:
            raise OverflowError(f"{total} is not an Int64")
        return total
    strange = [v for v in values if not math.isfinite(v)]
    if strange:
        return sum(strange)
    exact = sum(map(Fraction, values))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def sum_(field: Any) -> Aggregate:
    """The sum of the non-nulls: “sum of any integer or bool Int64, of floats Float64”."""
    return lambda payloads: exact_sum(_values(payloads, field))


def avg(field: Any) -> Aggregate:
    """The sum over the number of non-nulls, a float; “avg of nothing is null”."""

    def average(payloads: list[Payload]) -> float | None:
        values = _values(payloads, field)
        return exact_sum(values) / len(values) if values else None

    return average


def _extreme(pick: Callable[[list[Any]], Any], field: Any) -> Aggregate:
    def extreme(payloads: list[Payload]) -> Any:
        values = _values(payloads, field)
        ordered = [v for v in values if v == v] or values
        return pick(ordered) if ordered else None

    return extreme


def min_(field: Any) -> Aggregate:
    """The least non-null; NaN only if there is nothing else; “min of nothing is null”."""
    return _extreme(min, field)


def max_(field: Any) -> Aggregate:
    """The greatest non-null; NaN only if there is nothing else; “max of nothing is null”."""
    return _extreme(max, field)


def sum_tolerance(
    rows: Iterable[Row], field: Any, key: Sequence[Any] = ()
) -> Callable[[Row], float]:
    """Return the permitted error of sums and averages of `field`, by row of `snapshot_aggregate`.

    “Below 1e-12 x the largest absolute partial sum since the aggregate was last empty”: bounded
    from above by the finite absolute values alive in a window and in the one that it touches, for
    rows may be added before others are removed.
    """
    allowed: dict[Any, float] = {}
    for fields, members in groups(rows, key):
        largest, before, end = 0.0, 0.0, None
        for w in snapshot_windows(members):
            largest, before = (largest, before) if w.start == end else (0.0, 0.0)
            alive = _values([r.payload for r in w.rows], field)
            size = math.fsum(abs(v) for v in alive if math.isfinite(v))
            largest, before, end = max(largest, before + size), size, w.end
            allowed[freeze(list(fields.values())), w.start] = 1e-12 * largest
    return lambda row: allowed.get((freeze([row.payload[name] for name in key]), row.start), 0.0)


# advancing time


class Late(NamedTuple):
    """An event that was dropped or adjusted: as it was sent, the CTI reached then, and why."""

    event: Event
    cti: int
    reason: str  # "dropped", "adjusted", "no open row" or "end moved"
    source: str | None = None


class Gate:
    """Judges events one at a time, in the order in which they are accepted."""

    def __init__(self, policy: str | None) -> None:
        if policy not in ("drop", "adjust", None):
            raise ValueError(f"the policy is 'drop', 'adjust' or None, got {policy!r}")
        self.policy = policy
        self.cti = MIN_TIME  # says nothing yet, so the first CTI goes through whatever it says
        self.promised = False
        self.open_rows: list[tuple[Any, int]] = []  # (source, start sent, payload), start now
        self.out: list[Event] = []
        self.late: list[Late] = []

    def advance(self, t: int) -> None:
        """“CTIs at or below the one reached are not passed on”; without a policy none goes back."""
        if t < self.cti and self.policy is None:
            raise CtiViolation(f"CTI {t} goes back behind {self.cti}")
        if t > self.cti or not self.promised:
            self.cti, self.promised = t, True
            self.out.append(("cti", t))

    def accept(self, event: Event, source: str | None = None) -> None:
        """Passes an event that is not a CTI on, as it is or adjusted, or drops it."""
        out, reason = (self._end if event[0] == "end" else self._insert)(event, source)
        if reason and self.policy is None:
            raise CtiViolation(f"{event} at CTI {self.cti}: {reason}")
        if reason:
            self.late.append(Late(event, self.cti, reason, source))
        if out:
            self.out.append(out)

    def _insert(self, event: Event, source: str | None) -> tuple[Event | None, str | None]:
        """“If its lifetime reaches past the CTI its start becomes the CTI; else it is dropped”.

        That is ADJUST; DROP drops. “A start that was adjusted keeps its identity”; “nothing is
        remembered of a dropped start”.
        """
        start, end = lifetime(event)
        late = start < self.cti
        if late and (self.policy == "drop" or end <= self.cti):
            return None, "dropped"
        now = max(start, self.cti)
        if event[0] == "start":
            self.open_rows.append(((source, start, freeze(event[-1])), now))
        return (event[0], now, *event[2:]), "adjusted" if late else None

    def _end(self, event: Event, source: str | None) -> tuple[Event | None, str | None]:
        """“A late end edge is moved to the CTI, or one tick after its row's start if later”.

        It names the start as it was sent, and leaves naming the start of the row as it left.
        “An end edge that finds no open row is dropped and counted under no open row”; “identical
        open rows are closed oldest arrival first”.
        """
        _, start, end, payload = event
        name = (source, start, freeze(payload))
        found = [row for row in self.open_rows if row[0] == name]
        if not found:
            return None, "no open row"
        self.open_rows.remove(found[0])
        now = found[0][1]
        moved = max(end, self.cti, now + 1)
        return ("end", now, moved, payload), "end moved" if moved > end else None


def door(
    events: Iterable[Event],
    *,
    every: int | None = None,
    span: int | None = None,
    delay: int = 0,
    policy: str | None = "drop",
    to_infinity: bool = True,
) -> tuple[list[Event], list[Late]]:
    """One stream with advance-time settings, to its end: what it puts out, and what was late.

    “Every N-th event that comes from the source makes a CTI due (dropped ones count, end edges
    never do). With a span T, the first start makes one due, then each start at least T after the
    start that made the last one due. It is made after the event, at (the start as sent - delay),
    whether the event was kept or not. One that would not advance is not made, but counts as
    having been due.” CTIs among the events are enqueued or imported ones. On completion a CTI at
    the end of time follows if the flag says so, or if nothing is generated.
    """
    gate, inserts, last_due = Gate(policy), 0, None
    for event in events:
        if event[0] == "cti":
            gate.advance(event[1])
            continue
        gate.accept(event)
        if event[0] == "end":
            continue
        start, inserts = event[1], inserts + 1
        due = every is not None and inserts % every == 0
        if span is not None and (last_due is None or start >= shift_time(last_due, span)):
            due, last_due = True, start
        if due:
            gate.advance(shift_time(start, -delay))
    if to_infinity or (every is None and span is None):
        gate.advance(MAX_TIME)
    return gate.out, gate.late


def cti_synchronizing_subject(
    items: Iterable[tuple[str | None, Event]],
    delay: int,
    policy: str = "drop",
    completed: bool = False,
) -> tuple[list[Event], list[Late]]:
    """The subject over (input name, event) pairs; None names the subject's own on_next.

    “Whenever a CTI event from any input is processed - and whenever that CTI is greater than any
    seen so far - subtract the delay. If after delaying the CTI an incoming event still violates
    the CTI, drop or adjust the event.” “Edges are matched per input.” “A CTI at MAX_TIME on a
    handle means that this input has ended: the subject's time does not move”; its rows stay open
    for its return. “The subject itself gives MAX_TIME when it is completed.”
    """
    gate = Gate(policy)
    for name, event in items:
        if event[0] != "cti":
            gate.accept(event, name)
        elif name is None or event[1] < MAX_TIME:
            gate.advance(shift_time(event[1], -delay))
    if completed:
        gate.advance(MAX_TIME)
    return gate.out, gate.late
