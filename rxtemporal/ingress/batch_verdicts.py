"""Verdicts on many rows at once, as columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import cache
from itertools import compress, repeat
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from rxtemporal.core.batch import Bools, EventBatch, Int64s, TimeForm
from rxtemporal.core.columns import Columns
from rxtemporal.core.events import (
    Cti,
    EventShape,
    IntervalEvent,
    PointEvent,
    RowEvent,
    find_late_bound,
)
from rxtemporal.core.spans import span
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK, match_form
from rxtemporal.engine.door_rules import (
    CTI,
    DROP_AHEAD,
    END_EDGE,
    KEEP_AHEAD,
    NO_OPEN_ROW,
    NOWHERE,
    ROW,
    START_EDGE,
    make_cti,
    passes_in_order,
)
from rxtemporal.errors import EventError
from rxtemporal.ingress.lateness import REASONS, LateEvent, Lateness, LateReason
from rxtemporal.ingress.settings import AdvanceTimePolicy, AdvanceTimeSettings
from rxtemporal.ingress.unpacker import Unpacker, list_events

if TYPE_CHECKING:
    from rxtemporal.engine.kernels.hash_table import IntTable

Bytes = npt.NDArray[np.int8]
_REACH = MAX_TIME - MIN_TIME


class Rules(NamedTuple):
    """Settings of a stream's time as integers, in the form that the kernels take.

    A CTI is due after each ``every``-th event or, if that is 0, at a start ``span`` ticks or more
    after the last one, and is ``delay`` ticks lower. ``adjusts``: late rows are adjusted if
    possible. CTIs that the source sends count ``cti_delay`` ticks less.
    """

    every: int
    span: int
    delay: int
    adjusts: bool
    cti_delay: int

    @classmethod
    def of(cls, settings: AdvanceTimeSettings | None, *, delays_ctis: bool = False) -> Rules:
        """Return the rules of settings; with ``delays_ctis`` their delay holds for sent CTIs."""
        if settings is None:
            return cls(0, 0, 0, False, 0)
        adjusts = settings.policy is AdvanceTimePolicy.ADJUST
        if (generation := settings.generation) is None:
            return cls(0, 0, 0, adjusts, 0)
        frequency = generation.frequency
        # larger values make no difference, for time is bounded; these fit 64 bits
        delay = min(max(generation.delay_ticks, -_REACH), _REACH)
        is_count = isinstance(frequency, int)
        every = min(frequency, _REACH) if isinstance(frequency, int) else 0
        length = 0 if is_count else min(span(frequency, "frequency"), _REACH)
        return cls(every, length, delay, adjusts, delay if delays_ctis else 0)


# the state from which the kernels continue, as they describe it
State = tuple[int, int, int, int, int, int, int]
# True for the verdicts on items that are not accepted
_GONE: Bools = np.array([each is not None and not each.keeps_row for each in REASONS])
NO_KINDS: Bytes = np.empty(0, np.int8)
NO_ROWS: Int64s = np.empty(0, np.int64)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class LateRows:
    """Late rows before adjustment; ``reason`` has indices into ``REASONS``, ``cti`` broken CTIs."""

    rows: EventBatch
    reason: Bytes
    cti: Int64s
    by: Int64s

    @property
    def reasons(self) -> list[LateReason]:
        """The reason of each row."""
        return _name_reasons(self.reason)

    def list_events(
        self,
        source: str,
        time: TimeForm,
        shape: EventShape | None = None,
        places: Iterable[int] = repeat(0),
    ) -> Iterator[LateEvent]:
        """Yield the rows as late events of a source, of one shape or each in its original one.

        ``places`` are their numbers in a push.
        """
        if shape is None:
            events: Sequence[Any] = list_events(self.rows, time)
        else:
            events = Unpacker(shape, ctis=False, time=lambda: time).list_events(self.rows)
        columns = self.reasons, self.cti.tolist(), self.by.tolist()
        for event, reason, cti, by, place in zip(events, *columns, places, strict=False):
            yield LateEvent(event, source, reason, cti, by, place)


def _name_reasons(numbers: Bytes) -> list[LateReason]:
    return [reason for number in numbers.tolist() if (reason := REASONS[number]) is not None]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """Verdicts on a run of n items: the accepted times, and the door's state after them.

    ``late`` are the indices of the late items; for each of these the ``reason``, the CTI ``before``
    it and ``by`` how many ticks it was late. ``backwards`` is True if a CTI among them goes back.
    ``mask`` is True for the accepted items, and ``counts`` has the number of items by reason; both
    are None if none is late.
    """

    start: Int64s
    end: Int64s
    state: State
    late: Int64s
    reason: Bytes
    before: Int64s
    by: Int64s
    backwards: bool
    mask: Bools | None = None
    counts: Int64s | None = None

    @classmethod
    def of_all(cls, start: Int64s, end: Int64s, state: State, *, backwards: bool = False) -> Self:
        """Return the verdicts on items all of which are in time."""
        return cls(start, end, state, NO_ROWS, NO_KINDS, NO_ROWS, NO_ROWS, backwards)

    @classmethod
    def from_kernel(
        cls,
        start: Int64s,
        end: Int64s,
        starts: Int64s,
        ends: Int64s,
        reason: Bytes,
        before: Int64s,
        state: State,
        kind: Bytes = NO_KINDS,
    ) -> Verdicts:
        """Return the verdicts in a kernel's columns on items with these times and kinds."""
        times, backwards = start, False
        if len(kind):
            times = np.where(kind == END_EDGE, end, start)
            backwards = bool(((kind == CTI) & (start < before)).any())
        late, late_reason, broken, by, mask, counts = _load_kernels().list_late(
            times, reason, before, _GONE
        )
        return cls(starts, ends, state, late, late_reason, broken, by, backwards, mask, counts)

    @property
    def behind(self) -> int:
        """The largest distance of an item behind the highest time before it that made a CTI."""
        return self.state[6]

    @property
    def reasons(self) -> list[LateReason]:
        """The reason of each late item."""
        return _name_reasons(self.reason)

    def count_reasons(self) -> dict[LateReason, int]:
        """Return how many items are late, by reason."""
        if self.counts is None:
            return {}
        return {r: n for r, n in zip(REASONS, self.counts.tolist(), strict=True) if r and n}

    @property
    def kept(self) -> Bools:
        """Mask of the accepted items, CTIs among them."""
        return np.ones(len(self.start), np.bool_) if self.mask is None else self.mask

    def find_rows(self, kind: Bytes) -> Bools:
        """Return the mask of the accepted items that become rows of a batch."""
        if not len(kind):
            return self.kept
        # an end edge at the end of time leaves its row as it is: one that never ends
        endless = (kind == END_EDGE) & (self.end == MAX_TIME)
        found: Bools = self.kept & ~endless & (kind != CTI)
        return found

    def late_rows(self, batch: EventBatch) -> LateRows | None:
        """Return the late rows of the judged batch; None if all came in time."""
        if not len(self.late):
            return None
        broken = np.maximum(self.before, MIN_TIME)
        return LateRows(batch.take(self.late), self.reason, broken, self.by)

    def apply(self, batch: EventBatch, kind: Bytes = NO_KINDS) -> EventBatch:
        """Return the accepted rows of the judged batch."""
        if not len(kind):
            if not len(self.late):
                return batch
            return batch.replace(start=self.start).take(self.kept)
        rows = self.find_rows(kind)
        return batch.replace(start=self.start, end=self.end).take(rows)


