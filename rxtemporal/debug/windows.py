"""Windows that the timeline shades: those of a window operator that have results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from rxtemporal.debug.columns import Column, encode_ticks
from rxtemporal.operators.hopping_window.plan import HoppingWindows
from rxtemporal.operators.sessions.plan import StartWindows
from rxtemporal.operators.windows.plan import TimeWindows

if TYPE_CHECKING:
    from rxtemporal.operators.causes.history import History

# of more windows the first ones are shaded
MOST_WINDOWS = 20_000


def find_windows(history: History) -> dict[str, Column] | None:
    """Return the starts and ends of a window operator's windows, in order; None for another one.

    A result lives for its window, or is a point that begins where the window ends. Windows whose
    length is not known from such a point are not shaded.
    """
    operator: Any = history.node.operator
    if not isinstance(operator, (TimeWindows, StartWindows)):
        return None
    starts, ends = history.start, history.end
    if operator.points:
        if not isinstance(operator, HoppingWindows):
            return None
        starts, ends = starts - operator.duration, starts
    times = pl.DataFrame({"start": starts, "end": ends}).unique().sort("start", "end")
    times = times.head(MOST_WINDOWS)
    return {name: encode_ticks(np.asarray(times[name].to_numpy())) for name in ("start", "end")}
