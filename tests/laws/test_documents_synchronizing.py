"""Sentences of *Synchronizing Streams in Time*, each quoted by the test that pins it.

Both of its scenarios: readings joined with slow reference data, and two streams of uneven rate
united. What an import costs is told in the diagnostics.
"""

from __future__ import annotations

from typing import Any

import pytest
from document_events import Cti, Point, start
from hypothesis import given
from hypothesis import strategies as st
from reactivex.subject import Subject
from runs import Log

import rxtemporal as rxt

ADJUST, DROP = rxt.AdvanceTimePolicy.ADJUST, rxt.AdvanceTimePolicy.DROP
EACH = rxt.AdvanceTimeGenerationSettings(1, 0)


class Running:
    """A query over live streams under names, into a sink; ``imports`` says who follows whom."""

    def __init__(
        self,
        query: Any,
        imports: dict[str, str | None],
        *,
        follows: Any = None,
        policy: Any = DROP,
        shape: Any = rxt.EventShape.INTERVAL,
    ) -> None:
        app = rxt.Application("synchronized")
        self.subjects: dict[str, Subject[Any]] = {name: Subject() for name in imports}
        streams = []
        for name, other in imports.items():
            settings = rxt.AdvanceTimeSettings(
                follows if other else EACH,
                None if other is None else rxt.AdvanceTimeImportSettings(other),
                policy=policy,
            )
            source = rxt.from_observable(
                self.subjects[name], schema={"k": int, name: int}, advance_time=settings
            )
            streams.append(app.define_stream(name, source))
        app.query("out", query(*streams))
        self.sink = Log(shape)
        self.process = app.run("out", self.sink)

    def push(self, name: str, event: Any) -> None:
        """Push an event in; a number is a point then."""
        if isinstance(event, int):
            event = Point(event, {"k": 1, name: event})
        self.subjects[name].on_next(event)

    @property
    def out(self) -> list[int]:
        """Return the starts of the output rows."""
        return [time for batch in self.sink.batches for time in batch.start.tolist()]

    @property
    def cti(self) -> int:
        """The time up to which the query has answered."""
        return self.process.diagnostics().queries[0].cti

    def told(self, figure: str) -> dict[str, Any]:
        """A figure of each stream."""
        return {each.name: getattr(each, figure) for each in self.process.diagnostics().streams}

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *raised: object) -> None:
        self.process.dispose()


def joined(fast: rxt.Streamable, slow: rxt.Streamable) -> rxt.Streamable:
    """The first scenario: each reading with what is known of its sensor."""
    return fast.join(slow, on="k")


def united(fast: rxt.Streamable, slow: rxt.Streamable) -> rxt.Streamable:
    """The second scenario: two streams of uneven rate."""
    return fast.select("k").union(slow.select("k"))


PLACE = start(5, {"k": 1, "slow": 7})


def test_no_output_though_one_input_sees_lots_of_events() -> None:
    """“We may be in a situation when the query has no output, even though it sees lots of events.”

    “When there are no events in the stream there will not be any CTI generated. Hence, the join
    will issue output only according to the slower of its input.”
    """
    with Running(joined, {"fast": None, "slow": None}) as run:
        run.push("slow", PLACE)
        for time in range(10, 100):
            run.push("fast", time)
        assert (run.out, run.cti, run.told("cti")) == ([], 5, {"fast": 99, "slow": 5})
        run.push("slow", start(50, {"k": 2, "slow": 8}))
        assert (run.out, run.cti) == (list(range(10, 50)), 50)


def test_the_slower_stream_dictates_the_frequency_of_output() -> None:
    """“The frequency of output will be dictated by the slower stream.”"""
    with Running(united, {"fast": None, "slow": None}) as run:
        for time in range(100):
            run.push("fast", time)
            if time % 25 == 24:
                run.push("slow", time)
        told = {batch.cti for batch in run.sink.batches if batch.cti >= 0}
        assert told == {24, 49, 74, 99}


@pytest.mark.parametrize("query", [joined, united])
def test_with_an_import_the_faster_stream_does(query: Any) -> None:
    """“The slowest stream … is something that users might wish to avoid”: the import does."""
    imports = {"fast": None, "slow": "fast"}
    with Running(query, imports, policy=ADJUST, shape=rxt.EventShape.POINT) as run:
        run.push("slow", PLACE)
        for time in range(10, 100):
            run.push("fast", time)
            assert run.cti == time
        assert {*range(10, 99)} <= {*run.out}
        assert run.told("late_by_import") == {"fast": 0, "slow": 0}


def test_either_stream_may_be_the_faster_one() -> None:
    """“To also have Input1 import the CTIs of Input2 … would help in situations like the second.”

    “Where it is not known in advance which input stream has the fastest data rate.”
    """
    for faster, slower in ("one", "two"), ("two", "one"):
        with Running(united, {"one": "two", "two": "one"}, follows=EACH) as run:
            run.push(slower, 0)
            for time in range(10, 40):
                run.push(faster, time)
                assert run.told("cti") == {"one": time, "two": time}
            assert run.out == [0, *range(10, 39)]


