"""Lifetimes shifted, extended, and made points: nothing but the row itself decides."""

from __future__ import annotations

import dataclasses

import polars as pl

from rxtemporal.core.ticks import Span, span
from rxtemporal.engine.steps.lifetimes import LengthenStep, PointAtEndStep, ShiftStep, ToPointsStep
from rxtemporal.engine.steps.step import Step
from rxtemporal.operators.operator import Keys, RowByRow
from rxtemporal.reactive.synchronize import composed_at


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class ShiftEventTime(RowByRow):
    """Both ends of each lifetime, and the CTI, moved by a fixed span."""

    name = "shift_event_time"
    by: int
    cti_rule = "t + d"
    passes_time = False

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        return ShiftStep(self.by)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class ToPointEvents(RowByRow):
    """Each row as a point at its start."""

    name = "to_point_events"

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        return ToPointsStep()


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class PointAtEnd(RowByRow):
    """Each row that ends as a point at its end."""

    name = "point_at_end"

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        return PointAtEndStep()


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class ExtendLifetime(RowByRow):
    """Each end moved by a fixed span, of either sign."""

    name = "extend_lifetime"
    by: int

    @property
    def cti_rule(self) -> str:
        """Shortened, open rows hold the CTI back."""
        return "t" if self.by >= 0 else "min(t, max(t + d, start of the oldest open row))"

    @property
    def holds(self) -> str:
        """Shortened, an open row may still vanish."""
        return "nothing" if self.by >= 0 else "open rows, until t + d is above their start"

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        if self.by >= 0:
            return LengthenStep(self.by)
        # kernels are loaded by the first query that runs, not by importing the package
        from rxtemporal.engine.steps.shorten import ShortenStep

        return ShortenStep(self.by, schema)


def shift_event_time(d: Span) -> ShiftEventTime:
    """Move both ends of each lifetime by a fixed span, and the CTI with them."""
    return ShiftEventTime(by=span(d, "d"), line=composed_at())


def to_point_events() -> ToPointEvents:
    """Make each row a point at its start."""
    return ToPointEvents(line=composed_at())


def point_at_end() -> PointAtEnd:
    """Make each row that ends a point at its end."""
    return PointAtEnd(line=composed_at())


def extend_lifetime(d: Span) -> ExtendLifetime:
    """Move each end by a fixed span, of either sign."""
    return ExtendLifetime(by=span(d, "d"), line=composed_at())
