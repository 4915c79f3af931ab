"""Settings of a stream: how its time advances, even in silence, and how many rows may be queued.

Source of the advance-time settings: *Advancing Application Time*.
"""

from __future__ import annotations

import dataclasses
import enum
import os
from datetime import timedelta
from enum import Enum
from numbers import Integral
from typing import Any, TypeAlias

from rxtemporal.core.safe_text import brief
from rxtemporal.core.spans import Span, describe_span, parse_span, span
from rxtemporal.core.ticks import TICK, TICKS_PER_SECOND
from rxtemporal.core.time_forms import TimeForm, find_span_form
from rxtemporal.errors import AdvanceTimeError, ArgumentError, explain_calls


class AdvanceTimePolicy(Enum):
    """The fate of an event that breaks a CTI."""

    DROP = "drop"
    ADJUST = "adjust"


class WhenAhead(Enum):
    """The fate of a row that is further ahead of the wall clock than ``ahead=`` allows.

    In no case does it advance time. ``KEEP``: the row is taken as it is. ``LATE``: it is dropped
    and reported as a late event, with ``LateReason.AHEAD``. ``REJECT``: it never reaches the
    stream, and whoever pushed it is told; only a ``PushSource`` can do that.
    """

    KEEP = "keep"
    LATE = "late"
    REJECT = "reject"


def check_ahead(ahead: Any, when_ahead: Any, *, rejects: bool = False) -> int | None:
    """Return the ticks that rows may be ahead of the wall clock, or None; raise if one is wrong.

    ``rejects`` is True where rows can be rejected.
    """
    if not isinstance(when_ahead, WhenAhead):
        names = "WhenAhead.KEEP, LATE or REJECT" if rejects else "WhenAhead.KEEP or LATE"
        raise ArgumentError(f"when_ahead is {names}, got {when_ahead!r}")
    if when_ahead is WhenAhead.REJECT and not rejects:
        raise ArgumentError(
            "when_ahead is WhenAhead.KEEP or LATE here, got WhenAhead.REJECT: there is nobody to "
            "tell. Hint: an rxt.PushSource rejects rows, and its verdict says which."
        )
    if ahead is not None:
        return span(ahead, "ahead", least=0)
    if when_ahead is not WhenAhead.KEEP:
        raise ArgumentError(
            f"when_ahead={when_ahead} has no effect without ahead=. "
            "Hint: ahead=timedelta(minutes=1) is how far clocks may be ahead."
        )
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class AdvanceTimeGenerationSettings:
    """Settings for generating CTIs from the events of a stream.

    ``frequency`` is a count N (every N-th event makes a CTI due; dropped events count, end edges
    never do) or a timedelta T (the first start makes a CTI due, then each start at least T after
    the start that made the last one due). The CTI follows its event, at the event's start as the
    source sent it less ``delay``; a negative delay of one tick commits every point as it arrives.
    When the source completes, ``advance_to_infinity_on_shutdown`` decides whether all results are
    delivered or only the final ones.

    >>> AdvanceTimeGenerationSettings(10, timedelta(seconds=5)).delay_ticks
    5000000
    """

    frequency: int | timedelta | str
    delay: Span
    advance_to_infinity_on_shutdown: bool = True

    def __post_init__(self) -> None:
        self._read_texts()
        frequency = self.frequency
        if isinstance(frequency, bool) or not isinstance(frequency, (int, timedelta)):
            raise AdvanceTimeError(
                "frequency is a number of events, a timedelta or a text such as '1s', got "
                f"{frequency!r}"
            )
        if (span(frequency, "frequency") if isinstance(frequency, timedelta) else frequency) <= 0:
            raise AdvanceTimeError(f"frequency must be positive, got {frequency}")
        span(self.delay, "delay")

    def _read_texts(self) -> None:
        """Replace spans that are texts by timedeltas."""
        try:
            for name in ("frequency", "delay"):
                value = getattr(self, name)
                if isinstance(value, str):
                    length = timedelta(microseconds=parse_span(value, name))
                    object.__setattr__(self, name, length)
        except ArgumentError as error:
            raise AdvanceTimeError(str(error)) from None

    @property
    def delay_ticks(self) -> int:
        """The delay in ticks, of either sign."""
        return span(self.delay, "delay")

    @property
    def time(self) -> TimeForm | None:
        """The form of the streams for which the delay is meant; None: of both.

        Both have a delay of one tick less than nothing, which commits every point as it arrives.
        ``frequency`` says nothing: a number there counts events.
        """
        return None if self.delay == -TICK else find_span_form(self.delay)


