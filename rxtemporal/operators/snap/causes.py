"""Causes of rows whose lifetimes are snapped to windows: the row itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.engine.kernels.compiled import freeze
from rxtemporal.engine.kernels.snap import snap_end, snap_start
from rxtemporal.operators.causes.causes import Causes, find_causes
from rxtemporal.operators.causes.equal_rows import match_equal_rows
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.snap.plan import SnapToWindowIntervals


@find_causes.register
def _snap_to_window_intervals(
    operator: SnapToWindowIntervals, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return the row with the lifetime that gives this one."""
    grid = operator.duration, operator.period, operator.alignment
    before, after = match_equal_rows(
        dataclasses.replace(
            inputs[0],
            start=snap_start(freeze(inputs[0].start), *grid),
            end=snap_end(freeze(inputs[0].end), *grid),
        ),
        output,
    )
    wanted = np.isin(after, rows)
    return Causes.of_pairs(after[wanted], before[wanted])
