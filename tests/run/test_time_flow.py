"""Silent and departing sources: idle streams against a model, time-outs, heartbeats, refusals."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import MAX_TIME, Gate, shift_time
from reactivex.subject import Subject
from reactivex.testing import TestScheduler
from runs import SOON, Log

import rxtemporal as rxt
from rxtemporal import Cti, EventShape, IntervalEvent, PointEvent, agg
from rxtemporal.errors import AdvanceTimeError, ArgumentError, BindingError

ADJUST, DROP = rxt.AdvanceTimePolicy.ADJUST, rxt.AdvanceTimePolicy.DROP
SCHEMA = {"payload": int}
NAMES = "abc"


def settings(
    every: int = 1, delay: int = 0, policy: Any = DROP, imports: str | None = None
) -> rxt.AdvanceTimeSettings:
    """A CTI every so many events, and maybe those of another stream."""
    named = None if imports is None else rxt.AdvanceTimeImportSettings(imports)
    generation = rxt.AdvanceTimeGenerationSettings(every, delay)
    return rxt.AdvanceTimeSettings(generation, named, policy=policy)


class Streams:
    """Pushed streams, each with a query of its own, run as one process by a clock of the test."""

    def __init__(self, **options: dict[str, Any]) -> None:
        self.subjects = {name: Subject[Any]() for name in options}
        self.clock = TestScheduler()
        self.sinks = {name: Log(EventShape.EDGE) for name in options}
        app = rxt.Application("streams")
        for name, each in options.items():
            source = rxt.from_observable(self.subjects[name], schema=SCHEMA, **each)
            app.query(f"out {name}", app.define_stream(name, source))
        sinks = {f"out {name}": sink for name, sink in self.sinks.items()}
        self.process = app.run(sinks=sinks, scheduler=self.clock)

    def send(self, name: str, *events: Any) -> None:
        """Let a source send events; a number stands for a CTI there."""
        for event in events:
            self.subjects[name].on_next(Cti(event) if isinstance(event, int) else event)

    @property
    def ctis(self) -> dict[str, int]:
        """What each stream has reached."""
        return {each.name: each.cti for each in self.process.diagnostics().streams}

    @property
    def idle(self) -> set[str]:
        """Which streams are idle."""
        return {each.name for each in self.process.diagnostics().streams if each.idle}


# The model --------------------------------------------------------------------------------------

times = st.integers(0, 30)
events = st.tuples(st.just("event"), st.sampled_from(NAMES), times, st.integers(1, 9))
happenings = st.lists(
    st.one_of(
        events, events, events,
        st.tuples(st.sampled_from(["cti", "idle"]), st.sampled_from(NAMES), times),
        st.tuples(st.just("end"), st.sampled_from(NAMES)),
    ),
    max_size=30,
)  # fmt: skip
kinds = st.fixed_dictionaries(
    {
        "every": st.sampled_from([1, 2, 3]),
        "delay": st.integers(-2, 5),
        "policy": st.sampled_from([DROP, ADJUST]),
        "imports": st.sampled_from([None, None, *NAMES]),
    }
)


def model(kind: dict[str, Any], happened: list[Any]) -> tuple[dict[str, Gate], set[str]]:
    """Every stream's gate, and who is idle: an idle one imports the lowest CTI of the others."""
    gates = {name: Gate(each["policy"].value) for name, each in kind.items()}
    count, idle, ended = dict.fromkeys(kind, 0), set[str](), set[str]()
    for what, name, *rest in happened:
        if name in ended:
            continue
        if what == "idle":
            idle.add(name)
        else:
            idle.discard(name)
        if what == "event":
            gates[name].accept(("interval", rest[0], rest[0] + rest[1], 0))
            count[name] += 1
            if count[name] % kind[name]["every"] == 0:
                gates[name].advance(shift_time(rest[0], -kind[name]["delay"]))
        elif what == "cti":
            gates[name].advance(rest[0])
        elif what == "end":
            ended.add(name)
            gates[name].advance(MAX_TIME)
        for _ in range(2 * len(kind)):  # until nothing can move any more
            for importer in kind.keys() - ended:
                sources = [kind[importer]["imports"]] if kind[importer]["imports"] else []
                leading = [gates[each] for each in sources]
                awake = [gates[each] for each in kind if each not in idle]
                if importer in idle and awake and all(each.promised for each in awake):
                    leading.append(min(awake, key=lambda gate: gate.cti))
                for gate in leading:
                    if gate.promised and gate.cti < MAX_TIME:
                        gates[importer].advance(gate.cti)
    return gates, idle


