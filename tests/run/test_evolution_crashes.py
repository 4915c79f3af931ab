"""A process that changes its query from run to run, with a replay, is killed at random."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from child_process import environment
from runs import SOON

ROUNDS = int(os.environ.get("RXTEMPORAL_CRASH_ROUNDS", "1"))
# a seed, and the number of kills
CRASHES = [(0, 2), *(pytest.param(seed, 4, marks=pytest.mark.full) for seed in range(ROUNDS))]

CHILD = """
import sys
import polars as pl
import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.run import checkpoint

checkpoint.SECONDS, checkpoint.SHARE = 0.01, 1e9
folder, queries = sys.argv[1], int(sys.argv[2])
source = rxt.PushSource("rows", schema={"n": int}, start="t", seq="s", delay=3)
app = rxt.Application("house")
rows = app.define_stream("rows", source.stream)
# the first one stays, each other one is new in a later run
for number in range(queries):
    window = rows.where(pl.col("n") >= 0).tumbling_window(10 + number)
    app.query(f"q{number}", window.aggregate(n=agg.count(), s=agg.sum("n")))
sinks = {
    name: rxt.AppendFile(f"{folder}/{name}.jsonl") if int(name[1:]) % 2
    else rxt.SqliteTable(f"{folder}/{name}.db", name)
    for name in app.queries
}
process = app.run(
    sinks=sinks, resume=f"{folder}/run", keep_history=100_000, replay_from=0, evolve=True
)
begin = source.stats().accepted
print("ready", flush=True)
for n in range(begin, begin + int(sys.argv[3])):
    source.push({"t": n, "s": n, "n": n})
process.stop()
"""


def read_rows(folder: Path, number: int) -> list[tuple[int, int, int]]:
    """Return start, number and sum of the windows that a query has given."""
    if number % 2:
        return pl.read_ndjson(folder / f"q{number}.jsonl")["start_time", "n", "s"].rows()
    with closing(sqlite3.connect(folder / f"q{number}.db")) as database:
        return database.execute(f"SELECT start_time, n, s FROM q{number}").fetchall()


def start(folder: Path, queries: int, rows: int) -> subprocess.Popen[bytes]:
    """Start a process that has so many queries, and pushes so many rows."""
    command = [sys.executable, "-P", "-c", CHILD, str(folder), str(queries), str(rows)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment())


@pytest.mark.parametrize(("seed", "kills"), CRASHES)
def test_kills_around_changes_lose_and_double_nothing(
    seed: int, kills: int, tmp_path: Path
) -> None:
    """Each query has each of its windows once, from the first row on, whenever it was added."""
    draw = random.Random(seed)
    queries = 1
    for _ in range(kills):
        child = start(tmp_path, queries, 1_000_000)
        assert child.stdout is not None
        # before the change is saved, while the log is replayed, or later
        if draw.random() < 0.7:
            child.stdout.readline()
            time.sleep(draw.random())
        else:
            time.sleep(0.5 + 2 * draw.random())
        child.send_signal(signal.SIGKILL)
        child.wait(SOON)
        child.stdout.close()
        queries += draw.random() < 0.6
    with start(tmp_path, queries, 100) as child:
        child.communicate(timeout=SOON)
    assert child.returncode == 0
    for number in range(queries):
        rows, length = read_rows(tmp_path, number), 10 + number
        windows = [(n * length, length, sum(range(n * length, (n + 1) * length)))
                   for n in range(len(rows))]  # fmt: skip
        assert rows == windows
        assert len(rows) > 5
