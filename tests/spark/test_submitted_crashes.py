"""Crashes of a program that spark-submit runs: each row is in its table once.

Such a program uses the Java process that has started it, and nothing restarts either of them. So
Python, Java or both are killed at drawn times, while Spark starts or works, and the program is run
again. ``RXTEMPORAL_CRASH_KILLS`` is how often, ``RXTEMPORAL_CRASH_SEED`` repeats a draw.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from child_process import HERE, environment
from processes import are_there, descendants, end, list_family
from sink_input import expected_rows, read_table, wait_until

from rxtemporal.spark.jvm.java import find_java
from rxtemporal.spark.sink.checkpoint import committed_segment

PROGRAM = str(HERE / "submitted_run.py")
KILLS = int(os.environ.get("RXTEMPORAL_CRASH_KILLS", "30"))
# a machine that is busy takes long
PATIENCE = 300
# a life publishes so many segments before it is killed, or is killed within so many seconds
SEGMENTS, STARTING = 8, 8.0

pytestmark = [
    pytest.mark.full,
    pytest.mark.java,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc"),
]


@contextlib.contextmanager
def running(folder: Path, hours: int) -> Iterator[subprocess.Popen[str]]:
    """The program under spark-submit, whose process becomes Java."""
    pyspark = pytest.importorskip("pyspark")
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    home = {"JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable}
    with (folder / "log").open("a", encoding="utf-8") as log:
        process = subprocess.Popen(
            [submit, "--master", "local[2]", PROGRAM, str(folder), str(hours)],
            env=environment(**home),
            cwd=folder,
            stdout=log,
            stderr=log,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def find_program(java: int) -> list[int]:
    """The Python process that spark-submit has started, if it has.

    The shells and the launcher by which it starts Java have the program among their arguments.
    """
    return [pid for pid, command in descendants(java).items() if command.split()[1:2] == [PROGRAM]]


def kill_once(java: subprocess.Popen[str], folder: Path, draw: random.Random) -> str:
    """Kill a program that has been started, at a drawn time; return who was killed when."""
    who, segments = draw.choice(["python", "java", "both"]), draw.randrange(SEGMENTS)
    until = committed_segment(folder / "sink" / "checkpoint") + segments
    wait_until(lambda: java.poll() is not None or is_at(folder, until), PATIENCE)
    time.sleep(draw.uniform(0, 0.5 if segments else STARTING))
    if who != "java":
        wait_until(lambda: java.poll() is not None or bool(find_program(java.pid)), PATIENCE)
    assert java.poll() is None, f"it has ended: {(folder / 'log').read_text('utf-8')[-3000:]}"
    programs = find_program(java.pid)
    there = list_family(*programs)
    for pid in {"python": programs, "java": [java.pid], "both": [java.pid, *programs]}[who]:
        with contextlib.suppress(ProcessLookupError):
            end(pid)
    # a program that has lost its Java ends by itself, and holds its folder until then; Java that
    # has lost its program may end during the next life
    wait_until(lambda: not are_there(there), PATIENCE)
    return f"{who} after {segments} segments"


def is_at(folder: Path, segment: int) -> bool:
    """Return True if Spark has committed a segment."""
    return committed_segment(folder / "sink" / "checkpoint") >= segment


def test_each_row_is_in_the_table_once_however_often_the_program_is_killed(tmp_path: Path) -> None:
    """The table is that of an undisturbed run, row for row."""
    seed = int(os.environ.get("RXTEMPORAL_CRASH_SEED", 0)) or random.SystemRandom().getrandbits(32)
    draw = random.Random(seed)
    hours = (SEGMENTS + 2) * KILLS + 20
    print(f"RXTEMPORAL_CRASH_SEED={seed}")
    with contextlib.ExitStack() as lives:
        for number in range(KILLS):
            java = lives.enter_context(running(tmp_path, hours))
            print(number, kill_once(java, tmp_path, draw), flush=True)
            assert_once(tmp_path)
        java = lives.enter_context(running(tmp_path, hours))
        assert java.wait(PATIENCE) == 0
    assert read_table(tmp_path / "table") == expected_rows(hours)


def assert_once(folder: Path) -> None:
    """No row is there twice, at any time."""
    rows = read_table(folder / "table") if list((folder / "table").glob("*.parquet")) else []
    assert len(rows) == len(set(rows))
