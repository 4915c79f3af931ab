"""Bridges between threads and event loops: async iterables in, async iterators out."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from queue import SimpleQueue
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any, TypeVar

from rxtemporal.core.batch import EventBatch
from rxtemporal.errors import BindingError

if TYPE_CHECKING:
    from rxtemporal.run.execution import Execution

T = TypeVar("T")

# most items that wait between an event loop and a thread
WAITING = 1_024
# most batches of results that wait for their consumer
RESULTS = 16

_END = object()


class AsyncEvents:
    """An iterable over an async iterable, for a query that reads it in a thread.

    The async iterable is read on the event loop that is running when the query starts, or on a new
    one if none is.
    """

    def __init__(self, events: AsyncIterable[Any]) -> None:
        self._events = events

    def __iter__(self) -> Iterator[Any]:
        return _ThreadIterator(self._events)

    def __length_hint__(self) -> int:
        """Return 0 for an async generator that is used up, else 1."""
        return int(not isinstance(self._events, AsyncGeneratorType) or bool(self._events.ag_frame))


class _ThreadIterator:
    """An iterator over an async iterable, with a queue from its event loop to a thread."""

    def __init__(self, events: AsyncIterable[Any]) -> None:
        self._events = events
        self._items: SimpleQueue[Any] = SimpleQueue()
        # how many items the task may ask the source for; created with the first item
        self._room: asyncio.Semaphore | None = None
        self._taken = 0
        self._in_step = self._closed = False
        self._error: BaseException | None = None
        self._task: asyncio.Task[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        with contextlib.suppress(RuntimeError):
            self._loop = asyncio.get_running_loop()

    def __iter__(self) -> Iterator[Any]:
        return self

    def stop_reading_ahead(self) -> None:
        """Stop reading ahead: a source learns that an item is done by the next request."""
        self._in_step = True

    def __next__(self) -> Any:
        if self._room is None:
            self._begin()
        if self._in_step:
            self._make_room(1)
        item = self._items.get()
        if item is _END or self._closed:
            self._items.put(_END)  # for the next call
            if self._error is not None:
                raise self._error
            raise StopIteration
        self._taken += 1
        if self._taken >= WAITING // 2 and not self._in_step:
            self._make_room(self._taken)
            self._taken = 0
        return item

    def _begin(self) -> None:
        self._refuse_own_loop()
        self._room = asyncio.Semaphore(0 if self._in_step else WAITING)
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._pump(self._room), self._loop)
            return
        self._loop = asyncio.new_event_loop()
        threading.Thread(
            target=_run, args=(self._loop, self._pump(self._room)), name="rxtemporal events",
            daemon=True,
        ).start()  # fmt: skip

    def _refuse_own_loop(self) -> None:
        with contextlib.suppress(RuntimeError):
            if asyncio.get_running_loop() is self._loop:
                raise BindingError(
                    "this query would block the event loop that it reads from. "
                    "Hint: use async for … in query.to_async(), or run(sink)."
                )

    async def _pump(self, room: asyncio.Semaphore) -> None:
        self._task = asyncio.current_task()
        events: Any = None
        try:
            events = aiter(self._events)
            while await room.acquire() and not self._closed:
                self._items.put(await anext(events))
        except StopAsyncIteration:
            pass
        except asyncio.CancelledError as error:
            if not self._closed:  # the loop is shutting down
                self._error = error
                raise
        except Exception as error:
            self._error = error
        finally:
            self._items.put(_END)
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()

    def _make_room(self, items: int) -> None:
        self._call(self._release, items)

    def _release(self, items: int) -> None:
        assert self._room is not None
        for _ in range(items):
            self._room.release()

    def _call(self, function: Callable[..., object], *arguments: Any) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(function, *arguments)

    def close(self) -> None:
        """Stop reading: cancel the task, and release the thread that waits for the next item."""
        self._closed = True
        self._items.put(_END)
        if self._task is not None:
            self._call(self._task.cancel)


def _run(loop: asyncio.AbstractEventLoop, coroutine: Any) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(coroutine)


class _LoopQueue:
    """A queue of batches from any thread to one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._items: deque[EventBatch | BaseException | None] = deque()
        self._put, self._taken = asyncio.Event(), asyncio.Event()
        self._closed = False

    def put(self, item: EventBatch | BaseException | None) -> None:
        """Add a batch, the error that ended the stream, or None for its end."""
        self._items.append(item)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._put.set)

    def fill(self, run: Execution) -> None:
        """Advance a run that reads its sources, as fast as its results are consumed."""
        # waits outside the run's lock: a producer on the loop must never wait for the loop
        try:
            while not self._closed and run.advance():
                self._wait_for_room()
        except BaseException as error:
            self.put(error)

    def _wait_for_room(self) -> None:
        if len(self._items) < RESULTS or self._closed:
            return
        with contextlib.suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(self._until_room(), self._loop).result()

    async def _until_room(self) -> None:
        while len(self._items) >= RESULTS and not self._closed:
            self._taken.clear()
            await self._taken.wait()

    async def get(self) -> EventBatch | None:
        """Wait for the next batch and return it; None at the end."""
        while not self._items:
            self._put.clear()
            if not self._items:
                await self._put.wait()
        item = self._items.popleft()
        self._taken.set()
        if isinstance(item, BaseException):
            raise item
        return item

    def close(self) -> None:
        """Release the thread that waits for room."""
        self._closed = True
        self._taken.set()


async def iterate_results(
    begin: Callable[[], Execution], unpack: Callable[[Execution], Callable[[EventBatch], list[T]]]
) -> AsyncIterator[T]:
    """Yield the results of the run that ``begin`` creates; the run ends with the iteration.

    ``unpack`` returns a function for a run, which returns the items of a batch.
    """
    run, results = begin(), _LoopQueue()
    list_items = unpack(run)
    try:
        run.start(results.put, results.put, lambda: results.put(None))
        if run.pulls:
            threading.Thread(
                target=results.fill, args=(run,), name="rxtemporal results", daemon=True
            ).start()
        while (batch := await results.get()) is not None:
            for item in list_items(batch):
                yield item
    finally:
        run.release()
        results.close()