@given(st.fixed_dictionaries(dict.fromkeys(NAMES, kinds)), happenings)
def test_an_idle_stream_imports_the_lowest_cti_of_the_others(
    kind: dict[str, Any], happened: list[Any]
) -> None:
    """Events, CTIs, ends and idleness in any order: rows, late ones and CTIs are the model's."""
    for name, each in kind.items():
        if each["imports"] == name:
            each["imports"] = None
    streams = Streams(**{name: {"advance_time": settings(**each)} for name, each in kind.items()})
    for what, name, *rest in happened:
        if what == "idle":
            streams.process.declare_idle(name)
        elif what == "event":
            streams.send(name, IntervalEvent(rest[0], rest[0] + rest[1], 0))
        elif what == "cti":
            streams.send(name, rest[0])
        else:
            streams.subjects[name].on_completed()
    gates, idle = model(kind, happened)
    told = {each.name: each for each in streams.process.diagnostics().streams}
    for name, gate in gates.items():
        # what was promised before all times here is not a promise to the process
        assert max(told[name].cti, -9) == (max(gate.cti, -9) if gate.promised else -9)
        assert sum(told[name].late.values()) == len(gate.late)
        assert told[name].idle == (name in idle)
        kept = [row for row in gate.out if row[0] == "interval"]
        out = [
            (start, end)
            for batch in streams.sinks[name].batches
            for start, end in zip(batch.start.tolist(), batch.end.tolist(), strict=True)
        ]
        assert len(out) + told[name].rows == len(kept)
        assert sorted(out) == sorted(row[1:3] for row in kept[: len(out)])
    streams.process.dispose()


def test_an_idle_stream_holds_nobody_back_until_it_returns() -> None:
    """A union goes on without the idle side; what that brings later is judged by the CTI."""
    one, two = Subject[Any](), Subject[Any]()
    streams = [
        rxt.from_observable(each, schema=SCHEMA, name=name, advance_time=settings())
        for name, each in (("one", one), ("two", two))
    ]
    sink = Log()
    process = streams[0].union(streams[1]).run(sink)
    two.on_next(PointEvent(3, 3))
    for time in (5, 8):
        one.on_next(PointEvent(time, time))
    assert sink.rows == []
    process.declare_idle("two")
    assert sink.rows == [3, 5]
    one.on_next(PointEvent(9, 9))
    assert sink.rows == [3, 5, 8]
    two.on_next(PointEvent(4, 4))  # late
    two.on_next(PointEvent(11, 11))
    one.on_next(PointEvent(20, 20))
    assert sink.rows == [3, 5, 8, 9]
    _, back = process.diagnostics().streams
    assert (back.idle, back.cti, back.late_by_import) == (False, 11, 1)
    process.dispose()


def test_a_stream_that_ends_lets_the_idle_ones_follow_the_rest() -> None:
    """At the end of time a stream is no longer the lowest; alone it takes nobody there."""
    streams = Streams(**{name: {"advance_time": settings()} for name in NAMES})
    streams.process.declare_idle("a")
    streams.send("b", 4)
    streams.send("c", 9)
    assert streams.ctis["a"] == 4
    streams.subjects["b"].on_completed()
    assert streams.ctis["a"] == 9
    streams.subjects["c"].on_completed()
    assert streams.ctis == {"a": 9, "b": MAX_TIME, "c": MAX_TIME}
    streams.process.dispose()


