"""Ends of an event's ways through a query, ranked by how near they are to a missing row."""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

from rxtemporal.operators.causes.fate import Fate

# a worse end has a greater rank: whether the row could only have removed others, distance from the
# time, in a result, steps from the output
Rank: TypeAlias = tuple[bool, int, bool, int]
End: TypeAlias = tuple[Rank, Fate]


def find_nearest_end(ends: list[End]) -> End:
    """Return the end that is nearest to the missing row."""
    return min(ends, key=lambda end: end[0])


def choose_ways(ways: list[list[End]]) -> list[End]:
    """Return the ends that count, of all ways on which a stream is read.

    A row that is in the result by one way has not been lost: the end of another way is only
    mentioned. If that other way alone is alive at the time asked about, it counts, and the result
    is mentioned. A way on which the row waits, or removes other rows, is ranked as it is.
    """
    nearest = [find_nearest_end(way) for way in ways]
    results = [end for end in nearest if end[0][2] and not end[0][0]]
    lost = [end for end in nearest if _is_lost(end)]
    if not results or not lost:
        return [end for way in ways for end in way]
    result, other = find_nearest_end(results), find_nearest_end(lost)
    if other[0][1] == 0 < result[0][1]:
        chosen = _mention(other, f"; another way is {result[1]}")
    else:
        chosen = _mention(result, f"; another way ended: {other[1]}")
    return [chosen, *(end for end in nearest if end is not result and not _is_lost(end))]


def _is_lost(end: End) -> bool:
    removes, _, is_result, _ = end[0]
    return not removes and not is_result and end[1].kind != "waiting"


def _mention(end: End, text: str) -> End:
    return end[0], dataclasses.replace(end[1], message=end[1].message + text)
