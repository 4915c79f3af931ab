"""Stand-ins for Spark's process."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rxtemporal import EventShape
from rxtemporal.spark.sink import spooled
from rxtemporal.spark.sink.worker import Listener, Published, Started, WorkerExit
from rxtemporal.storage.segments import SegmentFolder


class NoSpark:
    """Stands in for the supervisor: nothing runs, everything that is asked for has happened."""

    batches, restarts, start_seconds, batch_seconds, last_error = 0, 0, 0.0, 0.0, None

    def __init__(self, *_: Any) -> None:
        pass

    def start(self) -> None:
        """Start nothing."""

    def check(self) -> None:
        """Find nothing wrong."""

    def wait(self, last: int) -> None:
        """Wait for nothing."""

    def stop(self) -> None:
        """Stop nothing."""


def use_no_spark(
    patch: pytest.MonkeyPatch, supervisor: type = NoSpark, *, keeps_spool: bool = False
) -> None:
    """Let sinks have a stand-in for the supervisor; with ``keeps_spool`` a run ends at once."""
    patch.setattr(spooled, "Supervisor", supervisor)
    if keeps_spool:
        patch.setattr(spooled.SpooledDelivery, "close", closed)


SOON = 60


class Idle:
    """A worker that does nothing until it is stopped."""

    def __init__(self, *_: Any) -> None:
        self._stopped = threading.Event()

    def run(self) -> WorkerExit | None:
        """Wait for the end."""
        assert self._stopped.wait(SOON)
        return None

    def stop(self) -> None:
        """End."""
        self._stopped.set()

    def in_callback(self) -> bool:
        """Nothing is called."""
        return False


class Failing:
    """Workers that end with an error, some of them after a micro-batch."""

    def __init__(self, errors: list[WorkerExit | None], done: int = 0) -> None:
        self.errors, self.workers, self._done = errors, 0, done

    def __call__(self, listener: Listener) -> Failing:
        """Start the next worker."""
        self._listener = listener
        return self

    def run(self) -> WorkerExit | None:
        """End as planned; the last one is well."""
        self._listener(Started(0.1))
        ended = self.errors[min(self.workers, len(self.errors) - 1)]
        self.workers += 1
        if ended is None:
            self._listener(Published(0, 1, 0.1))
        return ended

    def stop(self) -> None:
        """It has ended by itself."""

    in_callback = Idle.in_callback


class Nothing(NoSpark):
    """The same, in a process that is stopped."""

    def in_callback(self) -> bool:
        """No target is called."""
        return False

    def cancel(self, error: BaseException) -> None:
        """Nothing waits."""


def closed(self: Any, error: BaseException | None) -> None:
    """Let the spool stay as it is when a run ends."""
    self._queue.close()
    self._spool.close()


def table(path: Path, shape: EventShape) -> list[Any]:
    """Return a table's rows, or in edge shape the newest record for each number."""
    folder = SegmentFolder(path / "sink" / "spool")
    mark, last = folder.bounds()
    parts = [folder.read(number) for number in range(mark + 1, last + 1)]
    rows = pl.concat(parts).drop("_segment").rows(named=True)
    if shape is not EventShape.EDGE:
        return sorted(map(str, rows))
    held: dict[int, dict[str, Any]] = {}
    for row in rows:
        before = held.get(row["_edge"])
        assert before is None or before == row | {"end_time": before["end_time"]}
        held[row["_edge"]] = row
    return sorted(map(str, held.values()))
