"""Progress of long work on a terminal: a line that is written again each second, then removed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

# seconds from one line to the next, and from the beginning to the first
_PERIOD = 1.0


@contextmanager
def show_progress(doing: str, then: str) -> Iterator[Callable[[int], object]]:
    """Show on standard error, if it is a terminal, how far some work has come.

    Yields a function that takes the number of arrivals so far. While that grows the line has it
    with ``doing``; once it has stayed the same for a second, the line has ``then``.
    """
    arrivals = [0]
    if not sys.stderr.isatty():
        yield lambda number: arrivals.__setitem__(0, number)
        return
    done = threading.Event()
    thread = threading.Thread(target=_write_lines, args=(doing, then, arrivals, done), daemon=True)
    thread.start()
    try:
        yield lambda number: arrivals.__setitem__(0, number)
    finally:
        done.set()
        thread.join()


def _write_lines(doing: str, then: str, arrivals: list[int], done: threading.Event) -> None:
    before, seconds = -1, count(1)
    while not done.wait(_PERIOD):
        now = arrivals[0]
        what = f"{doing}: {now:,} arrivals" if now != before else then
        before = now
        line = f"\r\x1b[K{what}, {next(seconds)} s"
        print(line, end="", file=sys.stderr, flush=True)
    if before >= 0:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
