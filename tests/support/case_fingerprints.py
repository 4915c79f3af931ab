"""The fingerprints of all cases of the laws, and of queries with code of users."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from law_streams import CASES
from physical import SCHEMA, SIDES

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.run.stepper import Stepwise

Query = Callable[..., rxt.Streamable]


def sides() -> list[rxt.Streamable]:
    """The streams of the table of laws."""
    return [rxt.from_events([], schema=SCHEMA, name=name) for name in SIDES]


def fingerprints(query: Query, *streams: rxt.Streamable) -> tuple[str, ...]:
    """Return the fingerprint of a query over some streams."""
    return Stepwise(query(*streams)._node).fingerprints


def of_the_table() -> dict[str, list[str]]:
    """Return the fingerprint of each query of the table of laws, and of those with code."""
    streams = sides()
    found = {
        name: [*fingerprints(case.query, *streams[: case.inputs])] for name, case in CASES.items()
    }
    for name, make in CODE.items():
        for place, put in PLACES.items():
            found[f"{name}, {place}"] = [*fingerprints(put(make({"a", "b"})), streams[0])]
    for name, aggregate in AGGREGATES.items():
        found[name] = [*fingerprints(counting(aggregate({"a", "b"})), streams[0])]
    return found


# ways in which users give their code a parameter


def within(parameter: Any) -> Callable[..., Any]:
    """Return a function that takes its parameter from the function around it."""

    def function(*row: Any) -> Any:
        return parameter

    return function


def by_default(parameter: Any) -> Callable[..., Any]:
    """Return a function with a default argument."""

    def function(*row: Any, given: Any = parameter) -> Any:
        return given

    return function


def of_functions(parameter: Any) -> Callable[..., Any]:
    """Return a function that calls another one with a parameter."""
    return within(by_default(parameter))


def take(parameter: Any, *row: Any) -> Any:
    """Return the parameter."""
    return parameter


class Called:
    """An object that is called."""

    def __init__(self, parameter: Any) -> None:
        self._parameter = {"nested": [parameter]}

    def __call__(self, *row: Any) -> Any:
        """Return the parameter."""
        return self._parameter

    def method(self, *row: Any) -> Any:
        """Return the parameter."""
        return self._parameter


class Slotted:
    """An object without a dict."""

    __slots__ = ("parameter",)

    def __init__(self, parameter: Any) -> None:
        self.parameter = parameter

    def __call__(self, *row: Any) -> Any:
        """Return the parameter."""
        return self.parameter


CODE: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "within": within,
    "by default": by_default,
    "of functions": of_functions,
    "partial": lambda parameter: functools.partial(take, parameter),
    "called": Called,
    "slotted": Slotted,
    "method": lambda parameter: Called(parameter).method,
}
PLACES: dict[str, Callable[[Any], Query]] = {
    "where": lambda code: lambda s: s.where(code),
    "scan": lambda code: lambda s: s.scan(0, code, schema={"n": int}),
    "apply": lambda code: lambda s: s.snapshot_window().apply(code, schema={"n": int}),
    "alter_event_duration": lambda code: lambda s: s.alter_event_duration(code),
}


def counting(aggregate: Any) -> Query:
    """Return a query that differs only by its aggregate."""
    return lambda rows: rows.snapshot_window().aggregate(n=aggregate)


class Weighted(agg.UserDefinedAggregate):
    """An incremental aggregate."""

    def __init__(self, weight: Any) -> None:
        super().__init__("y")
        self.weight = weight

    def init(self) -> float:
        """Return 0."""
        return 0.0

    def add(self, state: float, value: float) -> float:
        """Add a value by its weight."""
        return state + self.weight * value

    def remove(self, state: float, value: float) -> float:
        """Remove a value by its weight."""
        return state - self.weight * value

    def result(self, state: float) -> float:
        """Return the sum."""
        return state


@dataclasses.dataclass
class Least(agg.UserDefinedAggregate):
    """An aggregate with a setting."""

    past: Any = 0

    def compute(self, rows: list[Any]) -> int:
        """Some row of many."""
        return 0


@dataclasses.dataclass
class Most(Least):
    """Another aggregate with the same setting."""


class Timed(agg.TimeSensitiveAggregate):
    """An aggregate of lifetimes."""

    def __init__(self, weight: Any) -> None:
        super().__init__()
        self._weight = weight

    def compute(self, events: list[Any], window: Any) -> float:
        """Return a number."""
        return 0.0


def of_class(parameter: Any) -> agg.UserDefinedAggregate:
    """Return an aggregate of a class with a parameter."""

    class Classed(Least):
        weight = parameter

    return Classed()


AGGREGATES: dict[str, Callable[[Any], Any]] = {
    "incremental": Weighted,
    "dataclass": Least,
    "another dataclass": Most,
    "time-sensitive": Timed,
    "class": of_class,
}
