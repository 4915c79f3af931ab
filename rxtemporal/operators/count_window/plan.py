"""count_window: windows of consecutive distinct starts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from rxtemporal.core.events import WindowOutput
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.operator import ADDED_LATER, Chain, Keys
from rxtemporal.operators.sessions.plan import StartWindows, check_output
from rxtemporal.operators.windows.plan import Windowed, windows

if TYPE_CHECKING:
    from rxtemporal.core.batch import Int64s
    from rxtemporal.operators.causes.causes import Causes
    from rxtemporal.operators.causes.history import History
    from rxtemporal.operators.causes.lost_row import Fate, LostRow
    from rxtemporal.operators.windows.start_windows import StartBounds


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class CountWindows(StartWindows):
    """One result for every n consecutive distinct starts of a key."""

    n: int
    # True if windows of fewer starts come before the first full one
    partial: bool = dataclasses.field(default=False, metadata=ADDED_LATER)
    window = "count_window()"

    @property
    def least(self) -> int:
        """The number of starts of the shortest window."""
        return 1 if self.partial else self.n

    @property
    def cti_rule(self) -> str:
        """The CTI held back by unfinished windows, whose results begin at their starts."""
        return "t" if self.points else "t, held at the start of the oldest unfinished window"

    @property
    def holds(self) -> str:
        """The rows that later windows need."""
        return "for each key the rows of its last n - 1 distinct starts"

    def bounds(self, schema: pl.Schema, keys: Keys) -> StartBounds:
        """Return new bounds for count windows."""
        from rxtemporal.operators.count_window.bounds import CountBounds

        return CountBounds(self.n, schema, keys, partial=self.partial)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        from rxtemporal.operators.count_window.causes import list_rows
        from rxtemporal.operators.windows.members import find_window_rows

        return find_window_rows(self.result, inputs[0], output, rows, partial(list_rows, self))

    def explain_loss(self, lost: LostRow) -> Fate:
        """Return why a row of an input has given no row."""
        from rxtemporal.operators.count_window.causes import explain_too_few

        return explain_too_few(self, lost)


def count_window(
    n: int,
    *,
    partial: bool = False,
    output: WindowOutput = WindowOutput.POINT_AT_END,
) -> Windowed[Chain]:
    """Make a window of every ``n`` consecutive distinct start times of a key.

    Each window is ``[first start, n-th start + 1 tick)`` and contains the rows that start in it;
    the next window begins one start later. Fewer than ``n`` starts give no window, but with
    ``partial=True`` the first ones do, from one start on: then each start ends a window of the last
    starts, at most ``n``. A result is a point at the window's end. With
    ``output=WindowOutput.WINDOW`` it lives for its window, and the CTI is held at the start of the
    oldest unfinished window: a key without further rows holds it forever. Held: the rows of each
    key's last n - 1 starts. Source: StreamInsight's count windows.

    >>> import rxtemporal as rxt
    >>> from rxtemporal import agg
    >>> prices = rxt.from_events([rxt.PointEvent(t, {"x": x}) for t, x in ((1, 5), (4, 7), (6, 3))])
    >>> prices.count_window(2, partial=True).aggregate(s=agg.sum("x")).to_polars().rows()
    [(2, 3, 5), (5, 6, 12), (7, 8, 10)]
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ArgumentError(
            f"count_window takes a number of starts, at least 1, got {n!r}. "
            "Hint: tumbling_window(duration) has windows of a duration."
        )
    if not isinstance(partial, bool):
        raise ArgumentError(f"count_window: partial is True or False, got {partial!r}")
    at = check_output(output)
    return windows(lambda result: CountWindows(n=n, partial=partial, at=at, result=result))