@cache
def _load_kernels() -> ModuleType:
    """Return the compiled rules, which are loaded by the first query that needs them."""
    from rxtemporal.engine.kernels import door

    return door


@cache
def _load_order() -> ModuleType:
    """Return the compiled functions of order, which the first query that needs them loads."""
    from rxtemporal.engine.kernels import order

    return order


def judge_rows(
    start: Int64s,
    end: Int64s,
    rules: Rules,
    state: State,
    kind: Bytes = NO_KINDS,
    row: Int64s = NO_ROWS,
    moved: Int64s = NO_ROWS,
    *,
    ahead: Bools | None = None,
    drops_ahead: bool = False,
) -> Verdicts:
    """Return the verdicts on a run of items; the kernel defines the columns.

    ``ahead`` is the mask of those that are ahead of the wall clock, if any are.
    """
    kind = mark_ahead(kind, len(start), ahead, drops_ahead=drops_ahead)
    has_kinds = len(kind) > 0
    passed = _pass_items(start, kind, rules, state) if has_kinds else pass_rows(start, rules, state)
    if passed is not None:
        backwards = has_kinds and passed[1]
        return Verdicts.of_all(start, end, passed[0], backwards=backwards)
    starts, ends, reason, before, after = _load_kernels().admit(
        start, end, kind, row, moved, *rules, state
    )
    return Verdicts.from_kernel(start, end, starts, ends, reason, before, after, kind)


def mark_ahead(kind: Bytes, count: int, ahead: Bools | None, *, drops_ahead: bool) -> Bytes:
    """Return the kinds of items with the marks of those that are ahead of the wall clock."""
    if ahead is None:
        return kind
    mark = DROP_AHEAD if drops_ahead else KEEP_AHEAD
    kinds = kind if len(kind) else np.zeros(count, np.int8)
    return np.where(ahead, kinds + mark, kinds).astype(np.int8)


