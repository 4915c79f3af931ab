"""Sessions of an input: which rows each one has, and which sessions decide its end."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.causes.time_index import TimeIndex, expand
from rxtemporal.operators.sessions.bounds import SessionBounds


@dataclasses.dataclass(frozen=True, eq=False)
class SessionTable:
    """The sessions of all keys, in order of (key, start).

    ``key``, ``start``, ``end`` of each; the rows of session i are ``row[first[i]:first[i + 1]]``,
    in order of start. ``since[i]`` is the first session that has to be known to find the end of
    session i: itself, unless its limit depends on the session before it. ``limited`` is True for
    sessions that their limit ends. ``index`` finds sessions by key and start.
    """

    key: Int64s
    start: Int64s
    end: Int64s
    row: Int64s
    first: Int64s
    since: Int64s
    limited: npt.NDArray[np.bool_]
    index: TimeIndex

    @classmethod
    def of(
        cls, source: History, codes: Int64s, timeout: int, max_duration: int | None
    ) -> SessionTable:
        """Return the sessions of an input; ``codes`` are those of its rows' keys."""
        bounds = SessionBounds(timeout, max_duration, source.payload.schema, source.keys)
        payload = Columns.from_frame(source.payload)
        bounds.take(EventBatch.of_rows(source.start, source.end, payload, MAX_TIME))
        found = bounds.close(MAX_TIME)
        count = np.bincount(found.window, minlength=len(found))
        begin = np.cumsum(count) - count
        key = codes[found.row[begin]]
        index = TimeIndex(key, found.start)
        order = index.order
        key, start, end, begin, count = (
            each[order] for each in (key, found.start, found.end, begin, count)
        )
        row = found.row[expand(begin, begin + count)[1]]
        first = np.concatenate([[0], np.cumsum(count)])
        last = source.start[row[first[1:] - 1]]
        limited = end < last + timeout
        since = _find_since(start, end, limited, max_duration)
        return cls(key, start, end, row, first, since, limited, index)

    def at(self, key: Int64s, time: Int64s) -> Int64s:
        """Return the number of the last session of each key that starts at or before each time."""
        return self.index.search(key, time + 1) - 1


def _find_since(
    start: Int64s, end: Int64s, limited: npt.NDArray[np.bool_], longest: int | None
) -> Int64s:
    """Return for each session the first one that has to be known to find its end.

    A session that continues one which its limit has ended has an earlier limit. If it is ended by
    that earlier limit, the session before it must be known, with its end. That one may itself
    continue another, which then must be known, but nothing before it: without that the two of them
    are ended by the same limit.
    """
    number = np.arange(len(start))
    if longest is None or not len(start):
        return number
    grid = start - start % longest
    needs = (start != grid) & (end == grid + longest) & limited
    before = number - needs
    return np.where(needs, before[before], number)
