"""Diagnostics of a running process: counters, who waits for whom, and since when."""

from __future__ import annotations

import json
import re
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from joined_rooms import SCHEMA, House, row
from reactivex.subject import Subject
from runs import SOON, Log

import rxtemporal as rxt
from rxtemporal import Cti, EdgeEvent, EventShape, IntervalEvent, PointEvent, agg
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME


def test_a_join_tells_which_input_it_waits_for() -> None:
    """The side with the lower CTI, its stream, since when, and what the CTI has to pass."""
    house = House()
    house.readings.on_next(PointEvent(12, row(1)))
    house.clock.advance_by(5)
    house.readings.on_next(Cti(20))
    house.rooms.on_next(IntervalEvent(4, 90, row(7)))
    house.rooms.on_next(Cti(10))
    house.clock.advance_by(35)
    assert house.told() == [
        "join waits for its right input, which comes from stream 'rooms', whose CTI has been at 10 "
        "for 35 s; 2 rows wait, the first for a CTI above 12"
    ]
    house.rooms.on_next(Cti(30))
    assert house.told() == [
        "join waits for its left input, stream 'readings', whose CTI has been at 20 for 35 s; "
        "1 row waits, the first for a CTI above 90"
    ]
    house.process.dispose()
    assert house.process.diagnostics().holding_back() == ()


def test_each_input_is_counted() -> None:
    """Rows in and out, CTIs and ages of each operator and of each of its inputs."""
    house = House()
    house.rooms.on_next(IntervalEvent(4, 90, row(7)))
    house.rooms.on_next(IntervalEvent(4, 90, row(0)))
    house.rooms.on_next(Cti(5))
    house.clock.advance_by(3)
    house.readings.on_next(PointEvent(6, row(1)))
    house.readings.on_next(PointEvent(8, row(1)))
    house.readings.on_next(Cti(9))
    where, join = house.process.diagnostics().operators
    assert (where.name, where.rows_in, where.rows_out, where.rows) == ("where", 2, 1, 0)
    assert where.held_back_by is None
    left, right = join.inputs
    assert (left.name, left.rows_in, left.cti, left.cti_age) == ("left", 2, 9, 0)
    assert (right.name, right.rows_in, right.cti, right.cti_age) == ("right", 1, 5, 3)
    assert join.held_back_by is right
    assert (join.rows, join.rows_out, join.cti, join.cti_age, join.next_due) == (3, 0, 5, 0, 6)
    house.rooms.on_next(Cti(7))
    (_, join), (readings, rooms) = (
        house.process.diagnostics().operators,
        house.process.diagnostics().streams,
    )
    assert (join.rows_out, join.next_due) == (1, 8)
    assert (readings.events_in, readings.rows_out, readings.rows) == (2, 2, 0)
    assert (rooms.events_in, rooms.cti, rooms.ended) == (2, 7, False)
    house.process.dispose()


def test_rows_that_wait_for_their_first_cti_are_seen() -> None:
    """Before the first CTI rows have not reached the join: the stream holds them."""
    house = House()
    house.readings.on_next(PointEvent(12, row(1)))
    house.readings.on_next(PointEvent(11, row(1)))
    house.clock.advance_by(40)
    (stream, _) = house.process.diagnostics().streams
    assert (stream.rows, stream.next_due, stream.rows_out) == (2, 11, 0)
    assert house.told() == [
        f"query 'placed' waits for stream '{name}', which has had no CTI for 40 s; "
        "2 rows wait, the first for a CTI above 11"
        for name in ("readings", "rooms")
    ]
    house.process.dispose()


def test_fields_that_are_not_known_make_a_join_wait() -> None:
    """Rows that wait until the other input's fields are known are held by the join."""
    left, right = Subject[Any](), Subject[Any]()
    streams = [rxt.from_observable(each) for each in (left, right)]
    process = streams[0].union(streams[1]).run(Log())
    left.on_next(PointEvent(3, 3))
    left.on_next(Cti(9))
    (union,) = process.diagnostics().operators
    assert (union.rows, union.next_due, union.inputs[0].rows_in) == (1, 3, 1)
    assert union.held_back_by is union.inputs[1]
    right.on_next(Cti(99))
    (hold,) = process.diagnostics().holding_back()
    assert str(hold).startswith("union (test_diagnostics.py:")
    assert str(hold).endswith(
        "waits for its right input, stream 'observable', whose fields are not known before its "
        "first event; 1 row waits"
    )
    assert hold.remedies == ("schema= where 'observable' is made",)
    process.dispose()


