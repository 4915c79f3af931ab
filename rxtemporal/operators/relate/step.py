"""Relation of lifetimes: each pair of rows that are related becomes a row once both have ended."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.holdings import Entries, Hold, StoredRows
from rxtemporal.engine.key_matcher import KeyMatcher
from rxtemporal.engine.open_rows import DueRows
from rxtemporal.operators.join.step import (
    AFTER,
    BEFORE,
    END,
    FIRST,
    KEY,
    OPENED,
    START,
    TAG,
    JoinedPayload,
    NewPairs,
    Pairs,
    PairStep,
    Side,
)
from rxtemporal.operators.relate.kernel import RELATED, WAITS, judge_pairs, settle_pairs
from rxtemporal.operators.relate.relations import (
    BEFORE as IS_BEFORE,
)
from rxtemporal.operators.relate.relations import (
    CONTAINS,
    FINISHED_BY,
    MEETS,
    OVERLAPS,
    Flags,
    invert,
)

_NONE: Int64s = np.empty(0, np.int64)
# the real end of a row, where a join's left row has its tag
LAST = TAG


class Reach:
    """The time up to which a row may find partners that begin after it.

    ``wanted`` are the relations that it may have to them.
    """

    def __init__(self, wanted: Flags, within: int) -> None:
        # the first start of a partner that is too late, less the row's end; None if a partner
        # cannot begin after the row
        self._more: int | None = None
        if wanted[IS_BEFORE]:
            self._more = within
        elif wanted[MEETS]:
            self._more = 1
        elif wanted[OVERLAPS] or wanted[FINISHED_BY]:
            self._more = 0
        elif wanted[CONTAINS]:
            self._more = -1
        # a partner that begins at the last tick meets the end of a row, or ends with it; all other
        # relations need a tick more
        ends_with_time = wanted[FINISHED_BY]
        self._last = MAX_TIME if wanted[MEETS] or ends_with_time else MAX_TIME - 1
        # a row that never ends is followed by none, and ends before none
        self._endless = None
        if wanted[CONTAINS] or ends_with_time:
            self._endless = MAX_TIME if ends_with_time else MAX_TIME - 1

    def find(self, start: Int64s, end: Int64s, opened: Bools | bool) -> Int64s:
        """Return the first time after a row's start at which no partner can begin any more."""
        least = start + 1
        if self._more is None:
            return least
        endless = np.where(opened, self._last, least if self._endless is None else self._endless)
        until = np.where(end == MAX_TIME, endless, np.minimum(end + self._more, MAX_TIME))
        return np.maximum(until, least)


class RelatedSide(Side):
    """Rows of one input: those that have not begun, those that may find a partner, those in pairs.

    ``END`` is the row's reach, ``LAST`` its real end. ``oldest`` has the rows that have begun, in
    order of start; those that are not held any more are dropped once they come first.
    """

    held = MappingProxyType({
        **Side.held,
        "rows": StoredRows(key=KEY, refs={AFTER: "row", BEFORE: "row"}),
        "oldest": Entries(),
    })  # fmt: skip

    def __init__(self, payload: pl.Schema | None, reach: Reach) -> None:
        super().__init__(payload, tagged=True)
        self._reach = reach
        self.oldest = DueRows()

    def begin(self, batch: EventBatch, key: Int64s, tag: Int64s | None) -> None:
        """Keep rows that begin."""
        first = self.rows.height
        super().begin(batch, key, tag)
        columns = self.rows.columns
        columns[LAST][first:] = batch.end
        columns[END][first:] = self._reach.find(batch.start, batch.end, batch.edge != 0)

    def close(self, rows: Int64s, end: Int64s) -> None:
        """Note the ends of rows that were open."""
        columns = self.rows.columns
        columns[LAST][rows], columns[OPENED][rows] = end, False
        columns[END][rows] = self._reach.find(columns[START][rows], end, opened=False)
        self.queue_ends(rows[columns[FIRST][rows] >= 0])

    def close_endless(self) -> Int64s:
        """Note that the rows that are open never end; return those that are in pairs."""
        columns = self.rows.columns
        columns[OPENED][:] = False
        return np.flatnonzero(columns[FIRST] >= 0)

    def queue_ends(self, rows: Int64s) -> None:
        """Queue the times at which pairs with an open row may stop to wait, where they are known.

        That row cannot end before this one from the CTI at the end of this one on, nor together
        with it after that CTI.
        """
        columns = self.rows.columns
        last = columns[LAST][rows]
        known = ~columns[OPENED][rows] & (last != MAX_TIME)
        rows, last = rows[known], last[known]
        self.ends.push(np.concatenate([last - 1, last]), np.concatenate([rows, rows]))

    def note_begun(self, rows: Int64s, place: int) -> None:
        """Record that of the ``rows`` from ``list_waiting`` those before this place have begun."""
        begun = rows[:place] if len(rows) else np.arange(self._waiting, place)
        super().note_begun(rows, place)
        self.oldest.push(self.rows.columns[START][begun], begun, in_order=True)

    def find_oldest(self, cti: int) -> int:
        """Return the earliest start of a row that may be in a result; the CTI if there is none."""
        last_use = self.list_last_uses
        oldest = self.oldest.find_first(lambda rows: last_use(rows) > cti)
        return cti if oldest is None else min(cti, oldest)

    def list_holding(self, cti: int) -> tuple[Int64s, Int64s]:
        """Return the keys and the starts of the rows that have begun and may be in a result."""
        begun = np.concatenate([_NONE, *(rows for _, rows in self.oldest.runs)])
        begun = begun[self.list_last_uses(begun) > cti]
        columns = self.rows.columns
        return columns[KEY][begun], columns[START][begun]

    def list_last_uses(self, rows: Any = slice(None)) -> Int64s:
        """Return for each row number the CTI from which on the row is of no use.

        It is its reach, or the end of time while it is in a pair that waits.
        """
        columns = self.rows.columns
        return np.where(columns[FIRST][rows] >= 0, MAX_TIME, columns[END][rows])

    def _renumber(self, new: Int64s) -> None:
        super()._renumber(new)
        if self.oldest.has_entries:
            self.oldest.renumber(new)


