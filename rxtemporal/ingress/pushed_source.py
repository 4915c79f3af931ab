"""Source of a plan that is pushed into, with a verdict on each push."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import polars as pl
from reactivex import abc

from rxtemporal.core.spans import SECOND, Span, span
from rxtemporal.core.time_forms import TimeForm
from rxtemporal.errors import ArgumentError
from rxtemporal.ingress.input_state import SourceStats
from rxtemporal.ingress.settings import (
    AdvanceTimeGenerationSettings,
    AdvanceTimePolicy,
    AdvanceTimeSettings,
    HandOff,
    Liveliness,
    WhenAhead,
    check_ahead,
)
from rxtemporal.ingress.source import Cursor, StreamSource
from rxtemporal.ingress.verdict import Rejects

Attach = Callable[[Any], abc.DisposableBase]


class PushedSource(StreamSource):
    """Source whose rows are pushed into the entry that a run gives to ``attach``.

    ``owner`` is the object that programs push into, by which a plan leads to it.
    """

    pushes = True
    resumes = False
    has_verdicts = True
    delays_ctis = True

    def __init__(
        self,
        name: str,
        schema: pl.Schema,
        settings: AdvanceTimeSettings,
        lively: Liveliness | None,
        hand_off: HandOff | None,
        attach: Attach,
        owner: Any,
        stats: Callable[[Any], Mapping[str, SourceStats]],
        *,
        min_rows: int,
        refuses_ahead: bool,
        time: TimeForm | None,
        arrives: bool,
    ) -> None:
        self.name = name
        self.time = time
        self.schema = schema
        self.settings = settings
        self.lively = lively
        self.hand_off = hand_off
        self.owner = owner
        self._attach = attach
        self._stats = stats
        self.min_rows = min_rows
        self.refuses_ahead = refuses_ahead
        self.arrives = arrives

    def use_time(self, time: TimeForm | None) -> None:
        """Set the form of its times."""
        self.time = time

    def set_up_as(self, other: PushedSource) -> None:
        """Take over the settings of time and of clocks of another source of such rows."""
        self.settings, self.clock = other.settings, other.clock

    def guard(self, ahead: int | None) -> None:
        """Guard against clocks that are further ahead, unless ``ahead=`` says so already.

        None stands for the delay: a row that is further ahead makes punctual rows of others late.
        It is at least a second, for clocks are never exactly right, and at most a minute. Rows that
        start when they arrive are not ahead.
        """
        settings = self.settings
        assert settings is not None
        assert settings.generation is not None
        if self.arrives or settings.ahead is not None:
            return
        if ahead is None:
            ahead = min(max(settings.generation.delay_ticks, SECOND), 60 * SECOND)
        self.settings = dataclasses.replace(settings, ahead=ahead)

    def inputs(self, entry: Any = None) -> Mapping[str, SourceStats]:
        """Return the counters of the inputs there have been, by name.

        Those of an ``entry`` are of its own run; by default of the last one.
        """
        return self._stats(entry)

    def open(self, position: Any = None) -> Cursor:
        """Return a cursor that attaches a run."""
        return _PushedCursor(self._attach)


class _PushedCursor(Cursor):
    def __init__(self, attach: Attach) -> None:
        super().__init__()
        self._attach = attach

    def connect(self, observer: Any) -> abc.DisposableBase:
        return self._attach(observer)


def make_push_settings(
    delay: Span, policy: AdvanceTimePolicy, ahead: Any, when_ahead: Any, rejects: Rejects
) -> AdvanceTimeSettings:
    """Return the settings of a source that is pushed into, in which each row makes a CTI."""
    check_ahead(ahead, when_ahead, rejects=True)
    if when_ahead is WhenAhead.REJECT:
        if rejects is Rejects.RAISE:
            raise ArgumentError(
                "when_ahead=WhenAhead.REJECT and rejects=Rejects.RAISE cannot be combined: a push "
                "is compared with the clock row by row. Hint: leave rejects= out, and look at "
                "verdict.rejected."
            )
        when_ahead = WhenAhead.KEEP
    span(delay, "delay", least=0)
    return AdvanceTimeSettings(
        AdvanceTimeGenerationSettings(1, delay),
        policy=policy,
        ahead=ahead,
        when_ahead=when_ahead,
    )
