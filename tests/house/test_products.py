"""The drawn part of a product has each value of each dimension, and is the same on each run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from products import draw_product, draw_seeds

Rule = Callable[..., Hashable]


def list_drawn(cases: Sequence[Any]) -> list[Any]:
    """Return the values of the cases that run by default."""
    return [case.values for case in cases if not case.marks]


def list_covered(cases: Sequence[Any], together: int, outcome: Rule) -> set[Hashable]:
    """By definition: the values that the cases have, so many together, and what they lead to."""
    return {
        (some, outcome(*case))
        for case in cases
        for some in itertools.combinations(enumerate(case), together)
    }


@given(
    sizes=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    together=st.integers(1, 2),
    outcomes=st.lists(st.sampled_from(["accepted", "refused", "no case"]), min_size=1),
)
def test_the_drawn_part_has_what_the_product_has(
    sizes: list[int], together: int, outcomes: list[str]
) -> None:
    """Each value, or pair of values, is drawn with each outcome that it has anywhere."""

    def outcome(*values: int) -> str:
        return outcomes[hash(values) % len(outcomes)]

    def draw() -> list[Any]:
        return draw_product(
            *map(range, sizes),
            together=together,
            allowed=lambda *values: outcome(*values) != "no case",
            outcome=outcome,
        )

    whole = [case for case in itertools.product(*map(range, sizes)) if outcome(*case) != "no case"]
    cases = draw()
    assert [case.values for case in cases] == whole
    drawn = list_drawn(cases)
    assert list_covered(drawn, together, outcome) == list_covered(whole, together, outcome)
    assert list_drawn(draw()) == drawn


def test_the_drawn_part_is_small() -> None:
    """One case for each value of the longest dimension; for pairs hardly more than there are."""
    assert len(list_drawn(draw_product(range(30), range(7), range(7)))) == 30
    assert 100 <= len(list_drawn(draw_product(*[range(10)] * 3, together=2))) <= 150


def test_the_others_are_marked_full() -> None:
    """What is not drawn runs with ``full``, values that cannot be hashed included."""
    cases = [*draw_product([[], {}, object()], [{}, 1]), *draw_seeds(6, 2)]
    assert [[mark.name for mark in case.marks] for case in cases if case.marks] == [["full"]] * 7
    assert list_drawn(draw_seeds(6, 2)) == [(0,), (1,)]