class RelatedPairs(Pairs):
    """Pairs of rows of two inputs of which one begins within the other's reach.

    Those are remembered of which an end is not known, and that may be related.
    """

    sides: tuple[RelatedSide, RelatedSide]

    def __init__(
        self, payloads: tuple[pl.Schema, pl.Schema], wanted: Flags, within: int | None
    ) -> None:
        super().__init__(payloads)
        self._wanted = np.array(wanted)
        # a gap that is not limited is not wanted either
        self._within = MAX_TIME if within is None else within
        reaches = Reach(wanted, self._within), Reach(invert(wanted), self._within)
        self.sides = RelatedSide(payloads[0], reaches[0]), RelatedSide(payloads[1], reaches[1])

    @property
    def next_due(self) -> int | None:
        """The earliest start that waits for the CTI; None if nothing waits."""
        starts = [side.next_start for side in self.sides]
        return min((start for start in starts if start is not None), default=None)

    @property
    def output_cti(self) -> int:
        """The CTI, held at the start of the oldest row that may be in a result."""
        return min(side.find_oldest(self.cti) for side in self.sides)

    def list_holds(self) -> tuple[Int64s, Int64s]:
        """Return the keys of the rows that may be in a result, and the starts of these."""
        found = [side.list_holding(self.cti) for side in self.sides]
        key, start = zip(*found, strict=True)
        return np.concatenate(key), np.concatenate(start)

    def judge(self, found: NewPairs) -> tuple[Int64s, Int64s]:
        """Return the rows of the pairs that are related; remember those that wait."""
        if self.cti == MAX_TIME:
            self._ended = [side.close_endless() for side in self.sides]
        start, end, opened = map(self._both, (START, LAST, OPENED))
        verdicts = judge_pairs(
            found.left, found.right, start, end, opened, self.cti, self._wanted, self._within
        )
        waiting = verdicts == WAITS
        if waiting.any():
            unsure = found.take(waiting)
            self.remember(unsure, np.zeros(len(unsure.left), np.int64))
        related = verdicts == RELATED
        return found.left[related], found.right[related]

    def settle(self) -> tuple[Int64s, Int64s]:
        """Return the rows of the pairs remembered that are related, and forget what cannot be.

        Row numbers stay valid until ``forget``.
        """
        ended, self._ended = self._ended, [_NONE, _NONE]
        over = [side.ends.pop_due(self.cti)[1] for side in self.sides]
        if not self.are_remembered:
            return _NONE, _NONE
        start, end, opened, first = map(self._both, (START, LAST, OPENED, FIRST))
        parts = [
            settle_pairs(
                np.concatenate(rows), number, start, end, opened, self.cti, self._wanted,
                self._within, first, self._pairs,
            )
            for number, rows in enumerate(zip(ended, over, strict=True))
        ]  # fmt: skip
        left, right = map(np.concatenate, zip(*parts, strict=True))
        return left, right

    def _find_certain_ends(self, found: NewPairs) -> NewPairs:
        return found  # ``judge`` asks for the ends of both rows


class RelateStep(PairStep[RelatedPairs]):
    """Relates rows: a row with both payloads, alive from the earlier start to the later end.

    Holds rows while one that may still come can be related to them, and pairs of which an end is
    not known, with their rows.
    """

    def __init__(
        self,
        keying: KeyMatcher,
        schemas: tuple[pl.Schema, pl.Schema],
        merged: JoinedPayload,
        wanted: Flags,
        within: int | None,
        keys: Sequence[str],
    ) -> None:
        pairs = RelatedPairs(merged.store_as(schemas), wanted, within)
        super().__init__(keying, pairs, merged, keys)

    def find_holds(self, cti: int) -> list[Hold]:
        """Return the keys of the rows that may be in a result."""
        key, start = self._pairs.list_holds()
        return [Hold(self._keying.decode(key), start)]

    def _make_result(self, found: NewPairs) -> EventBatch:
        related = self._pairs.judge(found)
        return self._make_rows(np.concatenate([related, self._pairs.settle()], axis=1))

    def _make_rows(self, related: Int64s) -> EventBatch:
        """Return the results for pairs of a left and a right row."""
        pairs, (left, right) = self._pairs, related
        cti, keys = pairs.output_cti, self._nothing.keys
        if not len(left):
            return self._nothing.replace(cti=cti)
        start = np.minimum(pairs.column(0, START)[left], pairs.column(1, START)[right])
        end = np.maximum(pairs.column(0, LAST)[left], pairs.column(1, LAST)[right])
        return EventBatch.of_rows(start, end, self._merged(pairs.rows, left, right), cti, keys)
