"""A small ingest service for crash tests: inputs push numbered rows, and each verdict is printed.

    python ingest_service.py FOLDER COUNT POINT NTH [INPUT=FIRST …]

Each input pushes the rows from ``FIRST`` to ``COUNT``, and prints a line for each verdict: the
first one on a thread, one by one and in short lists, the second in lists that are read as columns,
and the third on an event loop, some at a time. So the fourth is like the first, and so on. The
rows have their numbers in the field ``n``. No input gets far ahead of the others, so that no row is
late. With
``POINT`` the process kills itself when it comes to that point for the ``NTH`` time. Without a kill
it ends when all rows have been pushed: it closes the source, so that the result is complete.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from kill_points import kill_at, list_points

import rxtemporal as rxt
from rxtemporal.ingress.packer import Packer
from rxtemporal.run import checkpoint
from rxtemporal.run.checkpoint import Checkpointer
from rxtemporal.run.outlet import Outlet
from rxtemporal.run.push_entry import PushEntry
from rxtemporal.storage.event_log.database import Database
from rxtemporal.storage.event_log.log import Log
from rxtemporal.storage.event_log.store import RunStore

# each step from a push to its verdict and to the checkpoint: the function that makes it
STEPS: dict[str, tuple[type, str]] = {
    "judge one row": (PushEntry, "judge_one"),
    "judge many rows": (PushEntry, "judge"),
    "pack a batch": (Packer, "pack"),
    "note in the log": (Log, "note"),
    "flush the log": (Log, "flush"),
    "write an entry": (RunStore, "append"),
    "settle": (PushEntry, "settle"),
    "deliver to the sink": (Outlet, "write"),
    "save the sink": (Outlet, "save"),
    "capture the run": (Checkpointer, "_capture"),
    "write a checkpoint": (RunStore, "save"),
    "write a piece of it": (Database, "write"),
    "delete what it covers": (RunStore, "_delete_covered"),
    "delete entries": (RunStore, "_delete_entries"),
}
POINTS = list_points(STEPS)
# rows of every third push on a thread come in a list
LIST_ROWS = 7
# rows of a list that is read as columns, and pushes at a time on an event loop
COLUMN_ROWS, TASKS = 40, 8
# an input waits for the slowest when it is so many rows ahead, so that this delay loses no row
AHEAD, DELAY = 50, 120


class Input:
    """An input of the service; ``reached`` is how far each input is."""

    def __init__(self, source: rxt.PushSource, name: str, last: int, reached: dict[str, int]):
        self.source, self.name, self.last, self.reached = source, name, last, reached

    @property
    def at(self) -> int:
        """The next row."""
        return self.reached[self.name]

    @property
    def is_ahead(self) -> bool:
        """True if this input has to wait for the others."""
        return self.at > min(self.reached.values()) + AHEAD

    def rows(self, most: int) -> list[dict[str, Any]]:
        """Return the next rows."""
        numbers = range(self.at, min(self.at + most, self.last))
        return [{"device": self.name, "time": each, "n": each} for each in numbers]

    def tell(self, verdicts: list[rxt.Verdict]) -> None:
        """Print the verdicts on the next rows."""
        accepted = sum(verdict.accepted for verdict in verdicts)
        duplicates = sum(verdict.duplicates for verdict in verdicts)
        count = sum(verdict.rows for verdict in verdicts)
        line = f"{self.name} {self.at} {count} {accepted} {duplicates}\n"
        os.write(sys.stdout.fileno(), line.encode())  # whole, though others write, too
        assert accepted + duplicates == count, verdicts
        self.reached[self.name] += count

    def push(self, sizes: list[int]) -> None:
        """Push rows in lists of these sizes by turns; those of one row alone."""
        with self.source.input(self.name) as device:
            for size in cycle(sizes):
                while self.is_ahead:
                    time.sleep(0.001)
                if not (rows := self.rows(size)):
                    return
                self.tell([device.push(rows if size > 1 else rows[0])])

    async def push_async(self) -> None:
        """Push some rows at a time, each alone."""
        push = partial(self.source.push_async, input=self.name)
        while rows := self.rows(TASKS):
            while self.is_ahead:
                await asyncio.sleep(0.001)
            self.tell(await asyncio.gather(*map(push, rows)))


def list_works(inputs: list[Input]) -> list[Callable[[], None]]:
    """Return what the thread of each input does."""
    ways: list[Callable[[Input], None]] = [
        lambda each: each.push([1, 1, LIST_ROWS]),
        lambda each: each.push([COLUMN_ROWS]),
        lambda each: asyncio.run(each.push_async()),
    ]
    return [partial(way, each) for way, each in zip(cycle(ways), inputs, strict=False)]


def main(folder: Path, count: int, point: str, nth: int, inputs: dict[str, int]) -> None:
    """Run the service until all rows are pushed, or until it is killed."""
    # a checkpoint after almost every push
    checkpoint.SECONDS, checkpoint.SHARE = 0.02, 1e9
    if point:
        kill_at(point, nth, STEPS)
    schema = {"device": str, "n": int}
    source = rxt.PushSource("rows", schema=schema, start="time", delay=DELAY, seq="n")
    process = source.stream.run(rxt.File(folder / "rows.jsonl"), resume=folder / "state")
    print("begun", flush=True)
    works = list_works([Input(source, name, count, inputs) for name in inputs])
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    source.close()
    process.wait()


if __name__ == "__main__":
    path, rows, at, times, *given = sys.argv[1:]
    firsts = {name: int(first) for name, first in (each.split("=") for each in given)}
    main(Path(path), int(rows), at, int(times), firsts)
