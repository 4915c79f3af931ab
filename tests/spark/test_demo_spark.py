"""The demonstration with Spark: killed in the middle, finished by a second run, not by a third."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from sink_input import wait_until

DEMO = [sys.executable, "-P", "-m", "rxtemporal", "demo"]
# The month has 26,483 departures, so that at this pace a run lasts longer than one is waited for:
# whatever else the machine does, a run that is killed has not come to its end.
RATE, PATIENCE = 100, 240
ORDER = ["start_time", "origin"]


def demo(folder: Path, *arguments: str) -> str:
    """Run the demonstration to its end and return what it printed."""
    done = subprocess.run(
        [*DEMO, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def table(folder: Path) -> pl.DataFrame:
    """Return the table's rows, in order."""
    frame = pl.read_parquet(folder / "rxtemporal-demo" / "departures" / "**" / "*.parquet")
    names = ["start_time", "end_time", "origin", "departures", "mean_delay"]
    times = pl.col("start_time", "end_time").cast(pl.Datetime("us", "UTC"))
    return frame.select(names).with_columns(times).sort(ORDER)


@pytest.mark.full
@pytest.mark.java
def test_killed_and_finished(tmp_path: Path) -> None:
    """After SIGKILL a second run gives the undisturbed table, and a third adds nothing."""
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    killed.mkdir()
    whole.mkdir()
    running = subprocess.Popen(
        [*DEMO, "--rate", str(RATE)],
        cwd=killed,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        published = killed / "rxtemporal-demo" / "departures"
        wait_until(lambda: any(published.glob("**/*.parquet")), PATIENCE)
        running.send_signal(signal.SIGKILL)
    finally:
        running.kill()
        running.wait()
    demo(whole, "--no-spark")
    undisturbed = pl.read_parquet(whole / "rxtemporal-demo" / "departures.parquet").sort(ORDER)
    assert table(killed).height < undisturbed.height
    printed = demo(killed)
    assert f"Rows in table   {undisturbed.height:,}" in printed
    assert table(killed).equals(undisturbed)
    demo(killed)
    assert table(killed).equals(undisturbed)