def test_a_sink_may_declare_a_stream_idle() -> None:
    """From inside write: what that lets out comes after the batch being written."""
    one, two = Subject[Any](), Subject[Any]()
    streams = [
        rxt.from_observable(each, schema=SCHEMA, name=name, advance_time=settings())
        for name, each in (("one", one), ("two", two))
    ]
    sink = Log(during={"write": lambda: process.declare_idle("two")})
    process = streams[0].union(streams[1]).run(sink)
    one.on_next(PointEvent(5, 5))
    two.on_next(PointEvent(2, 2))
    one.on_next(PointEvent(7, 7))
    assert [batch.cti for batch in sink.batches] == [2, 5, 7]
    assert process.diagnostics().cti == 7
    assert sink.rows == [2, 5]
    process.dispose()


def test_a_pulled_stream_takes_the_idle_one_along() -> None:
    """A source that is asked goes on as it is read, and nothing waits for the silent one."""
    silent = Subject[Any]()
    quiet = rxt.from_observable(silent, schema=SCHEMA, name="quiet", advance_time=settings())
    told = threading.Event()

    def events() -> Any:
        told.wait(SOON)
        yield from (PointEvent(t, t) for t in (1, 2, 3))

    sink = Log()
    asked = rxt.from_events(events(), schema=SCHEMA, name="asked", advance_time=settings())
    process = asked.union(quiet).run(sink)
    process.declare_idle("quiet")
    told.set()
    while process.diagnostics().streams[0].cti < MAX_TIME:
        threading.Event().wait(0)
    silent.on_completed()
    assert process.wait(SOON)
    assert sink.rows == [1, 2, 3]


# Time-outs and heartbeats -----------------------------------------------------------------------


def test_a_source_is_idle_after_its_time_out() -> None:
    """Counted from what it last sent; when it returns it is not idle, and may become it again."""
    after = {"advance_time": settings(), "idle_after": timedelta(seconds=10)}
    streams = Streams(a=after, b={"advance_time": settings()})
    streams.send("b", 5)
    streams.clock.advance_by(6)
    streams.send("a", 1)
    streams.clock.advance_by(9.5)
    assert (streams.idle, streams.ctis) == (set(), {"a": 1, "b": 5})
    streams.clock.advance_by(1)
    assert (streams.idle, streams.ctis) == ({"a"}, {"a": 5, "b": 5})
    streams.send("b", 7)
    assert streams.ctis == {"a": 7, "b": 7}
    streams.send("a", PointEvent(6, 6))
    assert (streams.idle, streams.ctis["a"]) == (set(), 7)
    streams.send("b", 9)
    assert streams.ctis["a"] == 7
    streams.clock.advance_by(10.5)
    assert (streams.idle, streams.ctis["a"]) == ({"a"}, 9)
    streams.process.dispose()


