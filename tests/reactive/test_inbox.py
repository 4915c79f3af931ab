"""Events that wait in front of a subject's only subscriber: the verdicts of each at once."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
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
from rxtemporal.ingress.batch_verdicts import EventRun
from rxtemporal.reactive import inbox as inbox_module
from rxtemporal.reactive.inbox import Inbox
from rxtemporal.reactive.subjects import alternate
from rxtemporal.reactive.subscriber import HandOffObserver


class Gate:
    """Gate of a run that counts how often its query is woken."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.wakes = 0

    def is_owned(self) -> bool:
        """Return True if the calling thread has the lock."""
        return self.lock._is_owned()  # type: ignore[attr-defined,no-any-return]

    def notify_rows(self) -> None:
        """Count."""
        self.wakes += 1


class Waiting(HandOffObserver):
    """Observer in front of which events wait; keeps what it gets, runs as their events."""

    def __init__(self, most: int = 1_024) -> None:
        super().__init__()
        self.got: list[Any] = []
        self.runs = 0
        self.errors: list[BaseException] = []
        self.completed = False
        # called for what comes out of the inbox
        self.react: Callable[[Any], None] = lambda item: None
        self.gate = Gate()
        self._inbox = Inbox(self.gate, most, lambda: None, self.errors.append)
        self.lets_wait = True

    @property
    def wakes(self) -> int:
        """How often the query was woken."""
        return self.gate.wakes

    @property
    def inbox(self) -> Inbox | None:
        """The inbox."""
        return self._inbox if self.lets_wait else None

    @property
    def waiting(self) -> int:
        """The number of events that wait."""
        return len(self._inbox.items)

    def rest(self) -> None:
        """Judge what waits, as a query does that has nothing to do."""
        with self.gate.lock:
            self._inbox.rest()

    def work(self) -> None:
        """Be at work."""
        self._inbox.is_busy = True

    def accept_waiting(self, item: Any) -> None:
        """Keep an event, or the events of a run."""
        self.react(item)
        self.runs += type(item) is EventRun
        self.got += item.list_events() if type(item) is EventRun else [item]

    def on_next(self, item: Any) -> None:
        """Keep an item."""
        self.got.append(item)

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
    waiting = Waiting(data.draw(st.sampled_from([1, 2, 2, 3, 5, 30])))
    together.subscribe(waiting)
    for name, item in pushes:
        for subject in alone, together:
            (subject if name is None else subject.input(name)).on_next(item)
        asked = data.draw(st.sampled_from(["", "", "", "work", "rest", "stats", "late"]))
        if asked == "stats":
            assert subject_batches.counters(together) == subject_batches.counters(alone)
        elif asked == "late" and data.draw(st.integers(0, 20)) == 20:
            _ = together.late
        elif asked in ("work", "rest"):
            getattr(waiting, asked)()
    assert subject_batches.counters(together) == subject_batches.counters(alone)
    flat = subject_batches.flatten
    assert oracle.freeze(flat(waiting.got, shape)) == oracle.freeze(flat(out, shape))


def point(start: int) -> PointEvent:
    """Return a point whose payload is its start."""
    return PointEvent(start, {"value": start})


def feed() -> tuple[rxt.CtiSynchronizingSubjectAlternate, Waiting]:
    """Return a subject and the subscriber in front of which its events wait, after the first."""
    subject, waiting = rxt.CtiSynchronizingSubjectAlternate.create_point(0), Waiting()
    subject.subscribe(waiting)
    subject.on_next(point(0))
    assert waiting.got.pop() == point(0)
    return subject, waiting


