"""Causes of rows: the rows of an operator's inputs on which rows of its output stand."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rxtemporal.core.batch import Int64s

Bytes = npt.NDArray[np.int8]

ROW, BOUNDARY, HISTORY = range(3)
"""Roles of causes.

``ROW``: its payload or lifetime is in the result. ``BOUNDARY``: its start or end makes the start
or the end of the result. ``HISTORY``: a row of the key up to then, which a function with a state
has seen.
"""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Causes:
    """Pairs of a row of an operator's output and a row of one of its inputs.

    ``of`` are rows of the output, ascending; ``side`` is the input (0 or 1), ``row`` the row in
    the history of that input, and ``role`` one of ``ROW``, ``BOUNDARY``, ``HISTORY``. No pair is
    there twice; of several roles it has the first. ``part`` is the part that the row has in the
    result, a number among the operator's ``cause_parts``, -1 for none.
    """

    of: Int64s
    side: Bytes
    row: Int64s
    role: Bytes
    part: Int64s

    def __len__(self) -> int:
        return len(self.of)

    @classmethod
    def none(cls) -> Causes:
        """Return no causes."""
        no_rows, no_bytes = np.empty(0, np.int64), np.empty(0, np.int8)
        return cls(no_rows, no_bytes, no_rows, no_bytes, no_rows)

    @classmethod
    def of_pairs(
        cls,
        of: npt.NDArray[Any],
        row: npt.NDArray[Any],
        *,
        side: npt.NDArray[Any] | int = 0,
        role: npt.NDArray[Any] | int = ROW,
        part: npt.NDArray[Any] | int = -1,
    ) -> Causes:
        """Return pairs, in any order and perhaps with some twice, as causes."""
        n = len(of)
        sides, roles = np.broadcast_to(side, n), np.broadcast_to(role, n)
        parts = np.broadcast_to(part, n)
        order = np.lexsort((roles, row, sides, of))
        of, row, sides, roles = of[order], row[order], sides[order], roles[order]
        first = np.ones(n, np.bool_)
        if n:
            first[1:] = (np.diff(of) != 0) | (np.diff(row) != 0) | (np.diff(sides) != 0)
        return cls(
            of[first].astype(np.int64),
            sides[first].astype(np.int8),
            row[first].astype(np.int64),
            roles[first].astype(np.int8),
            parts[order][first].astype(np.int64),
        )

    @classmethod
    def concat(cls, parts: Sequence[Causes]) -> Causes:
        """Return the causes of all parts as one."""
        if not parts:
            return cls.none()
        return cls.of_pairs(
            np.concatenate([each.of for each in parts]),
            np.concatenate([each.row for each in parts]),
            side=np.concatenate([each.side for each in parts]),
            role=np.concatenate([each.role for each in parts]),
            part=np.concatenate([each.part for each in parts]),
        )


def merge_rows(found: dict[int, Int64s], number: int, rows: Int64s) -> None:
    """Add rows of a node to those found so far."""
    before = found.get(number)
    if len(rows) or before is not None:
        found[number] = np.unique(rows if before is None else np.concatenate([before, rows]))
