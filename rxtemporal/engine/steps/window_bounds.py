"""Bounds: which windows there are, and where a row enters and leaves them.

A window step sees rows begin and end along an *axis* of integers: ticks for snapshot windows, the
numbers of the windows for hopping ones.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.steps.aggregates import Changes


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Windows that have become known, ``int64[w]`` each, in order of ``at``.

    ``start``, ``end``, ``edge`` as in a batch; ``key`` the key's code; ``alive`` how many rows it
    holds: those alive before change number ``at``.
    """

    start: Int64s
    end: Int64s
    edge: Int64s
    key: Int64s
    at: Int64s
    alive: Int64s

    def __len__(self) -> int:
        return len(self.start)

    def take(self, which: npt.NDArray[np.bool_]) -> Windows:
        """Return some of them."""
        fields = (getattr(self, field.name) for field in dataclasses.fields(self))
        return Windows(*(column[which] for column in fields))

    @property
    def closing(self) -> npt.NDArray[np.bool_]:
        """Which of them have left before, as start edges, and end now."""
        return np.asarray((self.edge != 0) & (self.end != MAX_TIME))


class Bounds(Protocol):
    """One kind of windows."""

    once: bool
    """Whether a row may be held by one window alone, and then be one change."""

    def begins(self, batch: EventBatch) -> Int64s:
        """Return where on the axis each row is first held."""

    def ends(self, batch: EventBatch, begins: Int64s) -> Int64s:
        """Return where each row, first held from ``begins``, no longer is; of endless ones any."""

    def limits(self, cti: int) -> tuple[int, int]:
        """Return below where on the axis all that begins is known, and all that ends."""

    def cut(self, at: Int64s, changes: Changes, keys: int, cti: int) -> Windows:
        """Apply the changes, each at its place on the axis, and return the windows now known."""

    def due(self, at: int | None) -> int | None:
        """Return the CTI with which a window may next become known; None for none.

        ``at`` is where on the axis something next begins or ends, None where nothing does.
        """

    def cti(self, cti: int) -> int:
        """Return the output CTI."""
