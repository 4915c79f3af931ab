"""Bounds of windows, and the places at which rows enter and leave windows.

Rows begin and end along an *axis* of integers: ticks for snapshot windows, the numbers of the
windows for hopping windows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.operators.windows.aggregates import Changes, SumInput, SumResult
from rxtemporal.operators.windows.field_values import Array

_NONE = np.empty(0, np.int64)
# start, end and edge of no rows
NO_TIMES = _NONE, _NONE, _NONE
# origin and spacing of an axis, whose place ``p`` is ``(p - origin) // spacing`` on that of bounds
Axis: TypeAlias = tuple[int, int]
OWN_AXIS: Axis = (0, 1)
# below any place on an axis
NOTHING_DUE = -(1 << 63)


@dataclasses.dataclass(slots=True, eq=False)
class Due:
    """Changes that are due, in order of their places, and the values by row number.

    ``at`` ``int64[n]``: the places of the changes on the bounds' axis, as they are or on another
    ``axis``.
    """

    at: Int64s
    changes: Changes
    values: Sequence[Array]
    axis: Axis = OWN_AXIS


@dataclasses.dataclass(slots=True, eq=False)
class Windows:
    """Windows that have become known, ``int64[w]`` each, in order of ``at``.

    ``start``, ``end``, ``edge``: as in a batch. ``key``: the key's code. ``alive``: the number of
    rows that the window holds, which are those alive before change number ``at``. ``window``:
    another number for each window, where one window is for all keys; otherwise None. ``sums``: the
    sum of floats in each window, as far as it has been computed in the same pass.
    """

    start: Int64s
    end: Int64s
    edge: Int64s
    key: Int64s
    at: Int64s
    alive: Int64s
    window: Int64s | None = None
    sums: SumResult | None = dataclasses.field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.start)

    def take(self, which: npt.NDArray[np.bool_] | slice) -> Windows:
        """Return some of them."""
        taken = Windows(*(column[which] for column in self._columns))
        taken.window = None if self.window is None else self.window[which]
        if self.sums is not None:
            sums, there = self.sums
            taken.sums = sums[which], None if there is None else there[which]
        return taken

    def extend(self, more: Windows) -> Windows:
        """Return these windows and more, which come after them."""
        return Windows(*map(np.concatenate, zip(self._columns, more._columns, strict=True)))

    @property
    def _columns(self) -> list[Int64s]:
        return [self.start, self.end, self.edge, self.key, self.at, self.alive]

    @property
    def is_end(self) -> npt.NDArray[np.bool_]:
        """The mask of windows that end now and left earlier as start edges."""
        return np.asarray((self.edge != 0) & (self.end != MAX_TIME))


class Bounds(Protocol):
    """Bounds of one kind of windows."""

    span: int
    """A row that so many windows hold may be a single change; 0 if none may."""

    end_by_time: bool
    """True if windows hold a row until its own end, and so for ever if it never ends."""

    @property
    def pending(self) -> int:
        """The number of rows whose only change is applied, though their window has not ended."""

    def find_changes(
        self, batch: EventBatch, first: int, lists: bool, span: int
    ) -> tuple[Int64s, Int64s, bool]:
        """Return the changes of new rows, which are numbered from ``first`` on.

        The places on the axis from which rows are held, and the changes there, ``int64[2, n]``;
        the same for the places up to which they are; and True if the former never fall. A row that
        ``span`` windows hold has no change of the latter kind.
        """

    def find_places(self, batch: EventBatch) -> tuple[Int64s, Int64s]:
        """Return the places from which on, and up to which, rows are held.

        All ends are known. Any numbers will do that are equal where the places are.
        """

    def find_due_rows(self, batch: EventBatch, limit: int) -> tuple[Int64s, Axis] | None:
        """Return the places of rows, if each is a single change below a limit, and their axis.

        On the bounds' axis the places never fall. None says nothing about the rows.
        """

    def find_ends(self, batch: EventBatch) -> Int64s:
        """Return the place on the axis up to which each row is held."""

    def ends_none(self, cti: int) -> bool:
        """Return True if no window ends with this CTI, so that changes may wait for others."""

    def limits(self, cti: int) -> tuple[int, int]:
        """Return the places below which starts and ends are applied now.

        A change that comes later with a place below them affects no window that is known by then.
        """

    def cut(self, due: Due, keys: int, cti: int, sums: SumInput | None) -> Windows:
        """Apply the changes; return the windows now known.

        ``sums`` asks for a sum of floats in the same pass. It is None where ``changes.span`` is 0.
        """

    def mark_keys(self, held: npt.NDArray[np.bool_]) -> None:
        """Set ``held`` to True for the keys that have a window."""

    def find_since(self) -> Int64s | None:
        """Return since when each key waits for the end of a window, by key; None if none may.

        It is the end of time for a key that does not.
        """

    def list_open_windows(self) -> Container[int]:
        """Return the edge ids of the windows that have left as start edges and have not ended."""

    def find_next_due(self, at: int | None) -> int | None:
        """Return the CTI with which a window may next become known; None if there is none.

        ``at`` is the place on the axis of the next start or end, None where there is none.
        """

    def cti(self, cti: int) -> int:
        """Return the output CTI."""
