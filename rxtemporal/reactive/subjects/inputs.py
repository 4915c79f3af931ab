"""Inputs of a CTI synchronizing subject: handles that come and go, and counters that stay."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from rxtemporal.core.events import Cti, EdgeEvent, IntervalEvent, PointEvent
from rxtemporal.core.log import get_logger
from rxtemporal.core.safe_text import show
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TimeLike, time_ticks
from rxtemporal.errors import BindingError
from rxtemporal.ingress.input_state import InputState, SourceStats
from rxtemporal.ingress.lateness import LateReason, Opened
from rxtemporal.ingress.open_rows import OpenRows

if TYPE_CHECKING:
    from rxtemporal.core.batch import EventBatch

_log = get_logger(__name__)

# the source under which events are counted that come through the subject's own on_next
OWN = "subject"

_ROWS = frozenset({PointEvent, IntervalEvent, EdgeEvent})


# of so many CTIs of a source one is compared with the wall clock
CLOCK_CTIS = 16


class SourceState(InputState):
    """State of one source of a subject, with its open rows.

    ``largest_lateness`` is the largest distance of its events behind the highest CTI of all
    sources.
    """

    __slots__ = ("_handles", "ctis", "events", "failed", "rows")

    def __init__(self, name: str, rows: OpenRows[Opened] | None = None) -> None:
        super().__init__(name)
        self.events = 0
        # how many CTIs have come in time
        self.ctis = 0
        self.rows: OpenRows[Opened] = OpenRows() if rows is None else rows
        self.failed: str | None = None
        # handles come and go on any thread
        self._handles: set[int] = set()

    def count_events(self, events: int) -> None:
        """Count events."""
        self.events += events

    def note_row(self, start: int) -> None:
        """Count an event that is not ahead of the wall clock."""
        self.events += 1
        if start > self.reached:
            self.reached = start

    def note_rows(self, events: int, highest: int, behind: int) -> None:
        """Count events; of those that are not ahead of the wall clock, note two extremes.

        They are the highest start, and the largest distance behind the subject's highest CTI.
        """
        self.events += events
        self.reach(highest)
        self.note_behind(behind)

    def note_ctis(self, count: int, highest: int, now: Callable[[], int]) -> None:
        """Count CTIs, and note the highest of them; none is the end of time.

        The clock is read for one CTI in some, for each reading costs as much as the CTI.
        """
        if highest > self.reached:
            self.reached = highest
        if -self.ctis % CLOCK_CTIS < count:
            self.offset.note(self.reached, now())
        self.ctis += count

    def fail(self, error: BaseException) -> None:
        """Note the error with which it has failed."""
        self.failed = show(error)

    def take_from(self, live: SourceState) -> None:
        """Take over its late events, those ahead, the time it has reached, and its failure."""
        self.late |= live.late.copy()
        self.note_behind(live.largest_lateness)
        self.reach(live.reached)
        self.ahead = max(self.ahead, live.ahead)
        self.failed = live.failed or self.failed

    def resume(self, saved: SourceState, events: int, rows: OpenRows[Opened]) -> None:
        """Go on from a state that has had more events, with their number and its open rows."""
        self.events, self.late, self.failed = events, saved.late.copy(), saved.failed
        self.note_behind(saved.largest_lateness)
        self.ahead = max(self.ahead, saved.ahead)
        self.rows = rows

    def save(self) -> list[Any]:
        """Return the counters as plain values."""
        late = {reason.value: count for reason, count in self.late.items()}
        return [
            self.events, self.reached, late, self.largest_lateness, self.ahead, self.failed,
        ]  # fmt: skip

    def load(self, counts: Sequence[Any]) -> None:
        """Continue from the result of ``save``."""
        self.events, self.reached, late, self.largest_lateness, self.ahead, self.failed = counts
        self.late = Counter({LateReason(value): count for value, count in late.items()})

    def add_handle(self, handle: object) -> None:
        """Add a handle that feeds this source."""
        self._handles.add(id(handle))

    def remove_handle(self, handle: object) -> None:
        """Remove a handle that has been closed."""
        self._handles.discard(id(handle))

    def stats(self, most_advanced: int) -> SourceStats:
        """Return the current counters."""
        return self.make_stats(
            self.events, most_advanced,
            is_open=bool(self._handles), open_rows=len(self.rows), failed=self.failed,
        )  # fmt: skip


Group: TypeAlias = tuple[SourceState, Sequence[Any]]


def group_by_source(items: Sequence[Any], own: SourceState) -> list[Group]:
    """Return the events of an inbox as runs of one source each, in order.

    An event is followed by its source, unless that is the own one.
    """
    events, sources = items[::2], items[1::2]
    first = sources[0] if sources else None
    if type(first) is SourceState and sources.count(first) == len(events):
        return [(first, events)]  # most often a thread has pushed all of them
    if set(map(type, sources)) != {SourceState} or len(events) > len(sources):
        events, sources = _name_own(items, own)
    groups, place = list[Group](), 0
    for source, group in groupby(sources):
        upto = place + len(list(group))
        groups.append((source, events[place:upto]))
        place = upto
    return groups


def _name_own(items: Sequence[Any], own: SourceState) -> tuple[list[Any], list[SourceState]]:
    """Return the events of an inbox, and the source of each."""
    events, sources = list[Any](), list[SourceState]()
    for item in items:
        if type(item) is SourceState:
            sources[-1] = item
        else:
            events.append(item)
            sources.append(own)
    return events, sources


@dataclasses.dataclass(frozen=True, slots=True)
class SubjectStats:
    """Counters of a subject. Times and spans are ticks.

    ``cti`` is None before the first. ``largest_lateness`` is the delay that would have lost
    nothing: by how much the latest event lagged behind the highest CTI that any source had sent.
    """

    events: int
    late: int
    cti: int | None
    largest_lateness: int
    open_rows: int
    subscriber_errors: int
    sources: dict[str, SourceStats]


class Input:
    """Handle of one source on a subject: an observer that comes and goes.

    Its completion, its failure and a CTI at ``MAX_TIME`` close only this handle: the subject's time
    does not advance and the other sources continue. Closing leaves open rows open until the source
    returns under the same name; ``close(end=t)`` ends them at ``t``.

    Threads: as for the subject. Several handles with one name feed the same source.
    """

    __slots__ = ("_accept", "_closed", "_source")

    def __init__(self, source: SourceState, accept: Callable[[Any, SourceState], None]) -> None:
        self._source = source
        self._accept = accept
        self._closed = False
        source.add_handle(self)

    @property
    def name(self) -> str:
        """The source's name."""
        return self._source.name

    @property
    def closed(self) -> bool:
        """True once this handle is closed."""
        return self._closed

    def on_next(self, event: Any) -> None:
        """Push an event, a CTI or a batch of this source; the end of time closes the handle."""
        # this runs once for each event
        kind = type(event)
        if kind in _ROWS or (kind is Cti and event.start < MAX_TIME):
            self._accept(event, self._source)
        else:
            self._push_other(event)

    def _refuse(self, event: Any, source: SourceState) -> None:
        """Raise for an item that comes after the handle was closed."""
        raise BindingError(
            f"input {self.name!r} is closed. Hint: subject.input({self.name!r}) opens it again."
        )

    def _push_other(self, event: Any) -> None:
        if self._closed:
            self._refuse(event, self._source)
        if type(event) is Cti and event.start == MAX_TIME:
            self.close()
        elif getattr(event, "cti", None) == MAX_TIME:
            self._accept(event.replace(cti=MIN_TIME), self._source)
            self.close()
        else:
            self._accept(event, self._source)

    def on_error(self, error: Exception) -> None:
        """Record that the source failed, and close; the other sources continue."""
        self._source.fail(error)
        _log.warning("a source failed; the others go on", source=self.name, error=show(error))
        self.close()

    def on_completed(self) -> None:
        """Close the handle: the source has ended."""
        self.close()

    def close(self, *, end: TimeLike | None = None) -> None:
        """Close the handle; with ``end`` also end the source's open rows at that time."""
        if self._closed:
            return
        if end is not None:
            end_ticks = time_ticks(end)
            for row in list(self._source.rows):
                ends = max(end_ticks, row.edge.start + 1)
                self._accept(
                    EdgeEvent.create_end(row.edge.start_time, ends, row.edge.payload), self._source
                )
        self._closed, self._accept = True, self._refuse
        self._source.remove_handle(self)

    def __enter__(self) -> Input:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class SubjectRows(NamedTuple):
    """A batch of complete rows that fit a subject, and their lowest and highest start.

    Without rows the lowest is the end of time, and the highest lies before its beginning.
    """

    batch: EventBatch
    low: int
    high: int
