"""Supervision without Spark: lives that never get anything done, children that die early."""

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
from feeding import SCHEMA, until
from no_spark import Failing

from rxtemporal.errors import ArgumentError, JavaError
from rxtemporal.spark import DatabaseTable
from rxtemporal.spark.sink import supervisor as supervision
from rxtemporal.spark.sink.child import Child
from rxtemporal.spark.sink.supervisor import ATTEMPTS, Supervisor
from rxtemporal.spark.sink.worker import Ended, Job, Life, Listener

FULL = Ended(OSError(errno.ENOSPC, "full"), "later")
DIED = Ended(JavaError("the process that runs Spark ended with code 1"), "later")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let restarts come at once."""
    monkeypatch.setattr(supervision, "LONGEST_PAUSE", 0.0)


@contextlib.contextmanager
def supervised(make: Callable[[Listener], Life], path: Path) -> Iterator[Supervisor]:
    """Lives that run, and end with the block."""
    supervisor = Supervisor(make, path, 0)
    supervisor.start()
    try:
        yield supervisor
    finally:
        supervisor.stop()


class Unstarted(Failing):
    """Lives that end before Spark has started."""

    def run(self) -> Ended | None:
        """End."""
        self.lives += 1
        return self.errors[min(self.lives, len(self.errors)) - 1]


def test_a_disk_that_is_full_for_very_long_is_waited_for(tmp_path: Path) -> None:
    """After more fruitless lives than a float has powers of two, Spark still comes back."""
    lives = Failing([FULL] * 1_100 + [None])
    with supervised(lives, tmp_path) as supervisor:
        until(lambda: not supervisor._thread.is_alive())
        supervisor.check()
        assert (lives.lives, supervisor.restarts, supervisor.batches) == (1_101, 1_100, 1)


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

    def none(listener: Listener) -> Life:
        raise LookupError("no life")

    with (
        supervised(none, tmp_path) as supervisor,
        pytest.raises(LookupError, match="no life"),
    ):
        supervisor.wait(1)


def test_a_process_that_never_starts_is_given_up(tmp_path: Path) -> None:
    """It dies each time without a word: a producer is told after some tries."""
    lives = Unstarted([DIED])
    with supervised(lives, tmp_path) as supervisor:
        until(lambda: supervisor.failure is not None)
        assert lives.lives == ATTEMPTS
        with pytest.raises(JavaError, match="ended with code 1"):
            supervisor.check()


@pytest.mark.parametrize("lives", [Unstarted([FULL]), Failing([DIED])])
def test_room_and_what_has_run_before_are_waited_for(tmp_path: Path, lives: Failing) -> None:
    """Neither a disk that is full from the beginning nor a process that was well ends the query."""
    with supervised(lives, tmp_path) as supervisor:
        until(lambda: lives.lives > 3 * ATTEMPTS)
        supervisor.check()


# A child ------------------------------------------------------------------------------------------


def job(path: Path, target: Any = print) -> Job:
    """What a child is to do."""
    pytest.importorskip("pyspark")
    return Job(path, target, "q", SCHEMA, None, "1 second", 256)


class Heard:
    """A ``Listener`` that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def __getattr__(self, what: str) -> Callable[..., None]:
        return lambda **facts: self.told.append((what, *facts.values()))


class Scripted(Child):
    """A child that runs some other program; ``reports`` is where it reports to."""

    script = ""

    def _start(self, reports: int) -> subprocess.Popen[bytes]:
        begin = f"import os, signal, sys; reports = {reports}; parent = {os.getpid()}\n"
        return subprocess.Popen(
            [sys.executable, "-c", begin + self.script],
            stdin=subprocess.PIPE,
            pass_fds=(reports,),
        )


def scripted(path: Path, script: str) -> tuple[Scripted, list[tuple[Any, ...]]]:
    """A child that runs a script, and what it will have reported."""
    heard = Heard()
    child = Scripted(job(path), heard)  # type: ignore[arg-type]
    child.script = script
    return child, heard.told


@pytest.mark.parametrize("torn", ['{"what": "ended", "error": "abc', '{"what": "noted", "last": 7'])
def test_a_report_that_is_torn_is_none(tmp_path: Path, torn: str) -> None:
    """Killed while it writes, a process has died like any other; what it said before counts."""
    child, told = scripted(
        tmp_path,
        f'os.write(reports, b\'{{"what": "noted", "last": 6}}\\n\' + {torn!r}.encode())\n'
        "os.kill(os.getpid(), signal.SIGKILL)",
    )
    ended = child.run()
    assert ended is not None
    assert ended.outlook == "later"
    assert isinstance(ended.error, JavaError)
    assert "ended with code -9" in str(ended.error)
    assert told == [("noted", 6)]


@pytest.mark.parametrize("line", ["hello", "[1]", '{"what": "else"}', "\\xff", ""])
def test_a_line_that_is_no_report_is_passed_over(tmp_path: Path, line: str) -> None:
    """Whoever writes it, the reports after it are heard."""
    child, told = scripted(
        tmp_path, f'os.write(reports, b\'{line}\\n{{"what": "noted", "last": 6}}\\n\')'
    )
    ended = child.run()
    assert ended is not None
    assert "ended with code 0" in str(ended.error)
    assert told == [("noted", 6)]


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function of a module that only this process has."""
    module: Any = types.ModuleType("only_here")
    exec("def connect():\n    return None\n", module.__dict__)
    module.connect.__module__ = "only_here"
    monkeypatch.setitem(sys.modules, "only_here", module)
    return module.connect


def test_a_target_that_the_child_cannot_make_is_told(tmp_path: Path, elsewhere: Any) -> None:
    """It will be no better in the next life: the error says what is missing and what to do."""
    given = job(tmp_path, DatabaseTable(elsewhere, "t"))
    with supervised(lambda listener: Child(given, listener), tmp_path) as supervisor:
        until(lambda: supervisor.failure is not None)
        with pytest.raises(
            ArgumentError, match=r"cannot be made again .* No module named 'only_here'"
        ):
            supervisor.check()
        assert supervisor.restarts == 0


ENDLESS = """
import time
from rxtemporal.spark.sink import driver

class Runner:
    def __init__(self, job, listener): self.listener = listener
    def run(self):
        self.listener.started(seconds=0.1)
        time.sleep(600)
    def stop(self): time.sleep(600)

driver.Runner, driver.LEAVING = Runner, 0.2
driver.main(reports, parent)
"""


def test_a_micro_batch_that_does_not_end_is_broken_off(tmp_path: Path) -> None:
    """A child that is stopped waits for what runs in it, and not for ever; that is no failure."""
    pytest.importorskip("pyspark")
    made: list[Scripted] = []

    def make(listener: Listener) -> Life:
        made.append(Scripted(job(tmp_path, pl), listener))
        made[-1].script = ENDLESS
        return made[-1]

    with supervised(make, tmp_path) as supervisor:
        until(lambda: supervisor._started)
        supervisor.stop()
    process = made[0]._process
    assert process is not None
    # by itself, not killed
    assert process.returncode == 1
    assert supervisor.failure is None
