"""Time of ``rxtemporal demo`` from start to end, in an empty folder."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def seconds(folder: Path, cache: Path, *arguments: str) -> tuple[float, str]:
    """Run the demonstration; return its seconds, and the times that it reports."""
    only_there = {"NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator"}
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), **only_there}
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "rxtemporal", "demo", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    taken = time.perf_counter() - begun
    account = next(line for line in done.stdout.splitlines() if line.startswith("Time"))
    return taken, account


def main() -> None:
    """Print the times of the first run, which compiles, and of later ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-spark", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    arguments = ["--no-spark"] if options.no_spark else []
    with tempfile.TemporaryDirectory() as cache:
        for number in range(options.rounds):
            with tempfile.TemporaryDirectory() as folder:
                taken, account = seconds(Path(folder), Path(cache), *arguments)
            which = "first run, kernels compiled" if number == 0 else f"run {number + 1}"
            print(f"{which:<28} {taken:6.1f} s   {account}")


if __name__ == "__main__":
    main()
