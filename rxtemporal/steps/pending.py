"""Changes that lie ahead of the CTI, kept so that a commit costs what is due and not what waits."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from rxtemporal.batch import Int64s

__all__ = ["Changes", "Pending"]

Column = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """Rows that begin (sign +1) or end (-1) at a time, with their key and their values.

    ``time``, ``key``, ``sign`` are ``int64[n]``; ``columns`` are arrays of n, the same number and
    types in all changes of one step.
    """

    time: Int64s
    key: Int64s
    sign: Int64s
    columns: tuple[Column, ...]

    def __len__(self) -> int:
        return len(self.time)

    def take(self, rows: npt.NDArray[np.intp] | slice) -> Changes:
        """Return the changes with these numbers."""
        return Changes(
            self.time[rows],
            self.key[rows],
            self.sign[rows],
            tuple(column[rows] for column in self.columns),
        )

    def in_order(self) -> Changes:
        """Return the changes in order of time; equal times stay as they are."""
        if len(self) < 2 or bool((self.time[1:] >= self.time[:-1]).all()):
            return self
        return self.take(np.argsort(self.time, kind="stable"))

    @staticmethod
    def concat(parts: list[Changes]) -> Changes:
        """Return the changes of all parts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        return Changes(
            np.concatenate([part.time for part in parts]),
            np.concatenate([part.key for part in parts]),
            np.concatenate([part.sign for part in parts]),
            tuple(
                np.concatenate(columns)
                for columns in zip(*(part.columns for part in parts), strict=True)
            ),
        )


class Pending:
    """Changes at or after the CTI, as a few sorted runs of growing size.

    A new run is merged with its neighbour while the two are of similar size, so that each change is
    moved O(log n) times in all and a commit looks only at the heads of O(log n) runs. Holds every
    change until the CTI passes it.
    """

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[Changes] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def push(self, changes: Changes) -> None:
        """Keep these changes."""
        if not len(changes):
            return
        self._runs.append(changes.in_order())
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            last = self._runs.pop()
            self._runs[-1] = Changes.concat([self._runs[-1], last]).in_order()

    def due(self, cti: int) -> list[Changes]:
        """Take out what lies before ``cti``, as sorted runs."""
        taken, kept = [], []
        for run in self._runs:
            upto = int(np.searchsorted(run.time, cti))
            if upto:
                taken.append(run.take(slice(0, upto)))
            if upto < len(run):
                kept.append(run.take(slice(upto, None)) if upto else run)
        self._runs = kept
        return taken
