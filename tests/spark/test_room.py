"""No room in spool or target: the producer is told or waits, and nothing accepted is lost."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from no_spark import SOON, Failing, Idle
from sink_input import SCHEMA, batches, wait_until, write

from rxtemporal.core.events import EventShape
from rxtemporal.errors import SpoolError
from rxtemporal.spark import SparkSink
from rxtemporal.spark.sink.spooled import LONGEST_PAUSE
from rxtemporal.spark.sink.supervisor import ATTEMPTS, Supervisor
from rxtemporal.spark.sink.worker import WorkerExit, retry_after
from rxtemporal.storage.segments import SegmentFolder, Spool


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test here start Spark."""
    monkeypatch.setattr("rxtemporal.spark.sink.spooled.Runner", Idle)


def opened(path: Path, **options: Any) -> SparkSink:
    """A sink that is open."""
    sink = SparkSink(print, path=path, **options)
    sink.open("q", SCHEMA)
    return sink


def spooled(path: Path) -> tuple[int, int]:
    """The bounds of the spool."""
    return SegmentFolder(path / "spool").bounds()


def test_a_full_spool_refuses_and_keeps_what_it_has(tmp_path: Path) -> None:
    """Above its limit ``write`` raises with what to do; the next run finds all that was taken."""
    sink = opened(tmp_path, spool_limit=1)
    write(sink, batches(3)[:1])
    with pytest.raises(SpoolError, match=r"bytes wait for Spark .* its limit is 1\. Hint: raise"):
        write(sink, batches(3)[1:2])
    sink.close(RuntimeError("ended by it"))
    assert spooled(tmp_path) == (0, 1)
    again = opened(tmp_path)
    write(again, batches(3))
    again.close(RuntimeError("so that the spool stays"))
    folder = SegmentFolder(tmp_path / "spool")
    assert sum(folder.describe(number).rows for number in (1, 2, 3, 4)) == 9


def test_a_full_spool_blocks_until_spark_has_taken_something(tmp_path: Path) -> None:
    """The producer waits; what Spark has committed makes room, whether or not Spark deletes it."""
    sink = opened(tmp_path, spool_limit=1, when_full="block")
    write(sink, batches(3)[:1])
    writing = threading.Thread(target=write, args=(sink, batches(3)[1:2]), daemon=True)
    writing.start()
    writing.join(0.3)
    assert writing.is_alive()
    for kind in ("offsets", "commits"):
        (tmp_path / "checkpoint" / kind).mkdir(parents=True)
        (tmp_path / "checkpoint" / kind / "0").write_bytes(b'v1\n{}\n{"segment": 1}')
    writing.join(SOON)
    assert not writing.is_alive()
    assert spooled(tmp_path) == (1, 2)
    sink.close(RuntimeError())


def test_a_producer_that_is_blocked_can_be_interrupted(tmp_path: Path) -> None:
    """``cancel`` ends the wait with its error."""
    sink = opened(tmp_path, spool_limit=1, when_full="block")
    write(sink, batches(3)[:1])
    raised: list[BaseException] = []

    def push() -> None:
        try:
            write(sink, batches(3)[1:2])
        except BaseException as error:
            raised.append(error)

    writing = threading.Thread(target=push, daemon=True)
    writing.start()
    sink.cancel(KeyboardInterrupt())
    writing.join(SOON)
    assert [type(error) for error in raised] == [KeyboardInterrupt]
    sink.close(raised[0])


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
def test_a_full_disk_blocks_or_refuses_as_the_limit_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Without space or right the producer waits or is told; the next run then writes the rest."""
    real, full = os.fsync, threading.Event()

    def fsync(handle: int) -> None:
        if full.is_set():
            raise OSError(code, os.strerror(code))
        real(handle)

    monkeypatch.setattr("os.fsync", fsync)
    waits = opened(tmp_path / "waits", when_full="block")
    told = opened(tmp_path / "told")
    full.set()
    with pytest.raises(SpoolError, match=os.strerror(code)):
        write(told, batches(1)[:1])
    writing = threading.Thread(target=write, args=(waits, batches(1)[:1]), daemon=True)
    writing.start()
    writing.join(0.3)
    assert writing.is_alive()
    full.clear()
    writing.join(SOON)
    assert not writing.is_alive()
    with pytest.raises(SpoolError, match=os.strerror(code)):
        told.write(batches(2)[1])
    with pytest.raises(SpoolError, match=os.strerror(code)):
        told.close(None)
    assert spooled(tmp_path / "told") == (0, 0), "nothing stands for rows that were not written"
    told = opened(tmp_path / "told")
    write(told, batches(1)[:1])
    for sink, path in [(waits, "waits"), (told, "told")]:
        assert spooled(tmp_path / path) == (0, 1)
        sink.close(RuntimeError())


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self, at: dict[float, Any]) -> None:
        self.now, self._at = 0.0, at

    def monotonic(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass, and do what is to be done by then."""
        self.now += seconds
        for due in [due for due in self._at if due <= self.now]:
            self._at.pop(due)()


