"""Verdicts on events that break a CTI, the same for doors and subjects.

The rules (from *Advancing Application Time*, section "CTI Violation Policies"; the subjects'
document leaves edges open, so they are settled here):

1. A point, interval or start edge is late if it starts before the CTI; an end edge if it ends
   before it.
2. DROP drops a late point, interval or start edge. ADJUST moves its start to the CTI if its
   lifetime reaches past it, and drops it otherwise; so a late point is always dropped.
3. An adjusted start edge keeps its identity: its end edge, which names the original start, closes
   it.
4. An end edge without an open row is dropped; so is the end edge of a dropped start edge.
5. A late end edge is moved to the CTI under both policies, or to one tick after its row's start if
   that is later. Dropping it would leave a row alive for ever.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.core.events import (
    Cti,
    EdgeEvent,
    RowEvent,
    ends_row,
    find_late_bound,
    get_judged_time,
)
from rxtemporal.core.safe_text import brief
from rxtemporal.core.spans import SECOND, describe_span
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICKS_PER_SECOND, describe
from rxtemporal.engine.door_rules import NOWHERE, admit_end, admit_start
from rxtemporal.errors import CtiViolationError, EventError
from rxtemporal.ingress.open_rows import OpenRows
from rxtemporal.ingress.settings import AdvanceTimePolicy

# below every time: no CTI has arrived yet
NO_CTI = MIN_TIME - 1
# an event that is so much later than a CTI says more about the CTI than about itself
_FAR = 366 * 24 * 3600 * SECOND


class LateReason(Enum):
    """The fate of a late event, or of one that is ahead of the wall clock (``AHEAD``: dropped).

    Where each device has its own time, an event that is in time by its own device's is dropped with
    the reason ``BEHIND`` if it is further behind the other devices than ``behind=`` allows, and
    ``SILENT`` if its device had been silent for ``silent_after=`` or ``forget_after=``.
    """

    DROPPED = "dropped"
    ADJUSTED = "adjusted"
    END_MOVED = "end moved"
    NO_OPEN_ROW = "no open row"
    AHEAD = "ahead"
    BEHIND = "behind"
    SILENT = "silent"

    @property
    def keeps_row(self) -> bool:
        """True if the event is in the stream all the same, with other times."""
        return self in (LateReason.ADJUSTED, LateReason.END_MOVED)


# the verdicts by the numbers that kernels give them; 0 is in time
REASONS = (None, *LateReason)


class Lateness(NamedTuple):
    """A late event's fate, the CTI that it broke, and by how many ticks."""

    reason: LateReason
    cti: int
    by: int


@dataclasses.dataclass(frozen=True, slots=True)
class LateEvent:
    """An event that broke a CTI, an end edge without an open row, or an event ahead; and its fate.

    ``event`` is the original object and ``cti`` the stream's CTI when it came. ``by`` is how many
    ticks its start (of an end edge: its end) is before that CTI, and 0 if it is not: an end edge
    without an open row, or before its moved start, may come in time, and so does an event that is
    ahead of the wall clock (``LateReason.AHEAD``). ``index`` is its number in the push that brought
    it, where a verdict tells of it.
    """

    event: RowEvent
    source: str
    reason: LateReason
    cti: int
    by: int
    index: int = 0

    def __str__(self) -> str:
        return f"{self.event!r} from {self.source!r}: {self.reason.value}, CTI {describe(self.cti)}"


@dataclasses.dataclass(frozen=True, slots=True)
class Opened:
    """An open row: its original start edge, its accepted start, its id, and the input it is of."""

    edge: EdgeEvent
    start: int
    id: int
    owner: str = ""


Judgement: TypeAlias = tuple[RowEvent | None, LateReason | None, Opened | None]


def judge(
    event: RowEvent, cti: int, policy: AdvanceTimePolicy | None, rows: OpenRows[Opened]
) -> Judgement:
    """Return the accepted event or None, the reason if it is late, and its row if it is an edge.

    An event that keeps ``cti`` is returned as the same object. ``rows`` remembers open start
    edges, to which end edges are matched. Without a policy late events are not allowed: the caller
    raises if there is a reason.
    """
    if ends_row(event):
        return _judge_end(event, cti, rows)
    kept: RowEvent | None = event
    reason: LateReason | None = None
    bound = find_late_bound(cti)
    if event.start < bound:
        kept, reason = _judge_late_start(event, bound, policy)
    if kept is None or not isinstance(event, EdgeEvent):
        return kept, reason, None
    row = Opened(event, kept.start, rows.opened + 1, rows.owner)
    rows.open(event.start, event.payload, row)
    return kept, reason, row


