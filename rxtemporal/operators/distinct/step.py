"""Coverage, the time in which keys have rows alive; and distinct, the coverage of values."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.columns import NO_FIELDS, Columns
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.due_queue import Queue
from rxtemporal.engine.holdings import KEYS, NEXT_EDGE, PART, ByKey, Entries
from rxtemporal.engine.kernels.coverage import NONE, find_stretches
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.engine.rows import grow
from rxtemporal.engine.state import Stateful


class Coverage(Stateful):
    """Maximal stretches of time in which any row of a key is alive.

    Holds the starts and ends that the CTI has not passed, and one entry for each key.
    """

    held = MappingProxyType({
        "_queue": Entries("key", bits=1),
        "_alive": ByKey(),
        "_since": ByKey(NONE),
        "_until": ByKey(),
        "_edge": ByKey(),
        "_next_edge": NEXT_EDGE,
    })  # fmt: skip

    def __init__(self) -> None:
        self._queue = Queue()
        self._alive = np.zeros(0, np.int64)
        self._since = np.zeros(0, np.int64)
        self._until = np.zeros(0, np.int64)
        self._edge = np.zeros(0, np.int64)
        self._next_edge = 1

    def __len__(self) -> int:
        return len(self._queue)

    def mark_keys(self, held: npt.NDArray[np.bool_]) -> None:
        """Set ``held`` to True for the keys with a row alive, or with a start or an end to come."""
        size = len(self._alive)
        held[:size] |= ((self._alive > 0) | (self._since != NONE))[: len(held)]
        for _, what in self._queue.runs:
            held[what >> 1] = True

    def take(self, batch: EventBatch, key: Int64s, keys: int) -> tuple[EventBatch, Int64s]:
        """Take rows and their keys; return stretches, without a payload, and their keys."""
        closes = batch.find_ends()
        begins = slice(None) if closes is None else ~closes
        ends = batch.end != MAX_TIME
        self._queue.push(batch.start[begins], key[begins] << 1)
        self._queue.push(batch.end[ends], (key[ends] << 1) | 1)
        self._alive, self._edge = grow(self._alive, keys), grow(self._edge, keys)
        self._since, self._until = grow(self._since, keys, NONE), grow(self._until, keys)
        start, end, edge, of, self._next_edge = find_stretches(
            *self._queue.pop_due(batch.cti),
            self._alive, self._since, self._until, self._edge, self._next_edge,
        )  # fmt: skip
        return EventBatch(start, end, edge, Columns(NO_FIELDS, (), len(of)), batch.cti), of


class DistinctStep(Stateful):
    """Returns one row for each maximal stretch of time in which a value is alive.

    Holds the starts and ends that the CTI has not passed, and the values alive.
    """

    held = MappingProxyType({"_coder": KEYS, "_coverage": PART})

    def __init__(self, fields: Sequence[str], schema: pl.Schema) -> None:
        self._coder = KeyCoder({name: schema[name] for name in fields})
        self._coverage = Coverage()

    @property
    def rows(self) -> int:
        """The number of starts and ends that the CTI has not passed."""
        return len(self._coverage)

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the stretches that have begun or ended."""
        codes = self._coder.encode(batch.columns)  # the group's keys are part of the value
        result, of = self._coverage.take(batch, codes, len(self._coder))
        result = result.replace(payload=self._coder.decode(of), keys=batch.keys)
        self.forget_unused(self._coder, self._coverage.mark_keys)
        return result