@pytest.mark.parametrize("hand_off", [None, rxt.HandOff()])
@pytest.mark.parametrize("kind", ["log", "resume"])
@pytest.mark.parametrize("means", ["idle_after", "heartbeat"])
def test_what_the_clock_moves_is_on_disk_before_its_results_leave(
    means: str, kind: str, hand_off: rxt.HandOff | None, tmp_path: Path
) -> None:
    """A run that is killed with the first of them has it, and decides nothing anew."""
    five = timedelta(seconds=5)
    asked = five if means == "idle_after" else rxt.Heartbeat(five, timedelta(seconds=1))

    def make() -> tuple[rxt.PushSource, rxt.PushSource, rxt.Streamable]:
        common: Any = {"schema": SCHEMA, "unit": "s", "delay": "0s", "hand_off": hand_off}
        one = rxt.PushSource("one", **common)
        other = rxt.PushSource("other", **common, **{means: asked})
        windows = one.stream.union(other.stream).tumbling_window("10s")
        return one, other, windows.aggregate(n=rxt.agg.count())

    def copy(batch: rxt.EventBatch) -> None:
        if len(batch) and not found.is_set():
            shutil.copytree(tmp_path / "run", tmp_path / "copy")
            found.set()

    clock, found = TestScheduler(), threading.Event()
    clock.advance_to(100)
    options: dict[str, Any] = {kind: tmp_path / "run"}
    one, other, stream = make()
    with stream.run(copy, scheduler=clock, **options) as process:
        other.push({"time": 0, "payload": 1})
        one.push([{"time": 0, "payload": 2}, {"time": 50, "payload": 3}])
        clock.advance_by(5)
        assert found.wait(SOON)
        process.stop()
    options[kind], sink = tmp_path / "copy", rxt.Collect()
    one, other, stream = make()
    with stream.run(sink, scheduler=TestScheduler(), **options):
        assert len(other.push({"time": 5, "payload": 4}).late) == 1
        one.close()
        other.close()
    assert [each["n"] for each in sink.to_dicts()] == [2, 1]


def test_a_heartbeat_follows_the_wall_while_its_source_is_silent() -> None:
    """The first beat comes after `every` of silence, then one each `every`, less the delay."""
    beat = rxt.Heartbeat(every=timedelta(seconds=5), delay=timedelta(seconds=2))
    streams = Streams(a={"advance_time": settings(), "heartbeat": beat})
    second = 1_000_000
    streams.clock.advance_to(3)
    streams.send("a", PointEvent(2 * second, 1))
    streams.clock.advance_to(7.9)
    assert streams.ctis["a"] == 2 * second
    streams.clock.advance_to(8)
    assert streams.ctis["a"] == 6 * second
    assert streams.sinks["a"].rows == [1]
    streams.clock.advance_to(13)
    assert streams.ctis["a"] == 11 * second
    streams.send("a", PointEvent(10 * second, 2), PointEvent(12 * second, 3))
    (told,) = streams.process.diagnostics().streams
    assert (told.late_by_import, told.cti) == (1, 12 * second)
    streams.clock.advance_to(17.9)
    assert streams.ctis["a"] == 12 * second
    streams.process.dispose()


def test_a_heartbeat_is_handed_on() -> None:
    """Streams that import from one with a heartbeat get its CTIs, and so do idle ones."""
    beat = rxt.Heartbeat(every=5_000_000, delay=0)
    streams = Streams(
        a={"advance_time": settings(), "heartbeat": beat},
        b={"advance_time": settings(imports="a")},
        c={"advance_time": settings()},
    )
    streams.process.declare_idle("c")
    streams.clock.advance_by(5)
    assert streams.ctis == dict.fromkeys(NAMES, 5_000_000)
    streams.process.dispose()


def test_nothing_beats_after_the_end() -> None:
    """When a process is stopped or its source ends, no timer is left that does anything."""
    beat = rxt.Heartbeat(every=5_000_000, delay=0)
    options = {"advance_time": settings(), "heartbeat": beat, "idle_after": 7_000_000}
    for end in ("stop", "complete", "fail"):
        streams = Streams(a=options)
        streams.send("a", 1)
        if end == "stop":
            streams.process.dispose()
        elif end == "complete":
            streams.subjects["a"].on_completed()
        else:
            streams.subjects["a"].on_error(OSError("gone"))
        reached = streams.ctis
        streams.clock.start()  # comes to an end only because nobody asks for another beat
        assert streams.ctis == reached


class SlowSave(rxt.Sink):
    """A sink that remembers nothing, and whose state takes so long that time passes."""

    def __init__(self, rows: list[int], clock: TestScheduler) -> None:
        self.rows, self.clock, self.seconds = rows, clock, 0

    def write(self, batch: rxt.EventBatch) -> None:
        """Note the rows."""
        self.rows += batch.payload["n"].to_list()

    def save(self) -> Any:
        """Return a function that takes its time."""
        return self._finish

    def _finish(self) -> bytes:
        self.clock.advance_by(self.seconds)
        return b"none"

    def load(self, state: bytes) -> None:
        """Load nothing."""


