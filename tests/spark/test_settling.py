"""Points and edges on their way into a sink: the same in every run, however batches are cut."""

from __future__ import annotations

import random
from typing import Any

import polars as pl
import pytest
from products import draw_seeds

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import EventShape
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.errors import CheckpointError, EventError
from rxtemporal.spark.sink.settled_rows import make_settled_rows
from rxtemporal.spark.targets.target import EDGE

SCHEMA = pl.Schema({"x": pl.Int64()})
Row = tuple[int, int, int]


def batch(records: list[tuple[int, int, int, int]], cti: int) -> EventBatch:
    """Rows of (start, end, edge, x)."""
    rows = [{"start_time": s, "end_time": e, "x": x} for s, e, _, x in records]
    made = EventBatch.from_dicts(rows, schema=SCHEMA, cti=cti)
    return made.replace(
        edge=pl.Series([edge for _, _, edge, _ in records], dtype=pl.Int64).to_numpy()
    )


def stream(rows: list[Row], rng: random.Random) -> list[EventBatch]:
    """The rows as some query gives them: cut anywhere, ends early, late, at once or apart."""
    ctis = [*sorted(rng.sample(range(1, 40), rng.randrange(1, 6))), MAX_TIME]
    parts: list[list[tuple[int, int, int, int]]] = [[] for _ in ctis]
    for number, (start, end, x) in enumerate(rng.sample(rows, len(rows)), 1):
        last = next(place for place, cti in enumerate(ctis) if start < cti)
        begin = rng.randrange(last + 1)
        closed = next(place for place, cti in enumerate(ctis) if end < cti or cti == MAX_TIME)
        if rng.random() < 0.4:
            parts[begin].append((start, end, 0, x))
        else:
            parts[begin].append((start, MAX_TIME, number, x))
            if end < MAX_TIME:
                parts[rng.randrange(begin, closed + 1)].append((start, end, number, x))
    return [batch(part, cti) for part, cti in zip(parts, ctis, strict=True)]


def drawn(rng: random.Random) -> list[Row]:
    """Rows, of which some are alike, some touch a CTI, and some never end."""
    rows = []
    for _ in range(rng.randrange(12)):
        start = rng.randrange(30)
        end = rng.choice([MAX_TIME, start + rng.randrange(1, 9)])
        rows += [(start, end, rng.randrange(2))] * rng.choice([1, 1, 2])
    return rows


def table(records: list[EventBatch]) -> dict[int, tuple[int, int, int]]:
    """Return a table that is updated by ``_edge``; no record contradicts an earlier one."""
    held: dict[int, tuple[int, int, int]] = {}
    for made in records:
        frame = made.payload
        for start, end, x, edge in zip(
            made.start.tolist(), made.end.tolist(), frame["x"], frame[EDGE], strict=True
        ):
            assert held.get(edge, (start, MAX_TIME, x)) == (start, MAX_TIME, x)
            held[edge] = (start, end, x)
    return held


def state(rows: list[Row], cti: int) -> list[Row]:
    """By definition: the rows that start before the CTI, with the ends before it."""
    return sorted((s, e if e < cti else MAX_TIME, x) for s, e, x in rows if s < cti)


@pytest.mark.parametrize("seed", draw_seeds(150, 25))
def test_edges_are_the_state_at_each_cti(seed: int) -> None:
    """After each batch the table holds the rows that have begun, with the ends that have come."""
    rng = random.Random(seed)
    rows = drawn(rng)
    step = make_settled_rows(EventShape.EDGE, SCHEMA, MIN_TIME)
    records: list[EventBatch] = []
    for given in stream(rows, rng):
        records.append(step.on_batch(given))
        held = table(records)
        assert sorted(held.values()) == state(rows, given.cti)
        assert sorted(held) == list(range(1, len(held) + 1))


@pytest.mark.parametrize("seed", draw_seeds(150, 25))
def test_a_run_that_is_taken_up_writes_what_is_missing(seed: int) -> None:
    """A run that broke off anywhere, and another one cut otherwise, make the same table as one."""
    rng = random.Random(1_000 + seed)
    rows = drawn(rng)
    whole = make_settled_rows(EventShape.EDGE, SCHEMA, MIN_TIME)
    expected = table([whole.on_batch(given) for given in stream(rows, rng)])
    records: list[EventBatch] = []
    reached = MIN_TIME
    for broken in (True, True, False):
        given = stream(rows, rng)
        step = make_settled_rows(EventShape.EDGE, SCHEMA, reached, len(table(records)))
        for each in given[: rng.randrange(len(given))] if broken else given:
            records.append(step.on_batch(each))
            reached = max(reached, each.cti)
    assert table(records) == expected


