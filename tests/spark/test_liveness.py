"""A dead Java process: the same clear error in every way of using it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sink_input import SCHEMA, batches, wait_until

from rxtemporal.errors import JavaError, SourceError
from rxtemporal.spark.jvm.java import explain_java_exit, report_java_exit
from rxtemporal.spark.sink.direct import DirectDelivery
from rxtemporal.spark.sink.worker import SinkJob

CUT = [ConnectionRefusedError("Connection refused"), EOFError(), OSError("broken pipe")]


class Process:
    """Stands in for a process that has ended, or for one that goes on."""

    def __init__(self, returncode: int | None) -> None:
        self.returncode = returncode

    def poll(self) -> int | None:
        """Its end, if it has ended."""
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Wait for its end."""
        if self.returncode is None:
            raise subprocess.TimeoutExpired("java", timeout)
        return self.returncode


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], None]:
    """Return a function that makes the Java process one that has ended, or one that runs."""
    pyspark = pytest.importorskip("pyspark")

    def put(code: int | None) -> None:
        gateway = type("Gateway", (), {"proc": Process(code)})
        monkeypatch.setattr(pyspark.SparkContext, "_gateway", gateway)

    return put


@pytest.mark.parametrize("cut", CUT, ids=repr)
def test_what_broke_the_connection_is_told(java: Any, cut: Exception) -> None:
    """Not that it broke: code, what to do, and the setting for memory; the rest is its cause."""
    java(-9)
    said = r"ended with code -9 .* Hint: do this\. .*memory"
    with pytest.raises(JavaError, match=said) as gone, report_java_exit("do this"):
        raise cut
    assert gone.value.__cause__ is cut


def test_an_error_is_itself_while_java_runs(java: Any) -> None:
    """A socket of a user's own may break, too."""
    java(None)
    with pytest.raises(ConnectionRefusedError), report_java_exit("do this"):
        raise ConnectionRefusedError


@pytest.mark.parametrize("missing", [True, False])
def test_without_a_process_nothing_is_known(monkeypatch: pytest.MonkeyPatch, missing: bool) -> None:
    """Without pyspark, and if somebody else has started Java, the error itself is raised."""
    if missing:
        monkeypatch.setitem(sys.modules, "pyspark", None)
    else:
        pyspark = pytest.importorskip("pyspark")
        monkeypatch.setattr(pyspark.SparkContext, "_gateway", None)
    assert explain_java_exit(OSError("broken pipe"), "do this") is None


class Broken:
    """A DataFrame whose Java process ends in the middle of its rows."""

    isStreaming = False  # noqa: N815 - Spark's name

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *given, **named: self

    def __iter__(self) -> Iterator[Any]:
        raise EOFError


def test_a_dataframe_that_is_read(java: Any) -> None:
    """The end of the socket that rows come by is none of the rows."""
    from rxtemporal.spark.dataframes import streaming as reading

    java(-9)
    given: Any = type("Given", (), {"frame": Broken(), "in_order": ()})
    with pytest.raises(JavaError, match=r"code -9 .* create it in a new session"):
        list(reading._fetch(given, [], SCHEMA, 1))


@pytest.mark.parametrize(
    ("wrong", "failed"), [(CUT[0], None), (None, CUT[1]), (SourceError("x"), CUT[1])]
)
def test_a_streaming_dataframe(java: Any, wrong: Any, failed: Any) -> None:
    """Java may die in a micro-batch or between two of them."""
    from rxtemporal.spark.dataframes import streaming as microbatches

    query = microbatches._Query.__new__(microbatches._Query)
    query._failure = wrong
    query._source = type("Source", (), {"name": "readings"})  # type: ignore[assignment]
    java(-9)
    told = query._find_cause(failed)
    assert isinstance(told, JavaError)
    assert told.__cause__ is (wrong or failed)
    java(None)
    assert not isinstance(query._find_cause(failed), JavaError)


def test_the_direct_mode(java: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes next, or closes, is told that the rest is lost."""
    java(-9)

    class Cut:
        last = 0

        def write(self, *given: Any) -> None:
            raise CUT[0]

        def close(self) -> None:
            pass

    monkeypatch.setattr("rxtemporal.spark.sink.direct.writer_for", lambda *given: Cut())
    monkeypatch.setattr("rxtemporal.spark.sink.direct._as_dataframe", lambda *given: None)
    session: Any = object()
    delivery = DirectDelivery(SinkJob(tmp_path, print, "q", SCHEMA, session, "1 second", 1))
    delivery.write(batches(1)[0])
    wait_until(lambda: delivery._failure is not None)
    with pytest.raises(JavaError, match=r"code -9 .* are lost: run the query again"):
        delivery.close(None)
    assert "which is lost" in CUT[0].__notes__[0]


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from sink_input import SCHEMA, batches, wait_until
from rxtemporal.errors import JavaError
from rxtemporal.spark import ParquetTable, SparkSink
from rxtemporal.spark.sink.direct import DirectDelivery

it = SparkSink(ParquetTable("table"), path="sink", mode="direct")
it.open("q", SCHEMA)
it.write(batches(3)[0])
wait_until(lambda: it.stats().micro_batches > 0, 300)
from pyspark import SparkContext
os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
try:
    for batch in batches(3)[1:]:
        it.write(batch)
    it.close(None)
except JavaError as error:
    print(error)
    it.close(error)
"""


@pytest.mark.full
@pytest.mark.java
def test_a_java_process_that_is_killed_under_the_direct_mode(tmp_path: Path) -> None:
    """The query ends with what has happened, and so does its process."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(Path(__file__).parents[1] / "support")],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Spark's Java process ended with code -9 while the query ran" in done.stdout
    assert "direct mode does not restart it" in done.stdout
