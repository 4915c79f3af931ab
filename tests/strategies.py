"""Hypothesis strategies for physical streams, as the tuples that the oracle reads.

`streams` draws legal ones, `arrivals` and `named_arrivals` ones with late events, `cuts` a
partition of n items into runs. Times are small mostly, so that things collide.

A stream is drawn as a list of *moves* that know nothing of each other, and then played: what a
move becomes depends on the events before it. So a failing example shrinks move by move.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st
from oracle import MAX_TIME, MIN_TIME, Event, freeze

Strategy = st.SearchStrategy[Any]
Named = tuple[str | None, Event]
SHAPES = ("point", "interval", "edge")
MOVES = {"point": ["point"], "interval": ["interval"], "edge": ["start", "start", "end", "end"]}

LAST_START, LAST_END = MAX_TIME - 2, MAX_TIME - 1  # the last tick of time is reserved
STARTS = (*range(41), *range(41), -1, -7, -20, 100, 350, 1000)
EXTREME_STARTS = (MIN_TIME, MIN_TIME + 1, MIN_TIME + 4, MAX_TIME - 8, MAX_TIME - 3, LAST_START) * 3
DURATIONS = (1, 2, 3, 4, 5, 8, 12, 13, 40, 60, MAX_TIME)
DELAYS = (0, 1, 2, 3, 5, 8, 12, 40)  # of an end edge, after the earliest end that is legal
STEPS = (1, 0, 2, 3, 5, 8, -7, 100)  # of a CTI
EXTREME_CTIS = (MIN_TIME, MIN_TIME + 3, MAX_TIME - 5, MAX_TIME)

KEYS = (None, "a", "b", "c", "")
INTS = (None, 0, 1, 2, 3, -1, -7, 1_000_000_007)
FLOATS = (None, 0.0, -0.0, 0.1, 0.2, 1.5, -2.25, 3.0, 1e9, 1e16, -1e16)
STRANGE_FLOATS = (math.nan, math.inf, -math.inf)

rarely = st.sampled_from((False,) * 5 + (True,))


def payloads(*, strange: bool = True) -> Strategy:
    """Records {"k": str | None, "x": int | None, "y": float | None}, from few values each."""
    return st.fixed_dictionaries(
        {
            "k": st.sampled_from(KEYS),
            "x": st.sampled_from(INTS),
            "y": st.sampled_from(FLOATS + (STRANGE_FLOATS if strange else ())),
        }
    )


def few_payloads() -> Strategy:
    """The same record from so few values that equal rows are the rule."""
    floats = st.sampled_from((None, 0.0, -0.0, math.nan))
    return st.fixed_dictionaries(
        {"k": st.sampled_from((None, "a")), "x": st.sampled_from((1, 2)), "y": floats}
    )


def times(*, extremes: bool = False) -> Strategy:
    """The start of an event: near mostly, at both ends of time only with `extremes`."""
    return st.sampled_from(STARTS + (EXTREME_STARTS if extremes else ()))


def _moves(shapes: Sequence[str], extremes: bool, payload: Strategy | None) -> Strategy:
    """One move: (kind, time or step, duration or delay, payload, which of the rows so far)."""
    payload = st.one_of(few_payloads(), payloads()) if payload is None else payload
    time, pick = times(extremes=extremes), st.integers(0, 5)
    steps = st.sampled_from(STEPS + (EXTREME_CTIS if extremes else ()))
    kinds = {
        "point": st.tuples(st.just("point"), time, st.none(), payload),
        "interval": st.tuples(st.just("interval"), time, st.sampled_from(DURATIONS), payload),
        "start": st.tuples(st.just("start"), time, st.none(), payload),
        "end": st.tuples(st.just("end"), time, st.sampled_from(DELAYS), payload, pick),
        "again": st.tuples(st.just("again"), pick),
        "cti": st.tuples(st.just("cti"), steps),
    }
    drawn = [kind for shape in shapes for kind in MOVES[shape]] * 2 + ["again", "cti", "cti"]
    return st.sampled_from(drawn).flatmap(kinds.__getitem__)


def _insert(kind: str, start: int, duration: int | None, payload: Any) -> Event:
    if kind != "interval":
        return (kind, start, payload)
    end = MAX_TIME if duration == MAX_TIME else min(start + int(duration or 1), LAST_END)
    return (kind, start, end, payload)


def _next_cti(cti: int, step: int) -> int:
    if step in EXTREME_CTIS:
        return max(cti, step)
    return min(max(cti, (cti if cti > -100 else 0) + step), MAX_TIME)


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
    """What a move becomes after `events`, or None where nothing of its kind is legal."""
    kind = move[0]
    if kind == "cti":
        return ("cti", _next_cti(cti, move[1]))
    if kind == "again":
        found = [e for e in events if e[0] not in ("end", "cti") and e[1] >= cti]
        return found[-1 - move[1] % len(found)] if found else None
    if kind == "end":
        found = [e for e in _open_rows(events) if max(cti, e[1] + 1) <= LAST_END]
        if not found:
            return None
        _, start, payload = found[move[4] % len(found)]
        return ("end", start, min(max(cti, start + 1) + move[2], LAST_END), payload)
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
        return rarely.flatmap(
            lambda drawn: streams(shapes, max_size=max_size, extremes=drawn, payload=payload)
        )
    return st.lists(_moves(shapes, extremes, payload), max_size=max_size).map(_play)


def _arrival(name: str | None, stray: bool, move: tuple[Any, ...], so_far: list[Named]) -> Named:
    """What a move becomes, whatever the CTIs so far have promised.

    A stray end edge comes through an input of its own, or names a row that never was.
    """
    kind, time = move[:2]
    if kind == "again" and so_far:
        return so_far[-1 - time % len(so_far)]
    if kind == "cti":
        return name, ("cti", time if time in EXTREME_CTIS else 3 * max(time, -5) % 40)
    if kind == "end":
        started = [(n, e) for n, e in so_far if e[0] == "start"]
        opener, row = started[-1 - move[4] % len(started)] if started else (name, None)
        if row is None or (stray and move[2] % 2):
            return name, ("end", time, time + 1 + move[2] if time < 9999 else LAST_END, move[3])
        end = min(row[1] + 1 + move[2], LAST_END)
        return name if stray else opener, ("end", row[1], end, row[2])
    return name, ("cti", 10) if kind == "again" else _insert(kind, time, *move[2:])


def _send(items: Sequence[tuple[Any, ...]]) -> list[Named]:
    sent: list[Named] = []
    for name, stray, move in items:
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
        return rarely.flatmap(
            lambda drawn: named_arrivals(names, shapes, extremes=drawn, **options)
        )
    move = _moves(shapes, extremes, payload)
    return st.lists(st.tuples(st.sampled_from(names), rarely, move), max_size=max_size).map(_send)


def arrivals(shapes: Sequence[str] = SHAPES, **options: Any) -> st.SearchStrategy[list[Event]]:
    """One source's events in an order that may break any promise."""
    pairs = named_arrivals((None,), shapes, **options)
    return pairs.map(lambda items: [event for _, event in items])


def cuts(n: int) -> st.SearchStrategy[list[slice]]:
    """A partition of n items into runs, none of them empty: `[items[run] for run in runs]`."""
    inner: Strategy = st.sets(st.integers(1, n - 1)) if n > 1 else st.just(set())
    return inner.map(lambda marks: [slice(i, j) for i, j in pairwise(sorted({0, n} | marks))])
