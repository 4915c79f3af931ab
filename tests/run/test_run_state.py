"""Whole runs: saved between any two batches and gone on with, they give what an unbroken run does.

Which laws 8 asks of every operator, here with doors, late events and sources in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any

import hypothesis
import law_streams
import physical
import polars as pl
import pytest
import strategies
from drawn_runs import ADVANCING, NAMES, settings
from hypothesis import given
from hypothesis import strategies as st
from physical import SCHEMA, SIDES
from reactivex.subject import Subject
from runs import SOON

import rxtemporal as rxt
from rxtemporal import EventBatch, EventShape, agg
from rxtemporal.errors import CheckpointError
from rxtemporal.query.runs import shape_output
from rxtemporal.run.execution import Execution
from rxtemporal.run.time_flow import find_imported
from rxtemporal.testing import assert_same_history

# of the steps themselves the laws ask this with many examples
few = hypothesis.settings(max_examples=max(3, hypothesis.settings().max_examples // 12))

Streams = dict[str, rxt.Streamable]
Queries = Callable[[Streams], Sequence[rxt.Streamable]]
# what a run is given: a name, and an event, a batch, "idle" or "completes"
Given = tuple[str, Any]


class Broken:
    """A run that is saved and begun anew as often as it is asked for; what came out of all parts.

    `make` returns the streams of one part, those that push from subjects by their names.
    """

    def __init__(
        self,
        make: Callable[[dict[str, Subject[Any]]], Streams],
        queries: Queries,
        shape: EventShape,
    ) -> None:
        self._make, self._queries, self._shape = make, queries, shape
        self.out: list[list[EventBatch]] = []
        self.failed: list[Exception] = []
        self.completed = 0
        self._begin(None)

    def _begin(self, state: bytes | None) -> None:
        self.subjects: dict[str, Subject[Any]] = {name: Subject() for name in (*NAMES, *SIDES)}
        streams = self._make(self.subjects)
        outputs = [shape_output(query, self._shape) for query in self._queries(streams)]
        nodes = {name: stream._node for name, stream in streams.items()}
        named = {id(node.source): name for name, node in nodes.items()}
        others = find_imported([node for node, _ in outputs], nodes)
        self.run = Execution(*outputs, names=named, others=others)
        if state is not None:
            self.run.load(state)
        self.out = self.out or [[] for _ in outputs]
        appends = [batches.append for batches in self.out]
        self.run.start_each(appends, self.failed.append, self._complete)

    def _complete(self) -> None:
        self.completed += 1

    def again(self) -> None:
        """Save, and go on in another run of the same query."""
        state = self.run.save()
        self.run.dispose()
        self._begin(state)

    def push(self, name: str, item: Any) -> None:
        """Give a stream what comes next."""
        if item == "completes":
            self.subjects[name].on_completed()
        elif item == "idle":
            self.run.declare_idle(name)
        else:
            self.subjects[name].on_next(item)

    @property
    def doors(self) -> list[Any]:
        """What the doors have counted."""
        doors = [reader.door for reader in self.run.readers]
        return [
            (d.source, d.cti, d.own, d.events, d.late, d.largest_lateness, d.late_by_import)
            for d in doors
        ]

    @property
    def meters(self) -> list[Any]:
        """What has passed by the operators."""
        wiring = self.run.wiring
        stages = [*wiring.stages.values(), *(leaf for _, leaf in wiring.leaves)]
        return [[(m.rows_out, m.cti) for m in (*each.inputs, each)] for each in stages]


def assert_same(whole: Broken, broken: Broken) -> None:
    """The same rows, CTIs and counters, and the same end."""
    assert [*map(str, broken.failed)] == [*map(str, whole.failed)]
    if whole.failed:
        return
    assert bool(broken.completed) == bool(whole.completed)
    for one, other in zip(whole.out, broken.out, strict=True):
        cti = one[-1].cti if one else None
        assert (other[-1].cti if other else None) == cti
        for batch, before in zip(other[1:], other, strict=False):
            batch.check(before.cti)
        assert_same_history(one, other, tolerance=0)
    assert broken.doors == whole.doors


@cache
def law_query(name: str) -> Queries:
    """A case of the law table, as a query over the streams of a run."""
    case = law_streams.CASES[name]
    return lambda streams: [case.query(*(streams[side] for side in SIDES[: case.inputs]))]


@law_streams.some_cases
@few
@given(data=st.data())
def test_every_operator_goes_on(name: str, data: st.DataObject) -> None:
    """Saved after any batches, each operator goes on: lifted, with what leaves and what enters."""
    sides, random = law_streams.drawn(name, data)
    shape = data.draw(st.sampled_from(EventShape))
    known = data.draw(st.booleans())

    def make(subjects: dict[str, Subject[Any]]) -> Streams:
        schema = SCHEMA if known else None
        return {
            side: rxt.from_observable(subjects[side], schema=schema, name=side) for side in SIDES
        }

    whole, broken = (Broken(make, law_query(name), shape) for _ in range(2))
    for number, batch in law_streams.in_runs(sides, random):
        for each in (whole, broken):
            each.push(SIDES[number], batch)
        if random.random() < 0.4 and not broken.failed:
            broken.again()
    for each in (whole, broken):
        for side in SIDES:
            each.push(side, "completes")
    assert_same(whole, broken)


options = st.fixed_dictionaries({**ADVANCING, "batch_rows": st.sampled_from([1, 4])})


def several(streams: Streams) -> list[rxt.Streamable]:
    """Streams themselves, what is late on one, and computations that share two of them."""
    a, b, c = streams.values()
    joined = a.join(b, on="k", suffix="_right")
    counted = a.union(b).group_by("k").tumbling_window(5).aggregate(n=agg.count())
    return [a, c.late_events(suffix="_sent"), joined, counted, a]


@law_streams.examples
@given(
    drawn=st.fixed_dictionaries(dict.fromkeys(NAMES, options)),
    happened=strategies.named_arrivals(NAMES, max_size=30),
    shape=st.sampled_from(EventShape),
    number=st.integers(0, 2**20),
)
def test_late_events_go_on(
    drawn: dict[str, Any], happened: list[Any], shape: EventShape, number: int
) -> None:
    """Events that break any promise: policies, imports, open edges, rows that wait at the door."""
    drawn["c"]["schema"] = SCHEMA  # a late payload may be what shows that fields do not fit

    def make(subjects: dict[str, Subject[Any]]) -> Streams:
        return {
            name: rxt.from_observable(
                subjects[name],
                advance_time=settings(name, drawn[name]),
                schema=drawn[name]["schema"],
                batch_rows=drawn[name]["batch_rows"],
            )
            for name in NAMES
        }

    random = Random(number)
    whole, broken = (Broken(make, several, shape) for _ in range(2))
    things: list[Given] = [(name, physical.event(item)) for name, item in happened]
    for name in NAMES:
        things.insert(random.randrange(len(things) + 1), (name, "idle"))
    # a stream that has ended is not heard any more
    things.insert(random.randrange(len(things) + 1), ("b", "completes"))
    for name, item in [*things, ("a", "completes"), ("c", "completes")]:
        for each in (whole, broken):
            each.push(name, item)
        if random.random() < 0.4 and not broken.failed:
            broken.again()
    assert_same(whole, broken)
    if not whole.failed:
        assert broken.meters[-1][-1][1] == whole.meters[-1][-1][1]


rows = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), max_size=30)


@law_streams.examples
@given(
    drawn=st.fixed_dictionaries(dict.fromkeys(NAMES, st.tuples(options, rows))),
    importing=st.booleans(),
    sizes=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    number=st.integers(0, 2**20),
)
def test_frames_go_on_where_they_stopped(
    drawn: dict[str, Any], importing: bool, sizes: tuple[int, int], number: int
) -> None:
    """What is read is read again, in other batches even, and no row is judged twice or left out."""
    random, size = Random(number), iter(sizes * 100)

    def make(subjects: dict[str, Subject[Any]]) -> Streams:
        return {name: framed(name, *drawn[name], importing, next(size)) for name in NAMES}

    whole = Broken(make, several_frames, EventShape.EDGE)
    whole.run.drain()
    broken = Broken(make, several_frames, EventShape.EDGE)
    while broken.run.advance():
        if random.random() < 0.4:
            broken.again()
    assert_same(whole, broken)
    broken.again()
    assert not broken.run.advance()
    assert broken.completed == 2
    assert_same(whole, broken)


def framed(
    name: str, each: dict[str, Any], lives: list[tuple[int, int]], importing: bool, size: int
) -> rxt.Streamable:
    """A stream of a frame."""
    columns = [(start, start + length, "xy"[length % 2], length) for start, length in lives]
    schema = {"s": pl.Int64, "e": pl.Int64, "k": pl.String, "x": pl.Int64}
    frame = pl.DataFrame(columns, schema=schema, orient="row")
    made = settings(name, each if importing else {**each, "imports": None})
    return rxt.from_polars(frame, start="s", end="e", advance_time=made, batch_rows=size)


def several_frames(streams: Streams) -> list[rxt.Streamable]:
    """As ``several``, of frames."""
    return several(streams)


def stopped(stream: Callable[[Subject[Any]], rxt.Streamable], *items: Any) -> bytes:
    """The state of a run that has taken some events."""
    subject: Subject[Any] = Subject()
    run = Execution(shape_output(stream(subject), EventShape.EDGE))
    run.start(lambda batch: None, print, lambda: None)
    for item in items:
        subject.on_next(item)
    return run.save()


def numbers(subject: Subject[Any], **options: Any) -> rxt.Streamable:
    """A stream of numbers."""
    return rxt.from_observable(subject, schema={"x": int}, **options)


SAVED = [rxt.EdgeEvent.create_start(1, {"x": 3}), rxt.Cti(4)]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (lambda s: numbers(s), "Saved: where.*. Now: nothing"),
        (
            lambda s: numbers(s).where(pl.col("x") > 2),
            r"Saved: where.*1.*. Now: where.*2",
        ),
        (
            lambda s: numbers(s, name="b").where(pl.col("x") > 1),
            "Saved: input 'observable'. Now: input 'b'",
        ),
        (
            lambda s: numbers(s, advance_time=rxt.INCREASING_START_TIME).where(pl.col("x") > 1),
            "input 'observable'.*None.*AdvanceTimeGenerationSettings",
        ),
        (
            lambda s: rxt.from_observable(s, schema={"x": float}).where(pl.col("x") > 1),
            "over .x Int64. .*Now: where.*over .x Float64.",
        ),
    ],
)
def test_the_state_of_another_query_is_refused(changed: Any, says: str) -> None:
    """A changed operator, source, field or setting: it is said which, and what to do."""
    state = stopped(lambda s: numbers(s).where(pl.col("x") > 1), *SAVED)
    run = Execution(shape_output(changed(Subject()), EventShape.EDGE))
    run.load(state, "the folder 'state' was begun")
    with pytest.raises(CheckpointError, match=f"(?s){says}.*Hint") as refused:
        run.start(lambda batch: None, print, lambda: None)
    assert "has changed since the folder 'state' was begun" in str(refused.value)


def test_another_shape_on_the_way_out_is_refused() -> None:
    """Rows that wait for their ends in one shape are none in another."""
    state = stopped(numbers, *SAVED)
    run = Execution(shape_output(numbers(Subject()), EventShape.POINT))
    run.load(state)
    with pytest.raises(
        CheckpointError, match=r"saved by edge shape.*cannot be loaded by point shape"
    ):
        run.start(lambda batch: None, print, lambda: None)


@pytest.mark.parametrize("place", [0, 4, 7, 30, -1])
def test_a_damaged_state_is_refused(place: int) -> None:
    """One flipped bit, or a cut: a ``CheckpointError``, nothing else."""
    state = bytearray(stopped(numbers, *SAVED))
    cut = bytes(state[:place])
    state[place] ^= 8
    for data in (bytes(state), cut, b""):
        run = Execution(shape_output(numbers(Subject()), EventShape.EDGE))
        run.load(data)
        with pytest.raises(CheckpointError):
            run.start(lambda batch: None, print, lambda: None)


def test_what_waits_in_a_hand_off_is_given_to_the_query_first() -> None:
    """Nothing waits in a state, and nothing is accepted while it is made."""
    subject, busy, go = Subject[Any](), threading.Event(), threading.Event()
    got: list[int] = []

    def take(batch: rxt.EventBatch) -> None:
        busy.set()
        go.wait(SOON)
        got.extend(batch.start.tolist())

    run = Execution(shape_output(numbers(subject, hand_off=rxt.HandOff(1_000)), EventShape.EDGE))
    run.start(take, pytest.fail, lambda: None)
    for time in range(9):
        subject.on_next(rxt.PointEvent(time, {"x": time}))
        subject.on_next(rxt.Cti(time))
    assert busy.wait(SOON)
    with run.pause(0) as paused:
        assert not paused
    go.set()
    with run.pause() as paused:
        assert paused
        assert set(got) == set(range(9))
    run.save()
    run.dispose()
    run.join()


def test_a_payload_that_cannot_be_saved_is_refused() -> None:
    """An open row is found again by its payload, which has to be plain data."""
    point = complex(1, 2)
    with pytest.raises(CheckpointError, match=r"cannot be saved.*Hint"):
        stopped(
            lambda s: rxt.from_observable(s, schema={"payload": int}),
            rxt.EdgeEvent.create_start(1, point),
        )


def test_fewer_rows_than_were_read_are_refused() -> None:
    """A frame that has shrunk is another one."""

    def reading(rows: int) -> Execution:
        frame = pl.DataFrame({"t": range(rows), "x": range(rows)})
        stream = rxt.from_polars(frame, start="t", batch_rows=2, name="readings")
        return Execution(shape_output(stream, EventShape.EDGE))

    run = reading(6)
    run.start(lambda batch: None, print, lambda: None)
    run.advance(), run.advance()
    again, failed = reading(3), []
    again.load(run.save())
    again.start(lambda batch: None, failed.append, lambda: None)
    again.drain()
    assert "readings has 3 rows, but the run had read 4 before" in str(failed[0])