def test_a_query_is_woken_by_a_cti_and_gets_many_events_at_once() -> None:
    """Rows wait for a CTI, and CTIs too while the query is at work; a full inbox is judged."""
    subject, waiting = feed()
    for start in range(60):
        subject.on_next(point(start))
    assert (waiting.waiting, waiting.wakes) == (60, 0)
    subject.on_next(Cti(10))
    subject.on_next(Cti(11))
    assert (waiting.waiting, waiting.wakes, waiting.got) == (62, 1, [])
    waiting.rest()
    assert (waiting.runs, len(waiting.got)) == (1, 62)
    subject.on_next(Cti(11))  # does not advance
    assert waiting.wakes == 1
    waiting.work()
    for start in range(11, 1_000):
        subject.on_next(point(start))
        subject.on_next(Cti(start))
    assert (waiting.runs, waiting.wakes) == (2, 1)
    waiting.rest()
    assert len(waiting.got) == 62 + 2 * 989 - 1


def test_what_waits_at_the_end_is_judged_many_at_once() -> None:
    """The end of time, which is not a time of a run, comes by itself behind it."""
    subject, waiting = feed()
    for start in range(60):
        subject.on_next(point(start))
    subject.on_completed()
    assert (waiting.runs, len(waiting.got), waiting.got[-1]) == (1, 61, Cti(rxt.MAX_TIME))
    assert waiting.completed


def test_a_subject_may_be_completed_by_who_gets_an_event() -> None:
    """The rows that wait behind that event are not late."""
    subject, waiting = feed()
    waiting.react = lambda item: subject.on_completed() if item == point(0) else None
    for start in range(3):
        subject.on_next(point(start))
    thread = threading.Thread(target=waiting.rest)
    thread.start()
    thread.join(20)
    assert waiting.got == [*map(point, range(3)), Cti(rxt.MAX_TIME)]
    assert subject.stats().late == 0


@pytest.mark.usefixtures("runs_of_two")
def test_one_event_behind_many_is_judged_by_their_ctis() -> None:
    """A late event is late whichever way it is judged, and whichever way the CTI was."""
    subject, waiting = feed()
    for item in point(1), Cti(10), point(5), point(12):
        subject.on_next(item)
    waiting.rest()
    subject.on_next(point(6))
    waiting.rest()
    assert waiting.got == [point(1), Cti(10), point(12)]
    assert (waiting.runs, subject.stats().late, subject.stats().largest_lateness) == (1, 2, 5)


@pytest.mark.parametrize("change", ["second", "late", "leave", "dispose", "completed", "batch"])
def test_what_has_waited_comes_before_a_change(change: str) -> None:
    """A change of the subscribers, and an item of another kind, finds nothing that waits."""
    subject, waiting = rxt.CtiSynchronizingSubjectAlternate.create_point(0), Waiting()
    subscription = subject.subscribe(waiting)
    for start in 4, 5:
        subject.on_next(point(start))
    assert (waiting.got, waiting.waiting) == ([point(4)], 1)
    second: list[Any] = []
    batch = rxt.EventBatch.from_polars(
        pl.DataFrame({"at": [6], "value": [6]}), start="at", end=None, cti=rxt.MIN_TIME
    )
    changes: dict[str, Any] = {
        "second": lambda: subject.subscribe(second.append),
        "late": lambda: subject.late,
        "leave": subscription.dispose,
        "dispose": subject.dispose,
        "completed": subject.on_completed,
        "batch": lambda: subject.on_next(batch),
    }
    changes[change]()
    assert waiting.got[:2] == [point(4), point(5)]
    assert waiting.completed is (change == "completed")
    if change not in ("dispose", "completed"):
        subject.on_next(point(7))
        assert subject.stats().events == 3 + (change == "batch")
    if change in ("second", "late"):
        assert waiting.got[2:] == [point(7)]
    assert second == ([point(7)] if change == "second" else [])


def test_events_wait_again_behind_a_batch_and_when_others_have_left() -> None:
    """Each event comes at once only as long as there is a reason."""
    subject, waiting = feed()
    other = subject.subscribe(print)
    subject.on_next(point(1))
    assert waiting.got == [point(1)]
    other.dispose()
    subject.on_next(point(2))
    assert waiting.got == [point(1), point(2)]
    subject.on_next(point(3))
    assert (len(waiting.got), waiting.waiting) == (2, 1)
    waiting.lets_wait = False
    waiting._inbox.close()
    for start in 4, 5:
        subject.on_next(point(start))
    assert (len(waiting.got), waiting.waiting) == (5, 0)


