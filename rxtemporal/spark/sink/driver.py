"""The process that runs Spark for a sink of another process; ``child`` is the other side."""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
import traceback
from multiprocessing.connection import Connection

from rxtemporal.errors import ArgumentError, JavaError
from rxtemporal.spark.sink.runner import Runner
from rxtemporal.spark.sink.worker import STOP_SECONDS, Report, SinkJob, WorkerExit


def main(orders: int, reports: int, parent: int) -> int:
    """Run the job that comes through ``orders``, until that is closed or ``parent`` has died."""
    source, sender = Connection(orders, writable=False), _Sender(reports)
    try:
        job: SinkJob = pickle.loads(source.recv_bytes())
    except Exception as error:
        sender.send(WorkerExit(_explain_load_error(error), "never"))
        return 1
    runner = Runner(job, sender.send)
    threading.Thread(target=_stop_at_end, args=(runner, source, parent), daemon=True).start()
    ended = runner.run()
    if ended is not None:
        sender.send(ended)
    return 0 if ended is None else 1


def _explain_load_error(cause: Exception) -> ArgumentError:
    error = ArgumentError(
        "the target cannot be loaded in the process that runs Spark: "
        f"{type(cause).__name__}: {cause}. Hint: use only what another process can import, such as "
        "a function of an installed module, or functools.partial(psycopg.connect, '...')."
    )
    error.__cause__ = cause
    return error


def _stop_at_end(runner: Runner, orders: Connection, parent: int) -> None:
    """Stop the runner when the parent closes the pipe or dies.

    A running micro-batch may take ``STOP_SECONDS`` more; then this process ends without it.
    """
    # the pipe alone is not enough: a process forked from the parent may hold its other end
    while os.getppid() == parent and not orders.poll(1.0):
        pass
    limit = threading.Timer(STOP_SECONDS, os._exit, (1,))
    limit.daemon = True
    limit.start()
    runner.stop()


class _Sender:
    """Sender of messages to the parent, for several threads."""

    def __init__(self, handle: int) -> None:
        self._connection = Connection(handle, readable=False)
        self._lock = threading.Lock()

    def send(self, message: Report | WorkerExit) -> None:
        """Send a message; do nothing if the parent does not read it."""
        if isinstance(message, WorkerExit):
            message = WorkerExit(_make_portable(message.error), message.retry)
        with self._lock, contextlib.suppress(ConnectionError):
            self._connection.send(message)


def _make_portable(error: BaseException) -> BaseException:
    """Return the error with its traceback as a note, or its text if it cannot be pickled."""
    notes = getattr(error, "__notes__", [])
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        portable: BaseException = JavaError(f"{type(error).__name__}: {error}")
        portable.__notes__ = [*notes]
        return portable
    trace = "".join(traceback.format_exception(error)).rstrip()
    error.__notes__ = [*notes, f"in the process that runs Spark:\n{trace}"]
    return error
