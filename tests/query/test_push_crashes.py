"""A service is killed under load, and started again: what it accepted is in the result, once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from child_process import environment
from push_service import PUSHERS
from runs import SOON

SERVICE = Path(__file__).parents[1] / "support" / "push_service.py"


def told(folder: Path) -> int:
    """Return the number of answers that the service has given."""
    path = folder / "told"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def kill_after(folder: Path, rows: int, answers: int) -> bool:
    """Run the service and kill it after some more answers; return False if it ended before."""
    upto = told(folder) + answers
    with subprocess.Popen(
        [sys.executable, str(SERVICE), str(folder), str(rows)], env=environment()
    ) as service:
        deadline = time.monotonic() + SOON
        while service.poll() is None:
            if told(folder) >= upto or time.monotonic() > deadline:
                service.kill()
            time.sleep(0.001)
        assert time.monotonic() < deadline
        return service.returncode != 0


@pytest.mark.parametrize(
    ("kills", "rows"), [(2, 150), pytest.param(10, 600, marks=pytest.mark.full)]
)
def test_what_a_killed_service_accepted_is_in_the_result_once(tmp_path, kills, rows):
    """Killed at random moments under load, it has each accepted row in its result exactly once."""
    seed = int(os.environ.get("RXTEMPORAL_CRASH_SEED", time.time_ns() % 10**6))
    print(f"RXTEMPORAL_CRASH_SEED={seed}")
    chance = random.Random(seed)
    killed = sum(
        kill_after(tmp_path, rows, chance.randint(1, 2 * rows // kills)) for _ in range(kills)
    )
    assert killed
    assert not kill_after(tmp_path, rows, 10**9)
    out = Counter(pl.read_ndjson(tmp_path / "out.jsonl").select("who", "n").rows())
    assert out == {(who, n): 1 for who in PUSHERS for n in range(rows)}
