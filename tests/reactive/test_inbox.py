"""Events that wait in front of a subject: the verdicts and counters of each at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import oracle
import polars as pl
import pytest
import strategies
import subject_batches
from hypothesis import given
from hypothesis import strategies as st

import rxtemporal as rxt
from rxtemporal import AdvanceTimePolicy, Cti, PointEvent
from rxtemporal.ingress.event_run import EventRun
from rxtemporal.reactive.inbox import Inbox
from rxtemporal.reactive.subjects import alternate
from rxtemporal.reactive.subscriber import HandOffObserver

FIELDS = {"value": pl.Int64}


class Waiting(HandOffObserver):
    """Observer that can wait, and keeps what it gets: runs as their events."""

    def __init__(self) -> None:
        super().__init__()
        self.got: list[Any] = []
        self.runs = 0
        self.completed = False
        self.inbox: Any = None

    takes_runs = True

    def use_inbox(self, inbox: Inbox) -> None:
        """Keep the inbox."""
        self.inbox = inbox

    def on_next(self, item: Any) -> None:
        """Keep an item, or the events of a run."""
        self.runs += type(item) is EventRun
        self.got += item.list_events() if type(item) is EventRun else [item]

    def on_error(self, error: Exception) -> None:
        """Raise what no test expects."""
        raise error

    def on_completed(self) -> None:
        """Note the end."""
        self.completed = True


@pytest.fixture
def runs_of_two(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Judge two events or more as columns."""
    with monkeypatch.context() as patch:
        patch.setattr(alternate, "LEAST", 2)
        yield


@pytest.mark.usefixtures("runs_of_two")
@pytest.mark.parametrize("policy", list(AdvanceTimePolicy))
@given(data=st.data())
def test_events_that_wait_are_judged_as_if_each_had_been_at_once(
    policy: AdvanceTimePolicy, data: st.DataObject
) -> None:
    """Output and counters are the same, however long events wait, and whoever asks for them."""
    shape = data.draw(st.sampled_from(["point", "interval"]))
    items = data.draw(strategies.named_arrivals(shapes=[shape]))
    delay = data.draw(st.integers(0, 8))
    pushes = data.draw(subject_batches.mix(items))
    kind = rxt.CtiSynchronizingSubjectAlternate
    make = getattr(kind, f"create_{shape}")
    alone, together = make(delay, policy=policy), make(delay, policy=policy)
    out: list[Any] = []
    alone.subscribe(out.append)
    waiting = Waiting()
    together.subscribe(waiting)
    waiting.inbox.most = data.draw(st.sampled_from([1, 2, 2, 3, 5, 30]))
    for name, item in pushes:
        for subject in alone, together:
            (subject if name is None else subject.input(name)).on_next(item)
        asked = data.draw(st.sampled_from(["", "", "", "busy", "release", "fetch", "stats"]))
        if asked == "busy":
            waiting.inbox.busy = True
        elif asked == "stats":
            assert subject_batches.counters(together) == subject_batches.counters(alone)
        elif asked:
            getattr(waiting.inbox, asked)()
    assert subject_batches.counters(together) == subject_batches.counters(alone)
    flat = subject_batches.flatten
    assert oracle.freeze(flat(waiting.got, shape)) == oracle.freeze(flat(out, shape))


def point(start: int) -> PointEvent:
    """A point whose payload is its start."""
    return PointEvent(start, {"value": start})


def test_a_run_that_is_busy_gets_many_events_at_once() -> None:
    """Rows wait for a CTI, and CTIs too while the run is at work."""
    subject, waiting = rxt.CtiSynchronizingSubjectAlternate.create_point(0), Waiting()
    subject.subscribe(waiting)
    for start in range(60):
        subject.on_next(point(start))
    assert not waiting.got
    subject.on_next(Cti(10))
    assert waiting.runs == 1
    assert len(waiting.got) == 61
    waiting.inbox.busy = True
    for start in range(10, 1_000):
        subject.on_next(point(start))
        subject.on_next(Cti(start))
    assert waiting.runs == 2
    assert len(waiting.got) == 61 + 1_024 - 1  # the first CTI does not advance
    waiting.inbox.release()
    assert len(waiting.got) == 61 + 2 * 990 - 1


