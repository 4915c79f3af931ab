"""session_lifetimes: rows live until their session ends."""

from __future__ import annotations

import dataclasses

import polars as pl

from rxtemporal.core.ticks import Span, span
from rxtemporal.engine.steps.step import Step
from rxtemporal.operators.operator import Keys, Operator
from rxtemporal.operators.partition_keys import Apart, each_by
from rxtemporal.reactive.synchronize import composed_at


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SessionLifetimes(Operator):
    """Each row lives from its start to the end of its session; spans are in ticks."""

    name = "session_lifetimes"
    timeout: int
    max_duration: int | None = None
    holds = "rows of sessions that have not ended, and some numbers for each key seen"

    def apart(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> Apart:
        """A session is that of one key."""
        return each_by(keys, schemas[0])

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        # kernels are loaded by the first query that runs, not by importing the package
        from rxtemporal.engine.steps.session_lifetimes import SessionLifetimesStep

        return SessionLifetimesStep(self.timeout, self.max_duration, schema)


def session_lifetimes(timeout: Span, max_duration: Span | None = None) -> SessionLifetimes:
    """Let each row live until its session ends: starts that follow each other by < timeout."""
    longest = None if max_duration is None else span(max_duration, "max_duration", least=1)
    return SessionLifetimes(
        timeout=span(timeout, "timeout", least=1), max_duration=longest, line=composed_at()
    )
