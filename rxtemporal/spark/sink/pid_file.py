"""File with the id of the Java process on a checkpoint: one at a time.

The Java process of a killed run may still be running; it is waited for.
"""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

from rxtemporal.errors import SpoolError
from rxtemporal.spark.sink.worker import PATIENCE
from rxtemporal.storage.files import publish, remove, report_errors

_FILE = "spark.pid"


def claim(path: Path, checkpoint: Path) -> int:
    """Wait until an earlier run's Java process has ended; return the id of ours.

    ``SpoolError`` if it does not end in time; it may end later.
    """
    from pyspark import SparkContext

    # the process itself knows it, whoever has started it
    own: int = SparkContext._jvm.java.lang.ProcessHandle.current().pid()
    file = path / _FILE
    before = int(file.read_text(encoding="utf-8")) if file.exists() else None
    deadline = time.monotonic() + PATIENCE
    while before is not None and before != own and _runs_spark(before):
        if time.monotonic() > deadline:
            raise SpoolError(
                f"the Java process {before} of an earlier run still works on {checkpoint}. "
                "Hint: end it, then run again."
            ) from TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        time.sleep(0.05)
    return own


def note(path: Path, own: int) -> None:
    """Write the id of our Java process."""
    file = path / _FILE
    with report_errors(f"cannot write {file}"):
        publish(file, str(own).encode())


def leave(path: Path) -> None:
    """Remove the file when our Java process no longer works here."""
    remove(path / _FILE)


def _runs_spark(pid: int) -> bool:
    """Return True if this process exists and, as far as can be seen, is one of Spark's."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False  # another user's: the system has reused the number
    command = Path("/proc", str(pid), "cmdline")
    try:
        return b"org.apache.spark" in command.read_bytes()
    except OSError:
        return not command.parent.parent.exists()
