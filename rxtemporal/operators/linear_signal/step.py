"""Readings as rows that last until the next one, whose values move along straight lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.core.lines import list_parts
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK
from rxtemporal.engine.holdings import BATCHES, Hold
from rxtemporal.engine.key_matcher import KeyMatcher
from rxtemporal.engine.state import Stateful
from rxtemporal.operators.scan.ordered_step import sort_rows

# no next reading
_NONE = -1


class LinearSignalStep(Stateful):
    """Lets each reading last until the next one of its key, with its line to that.

    A reading is final when the next one has come, or its gap has passed. ``make_matcher`` returns
    what finds the key of a row. Holds the readings that the CTI has not passed, and those that are
    not final.
    """

    held = MappingProxyType({"_coming": BATCHES, "_latest": BATCHES})

    def __init__(
        self,
        make_matcher: Callable[[], KeyMatcher],
        linear: Sequence[str],
        max_gap: int | None,
        output: pl.Schema,
    ) -> None:
        self._make_matcher = make_matcher
        self._linear = linear
        self._max_gap = max_gap
        self._output = output
        self._coming: list[EventBatch] = []
        self._latest: list[EventBatch] = []

    @property
    def rows(self) -> int:
        """The number of readings that are held."""
        return sum(map(len, [*self._coming, *self._latest]))

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Take readings; return the rows that are final."""
        begins = batch.take_begins()
        if len(begins):
            # of a reading only its start counts
            self._coming.append(
                EventBatch.of_rows(begins.start, begins.start + TICK, begins.columns, MIN_TIME)
            )
        due = self._pop_due(batch.cti)
        readings = EventBatch.concat([*self._latest, *due]) if self._latest or due else None
        made = EventBatch.empty(self._output, batch.cti, batch.keys)
        if readings is not None:
            made, waits = self._make_rows(readings, batch)
            self._latest = [waits] if len(waits) else []
        cti = min([batch.cti, *(each.lowest_start for each in self._latest)])
        return made.replace(cti=cti)

    def find_holds(self, cti: int) -> list[Hold]:
        """Return the readings that are not final."""
        return [Hold(each.columns, each.start) for each in self._latest]

    def _pop_due(self, cti: int) -> list[EventBatch]:
        """Remove and return the readings before a CTI."""
        due, coming = [], []
        for each in self._coming:
            passed = each.start < cti
            due.append(each.take(passed))
            coming.append(each.take(~passed))
        self._coming = [each for each in coming if len(each)]
        return [each for each in due if len(each)]

    def _make_rows(self, readings: EventBatch, batch: EventBatch) -> tuple[EventBatch, EventBatch]:
        """Return the rows of readings that are final, and the readings that are not."""
        none = np.zeros(len(readings), np.bool_)
        order = sort_rows(
            readings.start, readings.end, none, lambda rows: readings.columns.take(rows).frame
        )
        key = self._make_matcher().encode(0, readings.columns)[order]
        order = order[np.argsort(key, kind="stable")]
        readings, key = readings.take(order), np.sort(key, kind="stable")
        start = readings.start
        after = _find_next(key, start)
        gap = start[after] - start
        near = after != _NONE
        if self._max_gap is not None:
            near &= gap <= self._max_gap
        final = near | (after != _NONE) | self._is_alone(key, start, batch.cti)
        end = np.where(near, start[after], start + TICK)
        source = np.where(near, after, np.arange(len(start)))
        payload = readings.payload
        times = pl.Series(start), pl.Series(end)
        added = [
            each.cast(self._output[part]).alias(part)
            for name in self._linear
            for part, each in zip(
                list_parts(name), (payload[name].gather(source), *times), strict=True
            )
        ]
        rows = EventBatch.of_rows(
            start, end, Columns.from_frame(payload.with_columns(added)), batch.cti, batch.keys
        )
        return rows.take(np.flatnonzero(final)), readings.take(np.flatnonzero(~final))

    def _is_alone(self, key: Int64s, start: Int64s, cti: int) -> Bools:
        """Return the mask of the readings that no other one can follow closely enough."""
        if cti == MAX_TIME:
            return np.ones(len(key), np.bool_)
        alone: Bools = key < 0  # null matches nothing
        return alone if self._max_gap is None else alone | (start < cti - self._max_gap)


def _find_next(key: Int64s, start: Int64s) -> Int64s:
    """Return for each reading the first one of its key that starts later; -1 if there is none.

    They are in order of key and start; a negative key has no other readings.
    """
    count = len(key)
    differs = np.ones(count, np.bool_)
    differs[1:] = (key[1:] != key[:-1]) | (start[1:] != start[:-1])
    first = np.append(np.flatnonzero(differs), count)
    run = np.cumsum(differs) - 1
    following = first[run + 1]
    there = following < count
    there[there] = key[following[there]] == key[there]
    return np.where(there & (key >= 0), following, _NONE)
