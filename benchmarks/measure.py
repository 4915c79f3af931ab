"""Interleaved rounds and their medians."""

from __future__ import annotations

import gc
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Seconds = Mapping[str, list[float]]
# for the C library's allocator, and for polars' own
KEPT = {
    "MALLOC_TRIM_THRESHOLD_": "8000000000",
    "MALLOC_MMAP_THRESHOLD_": "4000000000",
    "_RJEM_MALLOC_CONF": "dirty_decay_ms:-1,muzzy_decay_ms:-1",
}


class Timed(NamedTuple):
    """Result of a contender that measures itself, with its seconds."""

    seconds: float
    result: Any


def keep_memory() -> None:
    """Restart the program with allocators that keep freed memory for reuse.

    This spares all contenders the cost of fresh pages for their results. On a virtual machine that
    takes freed pages back, a page costs 0.02 to 10 µs, depending on the host, and the results of a
    round take 20,000 pages.
    """
    if KEPT.keys() - os.environ.keys():
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**KEPT, **os.environ})


def use_one_core() -> None:
    """Restart the program on one core, with one thread of polars and memory kept for reuse."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    keep_memory()


def check_compilers(spark: Any) -> None:
    """End the program if Spark's Java process uses its quick compiler alone.

    Spark's own operators then run at half their speed, and every ratio to them would be wrong.
    """
    beans = spark.sparkContext._jvm.java.lang.management.ManagementFactory
    limited = [each for each in beans.getRuntimeMXBean().getInputArguments() if "Tiered" in each]
    if limited:
        raise SystemExit(f"{limited[0]} slows Spark down. Hint: unset SPARK_SUBMIT_OPTS.")


def rounds(
    contenders: Mapping[str, Callable[[], Any]],
    count: int,
    check: Callable[[Any], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Run the contenders in turn, ``count`` rounds, and return the seconds of each.

    ``check`` raises if a result is wrong; it runs outside the timed part. Where a contender returns
    ``Timed``, its own seconds count.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(count):
        for name, run in contenders.items():
            gc.collect()
            begun = clock()
            result = run()
            taken = clock() - begun
            if isinstance(result, Timed):
                taken, result = result
            if check is not None:
                check(result)
            seconds[name].append(taken)
            del result  # so that the next contender does not find the memory full of it
    return seconds


def warm(contenders: Mapping[str, Callable[[], Any]], check: Callable[[Any], None]) -> None:
    """Run and check each contender once, to compile kernels and load data."""
    for name, run in contenders.items():
        result = run()
        try:
            check(result.result if isinstance(result, Timed) else result)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


def ratios(seconds: Seconds, name: str, beside: str) -> list[float]:
    """Return the factors by which one contender is faster than another, round by round."""
    return [base / own for base, own in zip(seconds[beside], seconds[name], strict=True)]


def report(seconds: Seconds, items: int, *beside: str) -> None:
    """Print items per second of each contender, and the median of its ratios to some others."""
    print(
        f"{platform.python_implementation()} {platform.python_version()}, {items:,} items a round"
    )
    for name, taken in seconds.items():
        line = f"{name:<44} {items / statistics.median(taken) / 1e6:8.2f} M/s"
        for other in (each for each in beside if each != name):
            values = ratios(seconds, name, other)
            line += f"   {statistics.median(values):6.2f} x {other}"
            line += f" (from {min(values):.2f} to {max(values):.2f})"
        print(line)


def peak_mebibytes() -> float:
    """Return the peak memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
