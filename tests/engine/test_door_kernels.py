"""Rows that a subject takes at once: each verdict is that of the rules, one row after the other."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.kernels.door import admit_rows, admit_run, measure_rows
from rxtemporal.engine.kernels.door_rules import (
    ADJUSTED,
    AHEAD,
    CTI,
    DROPPED,
    NOWHERE,
    ROW,
    admit_start,
)

TIMES = st.integers(0, 20)
ROWS = st.lists(st.tuples(TIMES, st.integers(1, 9), st.booleans()), max_size=9)
ITEMS = st.lists(st.tuples(TIMES, st.sampled_from([ROW, ROW, CTI])), max_size=12)


@given(ROWS.filter(bool))
def test_rows_are_measured(rows: list[tuple[int, int, bool]]) -> None:
    """The lowest and highest start, the least and most length."""
    starts, lengths = [row[0] for row in rows], [row[1] for row in rows]
    start = np.array(starts)
    measured = measure_rows(start, start + np.array(lengths))
    assert measured == (min(starts), max(starts), min(lengths), max(lengths))


@given(ROWS, TIMES, st.booleans(), st.booleans(), st.booleans())
def test_rows_at_one_cti_get_the_verdict_of_the_rule(
    rows: list[tuple[int, int, bool]], cti: int, adjust: bool, named: bool, guarded: bool
) -> None:
    """A row ahead of the wall clock is dropped; another one has the start that the rule gives."""
    verdicts, kept = [], []
    for number, (start, length, is_ahead) in enumerate(rows):
        passed = admit_start(start, start + length, cti, adjust)
        if guarded and is_ahead:
            verdicts.append(AHEAD)
            continue
        verdicts.append(0 if passed == start else DROPPED if passed == NOWHERE else ADJUSTED)
        if passed != NOWHERE:
            kept.append((number, passed, start + length))
    starts = np.array([row[0] for row in rows], np.int64)
    ends = starts + np.array([row[1] for row in rows], np.int64)
    ahead = np.array([row[2] for row in rows] if guarded else [], np.bool_)
    *accepted, reason, dropped, adjusted = admit_rows(starts, ends, ahead, cti, adjust, named)
    assert list(zip(*(column.tolist() for column in accepted), strict=True)) == kept
    assert reason.tolist() == (verdicts if named else [])
    assert (dropped, adjusted) == (verdicts.count(DROPPED), verdicts.count(ADJUSTED))


def take(items: list[tuple[int, int]], cti: int, high: int, delay: int) -> tuple[list[int], ...]:
    """Return what passes of rows and CTIs that are taken one by one, and the counters."""
    passed, counts, reached, behind = list[int](), [0, 0], MIN_TIME, 0
    for time, kind in items:
        reached, made = max(reached, time), NOWHERE
        if kind == CTI:
            high = max(high, time)
            if time - delay > cti:
                made = cti = time - delay
            counts[1] += made == NOWHERE
        else:
            behind = max(behind, high - time)
            made = time if time >= cti else NOWHERE
            counts[0] += made == NOWHERE
        passed.append(made)
    return passed, [cti, high, reached, behind, *counts]


@given(ITEMS, TIMES, TIMES, st.integers(0, 5))
def test_a_run_passes_what_its_items_pass_one_by_one(
    items: list[tuple[int, int]], cti: int, high: int, delay: int
) -> None:
    """Late rows and CTIs that do not advance are marked, and counted."""
    start = np.array([time for time, _ in items], np.int64)
    kinds = [kind for _, kind in items]
    kind = np.array(kinds if CTI in kinds else [], np.int8)
    expected, counters = take(items, cti, high, delay)
    passes, *reached = admit_run(start, kind, cti, high, delay, True)
    assert passes
    assert start.tolist() == expected
    assert reached == counters
    has_late = counters[4] > 0
    again = np.array([time for time, _ in items], np.int64)
    assert admit_run(again, kind, cti, high, delay, False)[0] is not has_late


def test_a_run_with_an_end_of_time_is_taken_one_by_one() -> None:
    """A CTI at either end of time is no time that a delay could be taken from."""
    for time in (MIN_TIME, MAX_TIME):
        assert not admit_run(np.array([time]), np.array([CTI], np.int8), 0, 0, 0, True)[0]
