"""A process that is killed while devices have times of their own: nothing is lost or doubled."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from child_process import environment

# until a child has ended
SOON = 120
DEVICES, ROWS, LENGTH = 5, 4_000, 50
ROUNDS = int(os.environ.get("RXTEMPORAL_CRASH_ROUNDS", "1"))
# a seed, and the number of kills
CRASHES = [(0, 2), *(pytest.param(seed, 4, marks=pytest.mark.full) for seed in range(ROUNDS))]
CHILD = f"""
import sys, time
from pathlib import Path
import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.run import checkpoint

# a checkpoint after almost every push
checkpoint.SECONDS, checkpoint.SHARE = 0.02, 1e9
folder = Path(sys.argv[1])
source = rxt.PushSource(
    "rows", schema={{"device": str, "n": int}}, clock="device", delay=3, seq="n", spread=0
)
counts = source.stream.group_by("device").tumbling_window({LENGTH}).aggregate(
    n=agg.count(), s=agg.sum("n")
)
app = rxt.Application("clocks")
app.query("counts", counts)
together = source.stream.synchronize(10**6).tumbling_window({LENGTH})
app.query("all", together.aggregate(n=agg.count()))
sinks = {{name: rxt.AppendFile(folder / f"{{name}}.jsonl") for name in ("counts", "all")}}
process = app.run(sinks=sinks, resume=folder / "run")
print("ready", flush=True)
# each device is at its own place, and sends what it has in turns of its own length
places = {{f"d{{n}}": 0 for n in range({DEVICES})}}
turn = 0
while any(place < {ROWS} for place in places.values()):
    for number, (device, place) in enumerate(places.items()):
        if (turn + number) % (number + 1) == 0:
            end = min(place + 40 * (number + 1), {ROWS})
            rows = [{{"time": n, "device": device, "n": n}} for n in range(place, end)]
            if rows:
                verdict = source.push(rows, input=device)
                assert not verdict.late and not verdict.rejected, verdict
            places[device] = end
    turn += 1
if len(sys.argv) < 3:
    time.sleep(60)
source.close()
process.wait()
"""


def start(folder: Path, *ends: str) -> subprocess.Popen[bytes]:
    """Start a process that pushes all rows, from the first one on, and waits, or ends."""
    command = [sys.executable, "-P", "-c", CHILD, str(folder), *ends]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment())


@pytest.mark.parametrize(("seed", "kills"), CRASHES)
def test_kills_lose_and_double_no_row_of_any_device(seed: int, kills: int, tmp_path: Path) -> None:
    """Each device has each of its windows once, and so has the fleet."""
    draw = random.Random(seed)
    for _ in range(kills):
        with start(tmp_path) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(draw.random())
            child.send_signal(signal.SIGKILL)
            child.wait(SOON)
    with start(tmp_path, "ends") as child:
        child.communicate(timeout=SOON)
    assert child.returncode == 0
    found = Counter(
        pl.read_ndjson(tmp_path / "counts.jsonl")["device", "start_time", "n", "s"].rows()
    )
    windows = [
        (f"d{device}", begin, LENGTH, sum(range(begin, begin + LENGTH)))
        for device in range(DEVICES)
        for begin in range(0, ROWS, LENGTH)
    ]
    assert found == Counter(windows)
    together = pl.read_ndjson(tmp_path / "all.jsonl")["start_time", "n"].rows()
    assert together == [(begin, DEVICES * LENGTH) for begin in range(0, ROWS, LENGTH)]


# devices are silent after a few pushes of others, and the file of counts is all that is checked
SILENT_CHILD = f"""
import sys, time
from pathlib import Path
import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.run import checkpoint

checkpoint.SECONDS, checkpoint.SHARE = 0.05, 1e9
folder = Path(sys.argv[1])
source = rxt.PushSource(
    "rows", schema={{"device": str, "n": int}}, clock="device", seq="n", spread=0,
    silent_after=40_000
)
counts = source.stream.group_by("device").tumbling_window({LENGTH} * 1_000).aggregate(
    n=agg.count()
)
sink = rxt.AppendFile(folder / "counts.jsonl")
process = counts.run(sink, resume=folder / "run")
print("ready", flush=True)
for turn in range({ROWS} // 100):
    for number in range({DEVICES}):
        # each is heard after as many turns as it has, and then sends all that it has
        if turn % (2 * number + 1) == 0:
            begin = max(turn - 2 * number, 0) * 100
            rows = [
                {{"time": n * 1_000, "device": f"d{{number}}", "n": n}}
                for n in range(begin, turn * 100 + 100)
            ]
            source.push(rows, input=f"d{{number}}")
    time.sleep(0.02)
if len(sys.argv) < 3:
    time.sleep(60)
source.close()
process.wait()
(stream,) = process.diagnostics().streams
print(stream.events_in, stream.late.get(rxt.LateReason.SILENT, 0), sum(stream.late.values()))
"""


def start_silent(folder: Path, *ends: str) -> subprocess.Popen[bytes]:
    """Start a process in which devices are silent, as ``start`` does."""
    command = [sys.executable, "-P", "-c", SILENT_CHILD, str(folder), *ends]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment())


@pytest.mark.parametrize(("seed", "kills"), CRASHES)
def test_kills_while_devices_are_silent_lose_and_double_no_accepted_row(
    seed: int, kills: int, tmp_path: Path
) -> None:
    """Whatever the clock has moved before a kill stays moved: no window comes twice."""
    draw = random.Random(seed)
    for _ in range(kills):
        with start_silent(tmp_path) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(draw.random())
            child.send_signal(signal.SIGKILL)
            child.wait(SOON)
    with start_silent(tmp_path, "ends") as child:
        out, _ = child.communicate(timeout=SOON)
    assert child.returncode == 0
    events, silent, late = map(int, out.split()[1:])
    assert silent
    found = pl.read_ndjson(tmp_path / "counts.jsonl")
    assert found.select("device", "start_time").is_duplicated().sum() == 0
    assert found["n"].sum() == events - late
