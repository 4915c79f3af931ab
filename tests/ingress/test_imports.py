"""CTIs imported from another stream: the documents' sentences, and a model event by event."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from importing_streams import NAMES, all_drawn, not_of_itself, reference
from importing_streams import settings as drawn_settings
from oracle import MAX_TIME
from reactivex.subject import Subject
from runs import SOON, Log

import rxtemporal as rxt
from rxtemporal import Cti, EdgeEvent, EventBatch, IntervalEvent, PointEvent
from rxtemporal.core.events import EventShape
from rxtemporal.errors import AdvanceTimeError

ADJUST, DROP = rxt.AdvanceTimePolicy.ADJUST, rxt.AdvanceTimePolicy.DROP
EACH = rxt.AdvanceTimeGenerationSettings(1, 0)


def settings(imports: str | None, policy: Any = DROP, generation: Any = None) -> Any:
    """Settings that import from a stream, if one is named."""
    named = None if imports is None else rxt.AdvanceTimeImportSettings(imports)
    return rxt.AdvanceTimeSettings(generation, named, policy=policy)


def test_all_ctis_of_the_one_appear_on_the_other() -> None:
    """All the CTIs generated or enqueued by Input1 will appear to also be enqueued by Input2.

    *Synchronizing Streams*. So a union answers as fast as its fastest input.
    """
    one, two = Subject[Any](), Subject[Any]()
    input1 = rxt.from_observable(one, schema={"payload": int}, name="Input1")
    input2 = rxt.from_observable(
        two, schema={"payload": int}, name="Input2", advance_time=settings("Input1")
    )
    seen: list[Any] = []
    input1.union(input2).subscribe(seen.append, ctis=True)
    one.on_next(PointEvent(5, 5))
    two.on_next(PointEvent(3, 3))
    one.on_next(Cti(4))
    assert seen == [IntervalEvent(3, 4, 3), Cti(4)]
    two.on_next(PointEvent(2, 2))  # late by the import
    one.on_next(Cti(6))
    assert seen[2:] == [IntervalEvent(5, 6, 5), Cti(6)]


def test_a_batch_that_ends_its_stream_gives_the_time_of_its_rows() -> None:
    """What its rows have generated is imported, as if they had come one by one; its end is not."""
    row, end = [{"start_time": 1, "x": 1}], EventBatch.empty({"x": pl.Int64}, MAX_TIME)
    for came in ([EventBatch.from_dicts(row, cti=MAX_TIME)], [EventBatch.from_dicts(row), end]):
        fast = rxt.from_events(
            came, schema={"x": int}, name="fast", advance_time=settings(None, generation=EACH)
        )
        slow = rxt.from_events(
            [PointEvent(0, {"x": 0}), PointEvent(1, {"x": 2})], schema={"x": int}, name="slow",
            advance_time=settings("fast"),
        )  # fmt: skip
        found = slow.union(fast).to_polars(time="ticks")
        assert sorted(found["x"].to_list()) == [1, 2]


@pytest.mark.parametrize("fast_first", [True, False])
def test_of_events_at_one_time_the_first_stream_has_its_own_first(fast_first: bool) -> None:
    """Also where the other one is read on, so its event is late by the CTI behind that time."""
    ahead = rxt.AdvanceTimeGenerationSettings(1, -1)
    fast, slow = (
        rxt.from_events([PointEvent(t, {"x": t}) for t in times], name=name, advance_time=given)
        for name, times, given in [
            ("fast", (1, 6), settings(None, generation=ahead)), ("slow", (5, 6), settings("fast")),
        ]
    )  # fmt: skip
    query = fast.union(slow) if fast_first else slow.union(fast)
    with query.run(rxt.Collect()) as process:
        process.wait(SOON)
    assert sum(process.diagnostics().late.values()) == fast_first


def test_reference_data_follow_the_fast_stream() -> None:
    """“The computation is still correct even if the start edge of the event is adjusted.”

    The first scenario of *Synchronizing Streams*: readings joined with slow reference data.
    """
    fast, slow = Subject[Any](), Subject[Any]()
    generated = rxt.AdvanceTimeSettings(EACH, policy=DROP)
    data = rxt.from_observable(
        fast, schema={"k": str, "x": int}, name="dataStream", advance_time=generated
    )
    lookup = rxt.from_observable(
        slow, schema={"k": str, "y": int}, advance_time=settings("dataStream", ADJUST)
    )
    seen: list[Any] = []
    data.join(lookup, on="k").subscribe(seen.append)
    fast.on_next(PointEvent(10, {"k": "a", "x": 1}))
    slow.on_next(EdgeEvent.create_start(1, {"k": "a", "y": 7}))  # starts at 10 now
    fast.on_next(PointEvent(20, {"k": "a", "x": 2}))
    fast.on_next(PointEvent(30, {"k": "a", "x": 3}))
    assert [(event.start, event.payload["x"], event.payload["y"]) for event in seen] == [
        (10, 1, 7),
        (20, 2, 7),
    ]


def test_loops_of_any_size_end() -> None:
    """“It is possible to have circular loops of any size.”

    Each of three streams imports from the next; a CTI on one reaches all, and the end of time none.
    """
    app = rxt.Application("circle")
    subjects = {name: Subject[Any]() for name in "abc"}
    sinks = {}
    for name, after in ("a", "b"), ("b", "c"), ("c", "a"):
        stream = rxt.from_observable(subjects[name], advance_time=settings(after))
        app.query("out " + name, app.define_stream(name, stream))
        sinks["out " + name] = Log()
    process = app.run(sinks=sinks)
    for name, time in ("a", 5), ("c", 3), ("b", 9):
        subjects[name].on_next(Cti(time))
        reached = {each.cti for each in process.diagnostics().streams}
        assert reached == {max(time, 5)}
    subjects["a"].on_completed()
    assert [each.cti for each in process.diagnostics().streams] == [MAX_TIME, 9, 9]
    process.dispose()


def test_a_stream_that_no_query_uses_still_gives_its_time() -> None:
    """The named stream is read for its CTIs alone, and its failure ends the process."""

    def run(clock: list[Any]) -> Log:
        app = rxt.Application("clocked")
        app.define_stream("clock", clock)
        app.query("out", app.define_stream("in", late, advance_time=settings("clock")))
        sink = Log()
        app.run("out", sink).wait(SOON)
        return sink

    late = [PointEvent(9, 9), PointEvent(2, 2)]
    assert run([]).rows == [2, 9]
    assert run([Cti(5)]).rows == [9]
    with pytest.raises(rxt.CtiViolationError, match="stream 'clock'"):
        run([Cti(5), PointEvent(1, 1)])


@pytest.mark.parametrize("imports", ["nowhere", "in"])
def test_an_import_that_leads_nowhere_is_refused(imports: str) -> None:
    """The message says which streams there are, or that the stream names itself."""
    app = rxt.Application("lost")
    app.query("out", app.define_stream("in", [], advance_time=settings(imports)))
    message = "imports its own" if imports == "in" else "there is no stream.*there are 'in'"
    with pytest.raises(AdvanceTimeError, match=message):
        app.run("out", Log())


def test_what_is_no_import_is_refused() -> None:
    """“Either the Generation settings or the Import settings can be null, but not both.”"""
    for bad in ("clock", 5):
        with pytest.raises(AdvanceTimeError, match="imports is an AdvanceTimeImportSettings"):
            rxt.AdvanceTimeSettings(EACH, bad, policy=DROP)  # type: ignore[arg-type]
    with pytest.raises(AdvanceTimeError, match="generation is an"):
        rxt.AdvanceTimeSettings(None, None, policy=DROP)
    with pytest.raises(AdvanceTimeError, match="stream_name is a stream's name"):
        rxt.AdvanceTimeImportSettings("")
    with pytest.raises(AdvanceTimeError, match="policy is"):
        rxt.AdapterAdvanceTimeSettings(EACH, None)  # type: ignore[arg-type]


@given(all_drawn, st.fixed_dictionaries(dict.fromkeys(NAMES, st.booleans())))
def test_verdicts_are_those_of_one_event_after_the_other(
    drawn: dict[str, Any], frames: dict[str, bool]
) -> None:
    """Events and frames, any imports, any order: what comes in is what the gates let in."""
    drawn = not_of_itself(drawn)
    app = rxt.Application("model")
    sinks = {}
    for name, each in drawn.items():
        app.query("out " + name, app.define_stream(name, stream_of(each, frames[name])))
        sinks["out " + name] = Log(EventShape.INTERVAL)
    process = app.run(sinks=sinks)
    process.wait(SOON)
    told = {each.name: each for each in process.diagnostics().streams}
    for name, gate in reference(drawn).items():
        out = [
            row
            for batch in sinks["out " + name].batches
            for row in zip(batch.start.tolist(), batch.end.tolist(), strict=True)
        ]
        if drawn[name]["to_infinity"] or not drawn[name]["every"]:
            assert sorted(out) == sorted((e[1], e[2]) for e in gate.out if e[0] == "interval")
        assert sum(told[name].late.values()) == len(gate.late)
        if not drawn[name]["imports"]:
            assert told[name].late_by_import == 0


def stream_of(each: dict[str, Any], frame: bool) -> rxt.Streamable:
    """A drawn stream as a source, of events or of frames in small batches."""
    rows = [(t, t + d, 0) for t, d in each["rows"]]
    made = drawn_settings(each)
    if frame:
        schema = {"s": int, "e": int, "payload": int}
        columns = pl.DataFrame(rows, schema=schema, orient="row")
        return rxt.from_polars(columns, start="s", end="e", advance_time=made, batch_rows=4)
    events = [IntervalEvent(*row) for row in rows]
    return rxt.from_events(events, schema={"payload": int}, advance_time=made)


def test_a_batch_that_a_hand_off_cuts_is_late_by_the_import_alone() -> None:
    """An imported CTI is none of the source's own, into however many pieces its batch is cut."""
    clock, data = Subject[Any](), Subject[Any]()
    app = rxt.Application("handed")
    app.define_stream("clock", rxt.from_observable(clock, schema={"x": int}))
    late = rxt.from_observable(
        data, schema={"x": int}, advance_time=settings("clock"), hand_off=rxt.HandOff(2)
    )
    app.query("out", app.define_stream("data", late))
    process = app.run("out", Log())
    clock.on_next(Cti(10))
    data.on_next(EventBatch.from_dicts([{"start_time": t, "x": t} for t in range(5)]))
    told = next(each for each in process.diagnostics().streams if each.name == "data")
    process.dispose()
    assert (sum(told.late.values()), told.late_by_import) == (5, 5)


def test_a_span_of_time_may_be_the_frequency_of_the_one_that_is_imported() -> None:
    """Two frames, one that imports what the other generates: its late rows are told apart."""
    frequency = rxt.AdvanceTimeGenerationSettings(timedelta(microseconds=10), 0)
    app = rxt.Application("frames")
    fast = pl.DataFrame({"s": [0, 10, 20, 30]})
    slow = pl.DataFrame({"s": [0, 25, 12, 26]})
    app.define_stream(
        "fast", rxt.from_polars(fast, start="s", advance_time=settings(None, DROP, frequency))
    )
    both = rxt.from_polars(slow, start="s", advance_time=settings("fast"))
    app.query("out", app.define_stream("slow", both))
    sink = Log()
    process = app.run("out", sink)
    process.wait(SOON)
    assert [t for batch in sink.batches for t in batch.start.tolist()] == [0, 25, 26]
    told = {each.name: each.late_by_import for each in process.diagnostics().streams}
    assert told == {"slow": 1, "fast": 0}
