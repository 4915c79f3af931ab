"""Time and modules that ``import rxtemporal`` and its inputs add to those of the dependencies.

Each measurement is a process of its own; rounds are interleaved.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

ROUNDS = 15
DEPENDENCIES = "import numpy, polars, reactivex, structlog"
UNWANTED = "pyspark", "numba", "matplotlib", "pandas", "pyarrow"
COMPOSED = "rxtemporal.from_events([], schema={'x': int}).where(polars.col('x') > 1)"
USES = {
    "import rxtemporal": "",
    "a subject": "rxtemporal.CtiSynchronizingSubject.create_point(0)",
    "Streamable": "rxtemporal.Streamable",
    "a composed query": f"{COMPOSED}.snapshot_window()",
    "Application": "rxtemporal.Application('house')",
    "a query that runs": "rxtemporal.from_events([rxtemporal.PointEvent(1, 2)]).to_events()",
    "a Spark worker's query": "import rxtemporal.spark.query.streaming",
}
MODULES = "print(sum(name.partition('.')[0] == 'rxtemporal' for name in sys.modules))"


def run(code: str) -> str:
    """Run the code in a fresh interpreter, and return its output."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def seconds(code: str) -> float:
    """Return the seconds that a fresh interpreter takes to run the code."""
    begun = time.perf_counter()
    run(code)
    return time.perf_counter() - begun


def main() -> None:
    """Print the medians of interleaved rounds, and the number of modules loaded."""
    codes = {"nothing": "pass", "dependencies": DEPENDENCIES}
    codes |= {name: f"{DEPENDENCIES}, sys, rxtemporal\n{use}" for name, use in USES.items()}
    taken: dict[str, list[float]] = {name: [] for name in codes}
    for code in codes.values():
        run(code)  # once for the caches
    for _ in range(ROUNDS):
        for name, code in codes.items():
            taken[name].append(seconds(code))
    medians = {name: statistics.median(times) for name, times in taken.items()}
    print(f"dependencies {medians['dependencies'] - medians['nothing']:.3f} s")
    for name in USES:
        loaded = run("\n".join([codes[name], MODULES]))
        adds = medians[name] - medians["dependencies"]
        print(f"{name}: adds {adds:.3f} s, {loaded} modules")
    found = run(f"import rxtemporal, sys; print(*(set({UNWANTED}) & sys.modules.keys()))")
    print(f"of {', '.join(UNWANTED)} the import loads: {found or 'none'}")


if __name__ == "__main__":
    main()
