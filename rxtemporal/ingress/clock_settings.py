"""Settings of a stream in which each device has its own time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import polars as pl

from rxtemporal.core.spans import Span, describe_span, span
from rxtemporal.core.time_forms import TimeForm, find_span_form, unite_forms
from rxtemporal.errors import AdvanceTimeError, ArgumentError, SchemaError
from rxtemporal.ingress.settings import AdvanceTimeSettings

ClockFields: TypeAlias = "str | Sequence[str]"
_SPANS = ("behind", "silent_after", "forget_after")


@dataclasses.dataclass(frozen=True, slots=True)
class ClockSettings:
    """Settings of the clocks of a stream's devices.

    ``fields`` name the device of a row; each different value of them has a CTI of its own. The
    spans are ticks. ``by_wall``: rows are compared with the wall clock as they come, so that all
    others are trusted; otherwise the time of the fleet is the second-highest of its devices.
    ``silent_by_wall``: a run finds silent devices by the wall clock, and records each; otherwise
    silence follows from the time of the fleet.
    """

    fields: tuple[str, ...]
    behind: int | None = None
    silent_after: int | None = None
    forget_after: int | None = None
    # says how late results may be, and decides nothing
    spread: int = dataclasses.field(default=0, compare=False)
    by_wall: bool = False
    silent_by_wall: bool = False

    @property
    def quiet(self) -> int | None:
        """The span of silence after which the others lift a device."""
        return self.silent_after if self.silent_after is not None else self.forget_after

    def __str__(self) -> str:
        """Return a description in words."""
        spans = [
            f"{name} {describe_span(length)}"
            for name in _SPANS
            if (length := getattr(self, name)) is not None
        ]
        if self.silent_by_wall and self.quiet is not None:
            spans.append("silence by the wall clock")
        return ", ".join([f"a clock for each {' and '.join(self.fields)}", *spans])


def read_clock(
    clock: ClockFields | None,
    settings: AdvanceTimeSettings | None,
    schema: pl.Schema | None,
    *,
    behind: Span | None = None,
    silent_after: Span | None = None,
    forget_after: Span | None = None,
    spread: Span | None = None,
    by_wall: bool = False,
    silent_by_wall: bool = False,
) -> ClockSettings | None:
    """Return the settings of a stream's clocks; None without ``clock``. Raise if one is wrong."""
    spans = {"behind": behind, "silent_after": silent_after, "forget_after": forget_after}
    given = {**spans, "spread": spread}
    if clock is None:
        for name, length in given.items():
            if length is not None:
                raise ArgumentError(
                    f"{name}={length!r} is about the clocks of devices, and the stream has one "
                    'time for all. Hint: clock="device" names the field that names the device.'
                )
        return None
    fields = _read_fields(clock, schema)
    if settings is None:
        raise AdvanceTimeError(
            "clock= makes a CTI for each device out of its rows, and needs to know how late these "
            "may be. Hint: advance_time='5m' (of a PushSource delay='5m')."
        )
    _check_forms(given, settings)
    read = {
        name: None if length is None else span(length, name, least=1)
        for name, length in spans.items()
    }
    delay = 0 if settings.generation is None else max(settings.generation.delay_ticks, 0)
    for name, ticks in read.items():
        if ticks is not None and ticks < delay:
            raise ArgumentError(
                f"{name} is shorter than the delay: a device would be moved on while its own rows "
                f"may still come. Got {given[name]!r}, and the delay is {describe_span(delay)}."
            )
    silent, forget = read["silent_after"], read["forget_after"]
    if silent is not None and forget is not None and forget < silent:
        raise ArgumentError(
            f"forget_after is at least silent_after, got {forget_after!r} and {silent_after!r}"
        )
    wide = delay if spread is None else span(spread, "spread", least=0)
    return ClockSettings(
        fields, **read, spread=wide, by_wall=by_wall, silent_by_wall=silent_by_wall
    )


class _HasClock(Protocol):
    """A source of which each device may have its own time."""

    settings: AdvanceTimeSettings | None
    schema: pl.Schema | None
    bounded: bool
    pushes: bool
    resumes: bool

    def use_clock(self, clock: ClockSettings | None) -> None:
        """Give each device its own time; None: give all rows one time."""


def list_fields(clock: Any) -> tuple[str, ...]:
    """Return the fields that an argument ``clock`` names, which may be wrong."""
    if clock is None or isinstance(clock, str):
        return () if clock is None else (clock,)
    return tuple(clock) if isinstance(clock, (list, tuple)) else ()


_Source = TypeVar("_Source", bound=_HasClock)


def add_clock(
    source: _Source,
    clock: ClockFields | None = None,
    behind: Span | None = None,
    silent_after: Span | None = None,
    forget_after: Span | None = None,
    spread: Span | None = None,
) -> _Source:
    """Give a source the settings of its devices' clocks, if it has any; return the source."""
    found = read_clock(
        clock,
        source.settings,
        source.schema,
        behind=behind,
        silent_after=silent_after,
        forget_after=forget_after,
        spread=spread,
        by_wall=not source.bounded,
        # one that is read again after a restart has no log of the moves
        silent_by_wall=source.pushes and not source.resumes and not source.bounded,
    )
    source.use_clock(found)
    return source


def _read_fields(clock: Any, schema: pl.Schema | None) -> tuple[str, ...]:
    fields = (clock,) if isinstance(clock, str) else clock
    if (
        not isinstance(fields, (list, tuple))
        or not fields
        or not all(isinstance(each, str) for each in fields)
        or len({*fields}) < len(fields)
    ):
        raise ArgumentError(
            f"clock is the name of a field, or a list of different ones, got {clock!r}. "
            'Hint: clock="device".'
        )
    if schema is None:
        raise ArgumentError(
            f"clock={clock!r} names a field, and the fields of the stream are not known yet. "
            "Hint: schema= says which there are."
        )
    for name in fields:
        if name not in schema:
            raise SchemaError(
                f"clock={clock!r}: there is no field {name!r}; the fields are {', '.join(schema)}."
            )
        if isinstance(schema[name], pl.List):
            raise SchemaError(f"clock={clock!r}: {name!r} is a list, which names no device")
    return tuple(fields)


def _check_forms(given: dict[str, Any], settings: AdvanceTimeSettings) -> None:
    """Raise if spans are of another form than the delay."""
    forms: list[TimeForm | None] = [settings.time]
    forms += [None if length is None else find_span_form(length) for length in given.values()]
    try:
        unite_forms(forms)
    except ValueError:
        shown = ", ".join(f"{name}={length!r}" for name, length in given.items() if length)
        raise ArgumentError(
            f"the spans of one stream are all numbers of ticks, or all have units; got {shown} "
            "beside the delay. Hint: over datetimes a span is a text such as '6h' or a timedelta."
        ) from None
