"""Subjects: against the oracle, against each other, and the promises that a host relies on."""

from __future__ import annotations

import threading
from typing import Any

import oracle
import physical
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from reactivex.internal import DisposedException
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal import AdvanceTimePolicy, Cti, EdgeEvent, IntervalEvent, LateReason, PointEvent

BOTH = (rxt.CtiSynchronizingSubject, rxt.CtiSynchronizingSubjectAlternate)
both = pytest.mark.parametrize("kind", BOTH)


def create(kind: Any, shape: str, delay: int, policy: AdvanceTimePolicy) -> Any:
    """Return a subject of this kind and shape."""
    return getattr(kind, f"create_{shape}")(delay, policy=policy)


def play(subject: Any, items: list[tuple[str | None, tuple[Any, ...]]]) -> tuple[Any, Any]:
    """Push named items through and complete; return what came out, and what was late."""
    out: list[Any] = []
    late: list[Any] = []
    subject.subscribe(out.append)
    subject.late.subscribe(late.append)
    for name, item in items:
        into = subject if name is None else subject.input(name)
        into.on_next(physical.event(item))
    subject.on_completed()
    return physical.tuples(out), [
        (physical.tuples([each.event])[0], each.cti, each.reason.value) for each in late
    ]


@pytest.mark.parametrize("policy", list(AdvanceTimePolicy))
@given(data=st.data())
def test_oracle(policy: AdvanceTimePolicy, data: st.DataObject) -> None:
    """Events out, late events and their reasons are those of the plain per-event model.

    The subject of Rx operators and the fused one count the same.
    """
    shape = data.draw(st.sampled_from(strategies.SHAPES))
    items = data.draw(strategies.named_arrivals(shapes=[shape]))
    delay = data.draw(st.integers(0, 8))
    expected, late = oracle.cti_synchronizing_subject(items, delay, policy.value, completed=True)
    reasons = [(each.event, each.cti, each.reason) for each in late]
    subjects = [create(kind, shape, delay, policy) for kind in BOTH]
    for subject in subjects:
        assert oracle.freeze(play(subject, items)) == oracle.freeze((expected, reasons))
    assert subjects[0].stats() == subjects[1].stats()


@both
def test_payload_is_the_same_object(kind: Any) -> None:
    """Any payload passes, an object without hash too, and comes out the same object."""
    payload = bytearray(b"x")
    subject = kind.create_edge(0, policy=AdvanceTimePolicy.ADJUST)
    out: list[Any] = []
    subject.subscribe(out.append)
    start = EdgeEvent.create_start(1, payload)
    for event in start, Cti(5), EdgeEvent.create_end(1, 3, payload):
        subject.on_next(event)
    assert out[0] is start
    assert out[2] == EdgeEvent.create_end(1, 5, payload)
    assert all(event.payload is payload for event in (out[0], out[2]))


@both
def test_adjusted_interval_keeps_its_payload_object(kind: Any) -> None:
    """ADJUST moves a start to the CTI and keeps end and payload."""
    payload = object()
    subject = kind.create_interval(0, policy=AdvanceTimePolicy.ADJUST)
    out: list[Any] = []
    subject.subscribe(out.append)
    for event in Cti(5), IntervalEvent(2, 9, payload), IntervalEvent(1, 5, payload):
        subject.on_next(event)
    assert out == [Cti(5), IntervalEvent(5, 9, payload)]
    assert out[1].payload is payload


@both
def test_inputs_come_and_go(kind: Any) -> None:
    """An input that completes, fails or sends the end of time closes alone; the others go on."""
    subject = kind.create_point(0)
    out: list[Any] = []
    ended: list[str] = []
    subject.subscribe(out.append, lambda error: ended.append("error"), lambda: ended.append("done"))
    a, b, c = (subject.input(name) for name in "abc")
    a.on_completed()
    b.on_error(RuntimeError("gone"))
    c.on_next(Cti(rxt.MAX_TIME))
    subject.input("d").on_next(PointEvent(1, "on"))
    assert out == [PointEvent(1, "on")]
    assert not ended
    assert [handle.closed for handle in (a, b, c)] == [True] * 3
    assert subject.stats().cti is None
    assert subject.stats().sources["b"].failed == "RuntimeError('gone')"


