"""Sentences of *Advancing Application Time*, each quoted by the test that pins it.

Those about policies, liveliness and CTIs in operators are in ``test_documents_time.py``.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from document_events import END_OF_TIME, Cti, Interval, Point, Unsized, end, generated, start
from reactivex.subject import Subject
from runs import SOON, Log

import rxtemporal as rxt
from rxtemporal import agg

PACKAGE = Path(rxt.__file__).parent
ADJUST, DROP = rxt.AdvanceTimePolicy.ADJUST, rxt.AdvanceTimePolicy.DROP
Generation, Settings = rxt.AdvanceTimeGenerationSettings, rxt.AdvanceTimeSettings
POINT = rxt.EventShape.POINT


def ctis(stream: rxt.Streamable) -> list[Any]:
    """The CTIs that come out, but for the end of time."""
    out = stream.to_events(rxt.EventShape.EDGE, ctis=True)
    return [event for event in out if isinstance(event, Cti) and event != END_OF_TIME]


# Understanding the temporal model -----------------------------------------------------------------


@pytest.mark.parametrize("folder", ["engine", "operators"])
def test_operators_never_look_at_the_clock(folder: str) -> None:
    """“Operators refer to the timestamp of the events and never to the system clock.”"""
    paths = list((PACKAGE / folder).rglob("*.py"))
    assert len(paths) > 20
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert "time" not in [each.name for each in node.names], path
            if isinstance(node, ast.ImportFrom):
                assert node.module not in ("time", "rxtemporal.reactive.clock"), path
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("now", "utcnow", "today", "perf_counter"), path


def test_results_do_not_depend_on_the_order_of_arrival() -> None:
    """“Ensures that results do not depend on the order in which events arrive.”

    “Advance application time with some slack to allow out-of-order events to trickle in.” With a
    slack of four every order of these five points gives the same answer, in the order of time.
    """
    points = [Point(time, "x") for time in (4, 5, 6, 7, 8)]

    def counted(arriving: Any) -> list[Any]:
        stream = rxt.from_events(Unsized(*arriving), advance_time=generated(1, 4))
        return stream.tumbling_window(3).aggregate(n=agg.count()).to_events()

    assert counted(points) == [
        Interval(3, 6, {"n": 2}),
        Interval(6, 9, {"n": 3}),
    ]
    assert all(counted(each) == counted(points) for each in permutations(points))


def test_results_emerge_as_time_progresses() -> None:
    """“Results emerge from StreamInsight queries as they are finalized by the progress of time.”

    And “it is crucial to enqueue CTIs along with events … in order to produce any result and to
    flush the state of stateful operators”: until one comes there is no result and all is held.
    """
    source: Subject[Any] = Subject()
    stream = rxt.from_observable(source, schema={"payload": int})
    sink = Log()
    with stream.tumbling_window(10).aggregate(payload=agg.count()).run(sink) as process:
        for time in 1, 4, 12:
            source.on_next(Point(time, time))
        assert (sink.rows, process.diagnostics().streams[0].rows) == ([], 3)
        source.on_next(Cti(10))
        assert sink.rows == [2]
        assert process.diagnostics().streams[0].rows == 0
        source.on_next(Cti(20))
        assert sink.rows == [2, 1]
        assert sum(each.rows for each in process.diagnostics().operators) == 0
        source.on_completed()


# Current time increments --------------------------------------------------------------------------


def test_what_lies_before_a_cti_does_not_change_any_more() -> None:
    """“Certain parts of the timeline will not change anymore.”

    What came out before a CTI stays, whatever legal event comes after it.
    """
    before = [start(1, "a"), Interval(2, 6, "b"), Cti(5)]
    for after in [], [end(1, 5, "a")], [Point(5, "c"), end(1, 9, "a")], [Interval(7, 8, "d")]:
        stream = rxt.from_events([*before, *after], schema={"payload": str})
        rows = stream.snapshot_window().aggregate(n=agg.count()).to_polars(time="ticks").rows()
        cut = [(first, min(last or 5, 5), n) for first, last, n in rows if first < 5]
        assert cut == [(1, 2, 1), (2, 5, 2)]


class Enqueues:
    """An adapter that sends CTIs of its own, as it sends events."""

    def create(self, config: Any, shape: Any) -> Any:
        """Return the events of the configuration."""
        return iter(config)


def test_an_adapter_enqueues_ctis_as_it_enqueues_events() -> None:
    """“Enqueue CTIs programmatically through the input adapter, analogous to enqueueing events.”"""
    events = [Point(1, "a"), Cti(2), Point(3, "b"), Cti(9)]
    stream = rxt.Application("enqueued").create_stream("in", Enqueues, events, POINT)
    assert stream.to_events(POINT, ctis=True) == [*events, END_OF_TIME]


def test_an_import_is_for_the_binding_alone() -> None:
    """“Define a separate input stream as a CTI source. This can only be specified in the binding.”

    What an adapter declares has a generation and a policy, and “requires both”.
    """
    with pytest.raises(TypeError, match="imports"):
        rxt.AdapterAdvanceTimeSettings(imports="clock", policy=DROP)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="policy"):
        rxt.AdapterAdvanceTimeSettings(Generation(1, 0))  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="generation"):
        rxt.AdapterAdvanceTimeSettings(policy=DROP)  # type: ignore[call-arg]


def test_a_policy_has_to_be_given() -> None:
    """“Whenever methods 2 and 3 are implemented, a policy … must be implemented as well.”"""
    for given in (Generation(1, 0),), (None, rxt.AdvanceTimeImportSettings("clock")):
        with pytest.raises(TypeError, match="policy"):
            Settings(*given)  # type: ignore[call-arg]


# CTI generation -----------------------------------------------------------------------------------


@pytest.mark.parametrize("frequency", [0, -1, timedelta(0), timedelta(seconds=-1)])
def test_a_frequency_is_positive(frequency: Any) -> None:
    """“Specified either as a positive integer N or as a time span T”: zero says nothing."""
    with pytest.raises(rxt.AdvanceTimeError, match="frequency must be positive, got"):
        Generation(frequency, 0)


@pytest.mark.parametrize("frequency", [1.5, "10", None, True])
def test_a_frequency_is_a_number_or_a_span(frequency: Any) -> None:
    """A value that is neither is refused at once."""
    message = "a number of events, a timedelta or a text such as '1s', got|is not a span of time"
    with pytest.raises(rxt.AdvanceTimeError, match=message):
        Generation(frequency, 0)


def test_a_cti_after_a_span_of_time() -> None:
    """“Inserts a CTI after the occurrence of the event count (N) or time span (T).”"""
    points = [Point(time, "x") for time in (1, 5, 10, 11, 12, 30, 39, 40)]
    ten = generated(timedelta(microseconds=10), 0, to_infinity=False)
    assert ctis(rxt.from_events(Unsized(*points), advance_time=ten)) == [
        Cti(1),
        Cti(11),
        Cti(30),
        Cti(40),
    ]


def test_the_delay_counts_from_the_last_event() -> None:
    """“The timestamp … is specified as a delay with respect to the last received event.”

    The last one to come, that is, even if it is not the latest in time.
    """
    points = [Point(time, "x") for time in (10, 20, 12)]
    stream = rxt.from_events(Unsized(*points), advance_time=generated(3, 2, to_infinity=False))
    assert ctis(stream) == [Cti(10)]


def test_a_cti_with_every_event_and_no_delay() -> None:
    """“Generate and insert a CTI with every event, with the timestamp of the event (no delay).”

    “This produces CTIs with the exact same timestamp of each point event.”
    """
    points = [Point(time, "x") for time in (3, 7, 8)]
    settings = Settings(Generation(1, timedelta(0), False), None, policy=ADJUST)
    assert ctis(rxt.from_events(Unsized(*points), advance_time=settings)) == [
        Cti(3),
        Cti(7),
        Cti(8),
    ]


def test_a_query_releases_its_result_only_up_to_the_most_recent_cti() -> None:
    """“The entire query will release its result only up to the most recent CTI.”"""
    points = [Point(time, "x") for time in (1, 5, 8)]
    stream = rxt.from_events(Unsized(*points), advance_time=generated(1, 3, to_infinity=False))
    out = stream.snapshot_window().aggregate(n=agg.count()).to_events(ctis=True)
    assert out == [Cti(-2), Interval(1, 2, {"n": 1}), Cti(2), Cti(5)]


# Settings of adapters and of bindings -------------------------------------------------------------


class Declares:
    """A factory that derives its settings from the configuration, and notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any, Any]] = []

    def create(self, config: Any, shape: Any) -> Iterator[Any]:
        """Return the events."""
        self.asked.append(("create", config, shape))
        return iter(config["events"])

    def declare_advance_time_properties(self, config: Any, shape: Any) -> Any:
        """As late as the configuration says that events may be."""
        self.asked.append(("declare", config, shape))
        return rxt.AdapterAdvanceTimeSettings(Generation(1, config["slack"], False), DROP)


