"""A plan for each operator: the query of its first case of the laws, or one that stands here."""

from __future__ import annotations

from collections.abc import Callable

import law_streams
import polars as pl

import rxtemporal as rxt
from rxtemporal import operators as ops

Stream = rxt.Streamable
Compose = Callable[[Stream], Stream]

# fields of the streams on which the plans are composed
SCHEMA: dict[str, type] = {"k": str, "x": int, "y": float}
# these take a stream to a stream by operators that the function given to them composes
OF_OTHERS = {"apply", "multicast"}


def with_clocks() -> Stream:
    """Return a stream in which each device has its own time."""
    return rxt.from_events([], schema=SCHEMA, advance_time=0, clock="k", name="readings")


# the first case of these ends with another operator or has other arguments, or there is none
OWN: dict[str, Compose] = {
    "clip_event_duration": lambda s: s.clip_event_duration(s, on="k"),
    "detect": lambda s: s.detect("A B", A=pl.col("x") > 1, within=5),
    "previous": lambda s: s.previous("x"),
    "synchronize": lambda s: with_clocks().synchronize(5),
}


def read_case(name: str) -> Compose:
    """Return the query of the first case of an operator; each of its inputs is the same stream."""
    case = law_streams.CASES[law_streams.OPERATORS[name]]
    return lambda stream: case.query(*[stream] * case.inputs)


PLANS: dict[str, Compose] = {
    name: OWN.get(name) or read_case(name)
    for name in ops.__all__
    if name in OWN or (name in law_streams.OPERATORS and name not in OF_OTHERS)
}
