"""snapshot_window: a window for each interval in which the same rows are alive."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rxtemporal.core.batch import Int64s
    from rxtemporal.operators.causes.causes import Causes
    from rxtemporal.operators.causes.history import History
    from rxtemporal.operators.causes.lost_row import Fate, LostRow
    from rxtemporal.operators.windows.bounds import Bounds
from rxtemporal.operators.operator import Chain
from rxtemporal.operators.windows.plan import TimeWindows, Windowed, windows


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SnapshotWindows(TimeWindows):
    """One result for each maximal interval of time in which the same rows are alive.

    ``window`` is the method that made the window.
    """

    window: str = "snapshot_window()"

    @property
    def cti_rule(self) -> str:
        """The CTI unchanged, unless results need the end of their snapshot."""
        if self.result.finished:
            return "t, held at the start of the oldest snapshot that has not ended"
        return "t"

    @property
    def holds_time(self) -> bool:
        """True if results need the end of their snapshot."""
        return self.result.finished

    def bounds(self) -> Bounds:
        """Return new bounds."""
        from rxtemporal.operators.snapshot_window.bounds import SnapshotBounds

        return SnapshotBounds(finished=self.result.finished)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        from rxtemporal.operators.snapshot_window.causes import find_alive_rows

        return find_alive_rows(self, inputs, output, rows)

    def explain_loss(self, lost: LostRow) -> Fate:
        """Return why a row of an input has given no row."""
        from rxtemporal.operators.snapshot_window.causes import explain_open_snapshot

        return explain_open_snapshot(self, lost)


def snapshot_window() -> Windowed[Chain]:
    """Cut time into the longest intervals in which the same rows are alive.

    Each interval is a window; there is no window where no row is alive. Follow it with
    ``aggregate``. The CTI passes unchanged: a snapshot that has not ended is emitted as a start
    edge.
    """
    return windows(lambda result: SnapshotWindows(result=result))
