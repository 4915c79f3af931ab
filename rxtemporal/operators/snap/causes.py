"""Causes of rows whose lifetimes are snapped to windows: the row itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.engine.kernels.compiled import freeze
from rxtemporal.engine.kernels.snap import snap_end, snap_start
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import History, match_equal_rows
from rxtemporal.operators.causes.lost_row import Fate, LostRow
from rxtemporal.operators.snap.plan import SnapToWindowIntervals


class WindowGrid(Protocol):
    """A regular grid of windows, in ticks."""

    @property
    def duration(self) -> int:
        """The length of a window."""

    @property
    def period(self) -> int:
        """The distance between the starts of two windows."""

    @property
    def alignment(self) -> int:
        """The start of one of them."""


def find_snapped_rows(
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


def explain_gap(operator: SnapToWindowIntervals, lost: LostRow) -> Fate:
    """Return that the row lies between windows, or which window has not ended."""
    return find_gap(operator, lost) or lost.tell_end()


def find_gap(operator: WindowGrid, lost: LostRow) -> Fate | None:
    """Return that the row lies between windows, or which window has not ended; None for neither."""
    first = (lost.start - operator.alignment - operator.duration) // operator.period + 1
    begin = operator.alignment + first * operator.period
    if begin >= lost.end:
        return lost.tell(
            "outside",
            f"outside every window of {lost.place}: the next one begins at {lost.write(begin)}",
        )
    return lost.wait(begin + operator.duration) if begin + operator.duration > lost.cti else None
