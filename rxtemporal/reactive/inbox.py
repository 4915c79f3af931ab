"""Events that wait between a subject and its only subscriber, to be judged many at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

from rxtemporal.core.turns import take_lock

# who asks for counters waits so many seconds at most for the events that wait
ASK_SECONDS = 1.0

# takes items and, where there may be sources among them, True
Judge: TypeAlias = Callable[[list[Any], bool], None]


class RunGate(Protocol):
    """Gate of a run, under whose lock the events that wait are judged; that is re-entrant."""

    lock: Any

    def is_owned(self) -> bool:
        """Return True if the calling thread has the lock."""

    def notify_rows(self) -> object:
        """Wake the query; the caller has the lock."""


class Inbox:
    """Events that have been pushed into a subject and that are not judged yet.

    The only subscriber is a run behind a hand-off, whose thread judges what waits when a CTI has
    come and the query has nothing to do, and before each batch. Others judge it before they change
    or read what the verdicts depend on, or what follows from them. So each event gets the verdict
    that it would have got at once.

    Threads: any may append to ``items``, with no lock, and looks at ``is_open`` afterwards; who
    clears that takes the items afterwards. So none is left behind. While the inbox is open, the
    subject's events are judged under ``lock``, which is that of the gate; a thread that holds it
    never waits for the subject's own lock. The main thread has its judgements done by another one:
    a handler of a signal, or Ctrl-C, in the middle of one would lose events.

    ``wait_for_room`` is called in front of an event for which there is no room, and ``fail`` ends
    the run when a judgement fails.
    """

    __slots__ = (
        "_fail", "_gate", "_is_judging", "_judge", "_lock", "_wait_for_room", "has_sources",
        "is_busy", "is_open", "items", "most",
    )  # fmt: skip

    def __init__(
        self,
        gate: RunGate,
        most: int,
        wait_for_room: Callable[[], object],
        fail: Callable[[BaseException], None],
    ) -> None:
        # events, each followed by its source unless that is the subject's own
        self.items: list[Any] = []
        # True once there has been a source
        self.has_sources = False
        # with so many items there is no room for an event
        self.most = most
        # True while the query has work: then CTIs wait as well
        self.is_busy = False
        self.is_open = False
        self._gate, self._lock = gate, gate.lock
        self._wait_for_room, self._fail = wait_for_room, fail
        self._judge: Judge | None = None
        self._is_judging = False

    @property
    def lock(self) -> Any:
        """The lock of the run, under which events are judged."""
        return self._lock

    def limit(self, most: int) -> None:
        """Let there be room for so many items."""
        self.most = most

    def note_work(self) -> None:
        """Note that the query has work: until it rests, CTIs wait as well."""
        self.is_busy = True

    def open(self, judge: Judge) -> None:
        """Let events wait for ``judge``; the caller holds the subject's lock, and the lock."""
        self._judge, self.is_open = judge, True

    def close(self) -> None:
        """Judge what waits, and let nothing wait from now on; takes the lock."""
        if self.is_open:
            self._call(self._close)

    def _close(self) -> None:
        with self._lock:
            if self.is_open:
                self.is_open = False
                self._judge_all()

    # For those who push ---------------------------------------------------------------------------

    def append(self, event: Any, source: Any) -> None:
        """Append an event and its source, None if that is the subject's own.

        The caller then continues as ``CtiSynchronizingSubjectAlternate.on_next`` does.
        """
        if source is None:
            self.items.append(event)
        else:  # a pair that lives on would be work for the garbage collector
            self.has_sources = True
            self.items.extend((event, source))

    def take_back(self, event: Any, source: Any) -> bool:
        """Take out what the caller has appended to an inbox that it found closed; takes the lock.

        Return False if there is nothing to take out: the event has been judged, or the inbox is
        open again.
        """
        own = [event] if source is None else [event, source]
        with self._lock:
            if self.is_open:
                self.wake()
                return False
            for place in reversed(range(len(self.items))):
                there = self.items[place : place + len(own)]
                if len(there) == len(own) and all(a is b for a, b in zip(there, own, strict=True)):
                    del self.items[place : place + len(own)]
                    return True
            return False

    def make_room(self) -> None:
        """Judge what waits, and wait until there is room for another event; takes the lock."""
        self._call(self._collect)
        self._wait_for_room()

    def wake(self) -> None:
        """Wake the query, which has nothing to do: there is a CTI for it; takes the lock."""
        with self._lock:
            if not self.is_busy:
                # in this order: whoever is interrupted in between has woken the query in vain
                self._gate.notify_rows()
                self.is_busy = True

    # For the run, and those who ask ---------------------------------------------------------------

    def fetch(self) -> None:
        """Judge what waits, unless the lock is held for longer than ``ASK_SECONDS``.

        It is held for so long only if a sink is slow while the run is saved, or if observers that
        hold the locks of two runs ask each other's subjects.
        """
        self._call(self._try_to_collect, ASK_SECONDS)

    def _try_to_collect(self) -> None:
        if take_lock(self._lock, timeout=ASK_SECONDS):
            try:
                self._collect()
            finally:
                self._lock.release()

    def rest(self) -> None:
        """Judge what waits; from now on a CTI wakes the query. The caller holds the lock."""
        self.is_busy = False
        self.collect()

    def _collect(self) -> None:
        with self._lock:
            self.collect()

    def collect(self) -> None:
        """Judge what waits; the caller holds the lock."""
        if self.is_open:
            self._judge_all()

    def _call(self, judge: Callable[[], None], seconds: float | None = None) -> None:
        """Call a function that judges; from the main thread, call it on another one."""
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or self._gate.is_owned():
            judge()
            return
        thread = threading.Thread(target=judge, name="rxtemporal judgement", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the interpreter is ending
            judge()
        else:
            thread.join(seconds)

    def _judge_all(self) -> None:
        """Judge what waits now; what comes meanwhile waits for the next time."""
        if self._is_judging or self._judge is None or not self.items:
            return
        try:
            self._is_judging = True
            self._judge(self._take(), self.has_sources)
            while self.items and not self.is_open:  # closed from inside, such as by a log handler
                self._judge(self._take(), self.has_sources)
        except BaseException as error:  # some of the events may be lost
            with suppress(BaseException):  # what is no ``Exception`` is raised again
                self._fail(error)
        finally:
            self._is_judging = False

    def _take(self) -> list[Any]:
        items = self.items
        count = len(items)  # others append meanwhile
        taken = items[:count]
        del items[:count]
        return taken
