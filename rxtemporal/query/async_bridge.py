"""Streams and event loops: async iterables read by queries, results as async iterators."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import Event
from rxtemporal.errors import BindingError

if TYPE_CHECKING:
    from rxtemporal.runtime.execution import Execution

# items that may wait between an event loop and a thread
WAITING = 1_024
# batches of results that may wait for who asks for them
RESULTS = 16


class AsyncEvents:
    """An async iterable as an iterable that a query can read in a thread of its own.

    Read on the event loop that runs where the query is started; where none does, on one of its own.
    """

    def __init__(self, events: AsyncIterable[Any]) -> None:
        self._events = events

    def __iter__(self) -> Iterator[Any]:
        return _Pumped(self._events)


class _Pumped:
    """One reading: a task on the loop fills a bounded buffer, a thread empties it."""

    def __init__(self, events: AsyncIterable[Any]) -> None:
        self._events = events
        self._items: deque[Any] = deque()
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._begun = self._done = False
        # whether an item is asked of the source only when it is asked for here
        self._in_step = False
        self._task: asyncio.Task[Any] | None = None
        self._space: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        with contextlib.suppress(RuntimeError):
            self._loop = asyncio.get_running_loop()

    def __iter__(self) -> Iterator[Any]:
        return self

    def in_step(self) -> None:
        """Read nothing ahead: to be asked for the next item tells the source that this is done."""
        self._in_step = True

    def __next__(self) -> Any:
        if not self._begun:
            self._begin()
        elif self._in_step and self._space is not None:
            self._call(self._space.set)
        with self._changed:
            # in slices, so that Ctrl-C has a chance
            while not self._items and not self._done:
                self._changed.wait(0.2)
            if self._items:
                item = self._items.popleft()
                space = None if self._in_step else self._space
                if space is not None and len(self._items) < WAITING // 2:
                    self._call(space.set)
                return item
        if self._error is not None:
            raise self._error
        raise StopIteration

    def _begin(self) -> None:
        self._begun = True
        if self._loop is None:
            threading.Thread(target=self._alone, name="rxtemporal events", daemon=True).start()
            return
        with contextlib.suppress(RuntimeError):
            if asyncio.get_running_loop() is self._loop:
                self._begun = False
                raise BindingError(
                    "this query reads from the event loop that it would block. "
                    "Hint: async for … in query.to_async(), or run(sink)."
                )
        asyncio.run_coroutine_threadsafe(self._pump(), self._loop)

    def _alone(self) -> None:
        asyncio.run(self._pump())

    async def _pump(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._space = asyncio.Event()
        events = aiter(self._events)
        try:
            async for item in events:
                while len(self._items) >= WAITING and not self._done:
                    self._space.clear()
                    if len(self._items) >= WAITING:
                        await self._space.wait()
                if self._done:
                    break
                if self._in_step:
                    self._space.clear()
                with self._changed:
                    self._items.append(item)
                    self._changed.notify()
                if self._in_step:
                    await self._space.wait()
        except asyncio.CancelledError as error:
            if not self._done:  # not by close(): the loop itself is being shut down
                self._error = error
                raise
        except Exception as error:
            self._error = error
        finally:
            with self._changed:
                self._done = True
                self._changed.notify()
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()

    def _call(self, what: Callable[[], object]) -> None:
        # a loop that is closed has nobody left to be told
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(what)

    def close(self) -> None:
        """Stop reading: the task is cancelled, and whoever waits for the next item goes on."""
        with self._changed:
            self._done = True
            self._items.clear()
            self._changed.notify()
        if self._task is not None:
            self._call(self._task.cancel)


class _HandOver:
    """Batches from any thread to one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()
        self._items: deque[EventBatch | BaseException | None] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, item: EventBatch | BaseException | None) -> None:
        """Hand over a batch, the error that ended the stream, or None for its end."""
        self._items.append(item)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody asks any more
            self._loop.call_soon_threadsafe(self._ready.set)

    def drive(self, run: Execution) -> None:
        """Read what has to be asked, as fast as results are taken."""
        # waits outside of the run's lock: who pushes on the loop must never wait for the loop
        try:
            while self._room() and run.advance():
                pass
        except BaseException as error:
            self.put(error)

    def _room(self) -> bool:
        with self._changed:
            while len(self._items) >= RESULTS and not self._closed:
                self._changed.wait()
            return not self._closed

    async def get(self) -> EventBatch | None:
        """Return the next batch when there is one; None at the end."""
        while not self._items:
            self._ready.clear()
            if not self._items:
                await self._ready.wait()
        with self._changed:
            item = self._items.popleft()
            self._changed.notify()
        if isinstance(item, BaseException):
            raise item
        return item

    def close(self) -> None:
        """Let go of whoever waits for room."""
        with self._changed:
            self._closed = True
            self._changed.notify()


async def results(
    begin: Callable[[], Execution],
    unpacked: Callable[[Callable[[Event], None], Execution], Callable[[EventBatch], None]],
) -> AsyncIterator[Event]:
    """Run what ``begin`` gives and yield its results as events; the run ends with the iteration."""
    run, hand = begin(), _HandOver()
    events: list[Event] = []
    emit = unpacked(events.append, run)
    try:
        run.start(hand.put, hand.put, lambda: hand.put(None))
        if run.pulls:
            threading.Thread(
                target=hand.drive, args=(run,), name="rxtemporal results", daemon=True
            ).start()
        while (batch := await hand.get()) is not None:
            emit(batch)
            for event in events:
                yield event
            events.clear()
    finally:
        run.dispose()
        hand.close()
