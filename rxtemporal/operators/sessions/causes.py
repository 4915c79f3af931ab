"""Causes of the rows of session operators: the rows of the session, and those that limit it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import History, Pairs, TimeIndex, expand, match_equal_rows
from rxtemporal.operators.causes.lost_row import Fate, LostRow
from rxtemporal.operators.sessions.plan import SessionLifetimes, SessionWindows
from rxtemporal.operators.sessions.step import SessionBounds
from rxtemporal.operators.windows.members import Asked, code_keys, join_causes, split_members


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


def find_session_rows(
    operator: SessionWindows, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return the rows of a session; and those of the sessions before it that limit it."""
    asked = Asked.of(inputs[0], output, rows)
    table, session = _find_sessions(operator, asked)
    members, others = split_members(asked, operator.result, _list_rows(operator, asked))
    of, place = expand(table.first[table.since[session]], table.first[session])
    return join_causes(asked, members, [others, (of, table.row[place])])


def _find_sessions(operator: SessionWindows, asked: Asked) -> tuple[SessionTable, Int64s]:
    """Return all sessions, and the number of the session of each result."""
    table = SessionTable.of(asked.source, asked.codes, operator.timeout, operator.max_duration)
    # a point at the end comes after the session's last tick
    return table, table.at(asked.key, asked.start - operator.points)


def _list_rows(operator: SessionWindows, asked: Asked) -> Pairs:
    table, session = _find_sessions(operator, asked)
    of, place = expand(table.first[session], table.first[session + 1])
    return of, table.row[place]


def explain_open_session(operator: SessionWindows, lost: LostRow) -> Fate:
    """Return until when the session may be prolonged."""
    codes, _ = code_keys(lost.source, lost.source.payload.head(0))
    table = SessionTable.of(lost.source, codes, operator.timeout, operator.max_duration)
    row = np.array([lost.row])
    session = table.at(codes[row], lost.source.start[row])[0]
    end = int(table.end[session])
    if end > lost.cti:
        return lost.wait(end)
    return operator.result.explain_loss(lost, partial(_list_rows, operator))


def find_session_causes(
    operator: SessionLifetimes, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return the row itself, and the rows that make the end of its session."""
    asked = Asked.of(inputs[0], output, rows)
    source = asked.source
    # the session gives the end: only starts and payloads tell rows apart
    own = _find_sources(source, output)[rows]
    table = SessionTable.of(source, asked.codes, operator.timeout, operator.max_duration)
    place = np.empty(len(source.start), np.int64)
    place[table.row] = np.arange(len(table.row))
    session = table.at(asked.key, asked.start)
    # rows before it count only where they limit the session
    begin = np.where(table.limited[session], table.first[table.since[session]], place[own])
    of, position = expand(begin, table.first[session + 1])
    other = position != place[own][of]
    pairs = of[other], table.row[position[other]]
    return join_causes(asked, (np.arange(len(rows)), own), [pairs])


def _find_sources(source: History, output: History) -> Int64s:
    """Return the row of the input that each row of the output is."""
    found = np.full(len(output), -1, np.int64)
    # ends differ: only start and payload tell rows apart
    source, output = (dataclasses.replace(each, end=each.start) for each in (source, output))
    before, after = match_equal_rows(source, output)
    found[after] = before
    return found
