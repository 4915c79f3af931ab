"""The door for columns gives the verdicts of the door for events, edges and imports included."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import oracle
import physical
import polars as pl
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

import rxtemporal as rxt
from rxtemporal import AdvanceTimePolicy, EventBatch, LateReason
from rxtemporal.core.payloads import PayloadReader
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.errors import EventError
from rxtemporal.ingress import packer as runs
from rxtemporal.ingress.batch_door import REASONS, ColumnDoor, LateRows
from rxtemporal.ingress.door import Door
from rxtemporal.ingress.open_rows import OpenRows
from rxtemporal.ingress.packer import Packer

Item = tuple[Any, ...]
Row = tuple[int, int, int, int]  # start, end, edge, number

frequencies = st.one_of(
    st.integers(1, 4), st.integers(1, 9).map(lambda ticks: timedelta(microseconds=ticks))
)
generations = st.none() | st.builds(
    rxt.AdvanceTimeGenerationSettings, frequencies, st.integers(-3, 8), st.booleans()
)


def drawn_settings(generation: Any, policy: AdvanceTimePolicy) -> rxt.AdvanceTimeSettings:
    """Settings that import, so that the generation may be left out."""
    return rxt.AdvanceTimeSettings(
        generation, rxt.AdvanceTimeImportSettings("another"), policy=policy
    )


class Heard:
    """A listener that keeps what it is told: reason, CTI, lateness, start, end and row number."""

    def __init__(self) -> None:
        self.late: list[Any] = []

    def event(self, event: Any, reason: LateReason, cti: int, by: int) -> None:
        """Keep one event."""
        self.late.append((reason, cti, by, event.start, event.end, event.payload["n"]))

    def rows(self, late: LateRows) -> None:
        """Keep some rows."""
        reasons = [REASONS[reason] for reason in late.reason]
        times = late.rows.start.tolist(), late.rows.end.tolist(), late.rows.payload["n"].to_list()
        self.late += zip(reasons, late.cti.tolist(), late.by.tolist(), *times, strict=True)


def numbered(items: Sequence[Item]) -> tuple[list[Row], dict[int, Item]]:
    """The rows of items with an id for each edge, and which item each row is.

    An end edge has the id of the row that it closes, one that nobody else has if it closes none.
    """
    opened: OpenRows[int] = OpenRows()
    rows: list[Row] = []
    for n, item in enumerate(items):
        if item[0] == "cti":
            continue
        start, edge = item[1], 0
        end = oracle.lifetime(item)[1]
        if item[0] == "start":
            edge = n + 1
            opened.open(start, item[-1], edge)
        elif item[0] == "end":
            edge = opened.close(start, item[-1]) or -n - 1
        rows.append((start, end, edge, n))
    return rows, dict(enumerate(items))


def batch_of(rows: Sequence[Row], cti: int) -> EventBatch:
    """The rows as a batch, the number of each as its payload."""
    start, end, edge, n = np.array(rows, np.int64).reshape(-1, 4).T.copy()
    return EventBatch(start, end, edge, pl.DataFrame({"n": n}), cti)


def one_by_one(door: Door, items: Sequence[Item]) -> list[Any]:
    """What a door makes of items and imports, event by event: rows that go on, with CTIs between.

    The payload names the item, so that edges match by their payloads as sent.
    """
    out: list[Any] = []
    names: dict[Any, int] = {}
    opened: OpenRows[int] = OpenRows()
    for n, item in enumerate(items):
        if item[0] == "import":
            door.import_cti(item[1])
            continue
        if item[0] == "cti":
            door.accept(rxt.Cti(item[1]))
            continue
        name = n
        if item[0] == "start":
            opened.open(item[1], item[-1], n)
        elif item[0] == "end":
            closed = opened.close(item[1], item[-1])
            name = n if closed is None else closed
        names[n] = name
        event = physical.event((*item[:-1], {"n": name}))
        kept, row = door.accept(event)
        if kept is not None and not (item[0] == "end" and kept.end == MAX_TIME):
            out.append((kept.start, kept.end, bool(row), name))
    return out


def in_batches(door: Door, items: Sequence[Item], runs: Sequence[slice]) -> list[Any]:
    """What the door for columns makes of the same items, in runs; a CTI or import ends a batch."""
    columns = ColumnDoor(door)
    rows, _ = numbered([("cti",) if item[0] == "import" else item for item in items])
    by_item = {row[3]: row for row in rows}
    names = {row[2]: row[3] for row in rows if row[2] and items[row[3]][0] == "start"}
    out: list[Any] = []
    for run in runs:
        waiting: list[Row] = []
        for n in range(*run.indices(len(items))):
            item = items[n]
            if n in by_item:
                start, end, edge, _ = by_item[n]
                waiting.append((start, end, edge, names.get(edge, n)))
                continue
            own = item[1] if item[0] == "cti" else MIN_TIME
            out.append(columns.admit(batch_of(waiting, own)))
            waiting = []
            if item[0] == "import":
                columns.import_cti(item[1])
        out.append(columns.admit(batch_of(waiting, MIN_TIME)))
    for before, batch in zip([MIN_TIME, *(each.cti for each in out)], out, strict=False):
        batch.check(before)
    return [
        (*times, bool(edge), n)
        for batch in out
        for *times, edge, n in zip(
            *(column.tolist() for column in (batch.start, batch.end, batch.edge)),
            batch.payload["n"].to_list(),
            strict=True,
        )
    ]


@pytest.mark.parametrize("policy", list(AdvanceTimePolicy))
@given(data=st.data(), items=strategies.arrivals(), generation=generations)
def test_batches_pass_the_same_door_as_events(
    policy: AdvanceTimePolicy, data: st.DataObject, items: list[Item], generation: Any
) -> None:
    """Rows that go on, their times, what was late, why, by how much, CTIs: the same to the row.

    Points, intervals and edges in any order, CTIs of the stream's own and imported ones in between,
    any cut into batches.
    """
    imported = data.draw(st.lists(st.booleans(), min_size=len(items), max_size=len(items)))
    given_ = [
        ("import", item[1]) if item[0] == "cti" and named else item
        for item, named in zip(items, imported, strict=True)
    ]
    given_ = [item for item in given_ if item[0] != "end" or item[2] < MAX_TIME]
    runs = data.draw(strategies.cuts(len(given_)))
    doors = [Door(drawn_settings(generation, policy), "s") for _ in range(2)]
    heard = [Heard(), Heard()]
    for door, listener in zip(doors, heard, strict=True):
        door.listener = listener
    expected = one_by_one(doors[0], given_)
    assert in_batches(doors[1], given_, runs) == expected
    assert heard[1].late == heard[0].late
    assert max(doors[0].cti, MIN_TIME) == max(doors[1].cti, MIN_TIME)
    for door in doors:
        door.finish()
    told = [
        (
            max(d.cti, MIN_TIME),
            max(d.own, MIN_TIME),
            d.events,
            d.late,
            d.late_by_import,
            d.largest_lateness,
        )
        for d in doors
    ]
    assert told[1] == told[0]


# Streams of batches -----------------------------------------------------------------------------


def settings(frequency: Any, delay: int, policy: AdvanceTimePolicy) -> rxt.AdvanceTimeSettings:
    """Settings that generate."""
    generation = rxt.AdvanceTimeGenerationSettings(frequency, delay)
    return rxt.AdvanceTimeSettings(generation, policy=policy)


@pytest.mark.parametrize("policy", list(AdvanceTimePolicy))
@given(data=st.data(), items=strategies.arrivals(extremes=False))
def test_a_stream_of_batches_is_that_of_its_events(
    policy: AdvanceTimePolicy, data: st.DataObject, items: list[Item]
) -> None:
    """A query over batches with settings gives the history of one over the events."""
    items = [item for item in items if item[0] != "cti"]
    made = settings(data.draw(frequencies), data.draw(st.integers(-3, 8)), policy)
    rows, _ = numbered(items)
    names = {edge: n for _, _, edge, n in rows if edge and items[n][0] == "start"}
    rows = [(start, end, edge, names.get(edge, n)) for start, end, edge, n in rows]
    cut = [batch_of(rows[run], MIN_TIME) for run in data.draw(strategies.cuts(len(rows)))]
    stream = rxt.from_events(cut, schema={"n": pl.Int64}, advance_time=made)
    door = Door(made, "s")
    expected = one_by_one(door, items)
    whole = {name: times for *times, edge, name in expected if not edge or times[1] < MAX_TIME}
    opened = {name: times for *times, edge, name in expected if edge and times[1] == MAX_TIME}
    history = sorted((*times, n) for n, times in (opened | whole).items())
    result = stream.to_polars().rows()
    assert sorted((s, MAX_TIME if e is None else e, n) for s, e, n in result) == history


def edge_batch(start: int, end: int, edge: int, cti: int = MIN_TIME) -> EventBatch:
    """A batch of one edge."""
    return batch_of([(start, end, edge, 0)], cti)


def test_an_end_edge_without_an_open_row_is_an_error_without_a_policy() -> None:
    """The error names the row, its id and the stream; one that closes a row is none."""
    fine = [edge_batch(1, MAX_TIME, 7), edge_batch(1, 5, 7)]
    assert rxt.from_events(fine).to_polars().rows() == [(1, 5, 0)]
    message = r"row 0 of a batch of stream 'events' is an end edge of id 7, under which no row is"
    with pytest.raises(EventError, match=message):
        rxt.from_events([*fine, edge_batch(1, 6, 7)]).to_polars()


@pytest.mark.parametrize("batches_first", [True, False])
def test_edges_come_as_events_or_in_batches(batches_first: bool) -> None:
    """Both have ids of their own, so that a stream is of the one or of the other."""
    both = [edge_batch(1, MAX_TIME, 1), rxt.EdgeEvent.create_start(2, {"n": 5})]
    with pytest.raises(EventError, match="either of events or of batches, got both"):
        rxt.from_events(both if batches_first else both[::-1]).to_polars()


# Runs of events ---------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [None, *AdvanceTimePolicy])
@given(data=st.data(), items=strategies.arrivals(["point", "interval"], extremes=False))
def test_a_run_of_events_is_taken_as_one_by_one(
    policy: AdvanceTimePolicy | None, data: st.DataObject, items: list[Item]
) -> None:
    """What comes in, what is late, and what is wrong is the same for a run as for its events."""
    made = None
    if policy is not None:
        made = settings(data.draw(frequencies), data.draw(st.integers(-3, 8)), policy)
    events = [physical.event((*item[:-1], {"n": n})) for n, item in enumerate(items)
              if item[0] != "cti"]  # fmt: skip
    for n, item in enumerate(items):
        if item[0] == "cti":
            events.insert(n, rxt.Cti(item[1]))
    wrong = data.draw(st.none() | st.integers(0, len(events)))
    if wrong is not None:
        events.insert(wrong, rxt.PointEvent(data.draw(st.integers(0, 40)), {"n": "wrong"}))
    outcomes = []
    for least in (1, len(events) + 1):
        packer = Packer(Door(made, "s"), PayloadReader(pl.Schema({"n": pl.Int64})), 3)
        packer.door.listener = listener = Heard()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runs, "RUN_LEAST", least)
            outcomes.append((*_taken(packer, events), listener.late, packer.door.events))
    assert outcomes[0][:3] == outcomes[1][:3]
    if outcomes[0][1] is None:  # of what is wrong the verdicts before it are told twice
        assert outcomes[0] == outcomes[1]


def _taken(packer: Packer, events: list[Any]) -> tuple[list[Any], str | None, int]:
    """The rows that a packer gives for events, what was wrong, and the CTI."""
    out: list[EventBatch | None] = []
    wrong = None
    try:
        out += runs.taken(packer, events)
        out.append(packer.finish())
    except Exception as error:
        accepted, first = packer.rescue(error)
        out.append(accepted)
        wrong = str(first)
    batches = [batch for batch in out if batch is not None]
    return [row for batch in batches for row in batch.to_dicts()], wrong, packer.door.cti
