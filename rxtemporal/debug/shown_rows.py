"""Choice of the rows that the page shows: all of a small run, and of a large one a sample.

The sample begins at the output: of a result that is shown, its causes are shown, too, as far as
there is room. What room is left is for other rows, taken evenly over the run, and all late events
come first among the arrivals.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.debug.causes import ShownCauses, find_causes
from rxtemporal.operators.causes.history import LATE, Arrivals

if TYPE_CHECKING:
    from rxtemporal.lineage.flow import Flow

# so many arrivals, and so many rows of one node, are shown
MOST_ROWS = 100_000
# so many rows are shown of all nodes together
MOST_IN_ALL = 400_000


@dataclasses.dataclass(frozen=True)
class ShownRows:
    """The rows that are shown of each history, those of each stream's arrivals, and the causes.

    ``of`` is the number of arrivals of the run, ``shown`` how many of them are shown, ``is_whole``
    True if every row and arrival is.
    """

    rows: list[Int64s]
    arrivals: Mapping[str, Int64s]
    causes: list[ShownCauses | None]
    of: int
    shown: int
    is_whole: bool


def take_sample(flow: Flow, most: int = MOST_ROWS, in_all: int = MOST_IN_ALL) -> ShownRows:
    """Return the rows of a flow that are shown: at most so many of each node."""
    room = max(1, min(most, in_all // max(1, len(flow.histories))))
    wanted = [_NO_ROWS] * len(flow.histories)
    causes: list[ShownCauses | None] = [None] * len(flow.histories)
    # from the output to the sources: inputs come before their operators
    for history in reversed(flow.histories):
        chosen = choose(len(history), np.unique(wanted[history.number]), room)
        wanted[history.number] = chosen
        if history.inputs:
            found = find_causes(flow, history.number, chosen)
            causes[history.number] = found
            for side, each in enumerate(history.inputs):
                below = found.list_rows(side)
                wanted[each] = np.concatenate([wanted[each], below])
    arrivals = _choose_arrivals(flow, wanted, most)
    whole = all(len(r) == len(h) for r, h in zip(wanted, flow.histories, strict=True))
    of = sum(len(each) for each in flow.arrivals.values())
    shown = sum(map(len, arrivals.values()))
    return ShownRows(wanted, arrivals, causes, of, shown, whole and of == shown)


_NO_ROWS: Int64s = np.empty(0, np.int64)


def choose(count: int, wanted: Int64s, most: int) -> Int64s:
    """Return at most so many of ``count`` rows, ascending: those wanted, then evenly others.

    >>> choose(10, np.array([1, 2]), 5).tolist()
    [0, 1, 2, 5, 9]
    """
    if count <= most:
        return np.arange(count)
    if len(wanted) >= most:
        return wanted[spread(len(wanted), most)]
    others = np.setdiff1d(np.arange(count), wanted, assume_unique=True)
    return np.sort(np.concatenate([wanted, others[spread(len(others), most - len(wanted))]]))


def spread(count: int, most: int) -> Int64s:
    """Return at most so many of ``count`` numbers, evenly, the first and the last among them."""
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).astype(np.int64)


def _choose_arrivals(flow: Flow, shown: list[Int64s], most: int) -> dict[str, Int64s]:
    """Return the arrivals that are shown of each stream: late ones, then those whose rows are."""
    total = sum(len(each) for each in flow.arrivals.values())
    sources = {each.origin: each.number for each in flow.histories if each.name == each.origin}
    chosen = {}
    for name, each in flow.arrivals.items():
        share = most if total <= most else max(1, most * len(each) // total)
        rows = shown[sources[name]] if name in sources else _NO_ROWS
        chosen[name] = choose(len(each), _find_wanted(each, rows, share), share)
    return chosen


def _find_wanted(arrivals: Arrivals, rows: Int64s, most: int) -> Int64s:
    """Return the arrivals that are wanted: late ones up to half of the room, and those of rows."""
    late = np.flatnonzero(arrivals.verdict == LATE)
    late = late[spread(len(late), max(1, most // 2))]
    own = np.flatnonzero(np.isin(arrivals.row, rows))
    own = np.setdiff1d(own, late, assume_unique=True)
    return np.sort(np.concatenate([late, own[spread(len(own), most - len(late))]]))
