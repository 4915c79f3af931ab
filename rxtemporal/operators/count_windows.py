"""count_window: windows of consecutive distinct starts."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import polars as pl

from rxtemporal.core.events import WindowOutput
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.operator import Chain
from rxtemporal.operators.session_windows import StartWindows, check_output
from rxtemporal.operators.windows import Windowed, windows

if TYPE_CHECKING:
    from rxtemporal.engine.steps.start_windows import StartBounds


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class CountWindows(StartWindows):
    """One result for each n consecutive distinct starts of a key."""

    n: int
    window = "count_window()"

    @property
    def cti_rule(self) -> str:
        """An unfinished window holds what begins with it."""
        return "t" if self.points else "t, held at the start of the oldest unfinished window"

    @property
    def holds(self) -> str:
        """Windows to come hold rows that are here."""
        return "for each key the rows of its last n - 1 distinct starts"

    def bounds(self, schema: pl.Schema) -> StartBounds:
        """Return new bounds."""
        from rxtemporal.engine.steps.count_windows import CountBounds

        return CountBounds(self.n, schema)


def count_window(n: int, *, output: WindowOutput = WindowOutput.POINT_AT_END) -> Windowed[Chain]:
    """Make a window of every ``n`` consecutive distinct start times of a key.

    Each window is ``[first start, n-th start + 1 tick)`` and holds the rows that start in it; the
    next one begins one start later; fewer than ``n`` starts give none. A result is a point at the
    window's end. As a whole window (``output=WindowOutput.WINDOW``) it holds the CTI at the start
    of the oldest unfinished window, so a key that falls silent holds everything back for good.
    Held: the rows of each key's last n - 1 starts. Source: StreamInsight's count windows.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ArgumentError(f"count_window takes how many distinct starts, at least 1, got {n!r}")
    at = check_output(output)
    return windows(lambda result: CountWindows(n=n, at=at, result=result))
