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
from tables import A, B

import rxtemporal as rxt
from rxtemporal import AdvanceTimePolicy, EventBatch
from rxtemporal.core.payloads import PayloadReader
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.errors import EventError
from rxtemporal.ingress.batch_verdicts import REASONS, EventRun, LateRows
from rxtemporal.ingress.door import Door
from rxtemporal.ingress.lateness import Lateness
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


def late_event(event: Any, late: Lateness) -> tuple[Any, ...]:
    """One late event: reason, CTI, lateness, start, end and row number."""
    return (*late, event.start, event.end, event.payload["n"])


def late_rows(late: LateRows | None) -> list[tuple[Any, ...]]:
    """The same of the late rows of a batch."""
    if late is None:
        return []
    reasons = [REASONS[reason] for reason in late.reason]
    times = late.rows.start.tolist(), late.rows.end.tolist(), late.rows.payload["n"].to_list()
    return list(zip(reasons, late.cti.tolist(), late.by.tolist(), *times, strict=True))


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


def one_by_one(door: Door, items: Sequence[Item]) -> tuple[list[Any], list[Any]]:
    """What a door makes of items and imports, event by event: rows that go on, and late events.

    The payload names the item, so that edges match by their payloads as sent.
    """
    out: list[Any] = []
    heard: list[Any] = []
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
        kept, row, late = door.accept(event)
        heard += [] if late is None else [late_event(event, late)]
        if kept is not None and not (item[0] == "end" and kept.end == MAX_TIME):
            out.append((kept.start, kept.end, bool(row), name))
    return out, heard


def in_batches(
    door: Door, items: Sequence[Item], runs: Sequence[slice]
) -> tuple[list[Any], list[Any]]:
    """What a door makes of the same items in batches; a CTI or import ends a batch."""
    heard: list[Any] = []

    def accept(batch: EventBatch) -> EventBatch:
        accepted, late = door.accept_batch(batch)
        heard.extend(late_rows(late))
        return accepted

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
            out.append(accept(batch_of(waiting, own)))
            waiting = []
            if item[0] == "import":
                door.import_cti(item[1])
        out.append(accept(batch_of(waiting, MIN_TIME)))
    for before, batch in zip([MIN_TIME, *(each.cti for each in out)], out, strict=False):
        batch.check(before)
    rows_out = [
        (*times, bool(edge), n)
        for batch in out
        for *times, edge, n in zip(
            *(column.tolist() for column in (batch.start, batch.end, batch.edge)),
            batch.payload["n"].to_list(),
            strict=True,
        )
    ]
    return rows_out, heard


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
    expected = one_by_one(doors[0], given_)
    assert in_batches(doors[1], given_, runs) == expected
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


@pytest.mark.parametrize("take", [one_by_one, in_batches])
@pytest.mark.parametrize(("end", "by_import"), [(4, 0), (5, 1), (8, 1), (9, 0)])
def test_an_end_edge_is_late_by_the_import_alone_from_the_own_cti_on(
    take: Any, end: int, by_import: int
) -> None:
    """The stream's own CTI, 5 here, does not forbid an end at 5; the imported one, 9, does."""
    items = [("start", 0, A), ("point", 5, B), ("import", 9), ("end", 0, end, A)]
    door = Door(settings(1, 0, AdvanceTimePolicy.DROP), "s")
    take(door, items, *[[slice(None)]] * (take is in_batches))
    assert door.late_by_import == by_import
    assert door.late.total() == (end < 9)


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
    expected, _ = one_by_one(door, items)
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
    message = (
        r"row 0 of a batch of stream 'events' is an end edge of id 7, but no row with this id is"
    )
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
    for at_once in (True, False):
        packer = Packer(made, "s", PayloadReader(pl.Schema({"n": pl.Int64})), 3)
        outcomes.append(_taken(packer, events, at_once))
    assert outcomes[0] == outcomes[1]


def _taken(packer: Packer, events: list[Any], at_once: bool) -> tuple[Any, ...]:
    """The rows that a packer gives for events, what was wrong, the CTI, late events, how many."""
    out: list[EventBatch | None] = []
    wrong = None
    try:
        run = EventRun.from_items(events) if at_once and events else None
        judged = None if run is None else packer.judge_run(run)
        if judged is None:
            out += map(packer.take, events)
        else:
            out.append(packer.take_run(judged))
        out.append(packer.pack_last())
    except Exception as error:
        accepted, first = packer.rescue(error)
        out.append(accepted)
        wrong = str(first)
    rows = [row for batch in out if batch is not None for row in batch.to_dicts()]
    late = [late_event(*each) for each in packer.unreported if not isinstance(each, LateRows)]
    return rows, wrong, packer.cti, late, packer.events
