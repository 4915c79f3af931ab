"""Interleaved rounds and their medians."""

from __future__ import annotations

import gc
import platform
import statistics
import time
from collections.abc import Callable, Mapping


def rounds(contenders: Mapping[str, Callable[[], None]], count: int) -> dict[str, list[float]]:
    """Return the seconds of each contender, run in turn, ``count`` rounds."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(count):
        for name, run in contenders.items():
            gc.collect()
            begun = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - begun)
    return seconds


def report(seconds: Mapping[str, list[float]], items: int, beside: str) -> None:
    """Print items a second of each contender, and the median of its ratios to one of them."""
    print(
        f"{platform.python_implementation()} {platform.python_version()}, {items:,} items a round"
    )
    for name, taken in seconds.items():
        ratios = [base / own for base, own in zip(seconds[beside], taken, strict=True)]
        rate = items / statistics.median(taken)
        print(
            f"{name:<44} {rate / 1e6:8.2f} M/s   {statistics.median(ratios):6.2f} x {beside}"
            f"   (from {min(ratios):.2f} to {max(ratios):.2f})"
        )
