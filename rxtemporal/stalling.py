"""One line in the log when nothing has come out of a query for a while."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from rxtemporal.core.log import get_logger
from rxtemporal.core.ticks import MAX_TIME, TICKS_PER_SECOND, span
from rxtemporal.errors import ArgumentError
from rxtemporal.execution import Execution
from rxtemporal.holding import Hold, holds, time_told
from rxtemporal.reactive.clock import ALMOST, Recurring

_log = get_logger(__name__)


class Telling(Protocol):
    """A query's way out: the CTI that came out of it, and when something last did."""

    name: str
    cti: int
    wrote: float


class StallWatch:
    """Warns once for each time that a query falls silent: what it waits for, and what helps.

    Neither rows nor time have come out for ``warn_after`` (a timedelta, or ticks of the wall). It
    looks again when something has come out since. With None it never warns, and no timer runs.
    """

    def __init__(
        self, process: str, execution: Execution, outlets: Sequence[Telling], warn_after: Any
    ) -> None:
        if isinstance(warn_after, bool):
            raise ArgumentError(f"warn_after is a timedelta or None, got {warn_after!r}")
        length = None if warn_after is None else span(warn_after, "warn_after", least=1)
        self._seconds = None if length is None else length / TICKS_PER_SECOND
        self._process = process
        self._execution = execution
        self._outlets = outlets
        # when something had last come out of a query as it was told of
        self._told: dict[str, float] = {}
        self._timer = Recurring(execution.wall, self._look)

    def begin(self) -> None:
        """Begin to watch."""
        if self._seconds is not None:
            self._timer.begin(self._seconds)

    def dispose(self) -> None:
        """Watch no longer."""
        self._timer.dispose()

    def _look(self) -> float | None:
        """Warn of who has been silent for long enough; return when to look again."""
        assert self._seconds is not None
        now, again = self._execution.wall.elapsed(), [self._seconds]
        for outlet in self._outlets:
            left = outlet.wrote + self._seconds - now
            if outlet.cti >= MAX_TIME:
                continue
            if left > ALMOST:
                again.append(left)
            elif self._told.get(outlet.name) != outlet.wrote:
                self._told[outlet.name] = outlet.wrote
                self._warn(outlet, now - outlet.wrote)
        return min(again)

    def _warn(self, outlet: Telling, seconds: float) -> None:
        found = holds(self._execution, [each.name for each in self._outlets])
        reasons = [each for each in found if each.query == outlet.name]
        if reasons:
            _log.warning("nothing has come out for a while", **self._told_of(reasons, seconds))

    def _told_of(self, reasons: Sequence[Hold], seconds: float) -> dict[str, Any]:
        first = reasons[0]
        due = None if first.next_due is None else time_told(first.next_due, first.time)
        return {
            "process": self._process,
            "query": first.query,
            "seconds": round(seconds),
            "input": first.stream,
            "has_to_pass": due,
            "because": "; and ".join(map(str, reasons)),
            "remedies": "; or ".join(first.remedies),
        }
