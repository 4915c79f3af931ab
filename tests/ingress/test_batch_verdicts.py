"""Verdicts on the rows of a batch: the short way for rows in order, beside the way for all rows."""

from __future__ import annotations

import random

import numpy as np
import pytest

import rxtemporal as rxt
from rxtemporal.engine.door_rules import CTI, NEVER, ROW
from rxtemporal.engine.kernels.door import admit
from rxtemporal.ingress.batch_verdicts import (
    NO_KINDS,
    NO_ROWS,
    EventRun,
    Rules,
    State,
    judge_rows,
    pass_rows,
)

EVERY_AND_SPAN = [(0, 0), (1, 0), (3, 0), (0, 1), (0, 7)]


def draw(rng: random.Random) -> State:
    """Return a state that a door may have reached."""
    cti, last, high = (rng.choice([NEVER, rng.randrange(20)]) for _ in range(3))
    return cti, cti, rng.randrange(10), last, 0, high, rng.randrange(5)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("in_order", [True, False])
def test_rows_in_time_reach_the_state_that_row_by_row_reaches(seed: int, in_order: bool) -> None:
    """Rows in order, of which that is known or found out, and others; None if a row is late."""
    rng, passes = random.Random(seed), 0
    for _ in range(40):
        start = np.array(rng.choices(range(40), k=rng.choice([1, 2, 9])), np.int64)
        start = np.sort(start) if in_order else start
        rules = Rules(*rng.choice(EVERY_AND_SPAN), rng.choice([0, 4, 30, -2]), False, 0)
        state = draw(rng)
        _, _, reason, _, reached = admit(
            start, start + 1, NO_KINDS, NO_ROWS, NO_ROWS, *rules, state
        )
        is_sorted = bool((start[1:] >= start[:-1]).all()) and rules[2] >= 0
        expected = None if reason.any() else (reached, is_sorted)
        assert pass_rows(start, rules, state) == expected
        if is_sorted:
            assert pass_rows(start, rules, state, True) == expected
        passes += expected is not None
    assert passes


@pytest.mark.parametrize("seed", range(20))
def test_rows_and_ctis_have_the_verdicts_that_each_has(seed: int) -> None:
    """In time or late; CTIs may go back, and count less the delay."""
    rng, outcomes = random.Random(seed), set()
    for _ in range(60):
        count = rng.choice([1, 2, 9])
        start = np.sort(rng.choices(range(40), k=count)) + rng.choices([0, 0, 0, -3], k=count)
        kind = np.array(rng.choices([ROW, ROW, CTI], k=count), np.int8)
        delay = rng.choice([0, 4, 30])
        rules = Rules(*rng.choice(EVERY_AND_SPAN), delay, False, rng.choice([0, delay]))
        state = draw(rng)
        starts, ends, reason, before, reached = admit(
            start, start + 1, kind, NO_ROWS, NO_ROWS, *rules, state
        )
        verdicts = judge_rows(start, start + 1, rules, state, kind)
        assert verdicts.state == reached
        assert verdicts.late.tolist() == np.flatnonzero(reason).tolist()
        assert verdicts.start.tolist() == starts.tolist()
        assert verdicts.end.tolist() == ends.tolist()
        backwards = bool(((kind == CTI) & (start < before)).any())
        assert verdicts.backwards is backwards
        outcomes.add((bool(reason.any()), backwards))
    assert len(outcomes) == 4


def test_a_run_tells_the_types_of_its_times() -> None:
    """Numbers of numpy are of another type: their form is looked at once, not for each run."""
    items = [rxt.PointEvent(np.int64(5), 1), rxt.PointEvent(np.int64(6), 1)]
    run = EventRun.from_items(items)
    assert run is not None
    assert (run.time_types, run.start.tolist()) == ({np.int64}, [5, 6])
