"""A process that says how it is, to threads, callbacks and event loops, and is stopped by all."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from child_process import environment
from reactivex.subject import Subject
from runs import SOON, Log

import rxtemporal as rxt
from rxtemporal import Cti, PointEvent
from rxtemporal.errors import CtiViolationError, SchemaError

EVENTS = [PointEvent(1, 1), PointEvent(3, 3), Cti(4)]
LATE = PointEvent(2, 2)


def begin(
    sink: Any = None, name: str = "visits", **options: Any
) -> tuple[Subject[Any], rxt.Process]:
    """A process of one subject."""
    subject: Subject[Any] = Subject()
    stream = rxt.from_observable(subject, schema={"payload": int})
    return subject, stream.run(sink or Log(), name=name, **options)


def within(seconds: float, act: Callable[[], object]) -> None:
    """Call a function in a thread of its own; fail if it takes longer than that, or raises."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "it hangs"
    for error in raised:
        raise error


def state(process: rxt.Process) -> tuple[bool, bool, BaseException | None]:
    """All that a process says of itself."""
    return process.running, process.ended, process.error


# States -----------------------------------------------------------------------------------------


def test_a_process_says_how_it_is() -> None:
    """It runs, ends, and its name and state are in its text."""
    subject, process = begin()
    assert state(process) == (True, False, None)
    assert repr(process) == "Process('visits', running, 0 events in, 0 late, 0 rows out)"
    subject.on_completed()
    process.wait(SOON)
    assert state(process) == (False, True, None)
    assert repr(process) == "Process('visits', ended, 0 events in, 0 late, 0 rows out)"


def test_a_failed_process_names_its_error() -> None:
    """The error is there when the push returns that brought it."""
    subject, process = begin()
    for event in (*EVENTS, LATE):
        subject.on_next(event)
    assert isinstance(process.error, CtiViolationError)
    assert not process.running
    assert repr(process).startswith("Process('visits', failed: CtiViolationError(")


def test_while_sinks_close_it_neither_runs_nor_has_ended() -> None:
    """An error is told at once, also by wait(0); an end without one is still to come."""
    go_on = threading.Event()
    subject, process = begin(Log(during={"close": lambda: go_on.wait(SOON)}))
    subject.on_completed()
    assert state(process) == (False, False, None)
    assert repr(process) == "Process('visits', ending, 0 events in, 0 late, 0 rows out)"
    assert process.wait(0) is False
    failed, broken = begin(Log(during={"close": lambda: go_on.wait(SOON)}))
    for event in (*EVENTS, LATE):
        failed.on_next(event)
    with pytest.raises(CtiViolationError):
        broken.wait(0)
    assert not broken.ended
    go_on.set()
    assert process.wait(SOON)
    with pytest.raises(CtiViolationError):
        broken.wait(SOON)
    assert broken.ended


# Callbacks --------------------------------------------------------------------------------------


def test_callbacks_are_called_once_in_order(caplog: pytest.LogCaptureFixture) -> None:
    """Each gets the process after its sinks are closed; one that raises is logged."""
    sink, told, all_told = Log(), list[Any](), threading.Event()
    subject, process = begin(sink)

    def bad(ended: rxt.Process) -> None:
        raise ZeroDivisionError("in the callback")

    process.add_done_callback(lambda ended: told.append((ended, sink.told[-1])))
    process.add_done_callback(bad)
    process.add_done_callback(lambda _: all_told.set())
    subject.on_completed()
    assert all_told.wait(SOON)
    assert told == [(process, "close")]
    assert "in the callback" in caplog.text
    process.stop()
    process.add_done_callback(lambda ended: told.append(ended))
    assert told[1:] == [process]


def test_a_callback_may_wait_stop_and_run_again() -> None:
    """Nothing that a process offers blocks inside of a callback of its end."""
    subject, process = begin()
    again: list[rxt.Process] = []

    def restart(ended: rxt.Process) -> None:
        ended.stop()
        assert ended.wait()
        again.append(begin()[1])
        done.set()

    done = threading.Event()
    process.add_done_callback(restart)
    within(SOON, process.stop)
    assert done.wait(SOON)
    assert again[0].running
    again[0].stop()
    assert not subject.observers


# Somebody is told -------------------------------------------------------------------------------


