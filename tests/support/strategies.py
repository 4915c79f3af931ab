"""Hypothesis strategies for physical streams, as the tuples that the oracle reads.

`streams` draws legal ones, `arrivals` and `named_arrivals` ones with late events, `cuts` a
partition of n items into runs. Times are small mostly, so that things collide.

A stream is drawn as a list of *moves* that know nothing of each other, and then played: what a
move becomes depends on the events before it. So a failing example shrinks move by move; for
that a move is few choices (Hypothesis deletes up to five at a time).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any

from hypothesis import strategies as st
from oracle import MAX_TIME, MIN_TIME, Event, freeze, lifetime

Strategy = st.SearchStrategy[Any]
Named = tuple[str | None, Event]
SHAPES = ("point", "interval", "edge")
MOVES = {"point": ["point"], "interval": ["interval"], "edge": ["start", "start", "end", "end"]}

LAST_START, LAST_END = MAX_TIME - 2, MAX_TIME - 1  # the last tick of time is reserved
STARTS = (*range(41), *range(41), -1, -7, -20, 100, 350, 1000)
EXTREME_STARTS = (MIN_TIME, MIN_TIME + 1, MIN_TIME + 4, MAX_TIME - 8, MAX_TIME - 3, LAST_START) * 3
DURATIONS = (1, 2, 3, 4, 5, 8, 12, 13, 40, 60, MAX_TIME)
DELAYS = (0, 1, 2, 3, 5, 8, 12, 40)  # of an end edge, after the earliest end that is legal
STEPS = (1, 0, -1, 2, 3, 5, 8, 30)  # of a CTI, after the one before or after a time seen so far
EXTREME_CTIS = (MIN_TIME, MIN_TIME + 3, MAX_TIME - 5, MAX_TIME)
# lengths that go from one end of time to near its middle, and to the other end
FAR = (-MIN_TIME + 5, MAX_TIME - 8, MAX_TIME - MIN_TIME - 8)

KEYS = (None, "a", "a", "b", "c", "")
INTS = (1, 1, 1, 2, 2, None, 0, 3, -7, 1_000_000_007)
FLOATS = (None, None, 0.0, 0.0, -0.0, 0.1, 0.2, 1.5, -2.25, 3.0, 1e9, 1e16, -1e16)
STRANGE_FLOATS = (math.nan, math.inf, -math.inf)


def _either(mostly: Strategy, rarely: Strategy) -> Strategy:
    return st.sampled_from((0,) * 5 + (1,)).flatmap((mostly, rarely).__getitem__)


def _records(*fields: Sequence[Any]) -> Strategy:
    return st.sampled_from(list(product(*fields))).map(_record)


def _record(values: Sequence[Any]) -> dict[str, Any]:
    """A payload of its own, NaN too, so that nothing is found equal by being the same object."""
    fresh = (float("nan") if value != value else value for value in values)
    return dict(zip("kxy", fresh, strict=True))


def payloads(*, strange: bool = True) -> Strategy:
    """Records {"k": str | None, "x": int | None, "y": float | None}, from few values each."""
    return _records(KEYS, INTS, FLOATS + (STRANGE_FLOATS if strange else ()))


def few_payloads() -> Strategy:
    """The same record from so few values that equal rows are the rule."""
    return _records((None, "a"), (1, 2), (None, 0.0, -0.0, math.nan))


def calm_payloads() -> Strategy:
    """The same record without values so large that sums of others vanish beside them."""
    return _records(KEYS, (1, 1, 2, None, 0, 3, -7), (None, 0.0, -0.0, 0.1, -2.25, *STRANGE_FLOATS))


def matching_payloads() -> Strategy:
    """The same record from values of which rows of two streams often share some."""
    return _records((None, "a", "a", "b"), (1, 2, None), (None, 0.0, -0.0, 1.5, math.nan))


def keys_alone() -> Strategy:
    """The same record with nothing but a key."""
    return _records(KEYS, (None,), (None,))


def times(*, extremes: bool = False) -> Strategy:
    """The start of an event: near mostly, at both ends of time only with `extremes`."""
    return st.sampled_from(STARTS + (EXTREME_STARTS if extremes else ()))


@dataclasses.dataclass(frozen=True)
class Times:
    """The times that moves draw: starts, lengths, delays of end edges, CTIs and how often."""

    starts: Sequence[int]
    steps: Sequence[int]
    lengths: Sequence[int] = DURATIONS
    delays: Sequence[int] = DELAYS
    ctis: int = 2


NEAR = Times(STARTS, STEPS)
EXTREMES = Times(STARTS + EXTREME_STARTS, STEPS + EXTREME_CTIS)
AT_FIRST = Times(
    [MIN_TIME] * 5 + [MIN_TIME + t for t in (1, 2, 4, 9)] + [0],
    [MIN_TIME + t for t in (0, 1, 1, 2, 3, 5, 9, 14)],
    (*DURATIONS, *FAR), (*DELAYS, *FAR), ctis=5,
)  # fmt: skip
AT_LAST = Times(
    [*(MAX_TIME - t for t in (2, 3, 5, 8, 14)), 0, 3, 350],
    [*STEPS, *(MAX_TIME - t for t in (1, 2, 3, 5, 8, 12))],
)


def _moves(shapes: Sequence[str], drawn_times: Times, payload: Strategy | None) -> Strategy:
    """One move: (kind, time, payload, duration), or (kind, time, payload, (delay, pick)) of an end
    edge, (kind, (step, pick)) of a CTI, (kind, pick); a pick says which of the events so far."""
    payload = payloads() if payload is None else payload
    time = st.sampled_from(drawn_times.starts)
    delays = st.sampled_from(list(product(drawn_times.delays, range(6))))
    steps, lengths = drawn_times.steps, st.sampled_from(drawn_times.lengths)
    kinds = {
        "point": st.tuples(st.just("point"), time, payload, st.none()),
        "interval": st.tuples(st.just("interval"), time, payload, lengths),
        "start": st.tuples(st.just("start"), time, payload, st.none()),
        "end": st.tuples(st.just("end"), time, payload, delays),
        "again": st.tuples(st.just("again"), st.integers(0, 5)),
        "cti": st.tuples(st.just("cti"), st.sampled_from(list(product(steps, (None, *range(6)))))),
    }
    drawn = [kind for shape in shapes for kind in MOVES[shape]] * 2 + ["again"]
    drawn += ["cti"] * drawn_times.ctis
    return st.sampled_from(drawn).flatmap(kinds.__getitem__)


def _sequences(move: Strategy, max_size: int) -> Strategy:
    """Lists longer than the default, which has five elements on average."""
    chunks = st.lists(st.lists(move, min_size=1, max_size=10), max_size=6)
    return chunks.map(lambda drawn: [item for chunk in drawn for item in chunk][:max_size])


def _insert(kind: str, start: int, payload: Any, duration: int | None = None) -> Event:
    if kind != "interval":
        return (kind, start, payload)
    end = MAX_TIME if duration == MAX_TIME else min(start + int(duration or 1), LAST_END)
    return (kind, start, end, payload)


def _cti(cti: int, events: Sequence[Event], step: int, pick: int | None) -> int:
    """A time that may be a CTI: a step from the one before, or from a start or end so far."""
    if abs(step) > MAX_TIME // 10:
        return step
    seen = [t for e in events if e[0] != "cti" for t in lifetime(e) if t < MAX_TIME]
    base = seen[-1 - pick % len(seen)] if seen and pick is not None else cti
    return max(MIN_TIME, min((base if base > -100 else 0) + step, MAX_TIME))


def _open_rows(events: Sequence[Event]) -> list[Event]:
    """The start edges without an end edge yet."""
    ended = [(e[1], freeze(e[3])) for e in events if e[0] == "end"]
    opened: list[Event] = []
    for event in events:
        if event[0] == "start" and (event[1], freeze(event[2])) in ended:
            ended.remove((event[1], freeze(event[2])))
        elif event[0] == "start":
            opened.append(event)
    return opened


def _legal(move: tuple[Any, ...], events: Sequence[Event], cti: int) -> Event | None:
    """Return the event of a move after `events`; None if no event of its kind is legal."""
    kind = move[0]
    if kind == "cti":
        return ("cti", max(cti, _cti(cti, events, *move[1])))
    if kind == "again":
        found = [e for e in events if e[0] not in ("end", "cti") and e[1] >= cti]
        return found[-1 - move[1] % len(found)] if found else None
    if kind == "end":
        found = [e for e in _open_rows(events) if max(cti, e[1] + 1) <= LAST_END]
        if not found:
            return None
        delay, pick = move[3]
        _, start, payload = found[pick % len(found)]
        return ("end", start, min(max(cti, start + 1) + delay, LAST_END), payload)
    start = move[1] if move[1] >= cti else cti + move[1] % 4
    return _insert(kind, min(start, LAST_START), *move[2:]) if cti <= LAST_START else None


def _play(moves: Sequence[tuple[Any, ...]]) -> list[Event]:
    cti = MIN_TIME
    events: list[Event] = []
    for move in moves:
        event = _legal(move, events, cti)
        if event is not None and cti < MAX_TIME:
            events.append(event)
            cti = event[1] if event[0] == "cti" else cti
    return events


def streams(
    shapes: Sequence[str] = SHAPES,
    *,
    max_size: int = 30,
    extremes: bool | None = None,
    payload: Strategy | None = None,
) -> st.SearchStrategy[list[Event]]:
    """A legal physical stream: any order and mixture of `shapes` that its CTIs allow.

    End edges come later or never; rows come twice. With `extremes` (rarely true, if None) some
    times lie at the ends of time; nothing follows a CTI at MAX_TIME.
    """
    if extremes is None:
        options: dict[str, Any] = {"max_size": max_size, "payload": payload}
        return _either(*(streams(shapes, extremes=drawn, **options) for drawn in (False, True)))
    move = _moves(shapes, EXTREMES if extremes else NEAR, payload)
    return _sequences(move, max_size).map(_play)


def streams_at_the_ends(
    *, max_size: int = 16, payload: Strategy | None = None
) -> st.SearchStrategy[list[Event]]:
    """A legal physical stream whose rows and CTIs are at the first times, then at the last ones."""
    first, last = (_moves(SHAPES, drawn_times, payload) for drawn_times in (AT_FIRST, AT_LAST))
    half = max_size // 2
    drawn = st.tuples(st.lists(first, min_size=2, max_size=half), st.lists(last, max_size=half))
    return drawn.map(lambda moves: _play([*moves[0], *moves[1]]))


def _arrival(name: str | None, stray: bool, move: tuple[Any, ...], so_far: list[Named]) -> Named:
    """Return the event of a move, which may break the CTIs so far.

    A stray end edge closes a row again, or comes through another input, or names no row at all.
    """
    kind = move[0]
    events = [event for _, event in so_far]
    if kind == "again":
        return so_far[-1 - move[1] % len(so_far)] if so_far else (name, ("cti", 10))
    if kind == "cti":
        reached = max((e[1] for e in events if e[0] == "cti"), default=0)
        return name, ("cti", _cti(min(reached, 40), events, *move[1]))
    started = [(n, e) for n, e in so_far if e[0] == "start"]
    if kind == "end" and (started or stray):
        (delay, pick), row = move[3], ("start", *move[1:3])
        if started and (not stray or delay % 2):
            pairs = started if stray else _open_pairs(so_far) or started
            owner, row = pairs[pick % len(pairs)]
            name = name if stray else owner
        return name, ("end", row[1], min(row[1] + 1 + delay, LAST_END), row[2])
    return name, _insert("start", *move[1:3]) if kind == "end" else _insert(*move)


def _open_pairs(so_far: Sequence[Named]) -> list[Named]:
    """The start edges of each input that it has not closed yet."""
    names = {name for name, _ in so_far}
    return [(n, e) for n in sorted(names, key=str) for e in _open_rows(_of(n, so_far))]


def _of(name: str | None, so_far: Sequence[Named]) -> list[Event]:
    return [event for n, event in so_far if n == name]


def _send(items: Sequence[tuple[Any, ...]]) -> list[Named]:
    sent: list[Named] = []
    for (stray, name), move in items:
        sent.append(_arrival(name, stray, move, sent))
    return sent


def named_arrivals(
    names: Sequence[str | None] = (None, "A", "B"),
    shapes: Sequence[str] = SHAPES,
    *,
    max_size: int = 30,
    extremes: bool | None = None,
    payload: Strategy | None = None,
) -> st.SearchStrategy[list[Named]]:
    """(input, event) pairs in an order that may break any promise; None is the subject's own.

    Events and CTIs may be late, an end edge may come twice, for a row that never was, or through
    another input than its start. Every lifetime is well formed.
    """
    if extremes is None:
        options: dict[str, Any] = {"max_size": max_size, "payload": payload}
        drawn = (named_arrivals(names, shapes, extremes=x, **options) for x in (False, True))
        return _either(*drawn)
    move = _moves(shapes, EXTREMES if extremes else NEAR, payload)
    named = st.tuples(st.sampled_from([*product([False] * 5 + [True], names)]), move)
    return _sequences(named, max_size).map(_send)


def arrivals(shapes: Sequence[str] = SHAPES, **options: Any) -> st.SearchStrategy[list[Event]]:
    """One source's events in an order that may break any promise."""
    pairs = named_arrivals((None,), shapes, **options)
    return pairs.map(lambda items: [event for _, event in items])


def cuts(n: int) -> st.SearchStrategy[list[slice]]:
    """A partition of n items into runs, none of them empty: `[items[run] for run in runs]`."""
    inner: Strategy = st.sets(st.integers(1, n - 1)) if n > 1 else st.just(set())
    return inner.map(lambda marks: [slice(i, j) for i, j in pairwise(sorted({0, n} | marks))])
