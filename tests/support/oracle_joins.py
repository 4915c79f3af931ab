"""The oracle, two inputs: joins, anti and outer joins, clipping by another stream, union.

`on` is a list of (left, right) names. “In `on`, null matches nothing”; `group` names key fields
of grouped inputs, in which null equals null. “NaN equals NaN and -0.0 equals 0.0.” A `where`
sees the joined payload; null is false. The output CTI is “min of the two”, of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from oracle import Payload, Row, freeze

On = Sequence[tuple[str, str]]
Merge = Callable[[Payload | None, Payload | None], Payload]
Predicate = Callable[[Payload], Any]


def merging(
    on: On,
    left: Sequence[str],
    right: Sequence[str],
    suffix: str | None = None,
    group: Sequence[str] = (),
) -> Merge:
    """Return the merge of two payloads of these fields; a missing side is None, its fields null.

    “Those in `on` under one name appear once, from whichever side is there; different names both
    appear; any other clash is an error that proposes `suffix=`”, which the right's field takes.
    """
    shared = {name for name, other in on if name == other} | set(group)
    names = {n: n + suffix if suffix and n in left else n for n in right if n not in shared}
    joined = [*left, *names.values()]
    if len(set(joined)) < len(joined):
        raise ValueError(f"two fields of one name in {joined}")

    def merge(lp: Payload | None, rp: Payload | None) -> Payload:
        either = {name: (rp if lp is None else lp)[name] for name in shared}
        first = {name: None if lp is None else lp[name] for name in left}
        second = {new: None if rp is None else rp[name] for name, new in names.items()}
        return first | either | second

    return merge


def matches(
    l: Row,  # noqa: E741 (as the definition has it)
    r: Row,
    on: On,
    merge: Merge | None = None,
    where: Predicate | None = None,
    group: Sequence[str] = (),
) -> bool:
    """Do two rows match, whenever they are alive?"""
    pairs = [(l.payload[name], r.payload[other]) for name, other in on]
    if any(a is None or b is None or freeze(a) != freeze(b) for a, b in pairs):
        return False
    if any(freeze(l.payload[name]) != freeze(r.payload[name]) for name in group):
        return False
    return where is None or bool(where((merge or _both)(l.payload, r.payload)))


def _both(lp: Payload | None, rp: Payload | None) -> Payload:
    """The fields of both; where a name is in both, the left's."""
    return (rp or {}) | (lp or {})


def union(left: Iterable[Row], right: Iterable[Row]) -> list[Row]:
    """“Both multisets; equal schemas”."""
    return [*left, *right]


def join(
    left: Iterable[Row],
    right: Iterable[Row],
    on: On,
    merge: Merge = _both,
    where: Predicate | None = None,
    group: Sequence[str] = (),
) -> list[Row]:
    """“For matching l, r whose lifetimes overlap: both payloads, lifetime = intersection”."""
    right = list(right)
    return [
        Row(max(l.start, r.start), min(l.end, r.end), merge(l.payload, r.payload))
        for l in left  # noqa: E741
        for r in right
        if max(l.start, r.start) < min(l.end, r.end) and matches(l, r, on, merge, where, group)
    ]


def cross_join(
    left: Iterable[Row],
    right: Iterable[Row],
    merge: Merge = _both,
    where: Predicate | None = None,
    group: Sequence[str] = (),
) -> list[Row]:
    """A join in which, `where` apart, every l matches every r."""
    return join(left, right, (), merge, where, group)


def left_anti_join(
    left: Iterable[Row],
    right: Iterable[Row],
    on: On = (),
    where: Predicate | None = None,
    merge: Merge | None = None,
    group: Sequence[str] = (),
) -> list[Row]:
    """“l during the parts of its lifetime in which no matching r is alive”."""
    right = list(right)
    return [
        part
        for l in left  # noqa: E741
        for part in without(l, [r for r in right if matches(l, r, on, merge, where, group)])
    ]


def without(row: Row, others: Iterable[Row]) -> list[Row]:
    """The maximal parts of a row's lifetime in which none of the others is alive."""
    parts, at = [], row.start
    for other in sorted(others, key=lambda other: other.start):
        if other.start >= row.end:
            break
        if other.start > at:
            parts.append(row._replace(start=at, end=other.start))
        at = max(at, other.end)
    return parts + ([row._replace(start=at)] if at < row.end else [])


def left_outer_join(
    left: Iterable[Row],
    right: Iterable[Row],
    on: On,
    merge: Merge,
    where: Predicate | None = None,
    group: Sequence[str] = (),
) -> list[Row]:
    """“Join united with the anti join, missing fields null”."""
    left, right = list(left), list(right)
    alone = left_anti_join(left, right, on, where, merge, group)
    nulls = [row._replace(payload=merge(row.payload, None)) for row in alone]
    return join(left, right, on, merge, where, group) + nulls


def full_outer_join(
    left: Iterable[Row],
    right: Iterable[Row],
    on: On,
    merge: Merge,
    where: Predicate | None = None,
    group: Sequence[str] = (),
) -> list[Row]:
    """“Join united with the anti joins, missing fields null”."""
    left, right = list(left), list(right)
    alone = [
        part
        for r in right
        for part in without(r, [l for l in left if matches(l, r, on, merge, where, group)])  # noqa: E741
    ]
    nulls = [row._replace(payload=merge(None, row.payload)) for row in alone]
    return left_outer_join(left, right, on, merge, where, group) + nulls


def clip_event_duration(
    left: Iterable[Row], right: Iterable[Row], on: On = (), group: Sequence[str] = ()
) -> list[Row]:
    """“l ends at the next matching r that starts strictly later than l and before l's end; one
    that starts at the same time or is already alive does not clip”.
    """
    right = list(right)
    clipped: list[Row] = []
    for l in left:  # noqa: E741
        later = [r.start for r in right if r.start > l.start and matches(l, r, on, group=group)]
        clipped.append(l._replace(end=min([l.end, *later])))
    return clipped


def cti_of_two(left: int, right: int) -> int:
    """“Min of the two”."""
    return min(left, right)