def run_slowly(folder: Path, rows: list[int], *, before: int, meanwhile: int) -> None:
    """Push a row, let time pass, and stop; while the last state is saved, time passes, too."""
    clock = TestScheduler()
    beat = rxt.Heartbeat(every=timedelta(seconds=5), delay=timedelta(seconds=2))
    source = rxt.PushSource(
        "rows", schema={"x": int}, start="t", delay="1s", heartbeat=beat, unit="s"
    )
    sink = SlowSave(rows, clock)
    windows = source.stream.tumbling_window("2s").aggregate(n=agg.count())
    process = windows.run(sink, resume=folder, scheduler=clock)
    source.push({"t": 1, "x": 1})
    clock.advance_by(before)
    sink.seconds = meanwhile
    process.stop()


@pytest.mark.parametrize(("before", "meanwhile"), [(0, 60), (60, 0), (60, 60)])
def test_no_result_leaves_behind_the_last_state(
    tmp_path: Path, before: int, meanwhile: int
) -> None:
    """It would leave again in the next run: time stands still while a run is stopped."""
    rows: list[int] = []
    run_slowly(tmp_path, rows, before=before, meanwhile=meanwhile)
    assert rows == ([1] if before else [])
    run_slowly(tmp_path, rows, before=60, meanwhile=0)
    assert rows == ([1] if before else [2])


def test_a_payload_that_does_not_fit_fails_at_a_beat() -> None:
    """What waits is looked into when the beat commits it: the process fails, the timer does not."""
    beat = rxt.Heartbeat(every=5_000_000, delay=0)
    streams = Streams(a={"advance_time": settings(every=9), "heartbeat": beat})
    streams.send("a", PointEvent(1, 1), PointEvent(2, "no number"))
    streams.clock.advance_by(5)
    with pytest.raises(rxt.SchemaError, match="no number"):
        streams.process.wait(SOON)
    assert streams.sinks["a"].rows == [1]


def test_an_async_source_may_be_silent() -> None:
    """from_async with a time-out is followed on a thread of its own and can be declared idle."""

    async def main() -> list[Any]:
        go_on = asyncio.Event()

        async def slow() -> AsyncIterator[Any]:
            yield PointEvent(1, 1)
            await go_on.wait()

        async def fast() -> AsyncIterator[Any]:
            for time in (3, 4, 5):
                yield PointEvent(time, time)

        hour = timedelta(hours=1)
        streams = [
            rxt.from_async(
                each(), schema=SCHEMA, name=each.__name__, advance_time=settings(), idle_after=hour
            )
            for each in (slow, fast)
        ]
        sink = Log()
        process = streams[0].union(streams[1]).run(sink)
        while process.diagnostics().streams[0].events_in < 1:
            await asyncio.sleep(0)
        process.declare_idle("slow")
        while process.diagnostics().streams[1].cti < MAX_TIME:
            await asyncio.sleep(0)
        before = process.diagnostics().streams[0].idle
        go_on.set()
        assert await asyncio.to_thread(process.wait, SOON)
        return [before, sorted(sink.rows)]

    assert asyncio.run(main()) == [True, [1, 3, 4, 5]]


def test_stopping_lets_go_of_the_threads_of_silent_async_sources() -> None:
    """A process whose async source never answers can be stopped, and its threads end."""

    async def main() -> None:
        async def silent() -> AsyncIterator[Any]:
            await asyncio.Event().wait()
            yield

        stream = rxt.from_async(silent(), advance_time=settings(), idle_after=timedelta(hours=1))
        process = stream.run(Log(), name="silent")
        (thread,) = [each for each in threading.enumerate() if "async events" in each.name]
        await asyncio.to_thread(process.dispose)
        await asyncio.to_thread(thread.join, SOON)
        assert not thread.is_alive()

    asyncio.run(main())


