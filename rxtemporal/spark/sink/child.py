"""A life of Spark in a child process, seen from here; ``driver`` is the other side.

The child gets its job through its standard input and ends when that is closed, however this
process ends. It reports through a pipe of its own, a line of JSON for each thing that happened.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from rxtemporal.core.log import get_logger
from rxtemporal.errors import ArgumentError, JavaError
from rxtemporal.spark.jvm.session import require_pyspark
from rxtemporal.spark.sink.worker import PATIENCE, SAFE, Ended, Job, Listener

log = get_logger(__name__)

_REPORTS = ("started", "noted", "planned", "published", "ended")
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from rxtemporal.spark.sink.driver import main; sys.exit(main(*map(int, sys.argv[2:])))"
)


def can_travel(job: Job) -> bytes:
    """Return a job as bytes for another process; ``ArgumentError`` where that cannot be."""
    require_pyspark()
    from pyspark import cloudpickle

    try:
        return bytes(cloudpickle.dumps(job))
    except Exception as error:
        raise ArgumentError(
            f"the target {job.target!r} cannot be carried into the process that runs Spark: "
            f"{error}. Hint: let it hold only what pickle takes, as a function of a module, or "
            "functools.partial(psycopg.connect, '...')."
        ) from error


class Child:
    """A process that runs Spark; a ``Life``."""

    def __init__(self, job: Job, listener: Listener) -> None:
        self._job, self._listener = job, listener
        self._changed = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = False
        self._ended: Ended | None = None

    def run(self) -> Ended | None:
        """Start the process, pass on what it reports, and return how it ended."""
        job = can_travel(self._job)
        with self._started() as (process, reports):
            if process is None:
                return None
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(len(job).to_bytes(8, "big") + job)
                process.stdin.flush()
            for line in reports:
                self._take(_report(line))
            code = process.wait()
        if self._stopping:
            return None
        return self._ended or Ended(
            JavaError(f"the process that runs Spark ended with code {code}. Hint: {SAFE}."), "later"
        )

    def stop(self) -> None:
        """Close the child's input, which is the sign; one that does not follow is killed."""
        with self._changed:
            self._stopping = True
            process = self._process
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()

    def in_callback(self) -> bool:
        """Return False: nothing of a child runs here."""
        return False

    @contextmanager
    def _started(self) -> Iterator[tuple[subprocess.Popen[bytes] | None, IO[bytes]]]:
        """Start the process, unless it is to be stopped already; it does not outlive the block."""
        ours, theirs = os.pipe()
        with os.fdopen(ours, "rb") as reports:
            try:
                with self._changed:
                    if not self._stopping:
                        self._process = self._start(theirs)
            finally:
                os.close(theirs)
            try:
                yield self._process, reports
            finally:
                if self._process is not None:
                    self.stop() if self._process.poll() is None else None

    def _start(self, reports: int) -> subprocess.Popen[bytes]:
        # a session of its own: Ctrl-C is for this process, which then ends the child in order
        return subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps(sys.path), str(reports), str(os.getpid())],
            stdin=subprocess.PIPE,
            pass_fds=(reports,),
            start_new_session=True,
        )

    def _take(self, report: dict[str, Any]) -> None:
        what = report.pop("what", None)
        if what is None:
            return
        if what == "ended":
            error = pickle.loads(base64.b64decode(report["error"]))
            self._ended = Ended(error, report["outlook"])
        else:
            getattr(self._listener, what)(**report)


def _report(line: bytes) -> dict[str, Any]:
    """Return a line as a report, an empty one if it is none.

    The last line of a process that was killed may be torn; and whatever runs in there can write
    into any pipe.
    """
    try:
        report = json.loads(line) if line.endswith(b"\n") else {}
    except ValueError:
        report = {}
    whole = isinstance(report, dict) and report.get("what") in _REPORTS
    if not whole:
        log.debug("spark.no_report", line=line[:200])
    return report if whole else {}