@dataclasses.dataclass(frozen=True, slots=True)
class AdvanceTimeImportSettings:
    """Import of CTIs: each CTI of the named stream of the same process also appears on this one.

    This holds for generated, enqueued and imported CTIs. Streams may import from each other in
    loops: a CTI that does not advance a stream is not passed on, so each CTI visits a stream once.
    The end of time is not imported.
    """

    stream_name: str

    def __post_init__(self) -> None:
        if not isinstance(self.stream_name, str) or not self.stream_name:
            raise AdvanceTimeError(f"stream_name is a stream's name, got {self.stream_name!r}")


@dataclasses.dataclass(frozen=True, slots=True)
class AdvanceTimeSettings:
    """Settings for how a stream's time advances, with the policy for late events.

    CTIs are generated, imported from another stream, or both. The policy has no default: whoever
    has CTIs generated must decide about late events.

    ``ahead`` (a timedelta or ticks) guards the stream against clocks that run ahead: a row whose
    start, or a CTI that the source sends, is further ahead of the wall clock than that does not
    advance time. Such a CTI is ignored; ``when_ahead`` says what happens to the row, which does not
    count for ``frequency`` either. Imported CTIs and the end of time are not checked. Application
    time then has to be wall-clock time. Records of a log or a recording keep what was found when
    they came, so a replay repeats the verdicts at any later time.

    >>> from datetime import timedelta
    >>> each = AdvanceTimeGenerationSettings(frequency=1, delay=0)
    >>> policy = AdvanceTimePolicy.DROP
    >>> AdvanceTimeSettings(each, policy=policy, ahead=timedelta(minutes=1)).ahead_ticks
    60000000
    """

    generation: AdvanceTimeGenerationSettings | None = None
    imports: AdvanceTimeImportSettings | None = None
    policy: AdvanceTimePolicy = dataclasses.field(kw_only=True)
    ahead: Span | None = dataclasses.field(default=None, kw_only=True)
    when_ahead: WhenAhead = dataclasses.field(default=WhenAhead.KEEP, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.policy, AdvanceTimePolicy):
            raise AdvanceTimeError(
                f"policy is AdvanceTimePolicy.DROP or ADJUST, got {self.policy!r}. "
                "Hint: policy=rxt.AdvanceTimePolicy.DROP."
            )
        if not isinstance(self.imports, AdvanceTimeImportSettings | None):
            raise AdvanceTimeError(
                f"imports is an AdvanceTimeImportSettings, got {self.imports!r}. "
                "Hint: AdvanceTimeImportSettings('name of the stream')."
            )
        check_ahead(self.ahead, self.when_ahead)
        if self.generation is None and self.imports is not None:
            return
        if not isinstance(self.generation, AdvanceTimeGenerationSettings):
            raise AdvanceTimeError(
                f"generation is an AdvanceTimeGenerationSettings, got {self.generation!r}. "
                "Hint: leave advance_time= out if the source sends its own CTIs."
            )

    @property
    def time(self) -> TimeForm | None:
        """The form of the streams for which the settings are meant; None: of both."""
        return None if self.generation is None else self.generation.time

    @property
    def ahead_ticks(self) -> int | None:
        """The ticks that a row may be ahead of the wall clock; None: any number."""
        return check_ahead(self.ahead, self.when_ahead)


# a dataclass makes its own __init__
AdvanceTimeSettings.__init__ = explain_calls(  # type: ignore[method-assign]
    "AdvanceTimeSettings(AdvanceTimeGenerationSettings(frequency=1, delay='5m'), "
    "policy=AdvanceTimePolicy.DROP); advance_time='5m' is short for it"
)(AdvanceTimeSettings.__init__)


@dataclasses.dataclass(frozen=True, slots=True)
class AdapterAdvanceTimeSettings:
    """Time settings that an adapter declares: how CTIs are generated, and the policy."""

    generation: AdvanceTimeGenerationSettings
    policy: AdvanceTimePolicy

    def __post_init__(self) -> None:
        self.settings()

    def settings(self) -> AdvanceTimeSettings:
        """Return them as the settings of a stream."""
        return AdvanceTimeSettings(self.generation, policy=self.policy)