def test_time_comes_through_before_the_first_event() -> None:
    """A stream whose fields are not known yet passes its CTIs on."""
    source = Subject[Any]()
    sink = Log()
    process = rxt.from_observable(source).run(sink)
    source.on_next(Cti(4))
    assert (process.diagnostics().cti, sink.calls) == (4, [])
    source.on_next(PointEvent(5, 5))
    source.on_next(Cti(6))
    assert sink.rows == [5]
    process.dispose()


def test_an_open_row_holds_the_way_out_in_interval_shape() -> None:
    """The sentence says which row is open and what else could be asked for."""
    source = Subject[Any]()
    process = rxt.from_observable(source).run(Log(EventShape.INTERVAL), name="doors")
    source.on_next(EdgeEvent.create_start(4, "open"))
    source.on_next(PointEvent(6, "knock"))
    source.on_next(Cti(9))
    diagnostics = process.diagnostics()
    (hold,) = diagnostics.holding_back()
    assert str(hold) == (
        "query 'doors' waits for the end of an open row that starts at 4; 2 rows wait: in interval "
        "shape rows leave complete, in order of start"
    )
    assert "EventShape.EDGE" in hold.remedies[0]
    assert (diagnostics.queries[0].rows, diagnostics.queries[0].next_due) == (2, 4)
    process.dispose()


def test_a_stream_that_ended_without_the_end_of_time_is_told() -> None:
    """With advance_to_infinity_on_shutdown off, rows that wait will wait for ever."""
    first, second = Subject[Any](), Subject[Any]()
    settings = rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(1, 0, False), policy=rxt.AdvanceTimePolicy.DROP
    )
    one = rxt.from_observable(first, name="one", advance_time=settings)
    process = one.union(rxt.from_observable(second, name="two")).run(Log())
    first.on_next(PointEvent(5, 1))
    first.on_completed()
    second.on_next(PointEvent(7, 1))
    second.on_next(Cti(9))
    (hold,) = process.diagnostics().holding_back()
    assert "stream 'one', which ended at CTI 5 and will not advance again; " in str(hold)
    process.dispose()


@pytest.mark.parametrize("finished", [True, False])
def test_one_window_waits_for_its_end(finished: bool) -> None:
    """A hopping window's next_due is the end of the first window that holds something."""
    source = Subject[Any]()
    query = rxt.from_observable(source, schema=SCHEMA).tumbling_window(10)
    process = query.aggregate(n=agg.count()).run(Log())
    source.on_next(PointEvent(23, row(1)))
    source.on_next(Cti(30 if finished else 29))
    (window,) = process.diagnostics().operators
    assert (window.next_due, window.rows_out) == ((None, 1) if finished else (30, 0))
    process.dispose()


def test_a_row_of_several_windows_is_due_at_the_first_that_has_not_ended() -> None:
    """Not at the last of them, in which it ends."""
    source = Subject[Any]()
    query = rxt.from_observable(source, schema=SCHEMA).tumbling_window(10)
    process = query.aggregate(n=agg.count()).run(Log())
    source.on_next(IntervalEvent(5, 45, row(1)))
    for cti, due in ((12, 20), (20, 30), (39, 40), (44, 50)):
        source.on_next(Cti(cti))
        (window,) = process.diagnostics().operators
        assert window.next_due == due
    process.dispose()


def test_an_open_row_is_due_at_each_window() -> None:
    """A row that has not ended is in every window: the end of the next one is due."""
    source = Subject[Any]()
    query = rxt.from_observable(source, schema=SCHEMA).tumbling_window(10)
    process = query.aggregate(n=agg.count()).run(Log())
    source.on_next(EdgeEvent.create_start(23, row(1)))
    for cti, due in ((25, 30), (30, 40), (47, 50)):
        source.on_next(Cti(cti))
        (window,) = process.diagnostics().operators
        assert window.next_due == due
    process.dispose()


