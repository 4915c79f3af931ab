"""Supervision without Spark: workers that write nothing, children that die early."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from no_spark import Failing
from sink_input import SCHEMA, wait_until

from rxtemporal.errors import ArgumentError, JavaError
from rxtemporal.spark import DatabaseTable
from rxtemporal.spark.sink import supervisor as supervision
from rxtemporal.spark.sink.child import Child
from rxtemporal.spark.sink.supervisor import ATTEMPTS, Supervisor
from rxtemporal.spark.sink.worker import (
    Listener,
    Recovered,
    Report,
    SinkJob,
    Worker,
    WorkerExit,
)

FULL = WorkerExit(OSError(errno.ENOSPC, "full"), "always")
DIED = WorkerExit(JavaError("the process that runs Spark ended with code 1"), "always")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let restarts come at once."""
    monkeypatch.setattr(supervision, "LONGEST_PAUSE", 0.0)


@contextlib.contextmanager
def supervised(make: Callable[[Listener], Worker], path: Path) -> Iterator[Supervisor]:
    """Run workers, which end with the block."""
    supervisor = Supervisor(make, path, 0)
    supervisor.start()
    try:
        yield supervisor
    finally:
        supervisor.stop()


class Unstarted(Failing):
    """Workers that end before Spark has started."""

    def run(self) -> WorkerExit | None:
        """End."""
        self.workers += 1
        return self.errors[min(self.workers, len(self.errors)) - 1]


def test_a_disk_that_is_full_for_very_long_is_waited_for(tmp_path: Path) -> None:
    """After more workers in vain than a float has powers of two, Spark still comes back."""
    workers = Failing([FULL] * 1_100 + [None])
    with supervised(workers, tmp_path) as supervisor:
        wait_until(lambda: not supervisor._thread.is_alive())
        supervisor.check()
        assert (workers.workers, supervisor.restarts, supervisor.batches) == (1_101, 1_100, 1)


def test_pauses_grow_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is twice the one before, until half a minute."""
    monkeypatch.setattr(supervision, "LONGEST_PAUSE", 30.0)
    pauses = [supervision._pause(fruitless) for fruitless in (1, 2, 3, 6, 7, 8, 10**6)]
    assert pauses == [0.5, 1, 2, 16, 30, 30, 30]


def test_whatever_ends_the_supervisors_thread_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for a thread that is gone."""

    def broken(fruitless: int) -> float:
        raise OverflowError("too large")

    monkeypatch.setattr(supervision, "_pause", broken)
    with supervised(Failing([FULL]), tmp_path) as supervisor:
        with pytest.raises(OverflowError, match="too large"):
            supervisor.wait(1)
        assert supervisor.last_error == "too large"

    def none(listener: Listener) -> Worker:
        raise LookupError("no worker")

    with (
        supervised(none, tmp_path) as supervisor,
        pytest.raises(LookupError, match="no worker"),
    ):
        supervisor.wait(1)


def test_a_process_that_never_starts_is_given_up(tmp_path: Path) -> None:
    """It dies each time without a word: a producer is told after some tries."""
    workers = Unstarted([DIED])
    with supervised(workers, tmp_path) as supervisor:
        wait_until(lambda: supervisor.failure is not None)
        assert workers.workers == ATTEMPTS
        with pytest.raises(JavaError, match="ended with code 1"):
            supervisor.check()


@pytest.mark.parametrize("workers", [Unstarted([FULL]), Failing([DIED])])
def test_room_and_what_has_run_before_are_waited_for(tmp_path: Path, workers: Failing) -> None:
    """Neither a disk that is full from the beginning nor a process that was well ends the query."""
    with supervised(workers, tmp_path) as supervisor:
        wait_until(lambda: workers.workers > 3 * ATTEMPTS)
        supervisor.check()


# A child ------------------------------------------------------------------------------------------


def job(path: Path, target: Any = print) -> SinkJob:
    """Return a job for a child."""
    pytest.importorskip("pyspark")
    return SinkJob(path, target, "q", SCHEMA, None, "1 second", 256)


class Scripted(Child):
    """A child that runs another program, with the handles ``orders`` and ``reports``."""

    script = ""

    def _start(self, orders: int, reports: int) -> subprocess.Popen[bytes]:
        begin = f"orders, reports, parent = {orders}, {reports}, {os.getpid()}\n"
        return subprocess.Popen(
            [sys.executable, "-c", begin + self.script], pass_fds=(orders, reports)
        )


SENDING = """
import os, signal
from multiprocessing.connection import Connection
from rxtemporal.spark.sink.worker import Recovered
connection = Connection(reports, readable=False)
connection.send(Recovered(6))
os.write(reports, {torn!r})
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("torn", [b"", b"\0\0", b"\0\0\0\x20", b"\0\0\0\x20\x80\x04\x95"])
def test_a_report_that_is_torn_is_ignored(tmp_path: Path, torn: bytes) -> None:
    """A process may be killed while it writes; its earlier reports count."""
    reports: list[Report] = []
    child = Scripted(job(tmp_path), reports.append)
    child.script = SENDING.format(torn=torn)
    ended = child.run()
    assert ended is not None
    assert ended.retry == "always"
    assert isinstance(ended.error, JavaError)
    assert "ended with code -9" in str(ended.error)
    assert reports == [Recovered(6)]


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function of a module that only this process has."""
    module: Any = types.ModuleType("only_here")
    exec("def connect():\n    return None\n", module.__dict__)
    module.connect.__module__ = "only_here"
    monkeypatch.setitem(sys.modules, "only_here", module)
    return module.connect


def test_a_target_that_the_child_cannot_make_is_told(tmp_path: Path, elsewhere: Any) -> None:
    """Another worker could do no better: the error says what is missing and what to do."""
    given = job(tmp_path, DatabaseTable(elsewhere, "t"))
    with supervised(lambda listener: Child(given, listener), tmp_path) as supervisor:
        wait_until(lambda: supervisor.failure is not None)
        with pytest.raises(ArgumentError, match=r"cannot be loaded .* No module named 'only_here'"):
            supervisor.check()
        assert supervisor.restarts == 0


ENDLESS = """
import time
from rxtemporal.spark.sink import driver
from rxtemporal.spark.sink.worker import Started

class Runner:
    def __init__(self, job, listener): self.listener = listener
    def run(self):
        self.listener(Started(0.1))
        time.sleep(600)
    def stop(self): time.sleep(600)

driver.Runner, driver.STOP_SECONDS = Runner, 0.2
driver.main(orders, reports, parent)
"""


def test_a_micro_batch_that_does_not_end_is_broken_off(tmp_path: Path) -> None:
    """A child that is stopped waits for what runs in it, but not for ever; that is no failure."""
    pytest.importorskip("pyspark")
    made: list[Scripted] = []

    def make(listener: Listener) -> Worker:
        made.append(Scripted(job(tmp_path, pl), listener))
        made[-1].script = ENDLESS
        return made[-1]

    with supervised(make, tmp_path) as supervisor:
        wait_until(lambda: supervisor._started)
        supervisor.stop()
    process = made[0]._process
    assert process is not None
    # by itself, not killed
    assert process.returncode == 1
    assert supervisor.failure is None
