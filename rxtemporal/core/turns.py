"""Turns at a lock that several threads of Python take for a moment each."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

# so often a thread lets the others run before it blocks
_YIELDS, _NAPS, _NAP_SECONDS = 5, 20, 50e-6


def take_turn(acquire: Callable[[bool], bool]) -> None:
    """Acquire a lock that another thread holds, without forming a convoy.

    The holder of a lock may lose the interpreter in the middle. If the others then block, each
    release gives the lock to one that does not run, and must wait for the interpreter while it
    holds the lock: from then on each turn costs two changes of threads, and that does not end by
    itself. So a thread first lets the others run a few times, holding nothing, and blocks
    only when the lock stays taken.

    >>> import threading
    >>> lock = threading.RLock()
    >>> if not lock.acquire(blocking=False):
    ...     take_turn(lock.acquire)
    >>> lock.release()
    """
    for number in range(_YIELDS + _NAPS):
        time.sleep(0 if number < _YIELDS else _NAP_SECONDS)
        if acquire(False):
            return
    acquire(True)


def leave_interrupted(lock: Any) -> None:
    """Release a re-entrant lock that Ctrl-C has found just acquired, before the block behind it.

    Python looks for signals at the end of a call, so there it comes most often. The caller has got
    an exception from ``acquire``: a thread that has the lock has then entered it once too often.

    >>> import threading
    >>> lock = threading.RLock()
    >>> try:
    ...     _ = lock.acquire()
    ...     raise KeyboardInterrupt  # as if at the end of the call
    ... except KeyboardInterrupt:
    ...     leave_interrupted(lock)
    >>> lock._is_owned()
    False
    """
    if lock._is_owned():
        lock.release()


def take_lock(lock: Any, *, blocking: bool = True, timeout: float = -1) -> bool:
    """Acquire a re-entrant lock as its ``acquire`` does; an interrupt leaves it as it was.

    For a wait with an end, which ``with`` does not have. The caller releases the lock in the
    ``finally`` of a ``try`` that follows at once.
    """
    try:
        return bool(lock.acquire(blocking, timeout))
    except BaseException:
        leave_interrupted(lock)
        raise


class FairLock:
    """Lock that threads get in the order in which they ask for it; a context manager.

    A thread that releases other locks and asks again at once gets them before one that waits. With
    this one a long piece of work, cut into short ones, delays another thread by one of them. Not
    re-entrant.
    """

    __slots__ = ("_guard", "_is_held", "_waiting")

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._is_held = False
        # a lock for each thread that waits, which is released when it is its turn
        self._waiting: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        with self._guard:
            if not self._is_held:
                self._is_held = True
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        try:
            turn.acquire()
        except BaseException:  # Ctrl-C: nobody may wait for this thread
            with self._guard:
                if turn in self._waiting:
                    self._waiting.remove(turn)
                    raise
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_held = False


class ForkCount:
    """Count of the forks on the way from the first process to this one.

    What is made with another ``count`` belongs to a parent. Reading it costs a tenth of
    ``os.getpid``.
    """

    def __init__(self) -> None:
        self.count = 0
        os.register_at_fork(after_in_child=self._add)

    def _add(self) -> None:
        self.count += 1


FORKS = ForkCount()
FORKED = (
    "a run belongs to the process that started it, and this one was forked from that: it can push "
    "nothing into the run, its log or its recording. Hint: push in the process that runs the "
    "query, or start others with multiprocessing's method spawn."
)
