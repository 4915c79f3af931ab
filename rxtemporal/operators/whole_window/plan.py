"""whole_window: one window over all time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from rxtemporal.errors import ArgumentError
from rxtemporal.operators.lifetimes.plan import ToPointEvents
from rxtemporal.operators.operator import Chain
from rxtemporal.operators.windows.plan import TimeWindows, Windowed, windows
from rxtemporal.operators.windows.results_plan import ResultSpec

if TYPE_CHECKING:
    from rxtemporal.core.batch import Int64s
    from rxtemporal.operators.causes.causes import Causes
    from rxtemporal.operators.causes.history import History
    from rxtemporal.operators.causes.lost_row import Fate, LostRow
    from rxtemporal.operators.windows.bounds import Bounds


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class WholeWindow(TimeWindows):
    """One result over all time."""

    window = "whole_window()"
    knows_ends = True

    @property
    def passes_time(self) -> bool:
        """False: the first row has a result that begins before it."""
        return False

    @property
    def cti_rule(self) -> str:
        """The beginning of time, at which the result begins."""
        return "the beginning of time, until time ends"

    @property
    def holds(self) -> str:
        """The running results, and the rows if they are read one by one."""
        return "the running results of each key, and the rows of top_k and of listed aggregates"

    def bounds(self) -> Bounds:
        """Return new bounds."""
        from rxtemporal.operators.whole_window.bounds import WholeBounds

        return WholeBounds()

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        from rxtemporal.operators.whole_window.causes import list_rows
        from rxtemporal.operators.windows.members import find_window_rows

        return find_window_rows(self.result, inputs[0], output, rows, partial(list_rows, self))

    def explain_loss(self, lost: LostRow) -> Fate:
        """Return why a row of an input has given no row."""
        from rxtemporal.operators.whole_window.causes import explain_open_end

        return explain_open_end(self, lost)


def whole_window() -> Windowed[Chain]:
    """Make one window over all time, which holds the rows by their starts.

    There is one result for each key when time has ended: when all sources have completed, as at the
    end of a frame or a recording. Until then the CTI stays at the beginning of time, and
    ``process.peek()`` has the result so far. A result lives from the beginning of time for ever.
    Held: the running results of each key; rows only where they are needed one by one. Results that
    depend on lifetimes, as ``agg.duration``, are refused.

    >>> import rxtemporal as rxt
    >>> from rxtemporal import agg
    >>> bids = rxt.from_events([rxt.PointEvent(t, {"x": x}) for t, x in ((1, 5), (4, 7), (6, 3))])
    >>> best = bids.whole_window().aggregate(n=agg.count(), high=agg.max("x"))
    >>> best.to_polars()["n", "high"].rows()
    [(3, 7)]
    """

    def over(result: ResultSpec) -> Chain:
        if result.by_time or result.finished or result.reads_window:
            raise ArgumentError(
                "a result that depends on lifetimes or on the bounds of its window has no meaning "
                "over all time. Hint: tumbling_window('365d') has years; count, sum, max, first … "
                "and top_k are of the rows alone."
            )
        return Chain((ToPointEvents(), WholeWindow(result=result)))

    return windows(over)