@both
def test_a_cti_at_the_beginning_of_time_is_none(kind: Any) -> None:
    """It promises nothing, and a subject that goes on from a log would not know it."""
    subject = kind.create_point(3)
    subject.on_next(Cti(rxt.MIN_TIME + 3))
    assert subject.stats().cti is None
    subject.on_next(Cti(rxt.MIN_TIME + 4))
    assert subject.stats().cti == rxt.MIN_TIME + 1


@both
def test_closed_input_refuses(kind: Any) -> None:
    """A closed input refuses events, and says how to open it again."""
    subject = kind.create_point(0)
    with subject.input("a") as a:
        a.on_next(PointEvent(1, "x"))
    with pytest.raises(rxt.BindingError, match=r"subject\.input\('a'\) opens it again"):
        a.on_next(PointEvent(2, "y"))
    subject.input("a").on_next(PointEvent(2, "y"))
    assert subject.stats().sources["a"].events == 2


@both
def test_rows_stay_open_for_a_return(kind: Any) -> None:
    """Closing an input leaves its rows open; under the same name their ends are matched."""
    subject = kind.create_edge(0)
    out: list[Any] = []
    subject.subscribe(out.append)
    with subject.input("a") as a:
        a.on_next(EdgeEvent.create_start(1, "x"))
    subject.input("b").on_next(EdgeEvent.create_end(1, 3, "x"))
    subject.input("a").on_next(EdgeEvent.create_end(1, 4, "x"))
    assert out == [EdgeEvent.create_start(1, "x"), EdgeEvent.create_end(1, 4, "x")]
    assert subject.stats().sources["b"].late_by_reason == {LateReason.NO_OPEN_ROW: 1}


@both
def test_close_with_end_ends_the_rows(kind: Any) -> None:
    """``close(end=t)`` ends what the input left open, at t or a tick after its start."""
    subject = kind.create_edge(0)
    out: list[Any] = []
    subject.subscribe(out.append)
    a = subject.input("a")
    a.on_next(EdgeEvent.create_start(1, "x"))
    a.on_next(EdgeEvent.create_start(9, "y"))
    a.close(end=5)
    assert out[2:] == [EdgeEvent.create_end(1, 5, "x"), EdgeEvent.create_end(9, 10, "y")]
    assert subject.stats().open_rows == 0


@both
def test_largest_lateness_is_the_delay_that_loses_nothing(kind: Any) -> None:
    """With the largest lateness seen as its delay the same events lose nothing."""
    items = [PointEvent(7, 0), Cti(9), PointEvent(2, 1), Cti(20), PointEvent(14, 2)]

    def lost(delay: int) -> rxt.subjects.inputs.SubjectStats:
        subject = kind.create_point(delay)
        for item in items:
            subject.on_next(item)
        return subject.stats()

    assert (lost(0).late, lost(0).largest_lateness) == (2, 7)
    assert lost(7).late == 0
    assert lost(6).late == 1


@both
def test_lag_is_behind_the_most_advanced_source(kind: Any) -> None:
    """A source's lag is how far its furthest time lies behind the furthest of any."""
    subject = kind.create_point(100)
    subject.input("a").on_next(PointEvent(30, 0))
    subject.input("b").on_next(PointEvent(10, 0))
    subject.input("b").on_next(Cti(12))
    assert {name: each.lag for name, each in subject.stats().sources.items()} == {
        "subject": None,
        "a": 0,
        "b": 18,
    }


@both
def test_re_entrance_keeps_the_order_for_every_subscriber(kind: Any) -> None:
    """Events pushed from inside an on_next follow when all have the current event."""
    subject = kind.create_point(0)
    seen: list[tuple[str, Any]] = []

    def first(event: Any) -> None:
        seen.append(("first", event))
        if isinstance(event, PointEvent):
            subject.on_next(Cti(event.start + 1))

    subject.subscribe(first)
    subject.subscribe(lambda event: seen.append(("second", event)))
    subject.on_next(PointEvent(1, "x"))
    point, cti = PointEvent(1, "x"), Cti(2)
    assert seen == [("first", point), ("second", point), ("first", cti), ("second", cti)]


