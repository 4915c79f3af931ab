"""Rows of several streams, judged at once in the order in which they are accepted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rxtemporal.column_door import ColumnDoor
from rxtemporal.core.batch import EventBatch, Int64s


def admit_merged(
    doors: Sequence[ColumnDoor],
    rows: Sequence[EventBatch],
    places: Sequence[Int64s],
    importers: Sequence[Sequence[int]],
) -> list[EventBatch]:
    """Return what goes on of each stream's complete rows, accepted merged by their places.

    The row with the lowest place is next, ties go by order of the streams, and each CTI that is
    made goes on at once to the streams that import it (``importers``: their numbers, for each
    stream) and from them to theirs. So the verdicts are those of one event after the other; only
    the time that is told with them is the last one reached.
    """
    # compiled code is loaded by the first query that needs it
    from rxtemporal.engine.kernels.merged_doors import admit_merged

    lengths = [len(each) for each in rows]
    begins = np.concatenate([[0], np.cumsum(lengths)])
    start = np.concatenate([each.start for each in rows])
    state = np.array([door.state for door in doors], np.int64)
    starts, reason, before = admit_merged(
        # the places of one stream ascend, so that this is but a merge
        np.argsort(np.concatenate(places), kind="stable"),
        np.repeat(np.arange(len(rows)), lengths),
        start,
        np.concatenate([each.end for each in rows]),
        np.array([door.rules for door in doors], np.int64),
        np.concatenate([[0], np.cumsum([len(each) for each in importers])]),
        np.array([number for each in importers for number in each], np.int64),
        state,
    )
    out = []
    for i, (door, batch) in enumerate(zip(doors, rows, strict=True)):
        part = slice(begins[i], begins[i + 1])
        out.append(door.let_in(batch, starts[part], reason[part], before[part], state[i]))
    return out
