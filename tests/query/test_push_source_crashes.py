"""Crashes of an ingest service: each row that was acknowledged is in the result once.

The service (``support/ingest_service.py``) takes single rows, lists and pushes of an event loop. It
is killed between two steps from a push to its verdict and to the checkpoint, or at a random moment,
and begun again. Its clients send again what has got no verdict, and some of what has.

``RXTEMPORAL_CRASH_ROUNDS`` is the number of rounds of the full run, ``RXTEMPORAL_CRASH_SEED``
repeats a draw.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from child_process import HERE, environment
from ingest_service import COLUMN_ROWS, POINTS

INPUTS = ("a", "b", "c")
KILLS = 3
# a point that is not reached after so many verdicts is in nobody's way
MOST_VERDICTS = 5_000
ROUNDS = int(os.environ.get("RXTEMPORAL_CRASH_ROUNDS", "1"))
# a machine that is busy takes long
PATIENCE = 600


class Clients:
    """The clients of the service: the verdicts that they have seen."""

    def __init__(self, folder: Path, draw: random.Random) -> None:
        self.folder = folder
        self._draw = draw
        # the next row that has no verdict, by input
        self.next = dict.fromkeys(INPUTS, 0)
        self.accepted: Counter[tuple[str, int]] = Counter()
        self.rows = 0

    def kill(self, point: str, nth: int) -> None:
        """Run the service until it kills itself at a point, which it has to reach."""
        assert self._run(point, nth, pushes=MOST_VERDICTS) < MOST_VERDICTS, f"not reached: {point}"

    def kill_after(self, verdicts: int) -> None:
        """Run the service, and kill it after so many verdicts."""
        self._run("", 0, pushes=verdicts)

    def complete(self) -> None:
        """Run the service until all inputs have sent the same rows, and end the source."""
        # a push that has got no verdict may be in the result
        self.rows = max(self.next.values()) + COLUMN_ROWS + 10
        self._run("", 0, last=self.rows)

    def _run(self, point: str, nth: int, pushes: int = -1, last: int = 10**9) -> int:
        """Run the service once; return how many verdicts there were."""
        # each client repeats some rows that it knows to be accepted
        firsts = [f"{n}={max(0, at - self._draw.randrange(4))}" for n, at in self.next.items()]
        command = [sys.executable, "-P", str(HERE / "ingest_service.py"), str(self.folder)]
        command += [str(last), point, str(nth), *firsts]
        verdicts = 0
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environment()
        ) as service:
            assert service.stdout is not None
            assert service.stdout.readline() in ("begun\n", "")
            for line in service.stdout:
                if not line.endswith("\n"):
                    break  # it was killed while it wrote
                self._read(line)
                verdicts += 1
                if verdicts == pushes:
                    service.kill()
            code = service.wait(PATIENCE)
        assert code == (0 if pushes < 0 else -signal.SIGKILL)
        return verdicts

    def _read(self, line: str) -> None:
        name, first, count, accepted, _ = line.split()
        rows = [(name, int(first) + each) for each in range(int(count))]
        if int(accepted) == len(rows):
            self.accepted.update(rows)
        self.next[name] = max(self.next[name], int(first) + len(rows))

    def check(self) -> None:
        """Check that each row is in the result once, and was accepted at most once."""
        lines = (self.folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()
        rows = Counter((row["device"], row["n"]) for row in map(json.loads, lines))
        assert rows == Counter((name, n) for name in INPUTS for n in range(self.rows))
        assert max(self.accepted.values()) == 1


def run_crashes(folder: Path, points: list[str], draw: random.Random) -> None:
    """Kill the service at each of these points and at random; then let it end."""
    clients = Clients(folder, draw)
    for point in points:
        if draw.random() < 0.3:
            clients.kill_after(draw.randrange(1, 60))
        clients.kill(point, draw.randrange(1, 5))
    clients.complete()
    clients.check()


def test_accepted_rows_survive_crashes(tmp_path: Path) -> None:
    """Three kills between two steps: each row is in the result once."""
    draw = random.Random(0)
    run_crashes(tmp_path, draw.sample(POINTS, KILLS), draw)


@pytest.mark.full
@pytest.mark.parametrize("number", range(ROUNDS))
def test_accepted_rows_survive_all_crashes(tmp_path: Path, number: int) -> None:
    """A kill at each point, in a drawn order, and at random moments."""
    seed = int(os.environ.get("RXTEMPORAL_CRASH_SEED", 0)) or random.SystemRandom().getrandbits(32)
    print(f"RXTEMPORAL_CRASH_SEED={seed}, round {number}")
    draw = random.Random(seed)
    run_crashes(tmp_path, draw.sample(POINTS, len(POINTS)), draw)