@both
def test_threads_are_serialised(kind: Any) -> None:
    """Many threads push at once; every event is out or late, none twice, one at a time."""
    subject = kind.create_point(50)
    inside, overlaps, out = [0], [0], []

    def sink(event: Any) -> None:
        inside[0] += 1
        overlaps[0] += inside[0] > 1
        out.append(event)
        inside[0] -= 1

    subject.subscribe(sink)

    def source(number: int) -> None:
        with subject.input(f"source {number}") as handle:
            for time in range(500):
                handle.on_next(PointEvent(time, (number, time)))
                if time % 10 == 9:
                    handle.on_next(Cti(time))

    threads = [threading.Thread(target=source, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    points = [event.payload for event in out if isinstance(event, PointEvent)]
    ctis = [event.start for event in out if isinstance(event, Cti)]
    assert not overlaps[0]
    assert len(points) == len(set(points))
    assert len(points) + subject.stats().late == subject.stats().events == 8 * 500
    assert ctis == sorted(set(ctis))


@both
def test_subscribers_come_and_go(kind: Any) -> None:
    """A subscriber gets events while it is subscribed; a late one gets the end at once."""
    subject = kind.create_point(0)
    first: list[Any] = []
    subscription = subject.subscribe(first.append)
    subject.on_next(PointEvent(1, "x"))
    subscription.dispose()
    subject.on_next(PointEvent(2, "y"))
    subject.on_completed()
    done: list[str] = []
    subject.subscribe(None, None, lambda: done.append("done"))
    assert first == [PointEvent(1, "x")]
    assert done == ["done"]


@both
def test_completion_gives_the_end_of_time(kind: Any) -> None:
    """A completing subject sends a CTI at the end of time, completes, and ignores the rest."""
    subject = kind.create_point(5)
    seen: list[Any] = []
    subject.subscribe(seen.append, None, lambda: seen.append("done"))
    subject.on_completed()
    subject.on_completed()
    subject.on_next(PointEvent(1, "x"))
    assert seen == [Cti(rxt.MAX_TIME), "done"]


@both
def test_error_fails_the_whole_stream(kind: Any) -> None:
    """The subject's own on_error reaches every subscriber, once, and nothing comes after it."""
    subject = kind.create_point(0)
    errors: list[Exception] = []
    subject.subscribe(None, errors.append)
    failure = RuntimeError("broken")
    subject.on_error(failure)
    subject.on_error(RuntimeError("again"))
    assert errors == [failure]


@both
def test_disposed_subject_refuses(kind: Any) -> None:
    """After dispose nothing is delivered, and pushing or subscribing raises."""
    subject = kind.create_point(0)
    out: list[Any] = []
    subject.subscribe(out.append)
    subject.dispose()
    with pytest.raises(DisposedException):
        subject.on_next(PointEvent(1, "x"))
    with pytest.raises(DisposedException):
        subject.subscribe(out.append)
    assert not out


@both
def test_works_as_observer_and_observable(kind: Any) -> None:
    """A subject can be subscribed to an observable, and composed with pipe."""
    source: Subject[Any] = Subject()
    subject = kind.create_point(0)
    source.subscribe(subject)
    out: list[Any] = []
    subject.pipe().subscribe(out.append)
    source.on_next(PointEvent(1, "x"))
    assert out == [PointEvent(1, "x")]


def test_transform_subject_runs_its_transform_once() -> None:
    """Every subscriber shares one run of the transform; dispose releases input and output."""
    from reactivex import operators as rx

    runs: list[int] = []

    def transform(xs: Any) -> Any:
        runs.append(1)
        return xs.pipe(rx.map(lambda x: x + 1))

    subject = rxt.TransformSubject.create(transform)
    a: list[int] = []
    b: list[int] = []
    subject.subscribe(a.append)
    subject.subscribe(b.append)
    subject.on_next(1)
    assert (runs, a, b) == ([1], [2], [2])
    subject.dispose()
    with pytest.raises(DisposedException):
        subject.on_next(1)


def test_transform_subject_sends_a_failing_transform_to_on_error() -> None:
    """An exception in a transform goes to on_error, not to the producer."""
    from reactivex import operators as rx

    subject = rxt.TransformSubject.create(lambda xs: xs.pipe(rx.map(lambda x: 1 // x)))
    errors: list[Exception] = []
    subject.subscribe(None, errors.append)
    subject.on_next(0)
    assert isinstance(errors[0], ZeroDivisionError)
