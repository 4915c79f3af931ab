"""Causes of the results of hopping windows: the rows whose lifetimes overlap the window."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import AliveIndex, History, Pairs
from rxtemporal.operators.causes.lost_row import Fate, LostRow
from rxtemporal.operators.hopping_window.plan import HoppingWindows
from rxtemporal.operators.snap.plan import find_gap
from rxtemporal.operators.windows.members import (
    Asked,
    Candidates,
    has_own_lifetimes,
    join_causes,
    list_members,
    split_members,
)


def find_window_rows(
    operator: HoppingWindows, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return the rows that a window held."""
    asked = Asked.of(inputs[0], output, rows)
    members, _ = split_members(asked, operator.result, _list_rows(operator, asked))
    return join_causes(asked, members)


def _list_rows(operator: HoppingWindows, asked: Asked) -> Pairs:
    windows = _list_windows(operator, asked)
    index = AliveIndex(asked.codes, asked.source.start, asked.source.end)
    alive = index.overlap(asked.key[windows.of], windows.start, windows.end)
    return list_members(asked, operator.result, windows, alive)


def _list_windows(operator: HoppingWindows, asked: Asked) -> Candidates:
    """Return the windows that may have given the results."""
    if has_own_lifetimes(operator.result, points=operator.points):
        return _list_around(operator, asked)
    start, end = asked.start, asked.end
    if operator.points:
        start, end = operator.find_begins(start), start
    return Candidates(np.arange(len(start)), start, end)


def _list_around(operator: HoppingWindows, asked: Asked) -> Candidates:
    """Return all windows in which a result's lifetime lies."""
    return Candidates(*operator.list_around(asked.start, asked.end))


def explain_gap(operator: HoppingWindows, lost: LostRow) -> Fate:
    """Return why a row is in no window, which window has not ended, or what the result says."""
    gap = find_gap(operator, lost) if operator.calendar is None else _find_open(operator, lost)
    return gap or operator.result.explain_loss(lost, partial(_list_rows, operator))


def _find_open(operator: HoppingWindows, lost: LostRow) -> Fate | None:
    """Return that the first window of a calendar that holds a row has not ended, if so."""
    end = int(operator.grid.find_after(np.array([lost.start]))[0])
    return lost.wait(end) if end > lost.cti else None
