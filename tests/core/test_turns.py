"""Turns at a lock that another thread holds."""

from __future__ import annotations

import threading
import time

import pytest

import rxtemporal as rxt
from rxtemporal.core.turns import FairLock, take_turn


class _Lock:
    """Lock that stays taken for some attempts; notes whether each was to block."""

    def __init__(self, taken: int) -> None:
        self.taken, self.blocked = taken, list[bool]()

    def acquire(self, blocking: bool) -> bool:
        self.blocked.append(blocking)
        return blocking or len(self.blocked) > self.taken


def test_a_lock_that_is_released_soon_is_not_waited_for() -> None:
    """Nobody blocks, so no release gives the lock to a thread that does not run."""
    lock = _Lock(taken=7)
    take_turn(lock.acquire)
    assert lock.blocked == [False] * 8


def test_a_lock_that_stays_taken_is_waited_for() -> None:
    """A thread does not ask for ever; it blocks in the end."""
    lock = _Lock(taken=1_000)
    take_turn(lock.acquire)
    assert lock.blocked[-1]
    assert not any(lock.blocked[:-1])
    assert len(lock.blocked) < 100


def test_a_fair_lock_is_given_in_the_order_of_asking() -> None:
    """Also before the thread that releases it and asks again at once."""
    lock, got = FairLock(), list[int]()

    def take(number: int) -> None:
        with lock:
            got.append(number)

    with lock:
        threads = [threading.Thread(target=take, args=(number,)) for number in range(5)]
        for number, thread in enumerate(threads):
            thread.start()
            while len(lock._waiting) <= number:
                time.sleep(0)
    take(5)
    for thread in threads:
        thread.join(10)
    assert got == [0, 1, 2, 3, 4, 5]


def test_a_fair_lock_is_released_by_an_error() -> None:
    """An exception inside leaves it free."""
    lock = FairLock()
    with pytest.raises(KeyError), lock:
        raise KeyError
    with lock:
        assert lock._is_held
    assert not lock._is_held


@pytest.mark.parametrize("blocks", [False, True])
def test_a_subject_is_pushed_into_while_another_thread_delivers(blocks: bool) -> None:
    """An event waits for the delivery of another thread, and follows it."""
    subject = rxt.CtiSynchronizingSubjectAlternate.create_point(0)
    inside, may_end = threading.Event(), threading.Event()
    got: list[int] = []

    def deliver(event: rxt.PointEvent) -> None:
        if event.start == 1:
            inside.set()
            assert may_end.wait(10)
        got.append(event.start)

    subject.subscribe(deliver)
    first = threading.Thread(target=subject.on_next, args=(rxt.PointEvent(1, "a"),))
    first.start()
    assert inside.wait(10)
    second = threading.Thread(target=subject.on_next, args=(rxt.PointEvent(2, "b"),))
    second.start()
    if blocks:  # longer than a thread asks without blocking
        second.join(0.05)
    may_end.set()
    first.join()
    second.join()
    assert got == [1, 2]
