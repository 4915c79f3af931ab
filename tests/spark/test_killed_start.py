"""A Java process that is killed while it starts is started again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from rxtemporal.errors import JavaError
from rxtemporal.spark.jvm.java import find_java, make_killed_error
from rxtemporal.spark.sink.worker import retry_after

pytestmark = pytest.mark.java

SESSION = """
from rxtemporal.errors import JavaError
from rxtemporal.spark import session
try:
    session()
except JavaError as error:
    print(error.killed, error)
print(session().range(3).count())
"""
SINK = """
import sys
import rxtemporal as rxt
from rxtemporal.spark import ParquetTable, SparkSink
sink = SparkSink(ParquetTable(sys.argv[1] + "/table"), path=sys.argv[1] + "/sink")
points = rxt.from_events([rxt.PointEvent(n, {"x": n}) for n in range(5)])
with points.run(sink, name="points") as process:
    process.wait()
print(sink.stats().restarts)
"""


def run_with_killed_starts(program: str, folder: Path, times: int) -> subprocess.CompletedProcess:  # type: ignore[type-arg]
    """Run a program under a Java whose first starts of Spark are killed.

    This Java is the seam: a script that ends itself where it would become Spark's process.
    """
    real = find_java().home / "bin" / "java"
    script = folder / "home" / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(
        "#!/bin/sh\n"
        'case "$*" in *launcher.Main*) ;; *deploy.SparkSubmit*)\n'
        f'  count=$(ls "{folder}" | grep -c killed)\n'
        f'  if [ "$count" -lt {times} ]; then touch "{folder}/killed$count"; kill -9 $$; fi ;;\n'
        "esac\n"
        f'exec "{real}" "$@"\n',
        encoding="utf-8",
    )
    script.chmod(0o755)
    return subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        env={**os.environ, "RXTEMPORAL_JAVA": str(folder / "home")},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )


@pytest.mark.full
def test_a_session_says_it_and_starts_the_next_time(tmp_path: Path) -> None:
    """The error names the signal, and nothing of the dead process is left."""
    done = run_with_killed_starts(SESSION, tmp_path, 1)
    first, count = done.stdout.splitlines()
    assert first.startswith("True Spark's Java process was killed by signal 9 while it started.")
    assert "Hint: start it again" in first
    assert count == "3"


@pytest.mark.full
def test_a_sink_starts_it_again(tmp_path: Path) -> None:
    """All rows are in the table, after as many restarts as there were kills."""
    done = run_with_killed_starts(SINK, tmp_path, 2)
    assert done.stdout.splitlines()[-1] == "2", done.stderr
    assert sorted(pl.read_parquet(tmp_path / "table")["x"]) == [0, 1, 2, 3, 4]


@pytest.mark.full
def test_a_java_that_is_always_killed_ends_the_query(tmp_path: Path) -> None:
    """After five attempts, with the signal in the error."""
    done = run_with_killed_starts(SINK, tmp_path, 100)
    assert "was killed by signal 9 while it started" in done.stderr
    assert done.returncode == 1
    assert len(list(tmp_path.glob("killed*"))) == 5


def test_other_errors_of_a_start_are_lasting() -> None:
    """A Java in which Spark does not start is not tried for ever."""
    error = JavaError("Spark does not start")
    error.__cause__ = RuntimeError("no heap")
    assert retry_after(error) == "some"
    killed = make_killed_error(-9)
    killed.__cause__ = RuntimeError("gone")
    assert retry_after(killed) == "always"
