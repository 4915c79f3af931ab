"""Causes of rows that live until their session ends: the row, and those that set the end."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.equal_rows import match_equal_rows
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.causes.time_index import expand
from rxtemporal.operators.sessions.lifetimes_plan import SessionLifetimes
from rxtemporal.operators.sessions.table import SessionTable
from rxtemporal.operators.windows.members import Asked, join_causes


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
