"""Sessions: a window for each session of a key, and rows that live until theirs ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from rxtemporal.core.events import WindowOutput
from rxtemporal.core.spans import Span, span
from rxtemporal.core.time_forms import find_span_form
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.operator import Chain, Keys, Operator
from rxtemporal.operators.partition_keys import PartitionRule, partition_by_keys
from rxtemporal.operators.windows.plan import Windowed, WindowOperator, windows

if TYPE_CHECKING:
    from rxtemporal.core.batch import Int64s
    from rxtemporal.engine.step import Step
    from rxtemporal.operators.causes.causes import Causes
    from rxtemporal.operators.causes.history import History
    from rxtemporal.operators.causes.lost_row import Fate, LostRow
    from rxtemporal.operators.windows.start_windows import StartBounds


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class StartWindows(WindowOperator):
    """Windows that contain the rows that start in them, and the results over them."""

    knows_ends = True
    at: WindowOutput

    @property
    def points(self) -> bool:
        """True if results are points at the windows' ends."""
        return self.at is WindowOutput.POINT_AT_END

    @property
    def holds_time(self) -> bool:
        """True if results begin at the starts of windows that are open."""
        return not self.points

    def bounds(self, schema: pl.Schema, keys: Keys) -> StartBounds:
        """Return new bounds of this kind of windows."""
        raise NotImplementedError

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.windows.start_windows import StartWindowStep

        output = self.output(schema, keys)
        results = self.result.prepare(schema, keys)
        bounds, by_time = self.bounds(schema, keys), self.result.by_time
        return StartWindowStep(bounds, results, output, points=self.points, by_time=by_time)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SessionWindows(StartWindows):
    """One result for each session of a key."""

    timeout: int
    max_duration: int | None
    window = "session_window()"

    @property
    def cti_rule(self) -> str:
        """The CTI held back by open sessions, whose results begin at their starts."""
        return "t" if self.points else "t, held at the start of the oldest open session"

    @property
    def holds(self) -> str:
        """The running results of open sessions, or all of their rows."""
        return (
            "the running results of sessions that have not ended, and the rows from t on; all rows "
            "of these sessions if a result reads them one by one or is by time"
        )

    def find_complete(self, begin: int) -> int:
        """Return when a session cannot continue one from before."""
        return begin + self.timeout

    def bounds(self, schema: pl.Schema, keys: Keys) -> StartBounds:
        """Return new bounds."""
        from rxtemporal.operators.sessions.step import SessionBounds

        return SessionBounds(self.timeout, self.max_duration, schema, keys)

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step: of running results, unless these need the rows of whole sessions."""
        from rxtemporal.operators.sessions.running_step import RunningSessionStep
        from rxtemporal.operators.sessions.step import Sessions

        results = self.result.make(schema, keys)
        if results.lists or self.result.by_time:
            return super().make(schema, keys)
        sessions = Sessions(self.timeout, self.max_duration, numbered=True)
        named, output = {key: schema[key] for key in keys}, self.output(schema, keys)
        return RunningSessionStep(sessions, results, named, output, points=self.points)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        from rxtemporal.operators.sessions.causes import find_session_rows

        return find_session_rows(self, inputs, output, rows)

    def explain_loss(self, lost: LostRow) -> Fate:
        """Return why a row of an input has given no row."""
        from rxtemporal.operators.sessions.causes import explain_open_session

        return explain_open_session(self, lost)


def check_output(output: WindowOutput) -> WindowOutput:
    """Return the argument; raise if it is not a ``WindowOutput``."""
    if not isinstance(output, WindowOutput):
        raise ArgumentError(f"output is rxt.WindowOutput.WINDOW or POINT_AT_END, got {output!r}")
    return output


def session_window(
    timeout: Span,
    max_duration: Span | None = None,
    *,
    output: WindowOutput = WindowOutput.WINDOW,
) -> Windowed[Chain]:
    """Make a window ``[first start, last start + timeout)`` for each session of a key.

    Rows whose starts are less than ``timeout`` apart share a session; the window contains the rows
    that start in it, whatever their ends. ``max_duration`` limits a session as in
    ``session_lifetimes``. A result is emitted when no row can prolong the session; until then the
    CTI is held at the start of the oldest open session, unless results are points at the windows'
    ends. Held: the running results of open sessions, and the rows that the CTI has not passed. All
    rows of open sessions are held for ``top_k``, ``apply``, aggregates by time, and those that read
    the rows of a window one by one (see ``rxtemporal.agg``).
    """
    most = None if max_duration is None else span(max_duration, "max_duration", least=1)
    gap, at = span(timeout, "timeout", least=1), check_output(output)
    made = partial(
        SessionWindows,
        timeout=gap,
        max_duration=most,
        at=at,
        time=find_span_form(timeout, max_duration),
    )
    return windows(lambda result: made(result=result))


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SessionLifetimes(Operator):
    """Each row lives from its start to the end of its session; spans are in ticks."""

    name = "session_lifetimes"
    timeout: int
    max_duration: int | None = None
    holds = "rows of sessions that have not ended"
    incomplete = "kept"

    def find_complete(self, begin: int) -> int:
        """Return when a session cannot continue one from before."""
        return begin + self.timeout

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return the rule: rows of one key are seen together."""
        return partition_by_keys(keys, schemas[0])

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.sessions.step import SessionLifetimesStep

        return SessionLifetimesStep(self.timeout, self.max_duration, schema, keys)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        from rxtemporal.operators.sessions.causes import find_session_causes

        return find_session_causes(self, inputs, output, rows)


def session_lifetimes(timeout: Span, max_duration: Span | None = None) -> SessionLifetimes:
    """Let each row live until its session ends.

    Rows of a key whose starts are less than ``timeout`` apart share a session, which ends
    ``timeout`` after its last start (a gap of exactly ``timeout`` ends it). Only starts count: ends
    and end edges are ignored. A row is emitted as a start edge when the CTI has passed its start,
    and its end follows with the first CTI that is not below the session's end. The CTI passes
    unchanged. Held: the rows of sessions that have not ended, and with ``max_duration`` a few
    numbers for each key until ``timeout`` after its last start.

    ``max_duration`` M limits a session on an absolute grid. Let c be the greatest multiple of M
    (counted from 1970-01-01T00:00:00Z) not above the session's first start: the session ends at
    c + M at the latest if it starts at c, else at c + 2M. A session that follows one ended by this
    limit, and starts less than ``timeout`` after the last start of that one, continues the grid: it
    ends at its own c + M at the latest.

    >>> import rxtemporal as rxt
    >>> clicks = [rxt.PointEvent(t, {"page": "a"}) for t in (0, 4, 20)]
    >>> rxt.from_events(clicks).session_lifetimes(10).to_polars(time="ticks").rows()
    [(0, 14, 'a'), (4, 14, 'a'), (20, 30, 'a')]
    """
    longest = None if max_duration is None else span(max_duration, "max_duration", least=1)
    return SessionLifetimes(
        timeout=span(timeout, "timeout", least=1),
        max_duration=longest,
        time=find_span_form(timeout, max_duration),
    )
