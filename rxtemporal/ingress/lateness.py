"""Verdicts on events that break a CTI: the same for doors and subjects.

The rules (from *Advancing Application Time*, section "CTI Violation Policies", with the edges that
the subjects' document leaves open settled here):

1. A point, interval or start edge is late if it starts before the CTI; an end edge if it ends
   before it.
2. DROP drops a late point, interval or start edge. ADJUST moves its start to the CTI if its
   lifetime reaches past it, and drops it otherwise; so a late point is always dropped.
3. An adjusted start keeps its identity: its end edge, which names the original start, follows it.
4. A dropped start takes its end along: an end edge that finds no open row is dropped.
5. A late end edge is moved to the CTI under both policies, or to one tick after its row's start if
   that is later. Dropping it would leave a row alive for ever.
"""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import NamedTuple, TypeAlias

from rxtemporal.core.events import EdgeEvent, EdgeType, RowEvent
from rxtemporal.core.ticks import MIN_TIME, describe
from rxtemporal.engine.kernels.door_rules import NOWHERE, admit_end, admit_start
from rxtemporal.ingress.open_rows import OpenRows
from rxtemporal.ingress.settings import AdvanceTimePolicy

# below every time there is: no CTI has come yet
NO_CTI = MIN_TIME - 1


class LateReason(Enum):
    """The fate of an event that came too late."""

    DROPPED = "dropped"
    ADJUSTED = "adjusted"
    END_MOVED = "end moved"
    NO_OPEN_ROW = "no open row"


class Lateness(NamedTuple):
    """A late event's fate, the CTI that it broke, and by how many ticks."""

    reason: LateReason
    cti: int
    by: int


@dataclasses.dataclass(frozen=True, slots=True)
class LateEvent:
    """An event that broke a CTI, or an end edge without a row, and what became of it.

    ``event`` is the object that came, ``cti`` (ticks) the promise it broke, ``by`` how many ticks
    it was too early; both are 0 lateness where the reason is NO_OPEN_ROW.
    """

    event: RowEvent
    source: str
    reason: LateReason
    cti: int
    by: int

    def __str__(self) -> str:
        return f"{self.event!r} from {self.source!r}: {self.reason.value}, CTI {describe(self.cti)}"


@dataclasses.dataclass(frozen=True, slots=True)
class Opened:
    """An open row: its start edge as it came, the start it was given, and its id."""

    edge: EdgeEvent
    start: int
    id: int


Verdict: TypeAlias = tuple[RowEvent | None, LateReason | None, Opened | None]


def judge(
    event: RowEvent, cti: int, policy: AdvanceTimePolicy | None, rows: OpenRows[Opened]
) -> Verdict:
    """Return what goes on of an event after ``cti``, why it is not the event itself, and its row.

    An event that fits goes on as the same object. ``rows`` remembers open start edges and is
    asked at end edges; the row is that of an edge, None for points and intervals. Without a
    policy nothing may be mended: the caller raises where there is a reason.
    """
    if isinstance(event, EdgeEvent) and event.edge_type is EdgeType.END:
        return _judge_end(event, cti, rows)
    kept: RowEvent | None = event
    reason: LateReason | None = None
    if event.start < cti:
        kept, reason = _judge_late_start(event, cti, policy)
    if kept is None or not isinstance(event, EdgeEvent):
        return kept, reason, None
    row = Opened(event, kept.start, rows.opened + 1)
    rows.open(event.start, event.payload, row)
    return kept, reason, row


def _judge_late_start(
    event: RowEvent, cti: int, policy: AdvanceTimePolicy | None
) -> tuple[RowEvent | None, LateReason]:
    # a point lies wholly before: it ends a tick after its start
    start = admit_start(event.start, event.end, cti, policy is AdvanceTimePolicy.ADJUST)
    if start == NOWHERE:
        return None, LateReason.DROPPED
    return event.with_lifetime(start, event.end), LateReason.ADJUSTED


def _judge_end(event: EdgeEvent, cti: int, rows: OpenRows[Opened]) -> Verdict:
    row = rows.close(event.start, event.payload)
    if row is None:
        return None, LateReason.NO_OPEN_ROW, None
    end = admit_end(event.end, cti, row.start)
    reason = None if end == event.end else LateReason.END_MOVED
    if reason is None and row.start == event.start:
        return event, None, row
    return event.with_lifetime(row.start, end), reason, row


def lateness(event: RowEvent, cti: int) -> int:
    """Return by how many ticks the event comes after the CTI passed its judged time; at least 0."""
    ends = isinstance(event, EdgeEvent) and event.edge_type is EdgeType.END
    return max(0, cti - (event.end if ends else event.start))
