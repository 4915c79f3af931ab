"""Guard against clocks that run ahead of the wall clock, and estimates of how far they do.

A stream has a guard if its settings have ``ahead=``; the one that owns the stream asks it about
each item before the door, and gives the answer to the door. A replay does not ask: each record has
the answer of the time when it came.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rxtemporal.core.events import Cti, EdgeEvent, EdgeType, RowEvent
from rxtemporal.core.log import get_logger
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICKS_PER_SECOND, describe, ticks
from rxtemporal.engine.door_rules import END_EDGE

if TYPE_CHECKING:
    from rxtemporal.core.batch import Bools, EventBatch, Int64s
    from rxtemporal.ingress.batch_verdicts import Bytes

_log = get_logger(__name__)

HOUR, DAY = ticks(timedelta(hours=1)), ticks(timedelta(days=1))
# an estimate is of the last one to two spans
WINDOW = ticks(timedelta(minutes=5))


class ClockGuard:
    """Guard of one stream: finds the items that are too far ahead of the wall clock.

    ``now`` returns the wall clock's time and ``ahead`` is how far an item may be ahead, in ticks. A
    row counts by its start, since that is what makes a CTI; an end edge never does. The clock is
    read for items above all that were in time, but not again within the next second of stream time;
    so a row in time costs one comparison, and one reading that was wrong lets nothing else pass.
    Not thread-safe: its owner serialises.

    >>> from rxtemporal import Cti, PointEvent
    >>> guard = ClockGuard(10, lambda: 100)
    >>> guard.is_ahead(PointEvent(110, "a")), guard.is_ahead(PointEvent(111, "b"))
    (False, True)
    >>> guard.is_ahead(Cti(111)), guard.is_ahead(Cti(MAX_TIME))
    (True, False)
    """

    __slots__ = ("_now", "ahead", "limit")

    step = TICKS_PER_SECOND
    """The ticks of stream time for which one reading of the clock is enough."""

    def __init__(self, ahead: int, now: Callable[[], int]) -> None:
        self.ahead = ahead
        self._now = now
        # a time up to this is not ahead, or does no more harm than one that was in time
        self.limit = MIN_TIME

    def is_time_ahead(self, time: int) -> bool:
        """Return True if a time is too far ahead; the end of time never is."""
        if time <= self.limit or time >= MAX_TIME:
            return False
        allowed = self._now() + self.ahead
        if time > allowed:
            return True
        # not ``allowed``: the clock may be set back, and what it said then must not count
        self.limit = min(time + self.step, allowed)
        return False

    def is_ahead(self, event: Any) -> bool:
        """Return True if a row's start, or a CTI, is too far ahead; of other objects, False."""
        if not isinstance(event, RowEvent | Cti):
            return False
        start = event.start
        if start <= self.limit or not self.is_time_ahead(start):
            return False
        return not (isinstance(event, EdgeEvent) and event.edge_type is EdgeType.END)

    def passes(self, batch: EventBatch) -> bool:
        """Return True if neither a row of a batch nor its CTI is too far ahead."""
        highest = batch.highest_start if len(batch.start) else MIN_TIME
        return not self.is_time_ahead(highest) and not self.is_time_ahead(batch.cti)

    def rows_ahead(self, start: Int64s, kind: Bytes | None = None) -> Bools | None:
        """Return a mask of the items that are too far ahead, or None if none is.

        ``kind`` is that of each item, as the kernels of doors define it; without it or empty, all
        are complete rows.
        """
        highest = int(start.max()) if len(start) else MIN_TIME
        if highest < MAX_TIME and not self.is_time_ahead(highest):
            return None
        ahead: Bools = (start > self._now() + self.ahead) & (start < MAX_TIME)
        if kind is not None and len(kind):
            ahead &= kind != END_EDGE
        return ahead if ahead.any() else None


class JumpWatch(ClockGuard):
    """Watch over CTIs of a stream without a guard: logs a jump beyond the wall clock.

    A CTI that is more than a day ahead of the clock is logged once for each input. Costs one
    comparison for each CTI, and a reading of the clock for each hour of stream time.
    """

    __slots__ = ("_inputs", "_stream")

    step = HOUR

    def __init__(self, stream: str, now: Callable[[], int]) -> None:
        super().__init__(DAY, now)
        self._stream = stream
        self._inputs: set[str] = set()

    def check(self, cti: int, source: str) -> None:
        """Log that an input has advanced the CTI beyond the wall clock, if it has."""
        if not self.is_time_ahead(cti) or source in self._inputs:
            return
        self._inputs.add(source)
        _log.warning(
            "the CTI is more than a day ahead of the wall clock, and everything before it is late "
            "from now on. Hint: ahead=timedelta(minutes=1) guards against clocks that run ahead.",
            stream=self._stream,
            input=source,
            cti=describe(cti),
            clock=describe(self._now()),
        )


class ClockOffset:
    """Estimate of how far the clock of one input is ahead of the wall clock.

    It is the maximum of ``time - arrival`` over the last five to ten minutes, in ticks: the time
    that the input has sent, less the wall clock when it came. The way here takes time, too, and the
    quickest item shows the clock best: so the estimate is at most that item's way too low.

    >>> offset = ClockOffset()
    >>> offset.note(105, now=100), offset.note(108, now=110), offset.ticks
    (None, None, 5)
    """

    __slots__ = ("_before", "_highest", "_since")

    def __init__(self) -> None:
        # two windows, so that old items are forgotten without a list of them
        self._highest: int | None = None
        self._before: int | None = None
        self._since = MIN_TIME

    def note(self, time: int, now: int) -> None:
        """Note that ``time`` has come in from the input at ``now``."""
        if not 0 <= now - self._since < WINDOW:  # a clock may be set back
            self._before = self._highest if 0 <= now - self._since < 2 * WINDOW else None
            self._highest, self._since = None, now
        offset = time - now
        if self._highest is None or offset > self._highest:
            self._highest = offset

    @property
    def ticks(self) -> int | None:
        """The estimate; None before the first item. Positive: the input's clock is ahead."""
        known = [each for each in (self._before, self._highest) if each is not None]
        return max(known, default=None)
