"""A service that is killed under load: what a subject has acknowledged is in the result, once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from child_process import environment
from input_ways import both_subjects
from runs import SOON

CHILD = """
import os, sys, threading
import rxtemporal as rxt
from rxtemporal.run import checkpoint
from row_file import RowFile

folder, kind, begin, readings = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
checkpoint.SECONDS, checkpoint.SHARE = 0.02, 1e9
subject = getattr(rxt, kind).create_point(delay=30_000)
stream = rxt.from_observable(subject, schema={"x": int}, name="readings")
process = stream.run(RowFile(folder + "/rows"), resume=folder)


def send(device):
    with subject.input(f"device {device}") as into:
        # how far it had come before: earlier than others have been meanwhile
        into.on_next(rxt.Cti(begin - 6_000))
        for time in range(begin + device, begin + device + 3 * readings, 3):
            into.on_next(rxt.PointEvent(time, {"x": device}))
            os.write(1, b"%d\\n" % time)
            if time % 10 == 0:
                into.on_next(rxt.Cti(time))


devices = [threading.Thread(target=send, args=(device,)) for device in range(3)]
for device in devices:
    device.start()
for device in devices:
    device.join()
subject.on_completed()
assert process.wait(60)
assert subject.stats().late == 0
os.write(1, b"%d\\n" % -subject.stats().events)
"""


def serve(folder: Path, kind: type, begin: int, readings: int, until: int | None) -> list[int]:
    """Run the service until so many readings are acknowledged, then kill it; return all of them."""
    command = [sys.executable, "-P", "-c", CHILD]
    arguments = [str(folder), kind.__name__, str(begin), str(readings)]
    with subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, text=True, env=environment()
    ) as child:
        assert child.stdout is not None
        if until is None:
            return list(map(int, child.communicate(timeout=SOON)[0].split()))
        lines = [child.stdout.readline() for _ in range(until)]
        child.kill()
        return [int(line) for line in [*lines, *child.stdout.readlines()] if line.endswith("\n")]


@pytest.mark.full
@both_subjects
@pytest.mark.parametrize("kills", [(150, 80, 200)])
def test_a_service_that_is_killed_loses_nothing(
    kind: type, kills: tuple[int, ...], tmp_path: Path
) -> None:
    """Three devices push at the same time; each begins again with a CTI that is older than others.

    The subject in front of the run has its time again, so the run goes on; and it counts the
    events of all lives.
    """
    acknowledged: list[int] = []
    for until in kills:
        begin = max(acknowledged, default=0) + 3_000
        acknowledged += serve(tmp_path, kind, begin, 100_000, until)
    *last, counted = serve(tmp_path, kind, max(acknowledged) + 3_000, 50, None)
    acknowledged += last
    rows = list(map(int, (tmp_path / "rows").read_text(encoding="utf-8").split()))
    assert len(rows) == len(set(rows)) == -counted
    assert set(acknowledged) <= set(rows)
    # at each kill every device may have one reading on its way
    assert len(rows) <= len(acknowledged) + 3 * len(kills)
