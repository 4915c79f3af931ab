"""Locks in front of a run: a thread that Ctrl-C interrupts does not keep them."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import threading
from typing import Any

import pytest
from child_process import environment

import rxtemporal as rxt
from rxtemporal.run.hand_off.consumer import Consumer, ServingLock
from rxtemporal.run.hand_off.gate import Gate
from rxtemporal.run.run_end import RunEnd

INTERRUPTED = """
    import contextlib, json, random, signal, sys, threading
    from itertools import count
    from reactivex.subject import Subject
    import rxtemporal as rxt

    random.seed(1)
    WAY, ROUNDS = sys.argv[1], 40
    HAND_OFF = rxt.HandOff(max_rows=1_000) if "hand-off" in WAY else None
    FIELDS = {"x": int}

    class Discard(rxt.Sink):
        def write(self, batch):
            pass

    def make_event(number):
        return rxt.PointEvent(number, {"x": number}) if number % 10 else rxt.Cti(number)

    def begin():
        # the function that pushes a number, and the process of a run
        if "source" in WAY:
            source = rxt.PushSource("a", schema=FIELDS, start="t", delay=5, hand_off=HAND_OFF)
            push = lambda number: source.push({"t": number, "x": number})
            return push, source.stream.run(Discard())
        synchronizes = "synchronizing" in WAY
        alternate = rxt.CtiSynchronizingSubjectAlternate
        subject = alternate.create_point(delay=5) if synchronizes else Subject()
        push = lambda number: subject.on_next(make_event(number))
        if "alone" in WAY:
            return push, None
        given = {} if synchronizes else {"advance_time": 5}
        stream = rxt.from_observable(subject, schema=FIELDS, hand_off=HAND_OFF, **given)
        return push, stream.run(Discard())

    def ends_in_time(call):
        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        thread.join(20)
        return not thread.is_alive()

    def interrupt(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    for number in range(ROUNDS):
        push, process = begin()
        numbers = count(1)

        def push_one():
            with contextlib.suppress(rxt.ProcessEndedError):
                push(next(numbers) + 10)

        with contextlib.suppress(KeyboardInterrupt):
            # again, if it comes where Python only reports errors
            signal.setitimer(signal.ITIMER_REAL, 1e-3 + random.random() * 2e-3, 0.05)
            try:
                for each in numbers:
                    push(each)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        if not ends_in_time(push_one) or not (process is None or ends_in_time(process.stop)):
            print(json.dumps(f"stuck in round {number}"), flush=True)
            break
    else:
        print(json.dumps("free"), flush=True)
"""

WAYS = [
    "synchronizing subject alone",
    "synchronizing subject",
    "synchronizing subject, hand-off",
    "subject",
    "subject, hand-off",
    "source",
    "source, hand-off",
]


@pytest.mark.parametrize("way", WAYS)
def test_whoever_is_interrupted_in_a_push_keeps_no_lock(way: str) -> None:
    """Another thread goes on, and the run can be stopped by it."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(INTERRUPTED), way],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    assert json.loads(done.stdout) == "free"


def test_a_run_whose_end_was_interrupted_is_ended_by_the_next_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C comes when the process has noted that it ends, and no thread closes it yet."""
    source = rxt.PushSource("a", schema={"x": int})
    process = source.stream.run(rxt.Collect())

    def interrupt(_: threading.Thread) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupt)
    with pytest.raises(KeyboardInterrupt):
        process.stop()
    again = threading.Thread(target=process.stop, daemon=True)
    again.start()
    again.join(10)
    assert process.ended


class InterruptedLock:
    """Lock whose ``acquire`` is interrupted, with the lock or without it."""

    def __init__(self, lock: Any, acquires: bool) -> None:
        self._lock, self._acquires = lock, acquires
        self.release, self._is_owned = lock.release, lock._is_owned

    def acquire(self, *_: object) -> None:
        """Acquire the lock, perhaps, and be interrupted."""
        if self._acquires:
            self._lock.acquire()
        raise KeyboardInterrupt


def is_free(gate: Gate) -> bool:
    """Return True if another thread gets the gate."""
    got: list[bool] = []

    def try_it() -> None:
        if gate.lock.acquire(blocking=False):
            got.append(True)
            gate.lock.release()

    thread = threading.Thread(target=try_it)
    thread.start()
    thread.join()
    return bool(got)


@pytest.mark.parametrize("acquires", [True, False])
def test_an_interrupt_while_a_source_enters_leaves_the_gate_free(
    acquires: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a source without a hand-off, whose lock is entered in Python."""
    consumer = Consumer(RunEnd())
    lock = ServingLock(consumer)
    monkeypatch.setattr(lock, "bare", InterruptedLock(lock.bare, acquires))
    with pytest.raises(KeyboardInterrupt):
        lock.__enter__()
    assert is_free(consumer.gate)


def test_the_gate_counts_the_entries_of_a_thread() -> None:
    """With and without a function that tells the number."""

    class OldLock:
        def __init__(self) -> None:
            self._lock: Any = threading.RLock()
            self._is_owned = self._lock._is_owned

        def __repr__(self) -> str:
            return repr(self._lock)

        def __enter__(self) -> None:
            self._lock.acquire()

        def __exit__(self, *_: object) -> None:
            self._lock.release()

    for lock in (threading.RLock(), OldLock()):
        gate = Gate(RunEnd())
        gate.lock = lock
        counted = [gate.is_entered_once]
        with gate.lock:
            counted.append(gate.is_entered_once)
            with gate.lock:
                counted.append(gate.is_entered_once)
        assert counted == [False, True, False]