def test_what_has_run_to_its_end_waits_for_nothing() -> None:
    """After the end nothing stalls, and every CTI is at the end of time."""
    process = rxt.from_events([PointEvent(1, 1)]).run(Log())
    process.wait(SOON)
    diagnostics = process.diagnostics()
    assert diagnostics.holding_back() == ()
    assert {each.cti for each in diagnostics.streams} == {MAX_TIME}
    assert str(diagnostics).startswith("process 'query' has ended: 1 events in, 0 late, 1 rows out")


def test_a_stream_of_batches_is_counted() -> None:
    """Rows of batches count as events in."""
    source = Subject[Any]()
    process = rxt.from_observable(source).run(Log())
    source.on_next(rxt.EventBatch.from_dicts([{"start_time": 1, "x": 1}], cti=5))
    (stream,) = process.diagnostics().streams
    assert (stream.events_in, stream.rows_out, stream.cti) == (1, 1, 5)
    process.dispose()


def test_diagnostics_print_as_tables() -> None:
    """Stalls come first, then streams, operators with their inputs, and queries."""
    house = House()
    house.readings.on_next(PointEvent(12, row(1)))
    house.readings.on_next(Cti(20))
    house.clock.advance_by(700)
    diagnostics = house.process.diagnostics()
    assert diagnostics.cti == MIN_TIME
    text = re.sub(r" \(joined_rooms\.py:\d+\)", "", str(diagnostics))
    head, hold, *tables = text.splitlines()
    assert head == "process 'placed' runs: 1 events in, 0 late, 0 rows out"
    assert hold.startswith(
        "  join waits for its right input, which comes from stream 'rooms', which"
    )
    assert [line.split() for line in tables] == [
        ["stream", "in", "late", "out", "waiting", "oldest", "CTI", "for"],
        ["readings", "1", "0", "1", "0", "-", "20", "12", "min"],
        ["rooms", "0", "0", "0", "0", "-", "-", "12", "min"],
        ["operator", "in", "out", "held", "oldest", "CTI", "for"],
        ["where", "0", "0", "0", "-", "-", "12", "min"],
        ["join", "1", "0", "1", "12", "-", "12", "min"],
        ["left", "1", "20", "12", "min"],
        ["right", "(behind)", "0", "-", "12", "min"],
        ["query", "out", "waiting", "oldest", "CTI", "for"],
        ["placed", "0", "0", "-", "-", "12", "min"],
    ]
    house.process.dispose()


class Rising:
    """Meter of a run that goes on: its CTI is higher each time it is read."""

    rows_out, moved = 0, 0.0

    def __init__(self) -> None:
        self.looked = 0

    @property
    def cti(self) -> int:
        """The next CTI."""
        self.looked += 1
        return self.looked


def test_a_run_that_goes_on_can_be_looked_at() -> None:
    """A stall is reported from CTIs read once, though they move during the search."""
    one, two = (
        rxt.from_observable(Subject[Any](), schema={"x": int}, name=name) for name in ("one", "two")
    )
    process = one.union(two).run(Log())
    stages = process._execution.wiring.stages
    for stage in stages.values():
        stage.inputs = tuple(Rising() for _ in stage.inputs)
    assert process.diagnostics().holding_back()
    process.dispose()


# As plain values --------------------------------------------------------------------------------


