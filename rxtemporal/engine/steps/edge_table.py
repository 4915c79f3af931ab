"""Which row an edge id stands for."""

from __future__ import annotations

from rxtemporal.core.batch import Int64s
from rxtemporal.engine.kernels.hash_table import IntTable
from rxtemporal.engine.steps.state import Stateful


class OpenEdges(Stateful):
    """The numbers of the rows that are open, by edge id. Holds one entry for each."""

    held = ("entries",)
    next_due = None

    def __init__(self) -> None:
        self._table = IntTable()

    def __len__(self) -> int:
        return len(self._table)

    @property
    def entries(self) -> tuple[Int64s, ...]:
        """What is saved."""
        return self._table.state()

    @entries.setter
    def entries(self, saved: tuple[Int64s, ...]) -> None:
        self._table = IntTable.restore(*saved)

    def open(self, edges: Int64s, rows: Int64s) -> None:
        """Remember the rows opened under these ids."""
        if len(edges):
            self._table.insert(edges, rows)

    def close(self, edges: Int64s) -> Int64s:
        """Take out the rows opened under these ids, -1 where there is none."""
        return self._table.pop(edges)

    def renumber(self, new: Int64s) -> None:
        """Give the rows their new numbers; what stands for a row that is gone goes too."""
        edges, rows, counts = self._table.state()
        rows = new[rows]
        self._table = IntTable.restore(edges[rows >= 0], rows[rows >= 0], counts)