def test_an_event_that_finds_the_inbox_closed_is_judged_at_once_by_its_own_thread() -> None:
    """The inbox may be closed between the look at it and the append."""
    subject, waiting = feed()
    inbox = waiting._inbox
    source = subject.input("a")._source

    class Closing(list[Any]):
        """Items of an inbox that is closed while one is appended, and found by another event."""

        def append(self, item: Any) -> None:
            """Append an item, too late."""
            inbox.close()
            super().append(item)

        def extend(self, items: Any) -> None:
            """Append an item and its source, too late."""
            inbox.close()
            super().extend(items)

    inbox.items = Closing()
    subject.on_next(point(1))
    assert (waiting.got, waiting.waiting) == ([point(1)], 0)
    subject.on_next(point(2))  # the inbox is open again, and closed again
    assert inbox.is_open is True
    subject.on_next(point(3), source)
    assert (waiting.got, waiting.waiting) == ([point(n) for n in (1, 2, 3)], 0)
    assert subject.stats().sources["a"].events == 1


def test_what_interrupts_a_judgement_fails_the_run() -> None:
    """Events may be lost then, so that the results would be wrong."""
    subject, waiting = feed()

    def interrupt(item: Any) -> None:
        raise KeyboardInterrupt

    waiting.react = interrupt
    subject.on_next(point(1))
    assert subject.stats().events == 2
    assert [type(error) for error in waiting.errors] == [KeyboardInterrupt]
    assert waiting._inbox._is_judging is False


def test_the_main_thread_judges_nothing_itself() -> None:
    """A handler of a signal in the middle of a judgement would overtake the events in hand."""
    subject, waiting = feed()
    threads: list[threading.Thread] = []
    waiting.react = lambda item: threads.append(threading.current_thread())
    subject.on_next(point(1))
    assert subject.stats().events == 2
    subject.on_next(point(2))
    subject.on_completed()
    assert waiting.got[:2] == [point(1), point(2)]
    assert waiting.completed
    assert threading.main_thread() not in threads
    with waiting.gate.lock:
        assert subject.stats().events == 3


def test_a_judgement_may_ask_for_counters_and_close_the_inbox() -> None:
    """A handler of the log may: it finds what has been judged so far, and nothing is left."""
    subject, waiting = feed()
    counted: list[int] = []

    def ask(item: Any) -> None:
        if not counted:
            counted.append(subject.stats().events)
            subject.on_next(point(3))
            _ = subject.late

    waiting.react = ask
    for start in 1, 2:
        subject.on_next(point(start))
    assert subject.stats().events == 4
    assert counted == [2]
    assert (waiting.got, waiting.waiting) == ([point(1), point(2), point(3)], 0)


def test_who_asks_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two observers that hold the locks of two runs may ask each other's subjects."""
    monkeypatch.setattr(inbox_module, "ASK_SECONDS", 0.05)
    subject, waiting = feed()
    subject.on_next(point(1))
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        with waiting.gate.lock:
            held.set()
            go.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(20)
    assert subject.stats().events == 1
    go.set()
    holder.join()
    assert subject.stats().events == 2


def test_the_same_event_may_be_pushed_by_two_sources() -> None:
    """Each takes its own back."""
    inbox, source, event = Waiting()._inbox, object(), point(1)
    inbox.append(event, source)
    inbox.append(event, None)
    assert inbox.take_back(event, source) is True
    assert inbox.items == [event]
    assert inbox.take_back(event, source) is False
    assert inbox.take_back(event, None) is True


def test_a_subject_forgets_a_run_that_has_left() -> None:
    """A failed run would stay in memory."""
    subject, waiting = rxt.CtiSynchronizingSubjectAlternate.create_point(0), Waiting()
    subscription = subject.subscribe(waiting)
    for start in 1, 2:
        subject.on_next(point(start))
    left = weakref.ref(waiting)
    subscription.dispose()
    del waiting, subscription
    gc.collect()
    assert left() is None
    assert subject.stats().events == 2
