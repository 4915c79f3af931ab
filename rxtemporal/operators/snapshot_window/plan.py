"""snapshot_window: a window for each interval in which the same rows are alive."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

    def bounds(self) -> Bounds:
        """Return new bounds."""
        from rxtemporal.operators.snapshot_window.bounds import SnapshotBounds

        return SnapshotBounds(finished=self.result.finished)


def snapshot_window() -> Windowed[Chain]:
    """Cut time into the longest intervals in which the same rows are alive.

    Each interval is a window; there is no window where no row is alive. Follow it with
    ``aggregate``. The CTI passes unchanged: a snapshot that has not ended is emitted as a start
    edge.
    """
    return windows(lambda result: SnapshotWindows(result=result))
