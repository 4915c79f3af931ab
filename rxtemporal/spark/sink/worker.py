"""The worker that runs Spark for a sink: its job, its reports, its end."""

from __future__ import annotations

import dataclasses
import errno
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import polars as pl

from rxtemporal.core.files import WriterLock, report_errors
from rxtemporal.errors import JavaError, SpoolError
from rxtemporal.spark.jvm.session import is_session
from rxtemporal.spark.sink.checkpoint import committed_segment
from rxtemporal.spark.targets.target import Origin
from rxtemporal.storage.segments import SegmentFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# "never": the error would recur; "some": a few attempts; "always": as long as it takes
Retry = Literal["never", "some", "always"]
# errors that end when somebody frees space or grants a permission, as numbers and as texts
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EFBIG}
_TEMPORARY = {*_NO_ROOM, errno.ETIMEDOUT}
_TEMPORARY_TEXTS = (
    *map(os.strerror, sorted(_NO_ROOM)),
    # Java says no more than this
    "AccessDeniedException",
    "Mkdirs failed to create",
)
# Python's words for an error that was raised while another one was handled
_HANDLING = "During handling of the above exception, another exception occurred:"
_OURS = re.compile(r"\brxtemporal\.errors\.(\w+)")


def retry_after(error: BaseException) -> Retry:
    """Return if and how long Spark is started again after an error.

    A full disk, a missing permission, an unavailable database, a Java process that still has to end
    and one that was killed while it started are temporary. Errors of this package, of the query and
    of a user's function are permanent. Any other error of Spark may be a lost executor.

    An error counts as itself and as the causes that it names (``raise … from cause``), but not as
    the error during whose handling it was raised.
    """
    chain = list(_list_causes(error))
    if any(isinstance(each, OSError) and each.errno in _TEMPORARY for each in chain):
        return "always"
    # PEP 249's class for errors of a database's operation, in any module
    if any("OperationalError" in [kind.__name__ for kind in type(each).__mro__] for each in chain):
        return "always"
    if isinstance(error, JavaError) and error.killed:
        return "always"
    if isinstance(error, JavaError) and error.__cause__ is not None:
        return "some"  # there is a Java, and Spark does not start in it
    if not type(error).__module__.startswith(("py4j", "pyspark")):
        return "never"
    if type(error).__name__ in ("AnalysisException", "ParseException"):
        return "never"
    return _retry_after_text(" ".join(map(str, chain)))


def _retry_after_text(text: str) -> Retry:
    """Judge by Spark's message, where the error itself was raised in another process."""
    ours = set(_OURS.findall(text))
    if ours - {SpoolError.__name__}:
        return "never"
    if any(each in text.rpartition(_HANDLING)[2] for each in _TEMPORARY_TEXTS):
        return "always"
    return "never" if ours else "some"


def _list_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


# seconds that the processes of a killed run may take to end
PATIENCE = 30.0
# seconds that a stopped worker process may take to end, including a running micro-batch
STOP_SECONDS = PATIENCE / 2
SAFE = "rows written before are safe in the spool; remove the cause, then run the query again"


@dataclasses.dataclass(frozen=True, slots=True)
class SinkJob:
    """Job of a sink: a query and its target; ``path`` has spool, checkpoint and locks."""

    path: Path
    target: Any
    query: str
    schema: pl.Schema
    session: SparkSession | Mapping[str, Any] | None
    trigger: str
    max_segments: int

    @property
    def checkpoint(self) -> Path:
        """Spark's own folder."""
        return self.path / "checkpoint"

    @property
    def spool(self) -> SegmentFolder:
        """The spool, for reading."""
        return SegmentFolder(self.path / "spool")

    @property
    def owns_session(self) -> bool:
        """True if the sink starts its Spark session itself; False if the user gave one."""
        return not is_session(self.session)

    def origin(self) -> Origin:
        """Return the origin of the rows, with the last segment committed so far."""
        spool = self.spool
        committed = max(spool.bounds()[0], committed_segment(self.checkpoint))
        return Origin(self.query, spool.header()["id"], self.schema, committed, self.path)


# Reports ------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Started:
    """Report that Spark runs, after this many seconds."""

    seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class Recovered:
    """Report that an earlier worker has committed all segments up to this one."""

    last: int


@dataclasses.dataclass(frozen=True, slots=True)
class Planned:
    """Report that a micro-batch begins; ``cti`` is the CTI after it."""

    number: int
    cti: int


@dataclasses.dataclass(frozen=True, slots=True)
class Published:
    """Report that a micro-batch is in the target, up to the segment ``last``."""

    number: int
    last: int
    seconds: float


Report = Started | Recovered | Planned | Published
# called from any thread of the worker
Listener = Callable[[Report], None]


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerExit:
    """The error that ended a worker, and if another worker may succeed."""

    error: BaseException
    retry: Retry


class Worker(Protocol):
    """Worker that runs Spark until it is stopped or fails."""

    def run(self) -> WorkerExit | None:
        """Return at the end; None if the worker was stopped."""

    def stop(self) -> None:
        """End ``run``, from any thread.

        Waits for a running micro-batch, in a child process at most ``STOP_SECONDS``. An interrupted
        micro-batch is repeated by the next run.
        """

    def in_callback(self) -> bool:
        """Return True if this thread is inside a user's function."""


@contextmanager
def driver_lock(path: Path) -> Iterator[None]:
    """Hold the lock that allows one process at a time to run Spark on a path; wait for it.

    The Spark process of a killed run releases it when it ends.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with report_errors(f"cannot lock {path}"):
                lock = WriterLock(path / "driver.lock")
            break
        except SpoolError as error:
            held = isinstance(error.__cause__, BlockingIOError)
            if not held or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    try:
        yield
    finally:
        lock.release()
