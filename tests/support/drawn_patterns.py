"""Random patterns with their conditions, for the engine and for the model of row patterns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import polars as pl
from hypothesis import strategies as st
from pattern_model import Condition, History

from rxtemporal import pattern as pt

X = pl.col("x")
VARIABLES = "ABCD"


def get_x(row: Any) -> Any:
    """Return the value that conditions are about."""
    return row.payload["x"]


def compare(left: Any, test: Callable[[Any, Any], bool], right: Any) -> Any:
    """Return what a comparison gives where null is unknown."""
    return None if left is None or right is None else test(left, right)


def greater(left: Any, right: Any) -> Any:
    """Return whether a value is above another."""
    return compare(left, lambda a, b: a > b, right)


# conditions over a row and those before it; of the same meaning in both columns
PLAIN: dict[str, tuple[pl.Expr, Condition]] = {
    "x > 0": (X > 0, lambda row, _: greater(get_x(row), 0)),
    "x > 1": (X > 1, lambda row, _: greater(get_x(row), 1)),
    "x < 2": (X < 2, lambda row, _: greater(2, get_x(row))),
    "x = 1": (X == 1, lambda row, _: compare(get_x(row), lambda a, b: a == b, 1)),
    "x is null": (X.is_null(), lambda row, _: get_x(row) is None),
    "rises": (pt.prev("x") < X, lambda row, seen: greater(get_x(row), seen.prev("x"))),
    "falls": (pt.prev("x") > X, lambda row, seen: greater(seen.prev("x"), get_x(row))),
    "above the one before the last": (
        pt.prev("x", 2) < X,
        lambda row, seen: greater(get_x(row), seen.prev("x", 2)),
    ),
    "soon": (
        pl.col("start") - pt.prev("start") < 2,
        lambda row, seen: compare(row.start, lambda a, b: a - b < 2, seen.prev("start")),
    ),
}
# conditions over the rows matched so far
BACK: dict[str, tuple[pl.Expr, Condition]] = {
    "not below the first A": (
        pt.first("A.x") <= X,
        lambda row, seen: compare(seen.first("A.x"), lambda a, b: a <= b, get_x(row)),
    ),
    "above the A before": (
        pt.last("A.x", 1) < X,
        lambda row, seen: greater(get_x(row), seen.last("A.x", 1)),
    ),
    "near the last B": (
        pl.col("start") - pt.last("B.start") < 3,
        lambda row, seen: compare(row.start, lambda a, b: a - b < 3, seen.last("B.start")),
    ),
    "few A": (pt.count("A") < 3, lambda _, seen: seen.count("A") < 3),
    "a small sum of A": (
        pt.sum("A.x") < 3,
        lambda _, seen: (seen.sum("A.x") or 0) < 3,
    ),
    "a small mean of B": (pt.mean("B.x") <= 1, lambda _, seen: greater(1.001, seen.mean("B.x"))),
    "above the least A": (
        pt.min("A.x") < X,
        lambda row, seen: greater(get_x(row), seen.min("A.x")),
    ),
    "below the greatest B": (
        pt.max("B.x") > X,
        lambda row, seen: greater(seen.max("B.x"), get_x(row)),
    ),
}
NEEDS = {name: {v for v in "AB" if f'{v}.' in str(e) or f"({v})" in str(e)}
         for name, (e, _) in BACK.items()}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A pattern with the names of its conditions, and the settings of a search.

    ``by_columns``: the engine tests conditions for a thread and a row, not in its kernel.
    """

    text: str
    conditions: Mapping[str, str]
    settings: Mapping[str, Any]
    by_columns: bool = False

    @property
    def variables(self) -> list[str]:
        """The variables of the pattern."""
        return [name for name in VARIABLES if name in self.text.replace("PERMUTE", "")]

    @property
    def expressions(self) -> dict[str, pl.Expr]:
        """The conditions for the engine."""
        given = {name: (PLAIN | BACK)[each][0] for name, each in self.conditions.items()}
        if not self.by_columns:
            return given
        # a remainder is no program of the kernel
        return {name: each & (pt.count(name) % 1 == 0) for name, each in given.items()}

    @property
    def functions(self) -> dict[str, Callable[[Any, History], Any]]:
        """The conditions for the model."""
        return {name: (PLAIN | BACK)[each][1] for name, each in self.conditions.items()}


QUANTIFIERS = ["", "", "", "*", "+", "?", "{2}", "{1,2}", "{,2}", "{2,}"]


def elements() -> st.SearchStrategy[str]:
    """Draw an element of a sequence, with its quantifier."""
    variables = st.sampled_from(VARIABLES)
    groups = st.deferred(choices).map(lambda text: f"({text})")
    permuted = st.tuples(variables, variables).map(lambda pair: f"PERMUTE({', '.join(pair)})")
    element = st.one_of(variables, variables, variables, groups, permuted)
    quantifier = st.tuples(st.sampled_from(QUANTIFIERS), st.sampled_from(["", "", "?"])).map(
        lambda pair: "".join(pair) if pair[0] else ""
    )
    return st.tuples(element, quantifier).map("".join)


def sequences() -> st.SearchStrategy[str]:
    """Draw elements one after the other, with connectors."""
    connector = st.sampled_from([" ", " ", " ", " ~> ", " ~>> ", " !D ~> ", " !A ~>> "])
    return st.tuples(
        elements(), st.lists(st.tuples(connector, elements()).map("".join), max_size=3)
    ).map(lambda parts: parts[0] + "".join(parts[1]))


def choices() -> st.SearchStrategy[str]:
    """Draw alternatives."""
    return st.lists(sequences(), min_size=1, max_size=2).map(" | ".join)


@st.composite
def patterns(
    draw: st.DrawFn, *, back: bool, limited: bool = False, by_columns: bool = False
) -> Drawn:
    """Draw a pattern, with conditions over the rows matched so far if ``back``.

    If it is ``limited``, each match has a time that it may take.
    """
    waits = draw(st.integers(0, 4)) == 0
    text = draw(choices())
    if by_columns and draw(st.booleans()):
        # each key has tests of its first states, which are others if a match may be empty
        text = f"({text})?"
    text += " !C" if waits else ""
    there = [name for name in VARIABLES if name in text.replace("PERMUTE", "")]
    menu = [*PLAIN, *(name for name in BACK if back and NEEDS[name] <= {*there})]
    conditions = {name: draw(st.sampled_from(menu)) for name in there if draw(st.integers(0, 5))}
    skips: list[Any] = ["past_last", "past_last", "next"]
    skips += [(where, name) for where in ("first", "last") for name in there]
    settings = {
        "skip": draw(st.sampled_from(skips)),
        "within": draw(st.integers(1, 8)) if limited or waits or draw(st.booleans()) else None,
        "max_gap": draw(st.integers(0, 4)) if draw(st.integers(0, 3)) == 0 else None,
    }
    return Drawn(text, conditions, settings, by_columns)