def _each_event(delay: int) -> AdvanceTimeSettings:
    return AdvanceTimeSettings(
        AdvanceTimeGenerationSettings(1, delay), policy=AdvanceTimePolicy.DROP
    )


# a CTI at the start of each event: for sources in order, equal times included
INCREASING_START_TIME = _each_event(0)
# a CTI one tick after each event: every point is committed at once, equal times are late
STRICTLY_INCREASING_START_TIME = _each_event(-TICK)


@dataclasses.dataclass(frozen=True, slots=True)
class Heartbeat:
    """CTIs that follow the wall clock while a source is silent.

    After ``every`` without an event, and again each ``every`` until the next event, the CTI is
    advanced to the wall clock's time less ``delay``. So application time has to *be* wall-clock
    time: a heartbeat makes no sense for recorded streams. A later event that starts before that
    CTI is late, and the stream's policy decides.

    >>> from datetime import timedelta
    >>> print(Heartbeat(every=timedelta(seconds=5), delay=timedelta(seconds=2)))
    the wall clock less 2 s, after 5 s of silence and each 5 s of it
    """

    every: Span
    delay: Span

    def __post_init__(self) -> None:
        span(self.every, "every", least=1)
        span(self.delay, "delay", least=0)

    def __str__(self) -> str:
        """Return a description in words."""
        every, delay = (describe_span(span(each, "")) for each in (self.every, self.delay))
        return f"the wall clock less {delay}, after {every} of silence and each {every} of it"


@dataclasses.dataclass(frozen=True, slots=True)
class Liveliness:
    """Measures for a silent source: a heartbeat, a time-out after which it is idle, or both.

    Without either, only the silence of its devices is watched.
    """

    heartbeat: Heartbeat | None
    idle_after: int | None

    @classmethod
    def check(
        cls, heartbeat: Any, idle_after: Any, settings: AdvanceTimeSettings | None
    ) -> Liveliness | None:
        """Return the measures, or None; raise if one is wrong or the stream has no policy."""
        if heartbeat is None and idle_after is None:
            return None
        if not isinstance(heartbeat, Heartbeat | None):
            raise ArgumentError(
                f"heartbeat is a Heartbeat, got {heartbeat!r}. "
                "Hint: heartbeat=Heartbeat(every=timedelta(seconds=5), delay=timedelta(seconds=2))."
            )
        after = None if idle_after is None else span(idle_after, "idle_after", least=1)
        if settings is None:
            raise policy_error("heartbeat=" if heartbeat else "idle_after=")
        return cls(heartbeat, after)


def policy_error(what: str) -> AdvanceTimeError:
    """Return the error for a request that needs a policy on a stream without one."""
    return AdvanceTimeError(
        f"{what} advances a stream while its source is silent, and events that come afterwards may "
        "be late: it needs a policy. Hint: advance_time=AdvanceTimeSettings(…, "
        "policy=AdvanceTimePolicy.DROP) where the stream is made."
    )


class WhenFull(enum.Enum):
    """Behaviour of a full hand-off towards the producer that pushes into it.

    ``BLOCK``: the producer waits until the query has taken rows out. ``SPILL``: it does not wait,
    and its rows go to disk, behind the queued ones.
    """

    BLOCK = "block"
    SPILL = "spill"


