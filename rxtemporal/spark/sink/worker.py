"""One life of the Spark side of a sink: what it is told, what it reports, and how it may end."""

from __future__ import annotations

import dataclasses
import errno
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import polars as pl

from rxtemporal.errors import JavaError, SpoolError
from rxtemporal.spark.sink.checkpoint import committed_segment
from rxtemporal.spark.targets.target import Origin
from rxtemporal.storage.files import WriterLock, reported
from rxtemporal.storage.segments import SegmentFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# how long what is left of a run that was killed may take to follow it
PATIENCE = 30.0
# how long the process that runs Spark may take to end when it is told to, a micro-batch included
LEAVING = PATIENCE / 2
SAFE = "what was written before is in the spool; once the cause is gone, run the query again"


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """What is to be carried where; ``path`` holds the spool, the checkpoint and the locks."""

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
        """The spool as its readers see it."""
        return SegmentFolder(self.path / "spool")

    def origin(self) -> Origin:
        """Return whose rows come, and how far Spark has noted them down by now."""
        spool = self.spool
        committed = max(spool.bounds()[0], committed_segment(self.checkpoint))
        return Origin(self.query, spool.header()["id"], self.schema, committed, self.path)


# "never": it would come again; "again": worth some tries; "later": for as long as it takes
Outlook = Literal["never", "again", "later"]


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """Why a life has ended, and whether the next one may do better."""

    error: BaseException
    outlook: Outlook


class Listener(Protocol):
    """Who is told of a life's progress, from any thread."""

    def started(self, seconds: float) -> None:
        """Spark runs, after this many seconds."""

    def noted(self, last: int) -> None:
        """Spark has committed this segment in an earlier life."""

    def planned(self, number: int, cti: int) -> None:
        """A micro-batch begins, after which the CTI is ``cti``."""

    def published(self, number: int, last: int, seconds: float) -> None:
        """A micro-batch is in the target, up to the segment ``last``."""


class Life(Protocol):
    """Runs Spark until it is stopped or something ends it."""

    def run(self) -> Ended | None:
        """Return when it is over; None if it was stopped."""

    def stop(self) -> None:
        """Have ``run`` return, from any thread.

        A micro-batch that runs is waited for; in a process of its own no longer than ``LEAVING``
        seconds. One that is broken off comes again with the next run.
        """

    def in_callback(self) -> bool:
        """Whether a user's function is being called in this thread."""


@contextmanager
def sole_driver(path: Path) -> Iterator[None]:
    """Hold the lock that lets one process at a time drive Spark over a path, waiting a while."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with reported(f"cannot lock {path}"):
                lock = WriterLock(path / "driver.lock")
            break
        except SpoolError as error:
            # the Spark process of a run that was killed ends by itself
            held = isinstance(error.__cause__, BlockingIOError)
            if not held or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    try:
        yield
    finally:
        lock.release()


# what passes when somebody makes room or gives a right, as an error of this process and as a text
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EFBIG}
_PASSING = {*_NO_ROOM, errno.ETIMEDOUT}
_PASSING_TEXTS = (
    *map(os.strerror, sorted(_NO_ROOM)),
    # Java says no more than this
    "AccessDeniedException",
    "Mkdirs failed to create",
)
# how Python tells that an error was raised in the handling of another one
_HANDLING = "During handling of the above exception, another exception occurred:"
_OURS = re.compile(r"\brxtemporal\.errors\.(\w+)")


def outlook(error: BaseException) -> Outlook:
    """Judge whether what has ended a life may be over when it is tried again.

    A full disk and a missing right pass when somebody helps, a database that is away comes back,
    and a Java process that has lost its driver ends, on a slow machine late. What this package
    refuses, what a query cannot mean and what a user's function raises stays as it is. The rest of
    what Spark says may be a lost worker.

    An error counts as what it is, or as the cause that it names (``raise … from cause``); what it
    was raised in the handling of says nothing of what it means.
    """
    chain = list(_chain(error))
    if any(isinstance(each, OSError) and each.errno in _PASSING for each in chain):
        return "later"
    # what PEP 249 calls the errors of a database's operation, whatever its module is
    if any("OperationalError" in [kind.__name__ for kind in type(each).__mro__] for each in chain):
        return "later"
    if isinstance(error, JavaError) and error.__cause__ is not None:
        return "again"  # there is a Java, and Spark does not start in it
    if not type(error).__module__.startswith(("py4j", "pyspark")):
        return "never"
    if type(error).__name__ in ("AnalysisException", "ParseException"):
        return "never"
    return _outlook_told(" ".join(map(str, chain)))


def _outlook_told(text: str) -> Outlook:
    """Judge by what Spark tells, where the error itself was in another process."""
    ours = set(_OURS.findall(text))
    if ours - {SpoolError.__name__}:
        return "never"
    if any(each in text.rpartition(_HANDLING)[2] for each in _PASSING_TEXTS):
        return "later"
    return "never" if ours else "again"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__
