"""The oracle of `relate`: Allen's relations by their definitions, pair by pair.

`on` is a list of (left, right) names and `group` names key fields, as in `oracle_joins`. What a row
may still find is tried out: with every end that an open row may still have, and with rows that
begin at the CTI or later, at each tick where a relation changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from oracle import MAX_TIME, Event, Row, freeze
from oracle_joins import Merge, On, _both, matches

# of [a, b) to [c, d)
RELATIONS: dict[str, Callable[[int, int, int, int], bool]] = {
    "before": lambda a, b, c, d: b < c,
    "meets": lambda a, b, c, d: b == c,
    "overlaps": lambda a, b, c, d: a < c < b < d,
    "finished_by": lambda a, b, c, d: a < c and b == d,
    "contains": lambda a, b, c, d: a < c and d < b,
    "starts": lambda a, b, c, d: a == c and b < d,
    "equals": lambda a, b, c, d: a == c and b == d,
    "started_by": lambda a, b, c, d: a == c and d < b,
    "during": lambda a, b, c, d: c < a and b < d,
    "finishes": lambda a, b, c, d: c < a and b == d,
    "overlapped_by": lambda a, b, c, d: c < a < d < b,
    "met_by": lambda a, b, c, d: a == d,
    "after": lambda a, b, c, d: d < a,
}
INVERSE = {
    "before": "after", "meets": "met_by", "overlaps": "overlapped_by",
    "starts": "started_by", "during": "contains", "finishes": "finished_by",
}  # fmt: skip
INVERSE |= {second: first for first, second in INVERSE.items()} | {"equals": "equals"}

How = tuple[str, ...]


def are_related(how: How, within: int | None, times: tuple[int, int, int, int]) -> bool:
    """Are these lifetimes in one of the relations, with a gap below `within`, if there is one?"""
    a, b, c, d = times
    gap = max(c - b, a - d)
    if within is not None and gap >= within:
        return False
    return any(RELATIONS[name](*times) for name in how)


def relate(
    left: Iterable[Row],
    right: Iterable[Row],
    how: How,
    on: On = (),
    within: int | None = None,
    merge: Merge = _both,
    group: Sequence[str] = (),
) -> list[Row]:
    """Both payloads of related rows that match, from the earlier start to the later end."""
    right = list(right)
    return [
        Row(min(l.start, r.start), max(l.end, r.end), merge(l.payload, r.payload))
        for l in left  # noqa: E741
        for r in right
        if are_related(how, within, (l.start, l.end, r.start, r.end))
        and matches(l, r, on, group=group)
    ]


class _Known:
    """A row as far as it is known: `end` is None while it is open."""

    def __init__(self, start: int, end: int | None, payload: Any) -> None:
        self.start, self.end, self.payload = start, end, payload

    def ends(self, t: int, near: Iterable[int]) -> list[int]:
        """The ends that it may have, among those `near` and a few after the CTI."""
        if self.end is not None:
            return [self.end]
        first = max(t, self.start + 1)
        ends = {first, first + 1, first + 2, MAX_TIME, *near}
        return [end for end in ends if first <= end <= MAX_TIME]


def _read(events: Iterable[Event]) -> list[_Known]:
    rows: list[_Known] = []
    for event in events:
        kind, start, *_, payload = event
        if kind == "end":
            same = (
                row
                for row in rows
                if row.end is None and row.start == start and freeze(row.payload) == freeze(payload)
            )
            next(same).end = event[2]
        else:
            end = {"point": start + 1, "start": None}.get(kind, event[2])
            rows.append(_Known(start, end, payload))
    return rows


def cti_relate(
    t: int,
    sides: Sequence[Sequence[Event]],
    how: How,
    on: On = (),
    within: int | None = None,
    group: Sequence[str] = (),
) -> int:
    """“Held at the start of the oldest row” that may still be in a result."""
    if t == MAX_TIME:
        return t
    left, right = ([row for row in _read(events) if row.start < t] for events in sides)
    inverse = tuple(INVERSE[name] for name in how)
    held = [t]
    for own, names, wanted in ((left, 0, how), (right, 1, inverse)):
        for row in own:
            null = any(row.payload[pair[names]] is None for pair in on)
            if not null and _may_be_followed(row.start, row.end, t, wanted, within):
                held.append(row.start)
    for l in left:  # noqa: E741
        for r in right:
            if matches(l, r, on, group=group) and _may_be_related(l, r, t, how, within):  # type: ignore[arg-type]
                held.append(min(l.start, r.start))
    return min(held)


@cache
def _may_be_followed(start: int, end: int | None, t: int, how: How, within: int | None) -> bool:
    """May a row that begins at the CTI or later be related to this one?"""
    row, gap = _Known(start, end, None), within or 0
    for until in row.ends(t, ()):
        near = (t, t + 1, *range(until - 2, until + 3), until + gap - 1)
        for other in near:
            for last in (other + 1, other + 2, until - 1, until, until + 1, MAX_TIME):
                times = (start, until, other, last)
                if t <= other < last <= MAX_TIME and are_related(how, within, times):
                    return True
    return False


def _may_be_related(l: _Known, r: _Known, t: int, how: How, within: int | None) -> bool:  # noqa: E741
    """May two rows that have begun be related, one of which is open?"""
    if None not in (l.end, r.end):
        return False
    known = [time for row in (l, r) for time in (row.start, row.end) if time is not None]
    near = [time + d for time in known for d in (-1, 0, 1)]
    return any(
        are_related(how, within, (l.start, b, r.start, d))
        for b in l.ends(t, near)
        for d in r.ends(t, near)
    )
