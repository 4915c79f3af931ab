"""A small ingest service for crash tests: threads push numbered rows, and each verdict is printed.

    python ingest_service.py FOLDER COUNT POINT NTH [INPUT=FIRST …]

Each input is a thread that pushes the rows from ``FIRST`` to ``COUNT``, one by one or in lists, and
prints a line for each verdict. No input gets far ahead of the others, so that no row is late. With
``POINT`` the process kills itself when it comes to that point for the ``NTH`` time. Without a kill
it ends when all rows have been pushed: it closes the source, so that the result is complete.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rxtemporal as rxt
from rxtemporal.ingress.packer import Packer
from rxtemporal.runtime import checkpoint
from rxtemporal.runtime.outlet import Outlet
from rxtemporal.runtime.push_entry import PushEntry
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
    "write a checkpoint": (RunStore, "save"),
}
POINTS = [f"{when}: {step}" for step in STEPS for when in ("before", "after")]
# rows of every third push of an input come in a list
LIST_ROWS = 7
# an input waits for the slowest when it is so many rows ahead, so that this delay loses no row
AHEAD, DELAY = 50, 120


def kill_at(point: str, nth: int) -> None:
    """Kill this process when it comes to a point for the n-th time."""
    when, step = point.split(": ")
    owner, name = STEPS[step]
    made: Callable[..., Any] = vars(owner)[name]
    count = 0

    def pass_point() -> None:
        nonlocal count
        count += 1
        if count == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    def call(*arguments: Any, **named: Any) -> Any:
        if when == "before":
            pass_point()
        result = made(*arguments, **named)
        if when == "after":
            pass_point()
        return result

    setattr(owner, name, call)


def push_rows(source: rxt.PushSource, name: str, last: int, reached: dict[str, int]) -> None:
    """Push the rows of one input, and print the verdicts; ``reached`` is how far each input is."""
    with source.input(name) as device:
        number, pushes = reached[name], 0
        while number < last:
            while number > min(reached.values()) + AHEAD:
                time.sleep(0.001)
            pushes += 1
            count = min(LIST_ROWS if pushes % 3 == 0 else 1, last - number)
            numbers = range(number, number + count)
            rows = [{"device": name, "time": each, "n": each} for each in numbers]
            if count == 1:
                verdict = device.push(rows[0], seq=number)
            else:
                verdict = device.push(rows, seq=list(numbers))
            line = f"{name} {number} {count} {verdict.accepted} {verdict.duplicates}\n"
            os.write(sys.stdout.fileno(), line.encode())  # whole, though others write, too
            assert verdict.accepted + verdict.duplicates == count, verdict
            number += count
            reached[name] = number


def main(folder: Path, count: int, point: str, nth: int, inputs: dict[str, int]) -> None:
    """Run the service until all rows are pushed, or until it is killed."""
    # a checkpoint after almost every push
    checkpoint.SECONDS, checkpoint.SHARE = 0.02, 1e9
    if point:
        kill_at(point, nth)
    source = rxt.PushSource("rows", schema={"device": str, "n": int}, start="time", delay=DELAY)
    process = source.stream.run(rxt.File(folder / "rows.jsonl"), resume=folder / "state")
    print("begun", flush=True)
    threads = [
        threading.Thread(target=push_rows, args=(source, name, count, inputs)) for name in inputs
    ]
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
