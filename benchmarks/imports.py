"""What ``import rxtemporal`` adds to what its dependencies take, in processes of their own."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

ROUNDS = 15
DEPENDENCIES = "import numpy, polars, reactivex, structlog"
UNWANTED = "pyspark", "numba", "matplotlib", "pandas", "pyarrow"


def seconds(code: str) -> float:
    """Return how long a fresh interpreter takes to run the code."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - begun


def main() -> None:
    """Print the medians of interleaved rounds."""
    codes = {"nothing": "pass", "dependencies": DEPENDENCIES, "rxtemporal": "import rxtemporal"}
    taken: dict[str, list[float]] = {name: [] for name in codes}
    for code in codes.values():
        seconds(code)  # once for the caches
    for _ in range(ROUNDS):
        for name, code in codes.items():
            taken[name].append(seconds(code))
    medians = {name: statistics.median(times) for name, times in taken.items()}
    print(f"dependencies {medians['dependencies'] - medians['nothing']:.3f} s")
    print(f"rxtemporal adds {medians['rxtemporal'] - medians['dependencies']:.3f} s")
    loaded = f"import rxtemporal, sys; print(*({UNWANTED} & sys.modules.keys()))"
    code = loaded.replace(str(UNWANTED), str(set(UNWANTED)))
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    print(f"of {', '.join(UNWANTED)} it loads: {found.stdout.strip() or 'none'}")


if __name__ == "__main__":
    main()
