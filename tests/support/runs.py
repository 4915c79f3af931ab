"""A sink that records its calls, the longest time a run may take, and the threads it leaves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import polars as pl

from rxtemporal import EventBatch, EventShape, Sink

# a test that hangs fails here instead
SOON = 60


@contextmanager
def nothing_left_running() -> Iterator[None]:
    """Fail if a thread of the block is still there a while after it.

    The thread that tells of the end may be just ending. Timers do not count: a run that an earlier
    test has left may start one at any moment.
    """
    before = set(threading.enumerate())
    yield
    until = time.monotonic() + SOON
    while left := [
        each
        for each in set(threading.enumerate()) - before
        if each.is_alive() and not isinstance(each, threading.Timer)
    ]:
        assert time.monotonic() < until, left
        left[0].join(0.05)


class Log(Sink):
    """A sink that keeps what it is told, and raises where it is asked to."""

    def __init__(
        self,
        shape: EventShape = EventShape.INTERVAL,
        raises: str = "",
        during: dict[str, Callable[[], object]] | None = None,
    ) -> None:
        self.shape = shape
        self.calls: list[Any] = []
        self.batches: list[EventBatch] = []
        self._raises = raises
        self._during = during or {}

    def _called(self, what: str, detail: Any) -> None:
        self.calls.append((what, detail))
        self._during.get(what, lambda: None)()
        if what == self._raises:
            raise OSError(f"the disk of {what} is full")

    def open(self, name: str, schema: pl.Schema) -> None:
        """Note the query's name and fields."""
        self._called("open", (name, dict(schema)))

    def write(self, batch: EventBatch) -> None:
        """Keep the batch."""
        self.batches.append(batch)
        self._called("write", (batch.start.tolist(), batch.cti))

    def close(self, error: BaseException | None) -> None:
        """Note what ended the query."""
        self._called("close", error)

    @property
    def told(self) -> list[str]:
        """Return the names of the calls, in order."""
        return [what for what, _ in self.calls]

    @property
    def ended_by(self) -> Any:
        """Return the argument of close."""
        return self.calls[-1][1]

    @property
    def rows(self) -> list[Any]:
        """The payloads written."""
        return [each for batch in self.batches for each in batch.payload["payload"].to_list()]
