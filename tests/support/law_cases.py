"""A case of the laws: an operator in one kind of use, its model, CTI rule and input."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import oracle
import physical
import strategies
from arrangements import end_rows, finish
from hypothesis import strategies as st
from oracle import MAX_TIME, Event, Row

Model = Callable[..., list[Row]]
# the output CTI for an input CTI (of two inputs the lower one) and the events that came before it
# those of each input apart, if it asks for them
Rule = Callable[[int, Any], int]
Tolerance = Callable[[list[Row]], Callable[[Row], float]]


def passed_on(t: int, events: list[Event]) -> int:
    """The output CTI is the input's."""
    return t


def exactly(rows: list[Row]) -> Callable[[Row], float]:
    """No float comes from arithmetic."""
    return lambda row: 0.0


def nearly(rows: list[Row]) -> Callable[[Row], float]:
    """Floats come from arithmetic with calm payloads: a few values of one or two digits."""
    return lambda row: 1e-9


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """One operator: its query, its model, and the CTI rule.

    `query` takes as many streams as there are `inputs`, `model` as many canonical histories.
    `draws` are options of `strategies.streams`; `endless` says whether rows may never end, and
    `last` the CTI with which every stream ends. `real`: ticks are microseconds of real times.
    `by_side`: the CTI rule takes the events of each input apart.
    """

    query: physical.Query
    model: Model
    cti: Rule = passed_on
    tolerance: Tolerance = exactly
    inputs: int = 1
    draws: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    endless: bool = True
    last: int = MAX_TIME
    real: bool = False
    by_side: bool = False

    def find_cti(self, t: int, sides: Sequence[Sequence[Event]]) -> int:
        """The output CTI for an input CTI and the events that came before it, by input."""
        events = sides if self.by_side else [event for events in sides for event in events]
        return self.cti(t, events)

    def streams(self) -> st.SearchStrategy[tuple[list[Event], ...]]:
        """One legal stream for each input, to its end."""
        size = {"max_size": 30 if self.inputs == 1 else 18}
        one = strategies.streams(**size | dict(self.draws)).map(self._whole)
        return st.tuples(*[one] * self.inputs)

    def _whole(self, items: Sequence[Event]) -> list[Event]:
        return finish(items if self.endless else end_rows(items), self.last)


def sums(*key: str, snap: tuple[int, int, int] | None = None) -> Tolerance:
    """The bound that sums of x and y keep: x is as large as 1e9, y as 1e16."""

    def tolerance(rows: list[Row]) -> Callable[[Row], float]:
        rows = oracle.snap_to_window_intervals(rows, *snap) if snap else rows
        x, y = (oracle.sum_tolerance(rows, field, key) for field in "xy")
        return lambda row: max(x(row), y(row))

    return tolerance