def test_what_is_not_in_order_with_the_other_stream_is_dropped() -> None:
    """“Since we cannot lose CTI consistency some events may be dropped from the slow stream.”

    “This will happen if the two streams are not in order w.r.t. each other”: in order nothing is.
    """
    with Running(united, {"fast": None, "slow": "fast"}) as run:
        for name, time in ("fast", 1), ("slow", 2), ("fast", 3), ("slow", 3), ("fast", 8):
            run.push(name, time)
        assert run.told("late_by_import") == {"fast": 0, "slow": 0}
        run.push("slow", 7)  # in order among its own, and not with the fast one's
        run.push("slow", 9)
        run.push("fast", 10)
        assert run.told("late_by_import") == {"fast": 0, "slow": 1}
        assert run.out == [1, 2, 3, 3, 8, 9]


@pytest.mark.parametrize(("policy", "out"), [(DROP, []), (ADJUST, [20, 30])])
def test_edges_are_adjusted_instead_of_being_dropped(policy: Any, out: list[int]) -> None:
    """“When enqueueing edge events, instead of being dropped, they can be adjusted.”

    “To start at the latest CTI if the user chooses AdvanceTimePolicy.Adjust.” And then “the
    computation is still correct even if the start edge of the event is adjusted”.
    """
    with Running(joined, {"fast": None, "slow": "fast"}, policy=policy) as run:
        run.push("fast", 10)
        run.push("fast", 20)
        run.push("slow", PLACE)  # starts at 20 now
        run.push("fast", 30)
        run.push("fast", 40)
        assert run.out == out
        assert run.told("late_by_import") == {"fast": 0, "slow": 1}


def test_one_outlier_advances_time_too_far() -> None:
    """“Outlier events in one of the stream can cause the time to advance too far.”

    “This will lead to events from the second stream being dropped”: how many, is told.
    """
    loop = {"one": "two", "two": "one"}
    with Running(united, loop, follows=EACH) as run:
        for time in range(5):
            run.push("one", time)
            run.push("two", time)
        run.push("one", 1_000)
        for time in range(5, 10):
            run.push("one", time)
            run.push("two", time)
        assert run.told("late_by_import") == {"one": 0, "two": 5}
        late = {name: sum(each.values()) for name, each in run.told("late").items()}
        assert late == {"one": 5, "two": 5}


@given(st.integers(2, 9), st.data())
def test_a_loop_of_any_size_ends_and_loses_only_what_it_must(size: int, data: Any) -> None:
    """“It is possible to have circular loops of any size.”

    Whatever is pushed, one after the other: each stream has the highest CTI of all at once; an
    event is lost if, and only if, it lies before that, and the import has lost it if, and only if,
    its own stream's CTIs alone would have let it in.
    """
    names = [f"s{i}" for i in range(size)]
    arriving = data.draw(st.lists(st.tuples(st.sampled_from(names), st.integers(0, 20))))
    loop: dict[str, Any] = dict(zip(names, [*names[1:], names[0]], strict=True))
    app = rxt.Application("loop")
    subjects = {name: Subject[Any]() for name in names}
    for name in names:
        imports = rxt.AdvanceTimeImportSettings(loop[name])
        settings = rxt.AdvanceTimeSettings(EACH, imports, policy=DROP)
        source = rxt.from_observable(subjects[name], schema={"n": int}, advance_time=settings)
        app.define_stream(name, source)
    app.query("out", app.stream(names[0]).union(app.stream(names[1])))
    highest, own = -1, dict.fromkeys(names, -1)
    lost, by_import = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    with app.run("out", Log()) as process:
        for name, time in arriving:
            subjects[name].on_next(Point(time, {"n": 0}))
            lost[name] += time < highest
            by_import[name] += own[name] <= time < highest
            highest, own[name] = max(highest, time), max(own[name], time)
            assert {each.cti for each in process.diagnostics().streams} == {highest}
        told = {each.name: each for each in process.diagnostics().streams}
        assert {name: sum(told[name].late.values()) for name in names} == lost
        assert {name: told[name].late_by_import for name in names} == by_import
        process.dispose()


def test_a_cti_of_the_sources_own_goes_round_as_well() -> None:
    """“All the CTIs generated or enqueued by Input1 will appear to also be enqueued by Input2.”"""
    with Running(united, {"one": "two", "two": "one"}, follows=EACH) as run:
        run.push("one", Cti(7))
        assert run.told("cti") == {"one": 7, "two": 7}
        run.push("two", 9)
        assert run.told("cti") == {"one": 9, "two": 9}
