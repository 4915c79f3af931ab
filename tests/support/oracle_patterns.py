"""The oracle, patterns: the rows of matches that the model finds, and the output CTI."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pattern_model
from oracle import MAX_TIME, Event, Row, groups
from oracle_lifetimes import starts_by_key

Conditions = Mapping[str, Callable[[Any, Any], Any]]


def list_matches(
    rows: Sequence[Row], pattern: str, conditions: Conditions, **options: Any
) -> list[list[Row]]:
    """Return the rows of each match, of one key."""
    ordered = pattern_model.sort_rows(rows)
    found = pattern_model.match(rows, pattern, conditions, **options)
    return [[ordered[at] for at, _ in match.rows] for match in found]


def detect(
    rows: Iterable[Row],
    pattern: str,
    conditions: Conditions,
    key: Sequence[str] = (),
    **options: Any,
) -> list[Row]:
    """“Lifetime [first start, last start + 1 tick)”: the keys, and the number of rows."""
    return [
        Row(match[0].start, match[-1].start + 1, {**value, "rows": len(match)})
        for value, members in groups(list(rows), key)
        for match in list_matches(members, pattern, conditions, **options)
    ]


def detect_rows(
    rows: Iterable[Row], pattern: str, conditions: Conditions, **options: Any
) -> list[Row]:
    """Each row of a match is a point at its own start, with the start of the match."""
    return [
        Row(row.start, row.start + 1, {**row.payload, "match": match[0].start})
        for match in list_matches(list(rows), pattern, conditions, **options)
        for row in match
    ]


def cti_detect_pair(
    t: int,
    events: Iterable[Event],
    begins: Callable[[Row], bool],
    key: Sequence[str] = (),
    within: int | None = None,
) -> int:
    """Of a row and the next one, which cannot begin a pair itself: the last row may wait."""
    held = [t]
    for members in starts_by_key(events, key):
        known = pattern_model.sort_rows([row for row in members if row.start < t])
        if t < MAX_TIME and known and begins(known[-1]):
            start = known[-1].start
            held += [start] if within is None or start + within > t else []
    return min(held)
