"""Products of cases: a drawn part runs by default, and the others are marked ```full```."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from random import Random
from typing import Any

import pytest

__all__ = ["draw_cases", "draw_product", "draw_seeds", "list_facts"]

# another seed draws another part
SEED = 1

# the numbers of the values of a case, one for each dimension
Places = tuple[int, ...]
Facts = frozenset[Hashable]


def draw_product(
    *dimensions: Iterable[Any],
    together: int = 1,
    allowed: Callable[..., bool] = lambda *values: True,
    outcome: Callable[..., Hashable] = lambda *values: None,
) -> list[Any]:
    """Return the product of the dimensions as parameters of a test.

    The cases outside of the drawn part are marked ``full``. The drawn part is the same on each run,
    and it is small; it has whatever the product has of the following:

    1. each value of each dimension, and with ``together=2`` each pair of values of two dimensions;
    2. each of them with each outcome: ``outcome`` is what the test expects of a case.

    Args:
        dimensions: The values; any objects.
        together: How many values are drawn together.
        allowed: Given the values of a case, return False if there is no such case.
        outcome: Given the values of a case, return what it leads to, for example whether the value
            is accepted.

    Returns:
        A parameter for each case, in the order of ``itertools.product``.
    """
    values = [list(dimension) for dimension in dimensions]
    cases = {
        places: each
        for places, each in zip(
            itertools.product(*(range(len(dimension)) for dimension in values)),
            itertools.product(*values),
            strict=True,
        )
        if allowed(*each)
    }
    facts = {places: list_facts(places, together, outcome(*cases[places])) for places in cases}
    drawn = set(_cover(facts))
    return [_mark(each, places in drawn) for places, each in cases.items()]


def draw_cases(cases: Iterable[Any], drawn: Container[Any]) -> list[Any]:
    """Return cases, names or tuples, as parameters of a test; those not drawn are ``full``."""
    return [_mark(case if isinstance(case, tuple) else (case,), case in drawn) for case in cases]


def draw_seeds(count: int, drawn: int) -> list[Any]:
    """Return seeds from 0 as parameters of a test; those from ``drawn`` on are marked ``full``."""
    return [_mark((seed,), seed < drawn) for seed in range(count)]


def list_facts(places: Places, together: int, outcome: Hashable = None) -> Facts:
    """Return what a case shows: its values, so many together, with what they lead to."""
    return frozenset(
        (some, outcome) for some in itertools.combinations(enumerate(places), together)
    )


def _cover(facts: dict[Places, Facts]) -> Iterator[Places]:
    """Yield cases that have all facts, first those with many that no case before had."""
    order = sorted(facts)
    Random(SEED).shuffle(order)
    missing = set[Hashable]().union(*facts.values())
    # what a case adds only falls: after a pass no case is left that adds as many
    for least in range(max(map(len, facts.values()), default=0), 0, -1):
        for places in order:
            if len(facts[places] & missing) >= least:
                missing -= facts[places]
                yield places


def _mark(values: Sequence[Any], is_drawn: bool) -> Any:
    return pytest.param(*values, marks=() if is_drawn else pytest.mark.full)
