"""Memory and disk of a durable run over so many devices, each with an open window.

Each number of devices has a process of its own. Every device sends ten rows over ten seconds of
application time; a query counts and averages over windows of a minute.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.run import checkpoint

ROWS, SECOND = 10, 1_000_000


def read_memory() -> float:
    """Return the resident memory of this process, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1000


def measure(devices: int) -> str:
    """Return one line of the table."""
    # a checkpoint after almost every push, so that what is left is a state and a short log
    checkpoint.SECONDS, checkpoint.SHARE = 0.02, 1e9
    schema = {"device": str, "temp": float}
    with tempfile.TemporaryDirectory() as folder:
        source = rxt.PushSource("rows", schema=schema, start="time", unit="us", delay="1s")
        means = source.stream.group_by("device").tumbling_window("1m")
        query = means.aggregate(n=agg.count(), mean=agg.mean("temp"))
        process = query.run(lambda batch: None, resume=folder)
        names = [f"device {number}" for number in range(devices)]
        before = read_memory()
        for number in range(ROWS):
            frame = pl.DataFrame({"time": [number * SECOND] * devices, "device": names})
            for rows in frame.with_columns(temp=pl.lit(20.5)).iter_slices(1_000):
                source.push(rows)
            time.sleep(0.1)
        grown = read_memory() - before
        process.stop()
        disk = sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e6
    return f"{devices:>9,} {before:>10.0f} MB {grown:>8.0f} MB {disk:>8.1f} MB"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("devices", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(measure(options.devices[0]))
        return
    print("  devices    at start    more      folder")
    for devices in options.devices:
        command = [sys.executable, __file__, "--one", str(devices)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