def test_an_error_that_nobody_waits_for_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """With a callback or a thread that waits there is no need to."""

    def list_errors(name: str) -> list[logging.LogRecord]:
        # the process of another test may just be logged, too
        errors = [each for each in caplog.records if each.levelno >= logging.CRITICAL]
        return [each for each in errors if f"process={name!r}" in each.getMessage()]

    for name, heard in (("unheard", False), ("heard", True)):
        subject, process = begin(name=name)
        ended = threading.Event()
        if heard:
            process.add_done_callback(lambda _, ended=ended: ended.set())  # type: ignore[misc]
        for event in (*EVENTS, LATE):
            subject.on_next(event)
        while not process.ended or (heard and not ended.is_set()):
            threading.Event().wait(0.001)
        errors = list_errors(name)
        while not heard and not errors:  # logged after the end is announced
            errors = list_errors(name)
        assert bool(errors) is not heard


def test_an_error_that_is_raised_is_not_logged_as_unheard(caplog: pytest.LogCaptureFixture) -> None:
    """run() raises what keeps it from starting, and a block that raises has its own error."""
    for _ in range(20):
        with pytest.raises(OSError, match="open"):
            begin(Log(raises="open"))
        with pytest.raises(KeyError), begin()[1]:
            raise KeyError("in the block")
    assert [each for each in caplog.records if each.levelno >= logging.CRITICAL] == []


def test_a_host_without_logging_sees_the_error() -> None:
    """The error of a process that nobody waits for is written to standard error alone."""
    code = """
from reactivex.subject import Subject
import rxtemporal as rxt
subject = Subject()
process = rxt.from_observable(subject, schema={"x": int}).run(rxt.Collect(), name="visits")
subject.on_next(rxt.PointEvent(1, {"x": "no number"}))
subject.on_next(rxt.Cti(2))
while not process.ended:
    pass
"""
    done = subprocess.run(
        [sys.executable, "-c", code + "import time; time.sleep(0.2)"],
        capture_output=True, text=True, env=environment(), timeout=SOON, check=True,
    )  # fmt: skip
    assert done.stdout == ""
    assert "process ended by an error" in done.stderr
    assert "visits" in done.stderr


# Event loops ------------------------------------------------------------------------------------


def test_a_process_can_be_awaited() -> None:
    """``await`` gives way to the loop until the end, any number of times."""

    async def main() -> None:
        subject, process = begin()
        waiting = [asyncio.create_task(_wait(process)) for _ in range(3)]
        await asyncio.sleep(0)
        subject.on_completed()
        await asyncio.wait_for(asyncio.gather(*waiting), SOON)
        await process

    asyncio.run(main())


async def _wait(process: rxt.Process) -> None:
    await process


def test_await_raises_the_error() -> None:
    """The run's error comes to whoever awaits it."""

    async def main() -> None:
        subject, process = begin()
        waiting = asyncio.create_task(_wait(process))
        await asyncio.sleep(0)
        for event in (*EVENTS, LATE):
            subject.on_next(event)
        with pytest.raises(CtiViolationError):
            await asyncio.wait_for(waiting, SOON)

    asyncio.run(main())


def test_a_cancelled_wait_does_not_stop_the_process() -> None:
    """A time-out of the one who awaits is none of the process."""

    async def main() -> None:
        subject, process = begin()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_wait(process), 0.01)
        assert process.running
        subject.on_completed()
        await process

    asyncio.run(main())


def test_a_loop_that_is_closed_does_not_keep_a_process_from_ending() -> None:
    """Nobody is woken in a loop that is gone."""
    subject, process = begin()

    async def main() -> None:
        asyncio.get_running_loop().create_task(_wait(process))
        await asyncio.sleep(0)

    asyncio.run(main())
    subject.on_completed()
    assert process.wait(SOON)


def test_async_with_waits_for_the_end() -> None:
    """Leaving the block waits in the loop, and raises the process's error."""

    async def main() -> None:
        sink = Log()
        subject, process = begin(sink)
        asyncio.get_running_loop().call_later(0.01, subject.on_completed)
        async with process as entered:
            assert entered is process
        assert sink.told[-1] == "close"
        subject, process = begin()
        for event in (*EVENTS, LATE):
            subject.on_next(event)
        with pytest.raises(CtiViolationError):
            async with process:
                pass

    asyncio.run(asyncio.wait_for(main(), SOON))


@pytest.mark.parametrize("how", ["raises", "cancelled"])
def test_async_with_stops_a_process_whose_block_raises(how: str) -> None:
    """An exception of the block or of the wait ends the process, and the sink is told."""

    async def main() -> None:
        sink = Log()
        _, process = begin(sink)

        async def block() -> None:
            async with process:
                if how == "raises":
                    raise KeyError("in the block")

        task = asyncio.create_task(block())
        await asyncio.sleep(0.01)
        if how == "cancelled":
            task.cancel()
        kind = KeyError if how == "raises" else asyncio.CancelledError
        with pytest.raises(kind):
            await task
        assert process.ended
        assert isinstance(sink.ended_by, kind)

    asyncio.run(asyncio.wait_for(main(), SOON))


