"""Causes of the result over all time: all rows of its key."""

from __future__ import annotations

from functools import partial

import numpy as np

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.operators.causes.history import Pairs, TimeIndex
from rxtemporal.operators.causes.lost_row import Fate, LostRow
from rxtemporal.operators.whole_window.plan import WholeWindow
from rxtemporal.operators.windows.members import (
    Asked,
    Candidates,
    list_members,
)


def list_rows(operator: WholeWindow, asked: Asked) -> Pairs:
    """Return the rows of the key of a result."""
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
    return operator.result.explain_loss(lost, partial(list_rows, operator))