@pytest.mark.parametrize(("slack", "kept"), [(0, [10, 12]), (3, [10, 8, 12, 9])])
def test_an_adapter_derives_its_settings_from_its_configuration(
    slack: int, kept: list[int]
) -> None:
    """“This allows the adapter author to derive the correct CTI generation settings.”

    The method is called “with the same configuration structure and event shape parameter specified
    in the corresponding Create() method call”.
    """
    config = {"slack": slack, "events": [Point(t, t) for t in (10, 8, 12, 9)]}
    factory = Declares()
    stream = rxt.Application("declared").create_stream("in", factory, config, POINT)
    assert [event.start for event in stream.to_events(POINT)] == kept
    assert [(what, given is config, shape) for what, given, shape in factory.asked] == [
        ("declare", True, POINT),
        ("create", True, POINT),
    ]


def test_the_constructor_takes_three_arguments() -> None:
    """“Takes the following three arguments”: generation, import, and the violation policy."""
    # what the library adds comes behind them, by name
    first = list(inspect.signature(Settings).parameters)[:3]
    assert first == ["generation", "imports", "policy"]
    signature = inspect.signature(Generation)
    assert list(signature.parameters)[:2] == ["frequency", "delay"]
    assert list(signature.parameters)[2] == "advance_to_infinity_on_shutdown"


