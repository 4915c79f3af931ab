"""The time of a fleet, beside a model that looks at all devices after each move."""

from __future__ import annotations

from random import Random

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rxtemporal as rxt
from rxtemporal.core.clocks import ClockMoves, Clocks
from rxtemporal.core.columns import Columns
from rxtemporal.operators.synchronize import kernel
from rxtemporal.operators.synchronize.step import SynchronizeStep

MIN = rxt.MIN_TIME
SCHEMA = {"k": int}


def draw_moves(random: Random, *, by_wall: bool = False) -> list[tuple[int, int, int]]:
    """Return moves of devices: the number, its CTI, and the CTI of the fleet.

    ``by_wall``: devices are said to be silent, too.
    """
    ctis: dict[int, int] = {}
    fleet, moves = MIN, []
    for _ in range(random.randint(0, 30)):
        device = random.choice((0, 0, 1, 1, 2, 5, -1))
        if device >= 0:
            ctis[device] = max(ctis.get(device, MIN), random.choice((MIN, random.randrange(80))))
        if random.random() < 0.7:
            fleet = max(fleet, *ctis.values(), 0) if ctis else fleet
        moves.append((device, ctis.get(device, MIN), fleet))
        if by_wall and ctis and random.random() < 0.3:
            silent = random.choice([*ctis])
            moves.append((-2 - silent, ctis[silent], fleet))
    return moves


def find_slowly(
    moves: list[tuple[int, int, int]],
    within: int,
    idle: int,
    silent: int,
    expected: int,
    *,
    by_wall: bool,
) -> list[int]:
    """Return the CTI that the devices allow after each move, from all of them each time."""
    own: dict[int, int] = {}
    seen: dict[int, int] = {}
    found = []
    for device, cti, now in moves:
        if device >= 0:
            own[device] = max(own.get(device, MIN), cti)
            seen[device] = now if now > MIN else own[device]
            if by_wall:
                seen[device] = rxt.MAX_TIME
        elif device < -1:
            seen[-2 - device] = MIN
        best = now - within if now > MIN else MIN
        if len(own) >= expected and own:
            limits = []
            for each, reached in own.items():
                is_silent = (
                    now > MIN and silent >= 0 and max(reached + 1, seen[each]) <= now - silent
                )
                is_behind = now > MIN and idle >= 0 and MIN < reached <= now - idle
                if not is_silent and not is_behind:
                    limits.append(reached)
                elif silent >= 0 and (idle < 0 or silent < idle):
                    limits.append(now - silent)
            if limits:
                best = max(best, min(limits))
        found.append(best)
    return found


@settings(max_examples=20 * settings().max_examples)
@given(number=st.integers(0, 2**30))
def test_the_lowest_of_those_that_are_waited_for(number: int) -> None:
    """With devices that are idle, silent, or have no CTI yet."""
    random = Random(number)
    by_wall = random.random() < 0.5
    moves = draw_moves(random, by_wall=by_wall)
    within, idle, silent = (random.choice((0, 9, 40)), *random.choices((-1, 5, 20), k=2))
    expected = random.choice((1, 2, 4))
    columns = [np.array(each, np.int64) for each in zip(*moves, strict=True)] or [
        np.zeros(0, np.int64)
    ] * 3
    states = np.full((6, kernel.WIDTH), MIN)
    states[:, kernel.STATE], states[:, kernel.AWAITED] = kernel.UNKNOWN, 1
    counts, tree = np.array([expected, 0]), kernel.make_tree(states, 8)
    found: list[int] = []
    while len(columns[0]):  # in pieces, with the tree made again
        size = random.randint(1, 9)
        part = [each[:size] for each in columns]
        columns = [each[size:] for each in columns]
        found += kernel.find_fleet_ctis(
            *part, within, idle, silent, by_wall, states, counts, tree
        ).tolist()  # fmt: skip
        tree = kernel.make_tree(states, 8)
    slowly = find_slowly(moves, within, idle, silent, expected, by_wall=by_wall)
    # what may go back is made monotone by those who read it
    assert np.maximum.accumulate([MIN, *found]).tolist() == (
        np.maximum.accumulate([MIN, *slowly]).tolist()
    )


def test_the_cti_before_each_row() -> None:
    """That of the last move after which the row came."""
    after, ctis = np.array([0, 2, 2, 5]), np.array([3, 1, 7, 9])
    assert kernel.find_ctis_before(after, ctis, 2, 6).tolist() == [3, 3, 7, 7, 7, 9]
    assert kernel.find_ctis_before(after[:0], ctis[:0], 2, 2).tolist() == [2, 2]


@pytest.mark.parametrize("devices", [None, 2, (4, 5)])
def test_a_step_goes_on_from_its_state(devices: int | tuple[int, ...] | None) -> None:
    """Saved and loaded between two batches."""

    def make() -> SynchronizeStep:
        return SynchronizeStep(10, None, None, devices, rxt.AdvanceTimePolicy.DROP)

    step, reached = make(), []
    for time, device in ((50, 4), (55, 5), (48, 4), (80, 5)):
        number = device - 4
        batch = rxt.EventBatch.from_dicts([{"start_time": time, "k": device}], schema=SCHEMA)
        moves = ClockMoves(*(np.array([each]) for each in (1, number, time, max(time, 50))))
        names = Columns.from_frame(pl.DataFrame({"k": [device]}))
        batch.clocks = Clocks(names, np.array([time]), np.array([number]), None, moves)
        saved = step.save()
        step = make()
        step.load(saved)
        reached.append(step.on_batch(batch).cti)
    alone = [40, 45, 45, 70]
    assert reached == (alone if devices is None else [40, 50, 50, 70])


@pytest.mark.parametrize("form", ["a frame", "a list"])
def test_a_row_one_tick_late_within_a_batch_is_dropped(form: str) -> None:
    """Two devices have made the CTI 5 before it; the row that starts at 5 is in time."""
    rows = [(10, 0), (10, 1), (4, 2), (5, 3), (11, 0)]
    options = {"clock": "k", "advance_time": 0}
    if form == "a frame":
        frame = pl.DataFrame(rows, {"t": pl.Int64, "k": pl.Int64}, orient="row")
        readings = rxt.from_polars(frame, start="t", unit="ticks", **options)
    else:
        events = [rxt.PointEvent(time, {"k": device}) for time, device in rows]
        readings = rxt.from_events(events, schema=SCHEMA, **options)
    assert readings.synchronize(5).to_polars()["k"].to_list() == [3, 0, 1, 0]
