"""Delays and losses from a recording, held against the door."""

from __future__ import annotations

import dataclasses
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import ways_in
from arrival_cases import Case, cases
from door_model import NOW, DoorModel, Item, Rules
from hypothesis import example, given
from hypothesis import settings as examples
from hypothesis import strategies as st

import rxtemporal as rxt
from rxtemporal.core.spans import format_delay
from rxtemporal.view.lineage.delays import find_delays

CHOICES = st.sampled_from("piseectp")


@st.composite
def arrivals(draw: st.DrawFn) -> list[Any]:
    """Points, intervals, edges and CTIs in an order near to that of time."""
    events: list[Any] = []
    opened: list[rxt.EdgeEvent] = []
    for place in range(draw(st.integers(0, 18))):
        time = max(0, place + draw(st.integers(-6, 3)))
        kind, length = draw(CHOICES), draw(st.integers(1, 7))
        payload = {"x": draw(st.integers(0, 1))}
        if kind in "pt":
            events.append(rxt.PointEvent(time, payload))
        elif kind == "i":
            events.append(rxt.IntervalEvent(time, time + length, payload))
        elif kind == "s":
            opened.append(rxt.EdgeEvent.create_start(time, payload))
            events.append(opened[-1])
        elif kind == "e" and opened:
            edge = opened.pop(draw(st.integers(0, len(opened) - 1)))
            events.append(rxt.EdgeEvent.create_end(edge.start, edge.start + length, edge.payload))
    return events


generations = st.sampled_from([1, 1, 2, 3, timedelta(microseconds=3)])


def replay_with(folder: str, delay: int) -> int:
    """Return how many events are late in a replay with another delay."""
    stream = rxt.replay(folder)["readings"]
    source: Any = stream._node.source
    generation = dataclasses.replace(source.settings.generation, delay=delay)
    source.settings = dataclasses.replace(source.settings, generation=generation)
    with stream.run(rxt.Collect()) as process:
        pass
    return sum(process.diagnostics().late.values())


def record(events: list[Any], folder: str, settings: Any) -> None:
    """Record a run over events."""
    stream = rxt.from_events(events, schema={"x": int}, advance_time=settings, name="readings")
    with stream.run(rxt.Collect(), record=folder):
        pass


