"""Moves of the clocks of devices among rows: the same for events one by one, runs and batches."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import rxtemporal as rxt
from rxtemporal.core.clocks import ClockMoves, Clocks
from rxtemporal.ingress.batch_verdicts import EventRun
from rxtemporal.ingress.device_packer import DevicePacker
from rxtemporal.ingress.packers import make_packer

SCHEMA = {"k": str, "x": int}
Row = tuple[str, int]


def make_door(delay: int, policy: rxt.AdvanceTimePolicy, silent: int | None) -> DevicePacker:
    """Return the door of a stream, which tells the moves."""
    generation = rxt.AdvanceTimeGenerationSettings(1, delay)
    given_ = rxt.AdvanceTimeSettings(generation, policy=policy)
    stream = rxt.from_events(
        [], schema=SCHEMA, advance_time=given_, clock="k", silent_after=silent, name="rows"
    )
    source: Any = stream._node.source
    made = make_packer(source, tells_moves=True)
    assert isinstance(made, DevicePacker)
    return made


def to_batch(rows: list[Row]) -> rxt.EventBatch:
    """Return rows as a batch."""
    return rxt.EventBatch.from_dicts(
        [{"start_time": start, "k": device, "x": 0} for device, start in rows], schema=SCHEMA
    )


def give(way: str, rows: list[Row], door: DevicePacker) -> rxt.EventBatch | None:
    """Give rows to a door; return what leaves it."""
    if way == "batch":
        return door.take_batch(door.check_batch(to_batch(rows)))
    events = [rxt.PointEvent(start, {"k": device, "x": 0}) for device, start in rows]
    if way == "run":
        run = EventRun.from_items(events)
        assert run is not None
        judged = door.judge_run(run)
        if judged is not None:
            return door.take_run(judged)
    door.set_bounds(10**6)
    for event in events:
        assert door.take(event) is None
    return door.pack()


def list_moves(batches: list[rxt.EventBatch | None]) -> list[tuple[Any, ...]]:
    """Return the moves among the rows of all batches: after which row, the device, both CTIs."""
    there = [each for each in batches if each is not None]
    clocks = Clocks.unite(there)
    moves = None if clocks is None else clocks.moves
    if moves is None:
        return []
    assert isinstance(moves, ClockMoves)
    columns = moves.rows, moves.devices, moves.ctis, moves.fleet
    return list(zip(*(np.asarray(each).tolist() for each in columns), strict=True))


@settings(max_examples=10 * settings().max_examples)
@given(number=st.integers(0, 2**30))
def test_moves_do_not_depend_on_the_way_in(number: int) -> None:
    """Rows in order and not, late and adjusted ones."""
    random = Random(number)
    rows: list[Row] = []
    time = 0
    for _ in range(random.randint(0, 25)):
        time += random.choice((0, 1, 4))
        rows.append((random.choice("abc"), max(0, time - random.choice((0, 0, 0, 2, 9)))))
    if random.random() < 0.3:
        rows.sort(key=lambda row: row[1])
    delay, silent = random.choice((0, 3)), random.choice((None, None, 6))
    policy = random.choice([*rxt.AdvanceTimePolicy])
    told, starts = [], []
    for way in ("event", "run", "batch"):
        door, left, batches = make_door(delay, policy, silent), list(rows), []
        while left:
            size = len(left) if way == "event" else random.choice((1, 3, 10))
            batches.append(give(way, left[:size], door))
            left = left[size:]
        batches.append(door.pack_last())
        told.append(list_moves(batches))
        starts.append([start for each in batches if each for start in each.start.tolist()])
    assert told[0] == told[1] == told[2]
    assert starts[0] == starts[1] == starts[2]


def test_a_cti_for_all_and_one_of_a_device_are_moves() -> None:
    """-1 stands for all devices."""
    door = make_door(2, rxt.AdvanceTimePolicy.DROP, None)
    door.set_bounds(10**6)
    for event in (
        rxt.PointEvent(10, {"k": "a", "x": 0}),
        rxt.Cti(4),
        rxt.PointEvent(20, {"k": "b", "x": 0}),
        rxt.Cti(15, "a"),
    ):
        assert door.take(event) is None
    moves = list_moves([door.pack()])
    assert [move[:3] for move in moves] == [(1, 0, 8), (1, -1, 4), (2, 1, 18), (2, 0, 15)]
    before = rxt.MIN_TIME
    assert [move[3] for move in moves] == [before, before, 8, 13]


def test_an_end_edge_at_the_end_of_time_is_no_row() -> None:
    """Its row stays as it is; what moves after it, moves after the rows before."""
    door = make_door(0, rxt.AdvanceTimePolicy.DROP, None)
    door.set_bounds(10**6)
    payload = {"k": "a", "x": 0}
    for event in (
        rxt.EdgeEvent.create_start(3, payload),
        rxt.EdgeEvent.create_end(3, rxt.MAX_TIME, payload),
        rxt.Cti(9, "a"),
        rxt.PointEvent(10, payload),
    ):
        assert door.take(event) is None
    batch = door.pack()
    assert batch is not None
    assert len(batch) == 2
    assert [move[:3] for move in list_moves([batch])] == [
        (1, 0, 3), (1, 0, 3), (1, 0, 9), (2, 0, 10)
    ]  # fmt: skip
