"""Row events that wait to become a batch: as a batch, and as plain values."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.columns import Columns
from rxtemporal.core.events import EdgeEvent, EdgeType, RowEvent
from rxtemporal.core.schema import to_fields


class SavedRow(NamedTuple):
    """A row that waited when the stream was saved."""

    start: int
    end: int
    payload: Any


Pending: TypeAlias = RowEvent | SavedRow


# the CTIs that stood before events: each with the number of the first event after it
Ctis: TypeAlias = list[tuple[int, int]]


def ends_row(event: RowEvent) -> bool:
    """Return True if an event is an end edge."""
    return isinstance(event, EdgeEvent) and event.edge_type is EdgeType.END


def find_cti(ctis: Ctis, number: int) -> int:
    """Return the CTI that stood before an event."""
    return ctis[bisect_right(ctis, number, key=itemgetter(0)) - 1][1]


def make_batch(
    events: Sequence[Pending], edges: Mapping[int, int], payload: Columns, cti: int
) -> EventBatch:
    """Return events as a batch with these payloads, and a CTI after them.

    ``edges`` has the ids of those that are edges, by their numbers.
    """
    # a comprehension reads a slot in less time than attrgetter does
    start = np.fromiter([event.start for event in events], np.int64, payload.height)
    end = np.fromiter([event.end for event in events], np.int64, payload.height)
    if not edges:
        return EventBatch.of_rows(start, end, payload, cti)
    edge = np.zeros(payload.height, np.int64)
    edge[list(edges)] = list(edges.values())
    return EventBatch(start, end, edge, payload, cti)


def save_events(events: Sequence[Pending], edges: Mapping[int, int], ctis: Ctis) -> list[list[Any]]:
    """Return events as plain values, each with its edge id and the CTI before it."""
    return [
        [row.start, row.end, to_fields(row.payload), edges.get(n, 0), find_cti(ctis, n)]
        for n, row in enumerate(events)
    ]
