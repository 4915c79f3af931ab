"""Watch over the queries of a process that warns in the log when one of them stalls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from rxtemporal.core.log import get_logger
from rxtemporal.core.spans import span
from rxtemporal.core.ticks import MAX_TIME, TICKS_PER_SECOND
from rxtemporal.errors import ArgumentError
from rxtemporal.reactive.clock import TOLERANCE, RepeatingTimer
from rxtemporal.runtime.execution import Execution
from rxtemporal.runtime.stall_search import find_stalls
from rxtemporal.runtime.stalls import Stall, format_time

_log = get_logger(__name__)


class Watched(Protocol):
    """The results of a query: their name, their CTI, and when the last of them came."""

    @property
    def name(self) -> str:
        """The name of the query."""

    @property
    def cti(self) -> int:
        """The CTI of the results."""

    @property
    def wrote(self) -> float:
        """Seconds of the wall clock at the last result."""


class StallWatch:
    """Timer that warns when a query has delivered neither rows nor a CTI for ``warn_after``.

    There is one warning for each stall; a query is watched again after its next result.
    ``warn_after`` is a timedelta or ticks of the wall clock; with None no timer runs.
    """

    def __init__(
        self,
        process: str,
        execution: Execution,
        outlets: Sequence[Watched],
        warn_after: Any,
        log: Any = _log,
    ) -> None:
        if isinstance(warn_after, bool):
            raise ArgumentError(
                f"warn_after is a timedelta, a text such as '30s', or None, got {warn_after!r}"
            )
        length = None if warn_after is None else span(warn_after, "warn_after", least=1)
        self._seconds = None if length is None else length / TICKS_PER_SECOND
        self._process, self._log = process, log
        self._execution = execution
        self._outlets = outlets
        # for each query with a warning, the time of its last result
        self._warned: dict[str, float] = {}
        self._timer = RepeatingTimer(execution.clock, self._check)

    def start(self) -> None:
        """Start to watch."""
        if self._seconds is not None:
            self._timer.start(self._seconds)

    def dispose(self) -> None:
        """Stop watching."""
        self._timer.dispose()

    def _check(self) -> float | None:
        """Warn of each query that has been silent for long enough; return when to check again."""
        assert self._seconds is not None
        now, again = self._execution.clock.elapsed(), [self._seconds]
        for outlet in self._outlets:
            left = outlet.wrote + self._seconds - now
            if outlet.cti >= MAX_TIME:
                continue
            if left > TOLERANCE:
                again.append(left)
            elif self._warned.get(outlet.name) != outlet.wrote:
                self._warned[outlet.name] = outlet.wrote
                self._warn(outlet.name, now - outlet.wrote)
        return min(again)

    def _warn(self, query: str, seconds: float) -> None:
        self._execution.fetch_waiting()
        found = find_stalls(self._execution, [each.name for each in self._outlets])
        stalls = [each for each in found if each.query == query]
        if stalls:
            self._log.warning("nothing has come out for a while", **self._fields(stalls, seconds))

    def _fields(self, stalls: Sequence[Stall], seconds: float) -> dict[str, Any]:
        first = stalls[0]
        due = None if first.next_due is None else format_time(first.next_due, first.time)
        return {
            "process": self._process,
            "query": first.query,
            "seconds": round(seconds),
            "input": first.stream,
            "has_to_pass": due,
            "because": "; and ".join(map(str, stalls)),
            "remedies": "; or ".join(first.remedies),
        }
