"""Turns at a lock that many threads of Python take for a moment each."""

from __future__ import annotations

import time
from collections.abc import Callable

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