def test_generation_and_import_together() -> None:
    """“In addition, they can be specified together.”"""
    one, two = Subject[Any](), Subject[Any]()
    clock = rxt.from_observable(one, schema={"payload": int}, name="clock")
    both = Settings(Generation(1, 0), rxt.AdvanceTimeImportSettings("clock"), policy=DROP)
    stream = rxt.from_observable(two, schema={"payload": int}, advance_time=both)
    sink = Log(POINT)
    app = rxt.Application("both")
    app.define_stream("clock", clock)
    app.query("out", app.define_stream("in", stream))
    with app.run("out", sink) as process:
        two.on_next(Point(3, 3))
        assert process.diagnostics().queries[0].cti == 3
        one.on_next(Cti(8))
        assert process.diagnostics().queries[0].cti == 8
        two.on_next(Point(5, 5))  # late by the import
        two.on_next(Point(11, 11))
        assert process.diagnostics().queries[0].cti == 11
        one.on_completed()
        two.on_completed()
    assert sink.rows == [3, 11]


def test_settings_are_the_optional_last_parameter() -> None:
    """“Can be passed as an optional last parameter to the CepStream.Create() method.”

    “It can also be used in the query binder development model.”
    """
    events = [Point(5, "x"), Point(3, "late")]
    settings = Settings(Generation(1, 0), None, policy=DROP)
    for bind in (
        rxt.Application("a").create_stream,
        rxt.QueryBinder(rxt.Application("b")).bind_producer,
    ):
        assert [e.start for e in bind("in", Enqueues, events, POINT).to_events()] == [3, 5]
        given = bind("filterInput", Enqueues, events, POINT, settings)
        assert [e.start for e in given.to_events()] == [5]


def test_the_documents_example_of_an_import() -> None:
    """“The slow input stream is synchronized to the fast stream by importing its CTIs.”

    “The application time handling of the fast stream is considered to happen in the adapter.” So
    that “the join produce[s] output as fast as its fastest input”, its second row leaves before
    the reference stream has sent anything after its first.
    """
    app = rxt.Application("lookup")
    fast = {"slack": 0, "events": [Point(t, {"k": 1, "t": t}) for t in (10, 20, 30)]}
    data = app.create_stream("dataStream", Declares(), fast, POINT, schema={"k": int, "t": int})
    lookup = app.create_stream(
        "lookupStream",
        Enqueues,
        [start(5, {"k": 1, "room": "hall"})],
        rxt.EventShape.EDGE,
        Settings(None, rxt.AdvanceTimeImportSettings("dataStream"), policy=ADJUST),
        schema={"k": int, "room": str},
    )
    app.query("joined", data.join(lookup, on="k"))
    sink = Log()
    app.run("joined", sink).wait(SOON)
    rows = [row for batch in sink.batches for row in batch.to_polars("ticks").rows()]
    assert rows == [(10, 11, 1, 10, "hall"), (20, 21, 1, 20, "hall")]