def pass_rows(
    start: Int64s, rules: Rules, state: State, in_order: bool = False
) -> tuple[State, bool] | None:
    """Return the state after complete rows that come in time, and True if they are in order.

    None if one is late. ``in_order``: they are known to be in order; otherwise this takes a look at
    each row.
    """
    n, (every, span, delay, _, _) = len(start), rules
    cti, own, count, last, _, high, behind = state
    if not n or (first := start.item(0)) < find_late_bound(cti):
        return None
    if not passes_in_order(delay) or not (in_order or _load_order().is_sorted(start)):
        passed = _pass_items(start, NO_KINDS, rules, state)
        return None if passed is None else (passed[0], False)
    # this runs once for each batch: no calls of max, which cost as much as the rest
    if high - first > behind:  # of rows in order the first one is the furthest behind
        behind = high - first
    # the row that last makes a CTI due: of rows in order its CTI is the latest
    due = -1
    if every:
        due = n - 1 - (count + n) % every
    elif span:
        due = _load_kernels().find_due(start, span, last)
    if due >= 0:
        last = start.item(due)
        time = make_cti(last, delay)
        cti = time if time > cti else cti
        own = time if time > own else own
        high = last if last > high else high
    return (cti, own, count + n, last, 0, high, behind), True


def _pass_items(
    start: Int64s, kind: Bytes, rules: Rules, state: State
) -> tuple[State, bool] | None:
    """Return the state after complete rows in time and CTIs, and True if a CTI goes back.

    None if a row is late, or there are other items.
    """
    every, span, delay, _, cti_delay = rules
    kernel = _load_kernels().pass_in_time
    passed, backwards, after = kernel(start, kind, every, span, delay, cti_delay, state)
    return (after, bool(backwards)) if passed == len(start) else None


def classify_rows(batch: EventBatch) -> Bytes:
    """Return the kind of each row; an empty array if all rows are complete."""
    if not batch.has_edges:
        return NO_KINDS
    edges = batch.edge != 0
    ends = edges & (batch.end != MAX_TIME)
    return np.where(ends, END_EDGE, np.where(edges, START_EDGE, ROW)).astype(np.int8)


def refuse_strays(batch: EventBatch, verdicts: Verdicts, stream: str) -> None:
    """Raise an error if an end edge of the judged batch belongs to no open row."""
    strays = verdicts.late[verdicts.reason == NO_OPEN_ROW]
    if len(strays):
        stray = batch.take(strays[:1])
        raise EventError(
            f"row {int(strays[0])} of a batch of stream {stream!r} is an end edge of "
            f"id {int(stray.edge[0])}, but no row with this id is open: {stray.to_dicts()[0]}. "
            "Hint: an end edge carries its start edge's id."
        )


class BatchEdges:
    """Edges of one batch: the row of each, and the accepted starts of the rows.

    Rows that this batch opens are numbered first, then the rows that were open before.
    """

    def __init__(self, table: IntTable, edge: Int64s, kind: Bytes) -> None:
        from rxtemporal.engine.kernels.hash_table import IntTable

        self._table = table
        starts, ends = np.flatnonzero(kind == START_EDGE), np.flatnonzero(kind == END_EDGE)
        self._ids = edge[starts]
        here = IntTable()
        here.insert(self._ids, np.arange(len(starts)))
        rows = here.pop(edge[ends])
        self._open = np.ones(len(starts), np.bool_)
        self._open[rows[rows >= 0]] = False
        elsewhere = np.flatnonzero(rows < 0)
        given = table.pop(edge[ends[elsewhere]])
        known = np.flatnonzero(given >= 0)
        rows[elsewhere[known]] = len(starts) + np.arange(len(known))
        self.moved = np.full(len(starts) + len(known), NOWHERE, np.int64)
        self.moved[len(starts) :] = given[known] + MIN_TIME
        self.row = np.full(len(edge), -1, np.int64)
        self.row[starts] = np.arange(len(starts))
        self.row[ends] = rows

    def remember_open(self) -> None:
        """Remember the rows that stay open; a row whose start was dropped is forgotten."""
        given = self.moved[: len(self._ids)]
        stay = self._open & (given != NOWHERE)
        if stay.any():
            self._table.insert(self._ids[stay], given[stay] - MIN_TIME)


