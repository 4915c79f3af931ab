"""Causes of the results of snapshot windows: the rows alive, and the neighbours that bound them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import AliveIndex, History, Pairs, TimeIndex
from rxtemporal.operators.causes.lost_row import Fate, LostRow
from rxtemporal.operators.snapshot_window.plan import SnapshotWindows
from rxtemporal.operators.windows.members import (
    Asked,
    has_own_lifetimes,
    join_causes,
    split_members,
)


def find_alive_rows(
    operator: SnapshotWindows, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return the rows alive in a snapshot, and those whose start or end bounds it."""
    asked = Asked.of(inputs[0], output, rows)
    source = asked.source
    starts = AliveIndex(asked.codes, source.start, source.end)
    ends = TimeIndex(asked.codes, source.end)
    begin, end = _find_snapshot(operator, asked)
    members, others = split_members(asked, operator.result, starts.alive_at(asked.key, begin))
    followed = end < MAX_TIME  # a snapshot that has not ended has no row after it
    of, row = starts.between(asked.key, end, np.where(followed, end + 1, end))
    ended = ends.between(asked.key, begin, begin + 1)
    bounds = _take_bounds(source, others, begin, end)
    return join_causes(asked, members, [bounds, ended, (of, row)])


def _take_bounds(source: History, members: Pairs, begin: Int64s, end: Int64s) -> Pairs:
    """Return the pairs whose row begins or ends with the snapshot."""
    of, row = members
    bounds = (source.start[row] == begin[of]) | (source.end[row] == end[of])
    return of[bounds], row[bounds]


def _list_rows(operator: SnapshotWindows, asked: Asked) -> Pairs:
    begin, _ = _find_snapshot(operator, asked)
    index = AliveIndex(asked.codes, asked.source.start, asked.source.end)
    return index.alive_at(asked.key, begin)


def _find_snapshot(operator: SnapshotWindows, asked: Asked) -> Pairs:
    """Return the start and end of the snapshot in which each result lies."""
    if not has_own_lifetimes(operator.result, points=False):
        return asked.start, asked.end
    time = np.concatenate([asked.source.start, asked.source.end])
    changes = TimeIndex(np.tile(asked.codes, 2), time)
    after = changes.search(asked.key, asked.start + 1)
    begin = time[changes.order[after - 1]]
    return begin, time[changes.order[after]]


def explain_open_snapshot(operator: SnapshotWindows, lost: LostRow) -> Fate:
    """Return that the snapshot is not known, or that its results do not have the row."""
    if lost.start >= lost.cti:
        return lost.wait(lost.start + 1)
    return operator.result.explain_loss(lost, partial(_list_rows, operator))
