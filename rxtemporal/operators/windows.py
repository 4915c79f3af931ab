"""Windows along the axis of time: which rows belong together, and what is made of them.

Bounds (snapshot, hopping) and results (aggregates, ranks, users' operators) are two things, and any
of the one goes with any of the other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import polars as pl

from rxtemporal.core.events import WindowOutput
from rxtemporal.core.ticks import Span, Time, span, time_ticks
from rxtemporal.engine.steps.snap import SnapStep
from rxtemporal.engine.steps.step import Step
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.aggregates import Aggregate
from rxtemporal.operators.operator import Chain, Keys, Operator, RowByRow
from rxtemporal.operators.partition_keys import Apart, each_by
from rxtemporal.operators.window_results import Aggregates, Apply, ResultSpec, TopK
from rxtemporal.reactive.synchronize import composed_at

if TYPE_CHECKING:
    from rxtemporal.engine.steps.window_bounds import Bounds


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SnapToWindowIntervals(RowByRow):
    """Lifetimes altered to cover the assigned interval of every hopping window they touch."""

    name = "snap_to_window_intervals"
    duration: int
    period: int
    alignment: int

    @property
    def cti_rule(self) -> str:
        """The CTI is altered like a start."""
        return "end of the earliest window that ends after t"

    @property
    def passes_time(self) -> bool:
        """The CTI is altered from the beginning."""
        return False

    @property
    def holds(self) -> str:
        """Only what may still vanish waits."""
        return "open rows in a gap between windows, until the CTI passes the next window's start"

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        return SnapStep(self.duration, self.period, self.alignment)


def snap_to_window_intervals(
    duration: Span, period: Span, alignment: Time = 0
) -> SnapToWindowIntervals:
    """Alter lifetimes to cover the assigned interval of every hopping window they touch."""
    return SnapToWindowIntervals(
        duration=span(duration, "duration", least=1),
        period=span(period, "period", least=1),
        alignment=time_ticks(alignment),
        line=composed_at(),
    )


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class _Windows(Operator):
    """Windows along an axis, and the results over them."""

    result: ResultSpec

    @property
    def window(self) -> str:
        """The method that made the window."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The method that made the window, and what follows it."""
        return f"{self.window}.{self.result.name}"

    @property
    def holds(self) -> str:
        """Rows while they live, and what runs along."""
        return "the rows that have not ended before t, and the running results of each key"

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the keys, then what the results are made of."""
        return self.result.output(schema, keys)

    def keys_after(self, keys: Keys) -> Keys:
        """Return nothing: results end the grouping."""
        return ()

    def bounds(self) -> Bounds:
        """Return new bounds of this kind of windows."""
        raise NotImplementedError

    @property
    def points(self) -> bool:
        """Whether results are points at the windows' ends."""
        return False

    def apart(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> Apart:
        """A window holds rows of one key."""
        return each_by(keys, keys)

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        # kernels are loaded by the first query that runs, not by importing the package
        from rxtemporal.engine.steps.windows import WindowStep

        results = self.result.make(schema, keys)
        output = self.output(schema, keys)
        return WindowStep(self.bounds(), results, schema, output, points=self.points)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SnapshotWindows(_Windows):
    """One result for each maximal stretch of time in which the rows alive are the same.

    ``window`` is the method that made the window.
    """

    window: str = "snapshot_window()"

    @property
    def cti_rule(self) -> str:
        """Open snapshots leave as start edges, unless their end has to be known."""
        if self.result.finished:
            return "t, held at the start of the oldest snapshot that has not ended"
        return "t"

    def bounds(self) -> Bounds:
        """Return new bounds."""
        from rxtemporal.engine.steps.window_bounds import SnapshotBounds

        return SnapshotBounds(finished=self.result.finished)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class HoppingWindows(_Windows):
    """One result for each window of a regular grid that holds anything."""

    duration: int
    period: int
    alignment: int
    at: WindowOutput

    @property
    def window(self) -> str:
        """Tumbling is a hop equal to its size."""
        return "tumbling_window()" if self.duration == self.period else "hopping_window()"

    @property
    def cti_rule(self) -> str:
        """A window that has not ended holds what begins with it."""
        return "t" if self.points else "start of the earliest window that ends after t"

    @property
    def passes_time(self) -> bool:
        """A row that comes first belongs to windows that begin before it."""
        return self.points

    @property
    def points(self) -> bool:
        """Whether results are points at the windows' ends."""
        return self.at is WindowOutput.POINT_AT_END

    def bounds(self) -> Bounds:
        """Return new bounds."""
        from rxtemporal.engine.steps.window_bounds import HoppingBounds

        return HoppingBounds(self.duration, self.period, self.alignment, points=self.points)


def snapshot_window() -> Window:
    """One window for each maximal stretch of time in which the set of rows alive is the same."""
    return Window(lambda result, line: SnapshotWindows(result=result, line=line))


def hopping_window(
    duration: Span,
    period: Span,
    alignment: Time = 0,
    *,
    output: WindowOutput = WindowOutput.WINDOW,
) -> Window:
    """The windows ``[a + np, a + np + d)``; a row belongs to each one that it touches."""
    if not isinstance(output, WindowOutput):
        raise ArgumentError(f"output is a WindowOutput, got {output!r}")
    grid = {
        "duration": span(duration, "duration", least=1),
        "period": span(period, "period", least=1),
        "alignment": time_ticks(alignment),
    }
    return Window(lambda result, line: HoppingWindows(**grid, at=output, result=result, line=line))


def tumbling_window(
    duration: Span, alignment: Time = 0, *, output: WindowOutput = WindowOutput.WINDOW
) -> Window:
    """Hopping windows that follow one another without overlap."""
    return hopping_window(duration, duration, alignment, output=output)


def hopping_window2(duration: Span, period: Span, alignment: Time = 0) -> Window:
    """Hopping windows that give output only where it changes: snapped lifetimes, then snapshots."""
    snapped = snap_to_window_intervals(duration, period, alignment)
    name = "hopping_window2()"
    return Window(
        lambda result, line: SnapshotWindows(window=name, result=result, line=line), (snapped,)
    )


@dataclasses.dataclass(frozen=True)
class Window:
    """A window of a pipe: ``aggregate``, ``top_k`` or ``apply`` make it an operator.

    ``before`` are the operators that alter lifetimes so that the windows are those meant.
    """

    over: Callable[[ResultSpec, str], Operator]
    before: tuple[Operator, ...] = ()

    def aggregate(self, **aggregates: Aggregate) -> Chain:
        """Return the operator: one row for each window and key, the keys first in the payload."""
        return self._with(Aggregates(tuple(aggregates.items())))

    def top_k(self, k: int, by: str | pl.Expr, *, descending: bool = True) -> Chain:
        """Return the operator: the rows of rank ``k`` or better in each window, with ``rank``."""
        return self._with(TopK(k, by, descending))

    def apply(
        self,
        function: Callable[..., Iterable[Any]],
        *,
        schema: Any = None,
        time_sensitive: bool = False,
    ) -> Chain:
        """Return the operator: what a function makes of the rows of each window."""
        return self._with(Apply(function, schema, time_sensitive))

    def _with(self, result: ResultSpec) -> Chain:
        return Chain((*self.before, self.over(result, composed_at())))
