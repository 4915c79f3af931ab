"""Spark Connect: queries and direct sinks, with the rows of a classic session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from connected import compute
from needs import skip_or_fail

from rxtemporal.errors import BindingError
from rxtemporal.spark import ParquetTable, SparkSink, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture(scope="module")
def connected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process finds whose session is a client of a Connect server on this machine.

    It is a process of its own, since pyspark has one kind of session in a process.
    """
    try:
        import google.rpc  # noqa: F401
        import grpc_status  # noqa: F401
    except ImportError as error:
        skip_or_fail("java", f"Spark Connect is not installed: {error}")
    folder = tmp_path_factory.mktemp("connect")
    done = subprocess.run(
        [sys.executable, str(SUPPORT / "connected.py"), str(folder)],
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(SUPPORT), *sys.path])),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        encoding="utf-8",
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.full
@pytest.mark.java
def test_the_rows_are_those_of_a_classic_session(
    connected: dict[str, Any], spark: SparkSession, tmp_path: Path
) -> None:
    """Bounded and streaming, split into buckets, through a door, and back into this process."""
    expected = json.loads(json.dumps(compute(spark, tmp_path)))
    assert {name: connected[name] for name in expected} == expected
    assert all(expected.values())


@pytest.mark.full
@pytest.mark.java
def test_errors_are_a_few_lines_there_too(connected: dict[str, Any]) -> None:
    """Spark's text begins with the sentence, and a stream of the result raises the error itself."""
    assert "Python worker: ZeroDivisionError: integer division" in connected["collected"]
    assert "Traceback" not in connected["collected"]
    assert connected["failing stream"].startswith("ZeroDivisionError('integer division")


@pytest.mark.full
@pytest.mark.java
def test_what_cannot_work_says_why(connected: dict[str, Any]) -> None:
    """Functions of micro-batches run on the server; no variable is named that is not set."""
    refused = connected["refused"]
    assert "cannot reach this sink" in refused["spooled"]
    assert "mode='direct'" in refused["spooled"]
    assert "ParquetTable writes from this process" in refused["direct table"]
    assert "cannot reach this process" in refused["streaming source"]
    for name in ("session", "own session"):
        assert "has a session of Spark Connect" in refused[name]
    assert not any("SPARK_REMOTE" in text for text in refused.values())


def test_a_variable_that_is_set_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """SPARK_REMOTE makes clients of all sessions, so no classic one can be started."""
    pytest.importorskip("pyspark")
    monkeypatch.setenv("SPARK_REMOTE", "sc://somewhere")
    with pytest.raises(BindingError, match=r"SPARK_REMOTE \(sc://somewhere\).*unset it"):
        session()
    sink = SparkSink(ParquetTable(tmp_path / "table"), path=tmp_path / "sink")
    with pytest.raises(BindingError, match="SPARK_REMOTE"):
        sink.open("query", {})  # type: ignore[arg-type]