def test_equal_rows_that_are_open_end_one_after_the_other_after_a_restart() -> None:
    """The first number ends first, and each ends once, as without the restart."""
    first = make_settled_rows(EventShape.EDGE, SCHEMA, MIN_TIME)
    opened = first.on_batch(batch([(0, MAX_TIME, 1, 7), (0, MAX_TIME, 2, 7)], 5))
    second = make_settled_rows(EventShape.EDGE, SCHEMA, MIN_TIME)
    second.load(first.capture().dumps())
    closed = second.on_batch(batch([(0, 8, 1, 7), (0, 9, 2, 7)], 20))
    assert table([opened, closed]) == {1: (0, 8, 7), 2: (0, 9, 7)}


@pytest.mark.parametrize("seed", draw_seeds(60, 10))
def test_a_source_that_gives_only_what_is_new_has_numbers_of_its_own(seed: int) -> None:
    """A run over a live source, which gives nothing twice, changes no row of the runs before."""
    rng = random.Random(3_000 + seed)
    rows = drawn(rng)
    records: list[EventBatch] = []
    first = make_settled_rows(EventShape.EDGE, SCHEMA, MIN_TIME)
    for each in stream(rows, rng)[: rng.randrange(1, 4)]:
        records.append(first.on_batch(each))
    before, reached = table(records), records[-1].cti
    later = [row for row in rows if row[0] >= reached]
    live = make_settled_rows(EventShape.EDGE, SCHEMA, reached, len(before))
    records += [live.on_batch(each) for each in stream(later, rng)]
    after = table(records)
    assert {number: after[number] for number in before} == before
    assert sorted(set(after.values()) - set(before.values())) == sorted(set(later))
    assert sorted(after) == list(range(1, len(before) + len(later) + 1))


@pytest.mark.parametrize("given", [1, 3])
def test_a_source_that_gives_something_else_is_refused(given: int) -> None:
    """Rows that are missing, or that were not there before, would change the numbers of others."""
    step = make_settled_rows(EventShape.EDGE, SCHEMA, 10, 2)
    known = step.on_batch(batch([(n, MAX_TIME, n, n) for n in range(1, given + 1)], 10))
    assert len(known) == 0
    with pytest.raises(
        CheckpointError, match=rf"2 rows .* has given {given} of them\. Hint: .*log="
    ):
        step.on_batch(batch([(11, 12, 0, 1)], 20))


@pytest.mark.parametrize("seed", draw_seeds(60, 10))
def test_points_come_once_and_when_the_cti_has_passed_them(seed: int) -> None:
    """Points that a query lets through early wait; a run that is taken up leaves out the known."""
    rng = random.Random(2_000 + seed)
    starts = [rng.randrange(30) for _ in range(rng.randrange(12))]
    got: list[int] = []
    reached = MIN_TIME
    for broken in (True, False):
        given = stream([(s, s + 1, s) for s in starts], rng)
        step = make_settled_rows(EventShape.POINT, SCHEMA, reached)
        for each in given[: rng.randrange(len(given))] if broken else given:
            points = each.take((each.edge == 0) | (each.end == MAX_TIME))
            made = step.on_batch(points.replace(edge=points.edge * 0, end=points.start + 1))
            got += made.start.tolist()
            reached = max(reached, each.cti)
            assert sorted(got) == sorted(s for s in starts if s < reached)


@pytest.mark.parametrize("shape", list(EventShape))
def test_a_broken_promise_is_an_error(shape: EventShape) -> None:
    """A row, or an end, before an earlier CTI of the run is refused, not written."""
    step: Any = make_settled_rows(shape, SCHEMA, MIN_TIME)
    step.on_batch(batch([(1, 2, 0, 1)], 10))
    with pytest.raises(EventError, match="before the CTI"):
        step.on_batch(batch([(9, 12, 0, 1)], 11))