@pytest.mark.usefixtures("runs_of_two")
def test_one_event_behind_many_is_judged_by_their_ctis() -> None:
    """A late event is late whichever way it is judged, and whichever way the CTI was."""
    subject, waiting = rxt.CtiSynchronizingSubjectAlternate.create_point(0), Waiting()
    subject.subscribe(waiting)
    subject.on_next(point(1))
    subject.on_next(Cti(10))
    subject.on_next(point(5))
    subject.on_next(point(12))
    waiting.inbox.fetch()
    subject.on_next(point(6))
    waiting.inbox.fetch()
    assert waiting.got == [point(1), Cti(10), point(12)]
    assert (waiting.runs, subject.stats().late, subject.stats().largest_lateness) == (2, 2, 5)


@pytest.mark.parametrize("change", ["second", "late", "dispose", "completed", "batch"])
def test_nothing_waits_behind_a_change(change: str) -> None:
    """What waited comes first, and from then on each event comes at once."""
    subject, waiting = rxt.CtiSynchronizingSubjectAlternate.create_point(0), Waiting()
    subject.subscribe(waiting)
    subject.on_next(point(5))
    assert not waiting.got
    second: list[Any] = []
    batch = rxt.EventBatch.from_polars(
        pl.DataFrame({"at": [6], "value": [6]}), start="at", end=None, cti=rxt.MIN_TIME
    )
    changes: dict[str, Any] = {
        "second": lambda: subject.subscribe(second.append),
        "late": lambda: subject.late,
        "dispose": subject.dispose,
        "completed": subject.on_completed,
        "batch": lambda: subject.on_next(batch),
    }
    changes[change]()
    assert waiting.got[0] == point(5)
    if change in ("second", "late"):
        subject.on_next(point(7))
        assert waiting.got[1:] == [point(7)]
    assert second == ([point(7)] if change == "second" else [])
    assert waiting.completed is (change == "completed")


def test_a_subscriber_that_leaves_takes_nothing_more() -> None:
    """The counters go on without it, and the next one gets what comes after."""
    subject, waiting = rxt.CtiSynchronizingSubjectAlternate.create_point(0), Waiting()
    subscription = subject.subscribe(waiting)
    subject.on_next(point(5))
    subscription.dispose()
    subject.on_next(point(6))
    got: list[Any] = []
    subject.subscribe(got.append)
    subject.on_next(point(7))
    assert (waiting.got, got, subject.stats().events) == ([], [point(7)], 3)


def test_what_waits_in_front_of_a_run_is_seen_saved_and_delivered() -> None:
    """Diagnostics count it, ``stop`` delivers it, and only a stream that asks nothing waits."""
    subject = rxt.CtiSynchronizingSubjectAlternate.create_point(0)
    stream = rxt.from_observable(subject, schema=FIELDS, hand_off=rxt.HandOff())
    sink = rxt.Collect(rxt.EventShape.POINT)
    process = stream.run(sink)
    for start in range(100):
        subject.on_next(point(start))
    counted = process.diagnostics().streams[0]
    assert (counted.events_in, subject.stats().events) == (100, 100)
    for start in range(100, 200):
        subject.on_next(point(start))
    subject.on_next(Cti(150))
    for start in range(200, 300):
        subject.on_next(point(start))
    process.stop()
    assert sum(len(batch) for batch in sink.batches) == 300


@pytest.mark.parametrize("threads", [1, 8])
def test_nothing_is_lost_between_a_query_and_those_who_push(threads: int) -> None:
    """Every event comes out once, in the order of its thread, while the query works and rests."""
    subject = rxt.CtiSynchronizingSubjectAlternate.create_point(rxt.MAX_TIME // 4)
    stream = rxt.from_observable(
        subject,
        schema={"thread": pl.Int64, "value": pl.Int64},
        hand_off=rxt.HandOff(max_rows=20_000),
    )
    sink, each = rxt.Collect(rxt.EventShape.POINT), 6_000 // threads

    def push(number: int) -> None:
        source = subject.input(f"source {number}")
        for value in range(each):
            source.on_next(PointEvent(value, {"thread": number, "value": value}))
            if value % 7 == 0:
                source.on_next(Cti(value))

    process = stream.run(sink)
    workers = [threading.Thread(target=push, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    subject.on_completed()
    assert process.wait(60)
    rows = list_rows(sink)
    assert len(rows) == threads * each
    for number in range(threads):
        assert [value for thread, value in rows if thread == number] == list(range(each))


def list_rows(sink: Any) -> list[tuple[int, int]]:
    """The payloads that a sink has got, in their order."""
    return [row for batch in sink.batches for row in batch.payload.rows()]
