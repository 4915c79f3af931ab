"""The parent's side of a worker process; ``driver`` is the other side.

The child receives its job through one pipe, and ends when the parent closes that pipe or dies. It
sends its reports through another one.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection

from rxtemporal.errors import ArgumentError, JavaError
from rxtemporal.spark.jvm.session import require_pyspark
from rxtemporal.spark.sink.worker import PATIENCE, SAFE, Listener, Report, SinkJob, WorkerExit

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from rxtemporal.spark.sink.driver import main; sys.exit(main(*map(int, sys.argv[2:])))"
)


def serialize_job(job: SinkJob) -> bytes:
    """Return a job as bytes for another process; ``ArgumentError`` if it cannot be pickled."""
    require_pyspark()
    from pyspark import cloudpickle

    try:
        return bytes(cloudpickle.dumps(job))
    except Exception as error:
        raise ArgumentError(
            f"the target {job.target!r} cannot be sent to the process that runs Spark: "
            f"{error}. Hint: use only what can be pickled, such as a function of a module, or "
            "functools.partial(psycopg.connect, '...')."
        ) from error


class Child:
    """A process that runs Spark; a ``Worker``."""

    def __init__(self, job: SinkJob, listener: Listener) -> None:
        self._job, self._listener = job, listener
        self._changed = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = False
        # closing it tells the child to stop
        self._orders: Connection | None = None
        self._exit: WorkerExit | None = None

    def run(self) -> WorkerExit | None:
        """Start the process, pass on its reports, and return how it ended."""
        job = serialize_job(self._job)
        child_orders, orders = multiprocessing.Pipe(duplex=False)
        reports, child_reports = multiprocessing.Pipe(duplex=False)
        with orders, reports:
            with child_orders, child_reports:
                process = self._start_unless_stopping(orders, child_orders, child_reports)
            if process is None:
                return None
            try:
                with contextlib.suppress(OSError):  # the child has ended, or is being stopped
                    orders.send_bytes(job)
                for message in _messages(reports):
                    self._handle(message)
                code = process.wait()
            finally:
                if process.poll() is None:
                    self.stop()
        if self._stopping:
            return None
        return self._exit or WorkerExit(
            JavaError(f"the process that runs Spark ended with code {code}. Hint: {SAFE}."),
            "always",
        )

    def stop(self) -> None:
        """Close the pipe to the child; a child that does not end in time is killed."""
        with self._changed:
            self._stopping = True
            process, orders = self._process, self._orders
        if process is None or orders is None:
            return
        orders.close()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()

    def in_callback(self) -> bool:
        """Return False: a child runs no function of this process."""
        return False

    def _start_unless_stopping(
        self, orders: Connection, child_orders: Connection, child_reports: Connection
    ) -> subprocess.Popen[bytes] | None:
        with self._changed:
            if not self._stopping:
                self._orders = orders
                self._process = self._start(child_orders.fileno(), child_reports.fileno())
            return self._process

    def _start(self, orders: int, reports: int) -> subprocess.Popen[bytes]:
        handles = [str(each) for each in (orders, reports, os.getpid())]
        # in a new session: Ctrl-C goes to this process only, which then stops the child in order
        return subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps(sys.path), *handles],
            stdin=subprocess.DEVNULL,
            pass_fds=(orders, reports),
            start_new_session=True,
        )

    def _handle(self, message: Report | WorkerExit) -> None:
        if isinstance(message, WorkerExit):
            self._exit = message
        else:
            self._listener(message)


def _messages(reports: Connection) -> Iterator[Report | WorkerExit]:
    """Yield messages until the process ends; a killed process may leave half of one."""
    while True:
        try:
            message = reports.recv()
        except (EOFError, OSError):
            return
        yield message
