"""Four processes that serve, and one Spark job over the rows that they have accepted."""

from __future__ import annotations

import subprocess
import sys

import pytest
from child_process import environment
from package import ROOT

# fewer devices than `python benchmarks/capacity.py --check` has, which is the same with 20,000
DEVICES, ROUNDS, SIZE = 600, 12, 50


@pytest.mark.full
@pytest.mark.java
def test_each_acknowledged_row_is_in_the_final_table_once() -> None:
    """Each process is killed while its devices send, and so is the Spark job."""
    command = [sys.executable, str(ROOT / "benchmarks" / "capacity.py"), "--check"]
    options = ["--devices", str(DEVICES), "--rounds", str(ROUNDS), "--size", str(SIZE)]
    done = subprocess.run(
        [*command, *options], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    # the rows of the rounds, of two minutes after the kills, and a last one of each device
    says = f"{DEVICES * (ROUNDS + 12 + 1):,} rows of {DEVICES:,} devices have a receipt"
    assert done.stdout.startswith(says)
    assert "4 processes and the Spark job were killed" in done.stdout