@given(arrivals(), generations, st.integers(0, 5), st.sampled_from([*rxt.AdvanceTimePolicy]))
@examples(max_examples=max(8, examples().max_examples // 4), deadline=None)
def test_a_replay_loses_exactly_that_many(
    events: list[Any], frequency: Any, delay: int, policy: rxt.AdvanceTimePolicy
) -> None:
    """With each delay as many events are late as the curve says; the proposed one keeps its word.

    No smaller delay does.
    """
    generation = rxt.AdvanceTimeGenerationSettings(frequency, delay)
    with tempfile.TemporaryDirectory() as folder:
        record(events, folder, rxt.AdvanceTimeSettings(generation, policy=policy))
        delays = find_delays(folder)["readings"]
        lost = {each: replay_with(folder, each) for each in range(12)}
    assert {each: delays.count_lost(each) for each in lost} == lost
    for loss in 0.0, 0.1, 0.4, 1.0:
        allowed = max(int(loss * len(events) + 1e-9), delays.always)
        proposed = delays.propose(loss)
        assert delays.count_lost(proposed) <= allowed
        assert proposed == 0 or delays.count_lost(proposed - 1) > allowed
    for each in delays.curve().iter_rows(named=True):
        assert each["lost"] == delays.count_lost(each["delay"])


# the end of a row that was adjusted, between its own time and that of its row
ADJUSTED = Case(
    "edge",
    rxt.AdvanceTimePolicy.ADJUST,
    0,
    None,
    (
        Item("start", NOW, rxt.MAX_TIME, 0),
        Item("start", NOW - 5, rxt.MAX_TIME, 1),
        Item("end", NOW - 5, NOW - 3, 1),
        Item("start", NOW - 4, rxt.MAX_TIME, 2),
        Item("start", NOW + 1, rxt.MAX_TIME, 3),
        Item("end", NOW - 4, NOW - 2, 2),
    ),
)


def record_case(case: Case, folder: str, *, is_pushed: bool) -> None:
    """Record a run of a case, pushed item by item, or as a list of events."""
    if not is_pushed:
        events = [ways_in.to_plain_event(case, item) for item in case.items]
        stream = rxt.from_events(events, **ways_in.make_options(case))
        with stream.run(rxt.Collect(), record=folder, scheduler=ways_in.make_clock()):
            return
    source = ways_in.Pushing(ways_in.push, ways_in.to_dicts).make_source(case)
    with source.stream.run(rxt.Collect(), record=folder, scheduler=ways_in.make_clock()):
        ways_in.push(source, case, ways_in.cut_each(case), ways_in.to_dicts)
        source.close()


@pytest.mark.parametrize("is_pushed", [True, False])
@given(case=cases(["edge", "edge", "interval"]))
@example(case=ADJUSTED)
def test_the_loss_with_each_delay_is_that_of_the_door(is_pushed: bool, case: Case) -> None:
    """Adjusted edges, sent CTIs and rows ahead of the clock included: as many as the model says."""
    if not is_pushed:
        readable = tuple(
            dataclasses.replace(item, input=None, seq=None)
            for item in case.items
            if item.kind != "unreadable"
        )
        late = rxt.WhenAhead.LATE if case.when_ahead is rxt.WhenAhead.REJECT else case.when_ahead
        case = dataclasses.replace(case, items=readable, when_ahead=late)
    with tempfile.TemporaryDirectory() as folder:
        record_case(case, folder, is_pushed=is_pushed)
        delays = find_delays(folder)[ways_in.NAME]
    for delay in range(14):
        rules = Rules(
            case.policy, delay, makes_ctis=True, delays_ctis=is_pushed,
            when_ahead=case.when_ahead, own="source", stream=ways_in.NAME,
        )  # fmt: skip
        model = DoorModel(rules)
        for push in ways_in.cut_each(case):
            model.push(push)
        assert delays.count_lost(delay) == len(model.late), delay


def test_ctis_of_the_source_are_there_with_any_delay() -> None:
    """An event that breaks one is lost in any case, and so is an end without a start."""
    events = [
        rxt.PointEvent(5, {"x": 1}), rxt.Cti(9), rxt.PointEvent(3, {"x": 1}),
        rxt.PointEvent(9, {"x": 1}), rxt.EdgeEvent.create_end(1, 20, {"x": 1}),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        record(events, folder, rxt.INCREASING_START_TIME)
        delays = find_delays(folder)["readings"]
        assert [replay_with(folder, each) for each in (0, 50)] == [2, 2]
    assert (delays.rows, delays.always, delays.propose()) == (4, 2, 0)
    assert str(delays) == "readings: 2 of 4 late with a delay of 0 ticks"


def test_rows_that_are_late_with_any_delay_count_for_the_share() -> None:
    """A share that they use up leaves none for others."""
    first, *others = (rxt.PointEvent(start, {"x": 1}) for start in (5, 3, 20, 14, 18))
    events = [first, rxt.Cti(9), *others]
    with tempfile.TemporaryDirectory() as folder:
        record(events, folder, rxt.INCREASING_START_TIME)
        delays = find_delays(folder)["readings"]
    assert (delays.rows, delays.always) == (5, 1)
    assert [delays.propose(loss) for loss in (0.2, 0.4, 0.6)] == [6, 2, 0]


def test_an_end_may_be_late_where_its_start_was_in_time() -> None:
    """It is moved to the CTI, so it counts with each delay that is too small for the end itself."""
    events = [
        rxt.EdgeEvent.create_start(10, {"x": 1}), rxt.PointEvent(30, {"x": 2}),
        rxt.EdgeEvent.create_end(10, 20, {"x": 1}),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        record(events, folder, rxt.INCREASING_START_TIME)
        delays = find_delays(folder)["readings"]
        lost = [replay_with(folder, each) for each in (0, 9, 10)]
    assert [delays.count_lost(each) for each in (0, 9, 10)] == lost == [1, 1, 0]


def test_a_row_behind_the_end_of_time_is_lost_with_any_delay() -> None:
    """The delay holds for CTIs that are pushed, but not for the one that ends the stream."""
    source = rxt.PushSource("readings", schema={"x": int}, start="t", delay=2)
    with tempfile.TemporaryDirectory() as folder:
        with source.stream.run(rxt.Collect(), record=folder) as process:
            source.push([{"t": 5, "x": 1}, rxt.Cti(rxt.MAX_TIME)])
            source.push({"t": 9, "x": 1})
            source.close()
            process.wait(10)
        delays = find_delays(folder)["readings"]
        assert replay_with(folder, 50) == 1
    assert (delays.rows, delays.always) == (2, 1)


def test_a_time_from_outside_holds_for_all_devices() -> None:
    """A row behind it is lost with any delay, though its device itself has not come as far."""
    source = rxt.PushSource("readings", schema={"d": str}, start="t", delay=0, clock="d")
    with tempfile.TemporaryDirectory() as folder:
        with source.stream.run(rxt.Collect(), record=folder) as process:
            source.push([{"t": 5, "d": "a"}, {"t": 25, "d": "b"}])
            source.advance(20)
            source.push({"t": 15, "d": "a"})
            source.close()
            process.wait(10)
        delays = find_delays(folder)["readings"]
    assert sum(process.diagnostics().late.values()) == 1
    assert (delays.rows, delays.always, delays.count_lost(50)) == (3, 1, 1)


def test_batches_are_measured_as_their_rows() -> None:
    """Rows of frames, edges by their ids."""
    batch = rxt.EventBatch.from_dicts(
        [{"start_time": time, "x": 1} for time in (1, 9, 4, 8, 12, 2)], cti=0
    )
    with tempfile.TemporaryDirectory() as folder:
        stream = rxt.from_polars(
            batch.to_polars(), start="start_time", end="end_time", advance_time=3, name="readings"
        )
        with stream.run(rxt.Collect(), record=folder):
            pass
        delays = find_delays(folder)["readings"]
        assert [delays.count_lost(each) for each in range(11)] == [
            replay_with(folder, each) for each in range(11)
        ]
    assert delays.propose() == 10
    assert delays.propose(1 / 6) == 5


def test_senders_are_told_apart(tmp_path: Path) -> None:
    """Each has the number of its rows and its largest distance, the furthest behind first."""
    source = rxt.PushSource("readings", schema={"x": int}, start="t", delay=2)
    with source.stream.run(rxt.Collect(), record=tmp_path / "r") as process:
        for name, time in ("a", 9), ("b", 3), ("b", 8), ("a", 12):
            source.input(name).push([{"t": time, "x": 1}])
        source.close()
        process.wait(10)
    delays = find_delays(tmp_path / "r")["readings"]
    assert delays.senders.rows() == [("b", 2, 6), ("a", 2, 0)]
    assert delays.propose() == 6


@pytest.mark.parametrize("loss", [-0.1, 1.1, True, "1%"])
def test_a_loss_is_a_share(tmp_path: Path, loss: Any) -> None:
    """Anything else is an error."""
    record([rxt.PointEvent(1, {"x": 1})], str(tmp_path / "r"), rxt.INCREASING_START_TIME)
    with pytest.raises(rxt.ArgumentError, match="loss is a share of the rows"):
        find_delays(tmp_path / "r")["readings"].propose(loss)


def test_a_recording_is_a_path() -> None:
    """The message says so."""
    with pytest.raises(rxt.ArgumentError, match="a recording is the path of its folder"):
        find_delays(5)  # type: ignore[arg-type]
    with pytest.raises(rxt.ArgumentError, match="a recording is the path of its folder"):
        rxt.testing.find_clock_losses(5, clock="device")  # type: ignore[arg-type]


def test_a_delay_is_rounded_up() -> None:
    """So that what is shown loses no more."""
    minute = 60_000_000
    texts = [format_delay(each) for each in (0, 7, 14 * minute + 1, 2 * minute, 700 * minute + 1)]
    assert texts == ["0 ticks", "7 ticks", "14 min 0.1 s", "2 min", "12 h"]