def test_a_full_disk_is_not_given_the_same_rows_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attempts become rarer, to one in some seconds; cancel ends the wait between two at once."""
    sink = opened(tmp_path, when_full="block")
    clock = Clock({60: lambda: sink.cancel(KeyboardInterrupt())})
    attempts: list[float] = []

    def full(spool: Spool, batch: Any) -> int:
        attempts.append(clock.now)
        raise SpoolError("full") from OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("rxtemporal.spark.sink.spooled.time", clock)
    monkeypatch.setattr(Spool, "append", full)
    with pytest.raises(KeyboardInterrupt):
        write(sink, batches(1)[:1])
    assert 60 <= clock.now < 60.5
    assert 60 / LONGEST_PAUSE <= len(attempts) < 20
    assert attempts[1] - attempts[0] < 0.5, "what passes soon is soon over"
    sink.close(KeyboardInterrupt())


def test_room_in_the_spool_is_seen_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long Spark was behind, the producer goes on as soon as there is room below it."""
    sink = opened(tmp_path, spool_limit=1, when_full="block")
    write(sink, batches(3)[:1])
    clock = Clock({60: lambda: SegmentFolder(tmp_path / "spool").discard(1)})
    monkeypatch.setattr("rxtemporal.spark.sink.spooled.time", clock)
    write(sink, batches(3)[1:2])
    assert 60 <= clock.now < 60.5
    sink.close(RuntimeError())


def test_another_shape_on_the_same_path_is_refused(tmp_path: Path) -> None:
    """A spool of one shape is not continued in another shape with the same columns."""
    opened(tmp_path).close(RuntimeError())
    with pytest.raises(ValueError, match="were in interval shape"):
        opened(tmp_path, shape=EventShape.POINT)
    opened(tmp_path).close(RuntimeError())


@pytest.fixture
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let restarts come at once."""
    monkeypatch.setattr("rxtemporal.spark.sink.supervisor.FIRST_PAUSE", 0.0)


def commits(path: Path) -> None:
    """Spark's note that micro-batch 0 is done."""
    (path / "commits").mkdir(parents=True)
    (path / "commits" / "0").write_bytes(b"")


@pytest.mark.usefixtures("_no_pauses")
def test_what_may_pass_is_tried_until_it_has_passed(tmp_path: Path) -> None:
    """Deaths and full disks are followed by another life, and what waits is then delivered."""
    full = WorkerExit(OSError(errno.ENOSPC, "full"), "always")
    workers = Failing([full, full, None])
    supervisor = Supervisor(workers, tmp_path, 0)
    commits(tmp_path)
    supervisor.start()
    supervisor.wait(1)
    supervisor.check()
    assert (supervisor.restarts, supervisor.last_error) == (2, "[Errno 28] full")
    supervisor.stop()


@pytest.mark.usefixtures("_no_pauses")
def test_what_cannot_pass_ends_the_query_at_once(tmp_path: Path) -> None:
    """A user's error comes back as itself after one life."""
    error = LookupError("no such customer")
    workers = Failing([WorkerExit(error, "never")])
    supervisor = Supervisor(workers, tmp_path, 0)
    supervisor.start()
    wait_until(lambda: supervisor.failure is not None)
    with pytest.raises(LookupError):
        supervisor.check()
    supervisor.stop()
    assert workers.workers == 1


@pytest.mark.usefixtures("_no_pauses")
@pytest.mark.parametrize("retry", ["some", "always"])
def test_waiting_for_the_end_gives_up(tmp_path: Path, retry: Any) -> None:
    """Waiting for the end gives up after some workers that wrote nothing."""
    workers = Failing([WorkerExit(OSError("gone"), retry)])
    supervisor = Supervisor(workers, tmp_path, 0)
    supervisor.start()
    with pytest.raises(OSError, match="gone"):
        supervisor.wait(1)
    assert workers.workers >= ATTEMPTS
    supervisor.stop()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, "full"), "always"),
        (OSError(errno.ENOENT, "gone"), "never"),
        (LookupError("x"), "never"),
        (SpoolError("damaged"), "never"),
        (type("OperationalError", (Exception,), {})("away"), "always"),
        (type("Py4JJavaError", (Exception,), {"__module__": "py4j.protocol"})("worker"), "some"),
        (
            type("Py4JJavaError", (Exception,), {"__module__": "py4j.protocol"})(
                "java.io.IOException: No space left on device"
            ),
            "always",
        ),
        (
            type("Py4JJavaError", (Exception,), {"__module__": "py4j.protocol"})(
                "rxtemporal.errors.SpoolError: damaged"
            ),
            "never",
        ),
    ],
)
def test_retry_after_an_error(error: BaseException, expected: str) -> None:
    """Errors that somebody can mend are waited for, the others end the query."""
    assert retry_after(error) == expected


def test_a_spool_that_is_full_counts_its_bytes(tmp_path: Path) -> None:
    """Discarded segments do not count."""
    with Spool.open(tmp_path, "q", SCHEMA) as spool:
        for batch in batches(2)[:2]:
            spool.append(batch)
        both = spool.waiting_bytes()
        spool.discard(1)
        assert 0 < spool.waiting_bytes() < both
        spool.discard(2)
        assert spool.waiting_bytes() == 0
