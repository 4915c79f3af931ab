"""Causes of the rows that the page shows, a limited number of them.

A row of a window over an hour may have a million causes, and a plan a hundred thousand such rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.view.debug.columns import Column, encode_array

if TYPE_CHECKING:
    from rxtemporal.view.lineage.flow import Flow

# so many causes are shown of all rows of a node, and so many are computed to choose them
MOST_CAUSES, MOST_COMPUTED = 400_000, 8_000_000
# rows that are asked for their causes at once: few at first, then as many as have this many causes
_FIRST, _BLOCK_CAUSES = 64, 200_000

_Part = tuple[Int64s, Any, Int64s, Any]
_NO_PART: _Part = (
    np.empty(0, np.int64), np.empty(0, np.int8), np.empty(0, np.int64), np.empty(0, np.int8)
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class ShownCauses:
    """Causes of the rows of a node that are shown, in arrays as those of a flow's ``Causes``.

    ``of`` are places among the shown rows. At most ``each`` causes of a row are there (None: all),
    and those of the first ``rows`` rows.
    """

    of: Int64s
    side: Any
    row: Int64s
    role: Any
    each: int | None
    rows: int

    def list_rows(self, side: int) -> Int64s:
        """Return the rows of one input that are causes, ascending."""
        return np.unique(self.row[self.side == side])


def find_causes(flow: Flow, number: int, rows: Int64s, most: int = MOST_CAUSES) -> ShownCauses:
    """Return the direct causes of these rows of a node, about ``most`` for all of them."""
    each = None
    parts, done, computed = _collect(flow, number, rows, None, most)
    if computed > most:
        each = max(1, most // len(rows))
        parts, done, _ = _collect(flow, number, rows, each, MOST_COMPUTED)
    of, side, row, role = (np.concatenate(every) for every in zip(_NO_PART, *parts, strict=True))
    return ShownCauses(of, side, row, role, each, done)


def _collect(
    flow: Flow, number: int, rows: Int64s, each: int | None, most: int
) -> tuple[list[_Part], int, int]:
    """Return causes, of how many rows they are, and how many were computed.

    It ends once more than ``most`` are.
    """
    parts, computed, done = [], 0, 0
    for end, part in _read(flow, number, rows):
        computed += len(part[0])
        parts.append(part if each is None else _shorten(part, each))
        done = end
        if computed > most:
            break
    return parts, done, computed


def _read(flow: Flow, number: int, rows: Int64s) -> Iterator[tuple[int, _Part]]:
    """Yield the causes of the rows, block by block, with the number of rows up to then."""
    begin, size = 0, _FIRST
    while begin < len(rows):
        asked = rows[begin : begin + size]
        found = flow.causes(number, asked)
        of = np.searchsorted(asked, found.of) + begin
        begin += len(asked)
        yield begin, (of, found.side, found.row, found.role)
        size = max(1, min(1 << 16, size * _BLOCK_CAUSES // max(1, len(found.of))))


def _shorten(part: _Part, each: int) -> _Part:
    """Return the first causes of each row."""
    of = part[0]
    first = np.searchsorted(of, of, side="left")
    kept = np.arange(len(of)) - first < each
    return of[kept], part[1][kept], part[2][kept], part[3][kept]


def encode_causes(
    causes: ShownCauses, shown: list[Int64s], count: int
) -> tuple[Column, str | None]:
    """Return the causes of ``count`` rows as columns, and a note if some are not there.

    ``shown`` are the rows of each input that are shown; a cause is named by its place among them.
    """
    place = np.full(len(causes.row), -1, np.int64)
    for side, rows in enumerate(shown):
        mine = causes.side == side
        place[mine] = find_places(rows, causes.row[mine])
    there = place >= 0
    of = causes.of[there]
    offsets = np.searchsorted(of, np.arange(count + 1))
    columns = {
        "offsets": encode_array("i32", offsets),
        "side": encode_array("u8", causes.side[there]),
        "row": encode_array("i32", place[there]),
        "role": encode_array("u8", causes.role[there]),
    }
    return columns, _write_note(causes, count, int(len(there) - there.sum()))


def find_places(rows: Int64s, wanted: Int64s) -> Int64s:
    """Return the place of each wanted row among ``rows``, which ascend; -1 if it is not there.

    >>> find_places(np.array([3, 5]), np.array([5, 4])).tolist()
    [1, -1]
    """
    if not len(rows):
        return np.full(len(wanted), -1, np.int64)
    place = np.minimum(np.searchsorted(rows, wanted), len(rows) - 1)
    return np.where(rows[place] == wanted, place, -1)


def _write_note(causes: ShownCauses, count: int, hidden: int) -> str | None:
    if count and not causes.rows:
        return "no rule says what the rows of this operator stand on"
    notes = []
    if causes.each is not None:
        notes.append(f"at most {causes.each:,} causes of each row are shown")
    if causes.rows < count:
        notes.append(f"causes are shown of the first {causes.rows:,} of {count:,} rows")
    if hidden:
        notes.append(f"{hidden:,} causes are rows that are not in the sample")
    return "; ".join(notes) or None
