"""Verdicts on the rows of a batch: the short way for rows in order, beside the way for all rows."""

from __future__ import annotations

import random

import numpy as np
import pytest

from rxtemporal.engine.door_rules import NEVER
from rxtemporal.engine.kernels.door import admit
from rxtemporal.ingress.batch_verdicts import NO_KINDS, NO_ROWS, Rules, State, pass_rows

EVERY_AND_SPAN = [(0, 0), (1, 0), (3, 0), (0, 1), (0, 7)]


def draw(rng: random.Random) -> State:
    """Return a state that a door may have reached."""
    cti, last, high = (rng.choice([NEVER, rng.randrange(20)]) for _ in range(3))
    return cti, cti, rng.randrange(10), last, 0, high, rng.randrange(5)


@pytest.mark.parametrize("seed", range(20))
def test_rows_in_order_and_in_time_reach_the_state_that_row_by_row_reaches(seed: int) -> None:
    """Whether it is known that they are in order, or found out; None for a row that is late."""
    rng = random.Random(seed)
    for _ in range(20):
        start = np.array(sorted(rng.choices(range(40), k=rng.choice([1, 2, 9]))), np.int64)
        rules: Rules = (*rng.choice(EVERY_AND_SPAN), rng.choice([0, 4]), False, 0)
        state = draw(rng)
        _, _, reason, _, reached = admit(
            start, start + 1, NO_KINDS, NO_ROWS, NO_ROWS, *rules, state
        )
        expected = None if reason.any() else reached
        assert pass_rows(start, rules, state, True) == expected
        assert pass_rows(start, rules, state) == expected


def test_rows_out_of_order_take_the_way_for_all_rows() -> None:
    """One row that falls is enough, also if all are in time."""
    rules: Rules = (1, 0, 9, False, 0)
    assert pass_rows(np.array([5, 7, 6]), rules, (NEVER, NEVER, 0, NEVER, 0, NEVER, 0)) is None
