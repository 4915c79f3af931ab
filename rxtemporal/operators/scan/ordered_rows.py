"""Rows of a key in their order, and which of them the rows are that an operator made of these."""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.operators.causes.causes import HISTORY, Causes
from rxtemporal.operators.causes.history import History, code_fields, code_rows, match_codes
from rxtemporal.operators.scan.ordered_step import sort_rows

# no field has this name
_START = "\0start"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class OrderedRows:
    """Rows of a history by key, and of each key by start, payload and end.

    ``order`` are the rows; ``code`` is that of each one's key, and ``place`` its place in the order
    (both by row).
    """

    history: History
    order: Int64s
    code: Int64s
    place: Int64s

    @classmethod
    def of(cls, history: History) -> OrderedRows:
        """Return the rows of a history in the order in which operators over ordered rows see them.

        Rows that never end, and those of which no end is known, come last among equal ones.
        """
        code, _ = code_fields(history, history, history.keys)
        never = history.end == MAX_TIME
        order = sort_rows(history.start, history.end, never, history.payload.__getitem__)
        order = order[np.argsort(code[order], kind="stable")]
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return cls(history, order, code, place)

    def find_before(self, of: Int64s, row: Int64s, count: int) -> Causes:
        """Return so many rows before each row of its key, as history of the results ``of``."""
        found = []
        for back in range(1, count + 1):
            at = self.place[row] - back
            before = self.order[np.maximum(at, 0)]
            there = (at >= 0) & (self.code[before] == self.code[row])
            if not there.any():
                break
            found.append(Causes.of_pairs(of[there], before[there], role=HISTORY))
        return Causes.concat(found)

    def match_output(self, output: History, rows: Int64s) -> tuple[Int64s, Int64s, Int64s]:
        """Return a wanted row of the output, its row in the order, and the one that has its end.

        The output has the fields of the rows, and perhaps more; of equal rows not all need have
        one. Rows of equal start and payload differ in nothing that the operator sees, and leave in
        the order of their ends: the first of the output is the first's, whatever ends first later.
        As long as one of them is open none has an end in the output, so the ends do not tell. The
        end is then that of the last one.
        """
        history, order = self.history, self.order
        times = output.start[rows]
        near = np.flatnonzero(np.isin(output.start, times))
        far = order[np.isin(history.start[order], times)]
        names = history.payload.columns
        made, given = code_rows(
            _to_frame(output.start[near], output.payload[near], names),
            _to_frame(history.start[far], history.payload[far], names),
        )
        of, at = match_codes(made, given)
        last = np.zeros(int(given.max(initial=0)) + 1, np.int64)
        last[given] = far
        row, of, last = far[at], near[of], last[given[at]]
        own = np.where(history.end[row] == output.end[of], row, last)
        wanted = np.isin(of, rows)
        return of[wanted], row[wanted], own[wanted]


def _to_frame(start: Int64s, payload: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    return pl.DataFrame([pl.Series(_START, start), *(payload.get_column(each) for each in names)])