def judge_merged(
    rows: Sequence[EventBatch],
    places: Sequence[Int64s],
    rules: Sequence[Rules],
    importers: Sequence[Sequence[int]],
    states: Sequence[Sequence[int]],
) -> list[Verdicts]:
    """Return the verdicts on each stream's complete rows, accepted in order of their places.

    The row with the lowest place is next, ties go by order of the streams, and each generated CTI
    is passed at once to the streams that import it (``importers``: for each stream the indices of
    those) and from them to theirs. So the verdicts are the same as for one event after the other;
    only the state returned with them is the one after all rows.
    """
    lengths = [len(each) for each in rows]
    begins = np.concatenate([[0], np.cumsum(lengths)])
    start = np.concatenate([each.start for each in rows])
    end = np.concatenate([each.end for each in rows])
    state = np.array(states, np.int64)
    starts, reason, before = _load_kernels().admit_merged(
        # the places of one stream ascend, so a stable sort only merges
        np.argsort(np.concatenate(places), kind="stable"),
        np.repeat(np.arange(len(rows)), lengths),
        start,
        end,
        np.array(rules, np.int64),
        np.concatenate([[0], np.cumsum([len(each) for each in importers])]),
        np.array([number for each in importers for number in each], np.int64),
        state,
    )
    parts = [slice(begins[i], begins[i + 1]) for i in range(len(rows))]
    after: Any = map(tuple, state.tolist())
    return [
        Verdicts.from_kernel(
            start[part], end[part], starts[part], end[part], reason[part], before[part], own
        )
        for part, own in zip(parts, after, strict=True)
    ]


# an interval, until its end has been read
_INTERVAL = 127
_KINDS = {PointEvent: ROW, IntervalEvent: _INTERVAL, Cti: CTI}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class EventRun:
    """Events as columns; ``kind`` has the kind of each item, and is empty if all are rows.

    ``time_types`` are the types of their start times.
    """

    items: Sequence[Any]
    start: Int64s
    end: Int64s
    kind: Bytes
    time_types: Set[type]

    @classmethod
    def from_items(cls, items: Sequence[Any]) -> EventRun | None:
        """Return events as columns; None if an item is not a point, interval or CTI for all."""
        try:
            # in C alone, and checked by the way
            kinds = bytearray(map(_KINDS.__getitem__, map(type, items)))
        except KeyError:
            return None
        kind = np.frombuffer(kinds, np.int8)
        if CTI in kinds:
            ctis = compress(items, (kind == CTI).tobytes())
            if [cti for cti in ctis if cti.device is not None]:
                return None
        times = [item.start_time for item in items]
        types = set(map(type, times))
        ticks = times if types == {int} else [item.start for item in items]
        start = np.fromiter(ticks, np.int64, len(items))
        end = start + TICK
        if _INTERVAL in kinds:
            rows = kind == _INTERVAL
            end[rows] = np.fromiter([row.end for row in compress(items, rows.tobytes())], np.int64)
            kind[rows] = ROW
        return cls(items, start, end, kind if CTI in kinds else NO_KINDS, types)

    def select(self, mask: Bools) -> EventRun:
        """Return the items of a mask."""
        items, rows = list(compress(self.items, mask.tobytes())), mask.nonzero()[0]
        kind = self.kind.take(rows) if len(self.kind) else self.kind
        return EventRun(items, self.start.take(rows), self.end.take(rows), kind, self.time_types)

    def list_events(self) -> list[RowEvent | Cti]:
        """Return the items as events; the times of CTIs are those of the columns."""
        times = zip(self.items, self.start.tolist(), strict=True)
        return [
            Cti(match_form(time, item.start_time)) if type(item) is Cti else item
            for item, time in times
        ]

    @property
    def row_mask(self) -> Bools:
        """The mask of the rows."""
        return self.kind == ROW if len(self.kind) else np.ones(len(self.items), np.bool_)

    @property
    def rows(self) -> int:
        """The number of items that are rows."""
        return len(self.items) - int(np.count_nonzero(self.kind))


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class JudgedRun:
    """A run with its verdicts, and the payloads of the accepted rows as columns."""

    run: EventRun
    verdicts: Verdicts
    kept: Bools
    payload: Columns

    def make_batch(self, cti: int) -> EventBatch:
        """Return the accepted rows as a batch with this CTI."""
        rows = self.kept.nonzero()[0]  # faster than the mask, twice
        start, end = self.verdicts.start.take(rows), self.verdicts.end.take(rows)
        return EventBatch.of_rows(start, end, self.payload, cti)

    def late(self) -> list[tuple[RowEvent, Lateness]]:
        """Return each late event, and how late it was."""
        verdicts = self.verdicts
        if not len(verdicts.late):
            return []
        broken = np.maximum(verdicts.before, MIN_TIME)
        columns = verdicts.late.tolist(), verdicts.reasons, broken.tolist(), verdicts.by.tolist()
        return [(self.run.items[n], Lateness(*late)) for n, *late in zip(*columns, strict=True)]


def kept_payloads(run: EventRun, kept: Bools) -> list[Any]:
    """Return the payloads of the accepted rows."""
    items = run.items if kept.all() else compress(run.items, kept.tobytes())
    return [item.payload for item in items]
