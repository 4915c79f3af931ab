"""Rows that a subject takes at once: each verdict is that of the rules, one row after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxtemporal.core.events import Cti, IntervalEvent
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.door_rules import (
    ADJUSTED,
    AHEAD,
    DROP_AHEAD,
    DROPPED,
    NEVER,
    NOWHERE,
    ROW,
    admit_start,
    is_due,
    make_cti,
)
from rxtemporal.engine.kernels import door
from rxtemporal.engine.kernels.door import (
    admit,
    group_by_lane,
    measure_rows,
    raise_ctis,
    raise_ctis_in_order,
    raise_ctis_of_lanes,
)
from rxtemporal.ingress.batch_verdicts import EventRun, Rules
from rxtemporal.reactive.subjects.batches import judge_run

TIMES = st.integers(0, 20)
ROWS = st.lists(st.tuples(TIMES, st.integers(1, 9), st.booleans()), max_size=9)
ITEMS = st.lists(st.tuples(TIMES, st.sampled_from([False, False, True])), min_size=1, max_size=12)


@given(ROWS.filter(bool))
def test_rows_are_measured(rows: list[tuple[int, int, bool]]) -> None:
    """The lowest and highest start, the least and most length."""
    starts, lengths = [row[0] for row in rows], [row[1] for row in rows]
    start = np.array(starts)
    measured = measure_rows(start, start + np.array(lengths))
    assert measured == (min(starts), max(starts), min(lengths), max(lengths))


@given(ROWS, TIMES, st.booleans(), st.booleans())
def test_rows_at_one_cti_get_the_verdict_of_the_rule(
    rows: list[tuple[int, int, bool]], cti: int, adjust: bool, guarded: bool
) -> None:
    """A row ahead of the wall clock is dropped; another one has the start that the rule gives."""
    verdicts, starts, kinds = list[int](), list[int](), list[int]()
    for start, length, is_ahead in rows:
        passed = start if guarded and is_ahead else admit_start(start, start + length, cti, adjust)
        starts.append(passed)
        kinds.append(ROW + DROP_AHEAD * (guarded and is_ahead))
        late = DROPPED if passed == NOWHERE else ADJUSTED
        verdicts.append(AHEAD if kinds[-1] else 0 if passed == start else late)
    start = np.array([row[0] for row in rows], np.int64)
    end = start + np.array([row[1] for row in rows], np.int64)
    kind = np.array(kinds if guarded else [], np.int8)
    none = np.empty(0, np.int64)
    state = cti, cti, 0, NEVER, 0, cti, 0
    given_starts, ends, reason, before, after = admit(
        start, end, kind, none, none, 0, 0, 0, adjust, 0, state
    )
    assert given_starts.tolist() == starts
    assert ends.tolist() == end.tolist()
    assert reason.tolist() == verdicts
    assert set(before.tolist()) <= {cti}
    assert after[0] == cti
    assert after[2] == len(rows) - verdicts.count(AHEAD)


def take(
    items: list[tuple[int, bool]], cti: int, high: int, delay: int
) -> tuple[list[tuple[int, bool]], list[int]]:
    """Return what passes of points and CTIs that are taken one by one, and the counters."""
    passed, late, behind = list[tuple[int, bool]](), 0, 0
    for time, is_cti in items:
        if is_cti:
            high = max(high, time)
            if time - delay > cti:
                cti = time - delay
                passed.append((cti, True))
        else:
            behind = max(behind, high - time)
            if time >= cti:
                passed.append((time, False))
            else:
                late += 1
    return passed, [cti, high, behind, late]


def make_run(items: list[tuple[int, bool]], length: int = 1) -> EventRun:
    """Return points or intervals, and CTIs, as a run."""
    run = EventRun.from_items(
        [Cti(at) if is_cti else IntervalEvent(at, at + length, "a") for at, is_cti in items]
    )
    assert run is not None
    return run


@given(ITEMS, TIMES, TIMES, st.integers(0, 5), st.booleans())
def test_a_run_passes_what_its_items_pass_one_by_one(
    items: list[tuple[int, bool]], cti: int, high: int, delay: int, adjusts: bool
) -> None:
    """Late rows and CTIs that do not advance are left out, and late rows are counted."""
    expected, counters = take(items, cti, high, delay)
    rules = Rules(0, 0, 0, adjusts, delay)
    judged = judge_run(make_run(items), rules, (cti, cti, 0, NEVER, 0, high, 0))
    assert judged is not None
    passed, verdicts = judged
    found = [(event.start, isinstance(event, Cti)) for event in passed.list_events()]
    assert found == expected
    state = verdicts.state
    assert [state[0], state[5], verdicts.behind, len(verdicts.late)] == counters


def test_a_run_with_an_end_of_time_or_an_adjusted_start_is_taken_one_by_one() -> None:
    """A delay cannot be taken from an end of time, and a start is moved in a new event."""
    rules, state = Rules(0, 0, 0, True, 0), (5, 5, 0, NEVER, 0, 5, 0)
    for time in (MIN_TIME, MAX_TIME):
        assert judge_run(make_run([(time, True)]), rules, state) is None
    assert judge_run(make_run([(4, False)], length=3), rules, state) is None
    assert judge_run(make_run([(4, False)], length=1), rules, state) is not None


DEVICES = 5
MOVES = st.lists(st.tuples(st.integers(0, DEVICES - 1), TIMES), min_size=1, max_size=12)
CTIS = st.lists(TIMES, min_size=DEVICES, max_size=DEVICES)


def raise_one_by_one(
    moves: list[tuple[int, int]], delay: int, before: list[int]
) -> tuple[list[int], list[int], list[int]]:
    """Return the CTIs after the moves, and for each move that of its device before and after."""
    ctis, was, now = [*before], list[int](), list[int]()
    for device, time in moves:
        was.append(ctis[device])
        ctis[device] = max(ctis[device], time - delay)
        now.append(ctis[device])
    return ctis, was, now


@given(MOVES, st.integers(0, 3), CTIS, st.sampled_from([1, 100]))
def test_ctis_of_devices_are_raised(
    moves: list[tuple[int, int]], delay: int, before: list[int], times: int
) -> None:
    """In any order, in order, and for devices of several lanes."""
    moves = moves * times
    device, time = (np.array(each, np.int64) for each in zip(*moves, strict=True))
    wanted, was, now = raise_one_by_one(moves, delay, before)
    ctis = np.array(before)
    assert raise_ctis(device, time, delay, ctis) == (min(was), max(now))
    assert ctis.tolist() == wanted
    lanes, ctis = np.array([7, 3, 7, 3, 7]), np.array(before)
    counts, lowest, highest = raise_ctis_of_lanes(
        device, time, delay, ctis, lanes, np.array([3, 7, 9])
    )
    assert ctis.tolist() == wanted
    assert counts.tolist() == [sum(lanes[device] == lane) for lane in (3, 7, 9)]
    for place, lane in enumerate((3, 7)):
        here = [number for number, each in enumerate(device) if lanes[each] == lane]
        assert lowest[place] == min((was[each] for each in here), default=MAX_TIME)
        assert highest[place] == max((now[each] for each in here), default=NEVER)


@given(MOVES, st.integers(0, 3), CTIS, st.sampled_from([1, 100]))
def test_ctis_of_devices_are_raised_from_the_end(
    moves: list[tuple[int, int]], delay: int, before: list[int], times: int
) -> None:
    """The lowest CTI is known if each device has been raised."""
    moves = sorted(moves * times, key=lambda move: move[1])
    device, time = (np.array(each, np.int64) for each in zip(*moves, strict=True))
    wanted, was, _ = raise_one_by_one(moves, delay, before)
    ctis = np.array(before)
    lowest, last, least = raise_ctis_in_order(device, time, delay, ctis)
    assert ctis.tolist() == wanted
    assert (lowest, last) == (min(was), time[-1] - delay)
    are_all_raised = all(now > then for now, then in zip(wanted, before, strict=True))
    assert least == (min(wanted) if are_all_raised else NEVER)


@given(st.lists(st.sampled_from([4, 2, 8]), max_size=12))
def test_rows_are_grouped_by_lane(lane: list[int]) -> None:
    """The rows of each lane are in order."""
    rows, begins = group_by_lane(np.array(lane, np.int64), np.array([2, 8, 4]))
    groups = [each.tolist() for each in np.split(rows, begins[1:-1])]
    wanted = [[row for row, each in enumerate(lane) if each == number] for number in (2, 8, 4)]
    assert groups == wanted


def test_a_row_without_a_lane_is_an_error() -> None:
    """It would be lost."""
    with pytest.raises(IndexError, match="no lane"):
        group_by_lane(np.array([2, 5]), np.array([2, 8]))


@given(
    st.sampled_from([MIN_TIME, MIN_TIME + 3, 0, MAX_TIME - 3, MAX_TIME]) | st.integers(-99, 99),
    st.sampled_from([0, -1, 1, 5, MAX_TIME - MIN_TIME]),
)
def test_a_cti_is_the_start_less_the_delay(start: int, delay: int) -> None:
    """Within time; the beginning of time stays."""
    made = start if start == MIN_TIME else min(max(start - delay, MIN_TIME), MAX_TIME)
    assert make_cti(start, delay) == door._make_cti(start, delay) == made


@given(st.integers(1, 4), st.integers(1, 50))
def test_a_cti_is_due_with_every_nth_event(every: int, count: int) -> None:
    """Whatever its start, and the one before."""
    expected = count in range(every, 51, every)
    assert is_due(7, count, every, 0, 3) is expected
    assert door._is_due(7, count, every, 0, 3) is expected
