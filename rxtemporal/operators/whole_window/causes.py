"""Causes of the result over all time: all rows of its key."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import History, Pairs, TimeIndex
from rxtemporal.operators.causes.lost_row import Fate, LostRow
from rxtemporal.operators.whole_window.plan import WholeWindow
from rxtemporal.operators.windows.members import (
    Asked,
    Candidates,
    join_causes,
    list_members,
    split_members,
)


def find_all_rows(
    operator: WholeWindow, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return the rows of the key of a result."""
    asked = Asked.of(inputs[0], output, rows)
    members, others = split_members(asked, operator.result, _list_rows(operator, asked))
    return join_causes(asked, members, [others])


def _list_rows(operator: WholeWindow, asked: Asked) -> Pairs:
    count = len(asked.rows)
    begin, end = np.full(count, MIN_TIME), np.full(count, MAX_TIME)
    windows = Candidates(np.arange(count), begin, end)
    index = TimeIndex(asked.codes, asked.source.start)
    members = index.between(asked.key, begin, end + 1)
    return list_members(asked, operator.result, windows, members)


def explain_open_end(operator: WholeWindow, lost: LostRow) -> Fate:
    """Return that time has not ended, or which rows rank before it."""
    if lost.cti < MAX_TIME:
        return lost.wait(MAX_TIME)
    return operator.result.explain_loss(lost, partial(_list_rows, operator))