@dataclasses.dataclass(frozen=True, slots=True)
class HandOff:
    """Bounded queue between a source that pushes and its query, which runs in another thread.

    ``max_rows`` is the number of rows that may be queued in memory, including rows that wait for a
    CTI; the batch that the query is working on is not counted. ``when_full`` says what happens to
    further rows. ``path`` is the folder for spilled rows (by default the system's folder for
    temporary files); each run makes its own folder in it and deletes that at its end.

    ``linger`` (a timedelta or ticks, by default none) is how long the query may wait for more rows
    after the first of a batch, so that it runs less often over larger batches: each row may come
    out that much later. It does not wait while a producer waits for room, nor behind the end of the
    source. Some milliseconds are enough. Results and verdicts stay the same.

    >>> HandOff(max_rows=10_000, when_full=WhenFull.SPILL).max_rows
    10000
    """

    max_rows: int = 1_000_000
    when_full: WhenFull = WhenFull.BLOCK
    path: str | os.PathLike[str] | None = None
    linger: Span = dataclasses.field(default=timedelta(0), kw_only=True)

    def __post_init__(self) -> None:
        span(self.linger, "linger", least=0)
        if isinstance(self.max_rows, bool) or not isinstance(self.max_rows, int):
            raise ArgumentError(f"max_rows is a number of rows, got {self.max_rows!r}")
        if self.max_rows < 1:
            raise ArgumentError(f"max_rows must be positive, got {self.max_rows}")
        if not isinstance(self.when_full, WhenFull):
            raise ArgumentError(f"when_full is WhenFull.BLOCK or SPILL, got {self.when_full!r}")
        if self.path is None:
            return
        if not isinstance(self.path, str | os.PathLike):
            raise ArgumentError(f"path is a folder, got {self.path!r}")
        if self.when_full is WhenFull.BLOCK:
            raise ArgumentError(
                "path is the folder for spilled rows, and a hand-off that blocks spills none. "
                "Hint: when_full=WhenFull.SPILL."
            )

    @property
    def linger_seconds(self) -> float:
        """The longest wait for more rows, in seconds."""
        return span(self.linger, "linger") / TICKS_PER_SECOND


def check_hand_off(hand_off: Any, batch_rows: Any) -> None:
    """Raise ``ArgumentError`` unless these are a ``HandOff`` or None, and a number of rows."""
    if not isinstance(hand_off, HandOff | None):
        raise ArgumentError(f"hand_off is a HandOff, got {hand_off!r}. Hint: rxt.HandOff().")
    check_batch_rows(batch_rows)


def check_batch_rows(batch_rows: Any) -> None:
    """Raise ``ArgumentError`` unless this is a number of rows."""
    if not isinstance(batch_rows, Integral) or batch_rows < 1:
        raise ArgumentError(f"batch_rows must be positive, got {batch_rows!r}")


@dataclasses.dataclass(frozen=True, slots=True)
class HandOffDiagnostics:
    """Counters of one source's hand-off.

    ``rows_waiting``: rows accepted but not yet given to the query, in memory and on disk;
    ``most_rows_waiting``: the highest number in memory so far; ``rows_spilled``: rows written to
    disk; ``times_blocked`` and ``blocked``: how often and how long producers have waited;
    ``batches``: batches given to the query.
    """

    rows_waiting: int
    most_rows_waiting: int
    rows_spilled: int
    times_blocked: int
    blocked: timedelta
    batches: int


AdvanceTime: TypeAlias = AdvanceTimeSettings | Span


def read_advance_time(advance_time: Any) -> AdvanceTimeSettings | None:
    """Return the settings of a stream; a span is the delay after which late events are dropped.

    A span stands for a CTI after each event, this span before its start, and for ``DROP``.

    >>> settings = read_advance_time("5m")
    >>> settings.generation.frequency, settings.generation.delay_ticks, settings.policy.name
    (1, 300000000, 'DROP')
    """
    if advance_time is None or isinstance(advance_time, AdvanceTimeSettings):
        return advance_time
    if isinstance(advance_time, AdvanceTimeGenerationSettings):
        raise ArgumentError(
            "advance_time has no policy for late events. Hint: AdvanceTimeSettings(generation, "
            "policy=AdvanceTimePolicy.DROP)."
        )
    if isinstance(advance_time, bool) or not isinstance(advance_time, (int, timedelta, str)):
        raise ArgumentError(
            "advance_time is an AdvanceTimeSettings, or how late an event may be (a timedelta, a "
            f"text such as '5m', or ticks), got {brief(advance_time)}"
        )
    return _make_delay(advance_time)


def _make_delay(delay: Span) -> AdvanceTimeSettings:
    if span(delay, "advance_time") < 0:
        raise AdvanceTimeError(
            f"advance_time={delay!r} is negative: it is how late an event may be. "
            "Hint: STRICTLY_INCREASING_START_TIME makes points final as they arrive."
        )
    generation = AdvanceTimeGenerationSettings(1, delay)
    return AdvanceTimeSettings(generation, policy=AdvanceTimePolicy.DROP)