# Refusals ---------------------------------------------------------------------------------------


def test_what_cannot_be_idle_is_refused() -> None:
    """Unknown streams, with those there are; streams without a policy; sources that are asked."""
    streams = Streams(a={"advance_time": settings()}, b={})
    with pytest.raises(BindingError, match=r"there is no stream 'x' in this .* are 'a', 'b'\. Hi"):
        streams.process.declare_idle("x")
    with pytest.raises(AdvanceTimeError, match=r"stream 'b' idle .* needs a policy\. Hint"):
        streams.process.declare_idle("b")
    streams.process.dispose()
    go_on = threading.Event()

    def waits() -> Any:
        go_on.wait(SOON)
        yield from ()

    process = rxt.from_events(waits(), name="asked", advance_time=settings()).run(Log())
    with pytest.raises(BindingError, match=r"is read by this process.* Hint: use from_obs"):
        process.declare_idle("asked")
    go_on.set()
    process.wait(SOON)


def test_two_streams_of_one_name_cannot_be_told_apart() -> None:
    """The message says how many there are."""
    streams = [rxt.from_observable(Subject[Any](), schema=SCHEMA) for _ in range(2)]
    process = streams[0].union(streams[1]).run(Log())
    with pytest.raises(BindingError, match="2 streams 'observable' in this process; there"):
        process.declare_idle("observable")
    process.dispose()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heartbeat": 5}, "heartbeat is a Heartbeat, got 5. Hint: heartbeat=Heartbeat"),
        ({"idle_after": 0}, "idle_after must be positive, got 0"),
        ({"idle_after": timedelta(seconds=-1)}, "idle_after must be positive"),
        ({"idle_after": "soon"}, "idle_after='soon' is not a span of time"),
    ],
)
@pytest.mark.parametrize("source", ["observable", "async"])
def test_options_that_make_no_sense_are_refused(
    source: str, options: dict[str, Any], message: str
) -> None:
    """Where the stream is made, with what is allowed."""
    with pytest.raises(ArgumentError, match=message):
        made(source, advance_time=settings(), **options)


def made(source: str, **options: Any) -> rxt.Streamable:
    """A stream that may be silent."""

    async def events() -> AsyncIterator[Any]:
        yield PointEvent(1, 1)

    if source == "async":
        return rxt.from_async(events(), **options)
    return rxt.from_observable(Subject[Any](), **options)


@pytest.mark.parametrize("source", ["observable", "async"])
def test_what_makes_time_up_needs_a_policy(source: str) -> None:
    """A heartbeat or a time-out without settings is refused, with a hint."""
    beat = rxt.Heartbeat(every=timedelta(seconds=5), delay=timedelta(seconds=2))
    for options in ({"heartbeat": beat}, {"idle_after": timedelta(seconds=5)}):
        with pytest.raises(AdvanceTimeError, match=r"needs a policy\. Hint: advance_time="):
            made(source, **options)


def test_a_heartbeat_is_checked() -> None:
    """Beating each zero seconds, or ahead of the wall clock, is refused."""
    for every in (0, timedelta(0), timedelta(seconds=-5)):
        with pytest.raises(ArgumentError, match="every must be positive, got "):
            rxt.Heartbeat(every=every, delay=0)
    with pytest.raises(ArgumentError, match="delay must not be negative, got -1"):
        rxt.Heartbeat(every=5, delay=-1)


def test_a_clock_that_is_none_is_refused() -> None:
    """scheduler= takes a scheduler of reactivex."""
    with pytest.raises(ArgumentError, match="scheduler is a scheduler of reactivex, got 5"):
        rxt.from_polars(pl.DataFrame({"t": [1]}), start="t").run(Log(), scheduler=5)  # type: ignore[arg-type]
