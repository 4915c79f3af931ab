"""Windows that the timeline shades: those of a window operator that have results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rxtemporal.debug.columns import Column, encode_ticks

if TYPE_CHECKING:
    from rxtemporal.operators.causes.history import History

# of more windows the first ones are shaded
MOST_WINDOWS = 20_000


def find_windows(history: History) -> dict[str, Column] | None:
    """Return the starts and ends of a window operator's windows, in order; None for another one.

    A result lives for its window, or is a point that begins where the window ends. Windows whose
    length is not known from such a point are not shaded.
    """
    operator = history.node.operator
    windows = None if operator is None else operator.find_windows(history.start, history.end)
    if windows is None:
        return None
    starts, ends = windows
    times = pl.DataFrame({"start": starts, "end": ends}).unique().sort("start", "end")
    times = times.head(MOST_WINDOWS)
    return {name: encode_ticks(np.asarray(times[name].to_numpy())) for name in ("start", "end")}
