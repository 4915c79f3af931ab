"""chop: lifetimes cut at the boundaries of a grid."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import polars as pl

from rxtemporal.core.ticks import Span, Time, span, ticks, time_ticks
from rxtemporal.engine.steps.step import Step
from rxtemporal.operators.operator import Keys, RowByRow
from rxtemporal.reactive.synchronize import composed_at


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Chop(RowByRow):
    """Lifetimes cut at every boundary ``offset + n * period`` strictly inside."""

    name = "chop"
    period: int
    offset: int
    holds = "open rows and rows that never end, until they end"

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.engine.steps.chop import ChopStep

        return ChopStep(self.period, self.offset, schema)


def chop(period: Span, offset: Time | timedelta = 0) -> Chop:
    """Cut lifetimes at every boundary ``offset + n * period`` strictly inside."""
    at = ticks(offset) if isinstance(offset, timedelta) else time_ticks(offset)
    return Chop(period=span(period, "period", least=1), offset=at, line=composed_at())
