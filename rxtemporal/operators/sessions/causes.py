"""Causes of the results of session windows: the rows that start in the session."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.fate import Fate
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.causes.lost_row import LostRow
from rxtemporal.operators.causes.time_index import Pairs, expand
from rxtemporal.operators.sessions.plan import SessionWindows
from rxtemporal.operators.sessions.table import SessionTable
from rxtemporal.operators.windows.members import Asked, code_keys, join_causes, split_members


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
