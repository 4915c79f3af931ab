"""Progress of long work on a terminal: a line that is written again each second, then removed."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

# seconds from one line to the next, and from the beginning to the first
_PERIOD = 1.0


@contextmanager
def show_progress(what: str) -> Iterator[None]:
    """Return a context that says on standard error, if it is a terminal, how long it has taken."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_write_lines, args=(what, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _write_lines(what: str, done: threading.Event) -> None:
    began, written = time.monotonic(), False
    while not done.wait(_PERIOD):
        written = True
        print(f"\r{what}: {time.monotonic() - began:.0f} s", end="", file=sys.stderr, flush=True)
    if written:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