# Stop -------------------------------------------------------------------------------------------

handed = pytest.mark.parametrize("hand_off", [None, rxt.HandOff(9)], ids=["direct", "hand-off"])
stored = pytest.mark.parametrize("stored", ["", "log", "resume"])


@stored
def test_stop_in_an_event_loop(tmp_path: Path, stored: str) -> None:
    """A process is stopped beside the loop, or in it: nobody hangs, also with an async source."""

    async def forever() -> Any:
        yield PointEvent(1, 1)
        await asyncio.sleep(3_600)

    async def main(beside: bool) -> None:
        stream = rxt.from_async(forever(), schema={"payload": int})
        where = {stored: tmp_path / str(beside)} if stored else {}
        process = stream.run(Log(), **where)
        await asyncio.sleep(0.01)
        if beside:
            await asyncio.to_thread(process.stop)
        else:
            process.stop()
        assert state(process) == (False, True, None)

    for beside in (True, False):
        within(SOON, lambda beside=beside: asyncio.run(main(beside)))  # type: ignore[misc]


@handed
@stored
def test_stop_from_a_sink(tmp_path: Path, hand_off: Any, stored: str) -> None:
    """A sink that stops its process from inside of a write is closed once, after that write."""
    running: list[rxt.Process] = []
    sink = Log(during={"write": lambda: running[0].stop()})
    subject: Subject[Any] = Subject()
    stream = rxt.from_observable(subject, schema={"payload": int}, hand_off=hand_off)
    running.append(stream.run(sink, **({stored: tmp_path} if stored else {})))
    within(SOON, lambda: [subject.on_next(event) for event in EVENTS])
    assert running[0].wait(SOON)
    assert sink.told == ["open", "write", "close"]


@handed
@stored
def test_stop_from_an_observer_of_late_events(tmp_path: Path, hand_off: Any, stored: str) -> None:
    """What is called under the lock of pushes may stop the process, too."""
    subject: Subject[Any] = Subject()
    drop = rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(1, 0), policy=rxt.AdvanceTimePolicy.DROP
    )
    stream = rxt.from_observable(
        subject, schema={"payload": int}, advance_time=drop, hand_off=hand_off
    )
    process = stream.run(Log(), **({stored: tmp_path} if stored else {}))
    process.late.subscribe(lambda late: process.stop())

    def push() -> None:
        subject.on_next(PointEvent(5, 5))
        subject.on_next(PointEvent(1, 1))

    within(SOON, push)
    assert process.wait(SOON)


@handed
def test_stop_from_a_timer_while_pushes_come_in(tmp_path: Path, hand_off: Any) -> None:
    """Pushes go on until they are refused, and all that were accepted are there at the end."""
    subject: Subject[Any] = Subject()
    stream = rxt.from_observable(subject, schema={"payload": int}, hand_off=hand_off)
    process = stream.run(Log(), resume=tmp_path)
    accepted: list[int] = []

    def push() -> None:
        for at in range(1_000_000):
            subject.on_next(PointEvent(at, at))
            accepted.append(at)

    def produce() -> None:
        with pytest.raises(rxt.ProcessEndedError):
            push()

    timer = threading.Timer(0.05, process.stop)
    timer.start()
    within(SOON, produce)
    assert process.wait(SOON)
    again: Subject[Any] = Subject()
    stream = rxt.from_observable(again, schema={"payload": int}, hand_off=hand_off)
    process = stream.run(Log(), resume=tmp_path)
    assert process.diagnostics().events_in == len(accepted)
    process.stop()