def _judge_late_start(
    event: RowEvent, bound: int, policy: AdvanceTimePolicy | None
) -> tuple[RowEvent | None, LateReason]:
    # a late point is always dropped: it ends one tick after its start
    start = admit_start(event.start, event.end, bound, policy is AdvanceTimePolicy.ADJUST)
    if start == NOWHERE:
        return None, LateReason.DROPPED
    return event.with_lifetime(start, event.end), LateReason.ADJUSTED


def _judge_end(event: EdgeEvent, cti: int, rows: OpenRows[Opened]) -> Judgement:
    row = rows.close(event.start, event.payload)
    if row is None:
        return None, LateReason.NO_OPEN_ROW, None
    end = admit_end(event.end, cti, row.start)
    reason = None if end == event.end else LateReason.END_MOVED
    if reason is None and row.start == event.start:
        return event, None, row
    return event.with_lifetime(row.start, end), reason, row


def measure_lateness(event: RowEvent, cti: int) -> int:
    """Return how many ticks before the CTI an event starts (an end edge: ends); at least 0."""
    return max(0, cti - get_judged_time(event))


def make_no_event_error(event: Any) -> EventError:
    """Return the error for an item of a stream that is not an event."""
    from rxtemporal.core.safe_text import hint_event

    return EventError(
        f"a stream takes PointEvent, IntervalEvent, EdgeEvent and Cti, got {brief(event)}. "
        f"{hint_event(event)}"
    )


def make_violation(event: RowEvent, reason: LateReason, cti: int, source: str) -> Exception:
    """Return the error for a late event of a stream without settings."""
    if reason is LateReason.NO_OPEN_ROW:
        return EventError(
            f"{event!r} of stream {source!r} ends a row that is not open: no start edge "
            "with this start and payload came before it. Hint: an end edge names its start "
            "edge's start and payload exactly."
        )
    if reason is LateReason.END_MOVED and measure_lateness(event, cti) == 0:
        return EventError(f"{event!r} of stream {source!r} ends before its row starts")
    late = measure_lateness(event, cti)
    if cti >= MAX_TIME:
        return CtiViolationError(
            f"{event!r} of stream {source!r} comes after a CTI at the end of time, which ends the "
            "stream. Hint: that CTI is the last item, or leave it out."
        )
    # a stream in ticks gets a message in ticks
    by = f"{late} ticks" if describe(cti) == str(cti) else describe_span(late)
    hint = "advance_time= with a policy drops or adjusts late events, and a delay waits for them"
    if late > _FAR:
        hint = "a CTI at a time makes all events before it late: see that its time is right"
    return CtiViolationError(
        f"{event!r} of stream {source!r} breaks CTI {describe(max(cti, MIN_TIME))} by {by}. "
        f"Hint: {hint}."
    )


def make_reversal(event: Cti, cti: int, source: str) -> Exception:
    """Return the error for a CTI before the last one of a stream without settings."""
    return CtiViolationError(
        f"{event!r} of stream {source!r} is before its last CTI, {describe(cti)}. "
        "Hint: give the stream advance_time= settings, or merge its sources in a "
        "CtiSynchronizingSubject."
    )


# upper bounds of the buckets in seconds, each inclusive; one more bucket has what is above
BOUNDS = (0.1, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0)
_TICKS = [round(bound * TICKS_PER_SECOND) for bound in BOUNDS]


class LatenessCounts:
    """Numbers of late events by their distance from the CTI that they broke.

    Only events that are before a CTI count. ``counts`` has one number for each bucket, ``total``
    the sum of the distances in ticks. Its owner serialises the calls that change it.

    >>> lateness = LatenessCounts()
    >>> lateness.add(2_000_000)
    >>> lateness.counts[:4], lateness.total
    ([0, 0, 1, 0], 2000000)
    """

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0

    def add(self, by: int) -> None:
        """Count one event that is so many ticks late, if it is late at all."""
        if by > 0:
            self.counts[bisect_left(_TICKS, by)] += 1
            self.total += by

    def add_all(self, by: Int64s) -> None:
        """Count many events."""
        late = by[by > 0]
        found = np.searchsorted(_TICKS, late).tolist()
        for bucket, count in enumerate(np.bincount(found, minlength=len(self.counts)).tolist()):
            self.counts[bucket] += count
        self.total += int(late.sum())

    def save(self) -> list[Any]:
        """Return the numbers as plain values."""
        return [[*self.counts], self.total]

    def load(self, state: Sequence[Any]) -> None:
        """Continue from the result of ``save``."""
        self.counts, self.total = state