def numbers(value: Any) -> list[float]:
    """All numbers in a tree of plain values."""
    if isinstance(value, dict):
        return [each for part in value.values() for each in numbers(part)]
    if isinstance(value, list):
        return [each for part in value for each in numbers(part)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


def at(seconds: float) -> datetime:
    """A moment of a day in 2026."""
    return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def test_diagnostics_are_json_with_the_times_of_the_sources() -> None:
    """Datetimes come out as ISO strings, spans as seconds; no number is one of ticks."""
    drop = rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(1, 0), policy=rxt.AdvanceTimePolicy.DROP
    )
    left, right = Subject[Any](), Subject[Any]()
    schema = {"x": int}
    readings = rxt.from_observable(
        left, schema=schema, name="readings", advance_time=drop, hand_off=rxt.HandOff(9)
    )
    rooms = rxt.from_observable(right, schema=schema, name="rooms")
    process = readings.join(rooms, on="x").run(Log(), name="house")
    for seconds in (5, 9, 2):
        left.on_next(PointEvent(at(seconds), {"x": 1}))
    right.on_next(IntervalEvent(at(0), at(90), {"x": 1}))
    right.on_next(Cti(at(1)))
    while process.diagnostics().operators[0].inputs[0].cti < rxt.ticks(at(9)):
        threading.Event().wait(0.001)  # until the hand-off has delivered
    told = json.loads(json.dumps(process.diagnostics().to_dict(), allow_nan=False))
    assert (told["name"], told["running"], told["ended"], told["error"]) == (
        "house", True, False, None,
    )  # fmt: skip
    first, second = told["streams"]
    assert (first["cti"], first["late"], first["largest_lateness"]) == (
        "2026-03-01T00:00:09Z", {"dropped": 1}, 7.0,
    )  # fmt: skip
    assert first["hand_off"]["blocked"] == 0.0
    assert second["cti"] == "2026-03-01T00:00:01Z"
    (join,) = told["operators"]
    assert [each["cti"] for each in join["inputs"]] != [None, None]
    assert told["stalls"][0]["time"] == "datetime"
    assert "2026-03-01T00:00:01Z" in told["holding_back"][0]
    assert all(abs(each) < 1_000_000 for each in numbers(told))
    process.stop()
    told = json.loads(json.dumps(process.diagnostics().to_dict()))
    assert (told["running"], told["ended"], told["holding_back"]) == (False, True, [])


def test_diagnostics_in_ticks_stay_ticks() -> None:
    """Sources that give ticks have ticks in the dict; a CTI before the first is None."""
    house = House()
    told = house.process.diagnostics().to_dict()
    assert {each["cti"] for each in told["streams"]} == {None}
    house.rooms.on_next(IntervalEvent(4, 90, row(7)))
    house.rooms.on_next(Cti(5))
    told = house.process.diagnostics().to_dict()
    assert [each["cti"] for each in told["streams"] if each["name"] == "rooms"] == [5]
    assert told["time"] == "ticks"
    house.process.stop()


def test_diagnostics_name_the_error() -> None:
    """The dict and the table say what ended the process."""
    subject: Subject[Any] = Subject()
    process = rxt.from_observable(subject, name="visits").run(Log(), name="house")
    subject.on_next(PointEvent(3, 3))
    subject.on_next(Cti(4))
    subject.on_next(PointEvent(1, 1))
    diagnostics = process.diagnostics()
    assert not diagnostics.running
    assert (diagnostics.error or "").startswith("CtiViolationError: ")
    assert diagnostics.to_dict()["error"] == diagnostics.error
    assert str(diagnostics).startswith("process 'house' has failed (CtiViolationError: ")


def test_the_inputs_of_a_stream_are_shown_by_their_late_events() -> None:
    """Late events, lag and largest lateness by input: the worst first, in the sources' form."""
    subject = rxt.CtiSynchronizingSubjectAlternate.create_point(timedelta(seconds=10))
    process = rxt.from_observable(subject, schema={"x": int}, name="readings").run(Log(), name="x")
    slow, fast = subject.input("slow"), subject.input("fast")
    for n in range(9):
        subject.input(f"other {n}").on_next(PointEvent(at(90), {"x": n}))
    fast.on_next(PointEvent(at(100), {"x": 1}))
    fast.on_next(Cti(at(100)))
    slow.on_next(PointEvent(at(60), {"x": 1}))
    slow.close()
    lines = str(process.diagnostics()).splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("input"))
    assert lines[begin].split() == ["input", "in", "late", "lag", "largest", "lateness"]
    assert [line.split()[:-1] for line in lines[begin + 1 : begin + 3]] == [
        ["readings:", "slow", "(closed)", "1", "1", "0:00:40"],
        ["readings:", "other", "0", "1", "0", "0:00:10"],
    ]
    assert lines[begin + 9] == "readings: 3 more"
    told = json.loads(json.dumps(process.diagnostics().to_dict()))
    counts = told["streams"][0]["inputs"]["slow"]
    assert (counts["late"], counts["lag"]) == (1, 40.0)
    assert 0 < counts["largest_lateness"] <= 40
    assert counts["late_by_reason"] == {"dropped": 1}
    assert all(abs(each) < 1e10 for each in numbers(told))
    process.stop()
