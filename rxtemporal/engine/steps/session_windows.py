"""Windows that gather the rows that start in them: sessions and counts, and their results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.columns import typed
from rxtemporal.core.ticks import MAX_TIME, TICK
from rxtemporal.engine.kernels.changes import BITS
from rxtemporal.engine.steps.aggregates import Changes
from rxtemporal.engine.steps.session_bounds import Gathered, Gathering
from rxtemporal.engine.steps.state import Stateful
from rxtemporal.engine.steps.window_bounds import Windows
from rxtemporal.engine.steps.window_results import Made, Results
from rxtemporal.engine.steps.window_rows import Contents


class GatheredStep(Stateful):
    """Results over windows of rows that start in them, told when a window is final.

    Holds the rows that a window to come may hold. Each window's results are computed anew.
    """

    held = ("_bounds",)

    def __init__(
        self, bounds: Gathering, results: Callable[[], Results], schema: pl.Schema, *, points: bool
    ) -> None:
        self._bounds = bounds
        self._results = results
        self._schema = schema
        self._points = points

    @property
    def rows(self) -> int:
        """How many rows are held."""
        return self._bounds.rows

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Take rows that start, and return the results of the windows that are final."""
        self._bounds.take(batch)
        found = self._bounds.closed(batch.cti)
        cti = self._bounds.cti(batch.cti, points=self._points)
        if not len(found):
            return EventBatch.empty(self._schema, cti)
        start, end = found.start, found.end
        if self._points:
            start, end = end, np.minimum(end + TICK, MAX_TIME)
        made = self._made(found)
        of = np.arange(len(found)) if made.of is None else made.of
        start, end = start[of], end[of]
        if made.lifetimes is not None and not self._points:
            start, end = made.lifetimes
        keys = []
        if batch.groups is not None:
            keys = batch.groups.coder.columns(found.key[of])
        payload = typed([*keys, *made.columns], self._schema)
        result = EventBatch.of_rows(start, end, payload, cti)
        # a window that reaches the end of time has no point there
        return result.take(result.start < MAX_TIME)

    def _made(self, found: Gathered) -> Made:
        """Compute the results of each window from its rows."""
        results = self._results()
        payload = self._bounds.payload(found.row)
        pairs, count = len(found.row), len(found)
        at, alive = np.full(count, pairs), np.bincount(found.window, minlength=count)
        no = np.zeros(count, np.int64)
        windows = Windows(found.start, found.end, no, np.arange(count), at, alive)
        # each pair of a window and a row is a row of its own here, and the window is its key
        changes = Changes(np.arange(pairs) << BITS, found.window)
        swept = results.swept(windows, changes, results.columns(payload), count)
        contents = None
        if results.lists:
            contents = Contents.of(
                found.window, payload, self._bounds.starts[found.row],
                self._bounds.ends[found.row], found.start, found.end,
            )  # fmt: skip
        return results.frame(swept, windows, contents)
