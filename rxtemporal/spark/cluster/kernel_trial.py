"""A small query, to learn how long a process takes until kernels are there."""

from __future__ import annotations

import time
from typing import Any


def run_trial() -> dict[str, Any]:
    """Run a query with keys and windows; return its CPU time, and the place of machine code.

    ``error`` if the engine does not work here.
    """
    begin = time.process_time()
    try:
        import rxtemporal as rxt
        from rxtemporal import agg
        from rxtemporal.engine.kernels.compiled import find_code_folder

        rows = rxt.from_events([rxt.PointEvent(t, {"k": t % 3, "x": float(t)}) for t in range(64)])
        rows.group_by("k").tumbling_window(8).aggregate(n=agg.count(), x=agg.mean("x")).to_polars()
        return {"seconds": time.process_time() - begin, **find_code_folder()._asdict()}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