@handed
@stored
def test_many_threads_may_stop_at_once(tmp_path: Path, hand_off: Any, stored: str) -> None:
    """Each returns when all is over; the sink is closed once."""
    subject: Subject[Any] = Subject()
    stream = rxt.from_observable(subject, schema={"payload": int}, hand_off=hand_off)
    sink = Log()
    process = stream.run(sink, **({stored: tmp_path} if stored else {}))
    threads = [threading.Thread(target=process.stop, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
        assert not thread.is_alive()
    assert process.ended
    assert sink.told.count("close") == 1


def test_stop_of_a_process_that_has_failed_keeps_its_error() -> None:
    """The error is not lost with a stop that comes before it has gone through the query."""
    entered, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        entered.set()
        go_on.wait(SOON)

    subject: Subject[Any] = Subject()
    stream = rxt.from_observable(subject, schema={"payload": int}, hand_off=rxt.HandOff(9))
    process = stream.run(Log(during={"write": slow}))
    subject.on_next(PointEvent(1, 1))
    subject.on_next(Cti(2))
    assert entered.wait(SOON)
    subject.on_next(PointEvent(1, 1))  # breaks the CTI
    assert isinstance(process.error, CtiViolationError)
    stopper = threading.Thread(target=process.stop)
    stopper.start()
    go_on.set()
    stopper.join(SOON)
    with pytest.raises(CtiViolationError):
        process.wait(SOON)


def test_an_iterator_that_stops_its_own_process() -> None:
    """A source may end the process that reads it."""
    running: list[rxt.Process] = []
    started = threading.Event()

    def events() -> Iterator[Any]:
        yield PointEvent(1, 1)
        started.wait(SOON)
        running[0].stop()
        yield PointEvent(2, 2)

    running.append(rxt.from_events(events()).run(Log()))
    started.set()
    assert running[0].wait(SOON)


@handed
@pytest.mark.parametrize("stored", ["", "log"])
def test_stop_delivers_what_is_accepted(tmp_path: Path, hand_off: Any, stored: str) -> None:
    """Rows that a CTI has made final reach the sink, though their batch is not full."""
    subject: Subject[Any] = Subject()
    sink = Log()
    stream = rxt.from_observable(
        subject, schema={"payload": int}, batch_rows=1_000, hand_off=hand_off
    )
    process = stream.run(sink, **({stored: tmp_path} if stored else {}))
    for event in EVENTS:
        subject.on_next(event)
    process.stop()
    assert sink.rows == [1, 3]
    assert process.error is None


def test_stop_tells_of_a_bad_row_that_waited() -> None:
    """A payload that does not fit, found when the waiting rows are delivered, fails the process."""
    subject, process = begin()
    subject.on_next(PointEvent(1, "no number"))
    process.stop()
    with pytest.raises(SchemaError):
        process.wait(0)


def test_stop_tells_of_a_sink_that_cannot_be_closed() -> None:
    """A sink that could not be closed is a failure, though the process was stopped on purpose."""
    _, process = begin(Log(raises="close"))
    process.stop()
    with pytest.raises(OSError, match="the disk of close is full"):
        process.wait(0)
    assert isinstance(process.error, OSError)


def test_stop_delivers_what_is_accepted_beside_a_hand_off() -> None:
    """So it does for a stream without a hand-off in a run that has one."""
    for _ in range(20):
        one, two, sink = Subject[Any](), Subject[Any](), Log()
        first = rxt.from_observable(one, schema={"payload": int}, hand_off=rxt.HandOff(9))
        second = rxt.from_observable(two, schema={"payload": int}, batch_rows=1_000)
        process = first.union(second).run(sink)
        for event in EVENTS:
            one.on_next(event)
            two.on_next(event)
        process.stop()
        assert sink.rows == [1, 1, 3, 3]


def test_stop_ends_though_producers_are_faster_than_the_sink(tmp_path: Path) -> None:
    """Nothing more is accepted from the moment of stop() on, also where full means to spill."""
    pause = threading.Event()
    sink = Log(during={"write": lambda: pause.wait(0.01)})
    spill = rxt.HandOff(max_rows=20, when_full=rxt.WhenFull.SPILL)
    source = rxt.PushSource("visits", schema={"n": int}, hand_off=spill)
    process = source.stream.run(sink, resume=tmp_path)
    pushed = [0]

    def push() -> None:
        for first in range(0, 10**9, 50):
            source.push([{"time": first + n, "n": n} for n in range(50)])
            pushed[0] = first + 50

    def produce() -> None:
        with pytest.raises(rxt.ProcessEndedError):
            push()

    producer = threading.Thread(target=produce)
    producer.start()
    while not process.diagnostics().to_dict()["streams"][0]["hand_off"]["rows_spilled"]:
        pause.wait(0.001)
    within(SOON, process.stop)
    producer.join(SOON)
    again = rxt.PushSource("visits", schema={"n": int}, hand_off=spill)
    process = again.stream.run(Log(), resume=tmp_path)
    # of the push that was refused a part may have been accepted
    assert 0 <= process.diagnostics().events_in - pushed[0] < 50
    process.stop()
