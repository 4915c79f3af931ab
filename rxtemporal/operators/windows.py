"""Windows: which rows belong together; what is computed over them is the aggregate's business."""

from __future__ import annotations

import dataclasses

import polars as pl

from rxtemporal.agg import Aggregate
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators.operator import Chain, Keys, Operator
from rxtemporal.seam import composed_at
from rxtemporal.steps.snapping import SnapStep
from rxtemporal.steps.step import Step
from rxtemporal.ticks import Span, Time, span, time_ticks

__all__ = ["AggregateSnapshots", "SnapToWindowIntervals", "Window"]


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SnapToWindowIntervals(Operator):
    """Lifetimes altered to cover the assigned interval of every hopping window they touch."""

    name = "snap_to_window_intervals"
    duration: int
    period: int
    alignment: int

    @property
    def cti_rule(self) -> str:
        """The CTI is altered like a start."""
        return "end of the earliest window that ends after t"

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the same schema."""
        return schema

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        return SnapStep(self.duration, self.period, self.alignment)


def snap_to(duration: Span, period: Span, alignment: Time, line: str) -> SnapToWindowIntervals:
    """Return the operator for a duration, period and alignment as users give them."""
    return SnapToWindowIntervals(
        duration=span(duration, "duration", least=1),
        period=span(period, "period", least=1),
        alignment=time_ticks(alignment),
        line=line,
    )


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class AggregateSnapshots(Operator):
    """One row for each snapshot window, and key: the aggregates over the rows alive in it."""

    aggregates: tuple[tuple[str, Aggregate], ...]
    name = "snapshot_window().aggregate"

    def __post_init__(self) -> None:
        if not self.aggregates:
            raise ArgumentError(
                "aggregate takes at least one name=aggregate, such as n=agg.count()"
            )
        for name, aggregate in self.aggregates:
            if not isinstance(aggregate, Aggregate):
                raise ArgumentError(
                    f"aggregate {name!r} is {aggregate!r}; it has to come from rxtemporal.agg, "
                    "such as agg.count()"
                )

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the keys, then the aggregates."""
        fields = {key: schema[key] for key in keys}
        for name, aggregate in self.aggregates:
            if name in fields:
                raise SchemaError(f"aggregate {name!r} has the name of a group key")
            fields[name] = aggregate.dtype(schema)
        return pl.Schema(fields)

    def keys_after(self, keys: Keys) -> Keys:
        """Return nothing: aggregating ends the grouping."""
        return ()

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        # kernels are loaded by the first query that runs, not by importing the package
        from rxtemporal.steps.snapshot import Output, SnapshotStep

        outputs = [
            Output(
                name,
                aggregate.reads if aggregate.reads is not None else pl.lit(1),
                aggregate.running(name, schema),
            )
            for name, aggregate in self.aggregates
        ]
        return SnapshotStep(outputs, self.output(schema, keys))


@dataclasses.dataclass(frozen=True)
class Window:
    """A window of a pipe: ``aggregate`` makes it an operator.

    ``before`` are the operators that alter lifetimes so that snapshots are the windows meant.
    """

    before: tuple[Operator, ...] = ()

    def aggregate(self, **aggregates: Aggregate) -> Chain:
        """Return the operator: one row for each window and key, the keys first in the payload."""
        last = AggregateSnapshots(aggregates=tuple(aggregates.items()), line=composed_at())
        return Chain((*self.before, last))
