"""Spark's commits of micro-batches, at which its Java process is stopped and killed.

Spark writes the note by itself, aside and then renamed, so nothing of ours can stand still in the
middle. The kernel tells when a name appears in the folder, and the process is stopped then; what
it was stopped in is looked up, not assumed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

from sink_input import wait_until

__all__ = ["CommitFolder", "stop_process"]

IN_MOVED_TO, IN_CREATE = 0x80, 0x100


class CommitFolder:
    """New files in the folder of Spark's commits; a context manager."""

    def __init__(self, commits: Path) -> None:
        self._commits = commits
        libc = ctypes.CDLL(None, use_errno=True)
        self._events = libc.inotify_init()
        watched = libc.inotify_add_watch(
            self._events, os.fsencode(commits), IN_CREATE | IN_MOVED_TO
        )
        assert watched >= 0, os.strerror(ctypes.get_errno())
        self._known = set(os.listdir(commits))

    def __enter__(self) -> CommitFolder:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._events)

    def wait(self, wanted: str, seconds: float) -> None:
        """Wait until Spark's commit has reached this state or a later one."""
        while self.state() not in (wanted, "named"):
            # what has happened since that look is in the queue
            assert select.select([self._events], [], [], seconds)[0], "Spark notes nothing"
            os.read(self._events, 65_536)

    def fresh(self) -> set[str]:
        """Return the names that are new since the beginning."""
        return set(os.listdir(self._commits)) - self._known

    def state(self) -> str:
        """Return Spark's progress: ``nothing``, ``half`` of a note, or the note is ``named``."""
        fresh = self.fresh()
        if any(map(str.isdigit, fresh)):
            return "named"
        return "half" if fresh else "nothing"


@contextlib.contextmanager
def stop_process(pid: int) -> Iterator[None]:
    """Stop a process inside the context; then let it continue if it still exists."""
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: set(states(pid)) <= {"T"})
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def states(pid: int) -> Iterator[str]:
    """Yield the state of each thread of a process, as a letter."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            yield (task / "stat").read_text().rpartition(")")[2].split()[0]
