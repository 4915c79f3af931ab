"""Events of a subject that wait in front of a hand-off: none is lost, and all are counted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import polars as pl
import pytest
import reactivex

import rxtemporal as rxt
from rxtemporal import Cti, PointEvent
from rxtemporal.run.pushed_stream import PushedStream

FIELDS = {"value": pl.Int64}
PATIENCE = 20.0


def point(start: int) -> PointEvent:
    """Return a point whose payload is its start."""
    return PointEvent(start, {"value": start})


class BlockedSink(rxt.Collect):
    """Sink whose first write waits until it is let go."""

    def __init__(self) -> None:
        super().__init__(rxt.EventShape.POINT)
        self.began, self.go = threading.Event(), threading.Event()

    def write(self, batch: rxt.EventBatch) -> None:
        """Keep a batch, and wait."""
        super().write(batch)
        self.began.set()
        assert self.go.wait(PATIENCE)


def list_values(sink: rxt.Collect) -> list[int]:
    """Return the payloads that a sink has got, in order."""
    return [value for batch in sink.batches for value in batch.payload["value"]]


def run(sink: rxt.Sink, **options: Any) -> tuple[Any, rxt.Process]:
    """Return a subject and a run of its events, behind a hand-off."""
    subject = rxt.CtiSynchronizingSubjectAlternate.create_point(rxt.MAX_TIME // 4)
    stream = rxt.from_observable(
        subject, schema=FIELDS, name="events", hand_off=rxt.HandOff(**options)
    )
    return subject, stream.run(sink, warn_after=None)


def push_all(subject: Any, starts: range) -> None:
    """Push points."""
    for start in starts:
        subject.on_next(point(start))


def list_waiting(subject: Any) -> list[Any]:
    """Return what waits in front of a subject."""
    return [] if subject._inbox is None else subject._inbox.items


def test_what_waits_is_counted_by_whoever_asks_and_delivered_by_the_end() -> None:
    """Counters include it, and ``stop`` delivers it."""
    sink = rxt.Collect(rxt.EventShape.POINT)
    subject, process = run(sink)
    push_all(subject, range(100))
    assert len(list_waiting(subject)) == 99
    diagnostics = process.diagnostics().streams[0]
    assert diagnostics.events_in == 100
    assert diagnostics.hand_off is not None
    assert diagnostics.hand_off.most_rows_waiting == 100
    push_all(subject, range(100, 200))
    assert len(list_waiting(subject)) == 100
    assert subject.stats().events == 200
    push_all(subject, range(200, 300))
    process.stop()
    assert list_values(sink) == list(range(300))


def test_what_waits_when_a_run_is_saved_is_in_its_state() -> None:
    """The state has the rows whose ``on_next`` had returned."""
    subject, process = run(rxt.Collect())
    push_all(subject, range(100))
    (reader,) = process._execution.readers
    with process._execution.pause():
        assert (list_waiting(subject), reader.door.rows + reader.meter.rows_out) == ([], 100)
    process.stop()


@pytest.mark.parametrize(
    "reason", ["schema", "batch_rows", "small", "linger", "served", "idle", "none"]
)
def test_events_wait_only_where_nobody_can_tell(reason: str) -> None:
    """A stream whose fields are found, or that asks for more, gets each event at once."""
    subject = rxt.CtiSynchronizingSubjectAlternate.create_point(0)
    options: dict[str, Any] = {
        "schema": None if reason == "schema" else FIELDS,
        "batch_rows": 2 if reason == "batch_rows" else 1,
        "hand_off": rxt.HandOff(
            max_rows=1_000 if reason == "small" else 10_000,
            linger=timedelta(milliseconds=1 if reason == "linger" else 0),
        ),
    }
    stream = rxt.from_observable(subject, name="events", **options)
    settings = rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(1, 0), policy=rxt.AdvanceTimePolicy.DROP
    )
    other = rxt.from_observable(
        reactivex.Subject(),
        schema=FIELDS,
        name="other",
        advance_time=settings,
        hand_off=None if reason == "served" else rxt.HandOff(),
    )
    process = stream.union(other).run(rxt.Collect(), warn_after=None)
    push_all(subject, range(2))
    if reason == "idle":
        process.declare_idle("other")
    push_all(subject, range(2, 4))
    assert len(list_waiting(subject)) == (3 if reason == "none" else 0)
    process.stop()


def test_no_more_rows_wait_than_the_hand_off_takes() -> None:
    """The bound holds for the events in front of the door, too; who is blocked is let go."""
    sink = BlockedSink()
    subject, process = run(sink, max_rows=5_000)
    subject.on_next(point(0))
    subject.on_next(Cti(rxt.MAX_TIME // 4 + 1))
    assert sink.began.wait(PATIENCE)
    pushed = 0

    def push() -> None:
        nonlocal pushed
        for start in range(2, 12_002):
            subject.on_next(point(start))
            pushed += 1

    producer = threading.Thread(target=push, daemon=True)
    producer.start()
    producer.join(0.5)
    assert pushed == 5_000
    hand_off = process.diagnostics().streams[0].hand_off
    assert hand_off is not None
    assert (hand_off.rows_waiting, hand_off.times_blocked) == (5_000, 1)
    sink.go.set()
    producer.join(PATIENCE)
    subject.on_completed()
    assert process.wait(PATIENCE)
    assert list_values(sink) == [0, *range(2, 12_002)]


def test_a_query_that_rests_and_a_batch_that_waits_for_room_do_not_wait_for_each_other() -> None:
    """The query's thread never waits for the subject's lock, under which a batch may wait."""
    sink = rxt.Collect(rxt.EventShape.POINT)
    subject, process = run(sink, max_rows=5_000)
    frame = pl.DataFrame({"at": [7] * 4_000, "value": [7] * 4_000})
    batch = rxt.EventBatch.from_polars(frame, start="at", end=None, cti=rxt.MIN_TIME)

    def push_batches() -> None:
        for _ in range(40):
            subject.on_next(batch)

    def push_events() -> None:
        for start in range(8_000):
            subject.on_next(point(start))
            if start % 10 == 0:
                subject.on_next(Cti(start))

    push_together([push_batches, push_events])
    subject.on_completed()
    assert process.wait(PATIENCE)
    values = list_values(sink)
    assert len(values) == 40 * 4_000 + 8_000


def push_together(pushes: list[Callable[[], None]]) -> None:
    """Call functions in threads of their own, and wait for all."""
    threads = [threading.Thread(target=push, daemon=True) for push in pushes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("asks", ["", "stats", "diagnostics", "batches", "observers"])
def test_every_event_comes_once_in_the_order_of_its_thread(threads: int, asks: str) -> None:
    """So it is while the query works and rests, and while others ask and come and go."""
    sink = rxt.Collect(rxt.EventShape.POINT)
    subject, process = run(sink, max_rows=20_000)
    each = 4_000 // threads

    def push(number: int) -> None:
        source = subject.input(f"source {number}")
        for value in range(each):
            source.on_next(PointEvent(value, {"value": number * each + value}))
            if value % 7 == 0:
                source.on_next(Cti(value))

    def ask() -> None:
        for number in range(100):
            if asks == "stats":
                subject.stats()
            elif asks == "diagnostics":
                process.diagnostics()
            elif asks == "batches":
                frame = pl.DataFrame({"at": [1], "value": [-1 - number]})
                subject.on_next(
                    rxt.EventBatch.from_polars(frame, start="at", end=None, cti=rxt.MIN_TIME)
                )
            elif asks == "observers":
                subject.subscribe(lambda item: None).dispose()

    workers: list[Callable[[], None]] = [ask]
    workers += [lambda number=number: push(number) for number in range(threads)]  # type: ignore[misc]
    push_together(workers)
    counted = subject.stats().events
    subject.on_completed()
    assert process.wait(PATIENCE)
    values = list_values(sink)
    mine = [value for value in values if value >= 0]
    assert counted == len(values)
    assert len(mine) == threads * each
    for number in range(threads):
        first = number * each
        expected = list(range(first, first + each))
        assert [value for value in mine if first <= value < first + each] == expected


def test_an_observer_of_late_events_and_a_sink_may_ask() -> None:
    """They run under the lock of the run, or in its query, and wait for nobody."""
    subject, sink = rxt.CtiSynchronizingSubjectAlternate.create_point(0), rxt.Collect()
    other = rxt.CtiSynchronizingSubjectAlternate.create_point(0)
    settings = rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(1, 0), policy=rxt.AdvanceTimePolicy.DROP
    )
    one = rxt.from_observable(subject, schema=FIELDS, name="one", hand_off=rxt.HandOff())
    two = rxt.from_observable(
        other, schema=FIELDS, name="two", hand_off=rxt.HandOff(), advance_time=settings
    )
    process = one.union(two).run(sink, warn_after=None)
    asked: list[int] = []
    process.late.subscribe(
        lambda late: asked.append(subject.stats().events + len(process.diagnostics().streams))
    )

    def push_late() -> None:
        other.on_next(point(1_000_000))
        for _ in range(200):
            other.on_next(point(1))

    def push() -> None:
        for start in range(2_000):
            subject.on_next(point(start))
            subject.on_next(Cti(start))

    push_together([push_late, push])
    process.stop()
    assert len(asked) == 200


def test_what_interrupts_a_judgement_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events may be lost then."""

    def interrupt(stream: PushedStream, item: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(PushedStream, "accept_waiting", interrupt)
    subject, process = run(rxt.Collect())
    push_all(subject, range(60))
    assert subject.stats().events == 60
    with pytest.raises(KeyboardInterrupt):
        process.wait(PATIENCE)
    assert isinstance(process.error, KeyboardInterrupt)
