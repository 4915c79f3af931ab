"""Cost per event in a subject with 1 to 10,000 sources.

Each source has its own input and sends a CTI after every ten events. The limit is a Python loop
that keeps the highest time of each source. Events are made before the clock starts, inputs after.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import measure
import numpy as np
from workloads import PACE, SEED

import rxtemporal as rxt

DELAY = 100 * PACE
SIZES = (1, 10, 100, 1_000, 10_000)
LIMIT = "plain loop"


def make_items(count: int, sources: int) -> tuple[list[int], list[Any]]:
    """Return pairs of source and item; some items are late."""
    rng = np.random.default_rng(SEED)
    times = np.arange(count) * PACE - rng.exponential(DELAY / 4, count).astype(np.int64)
    order = rng.integers(0, sources, count).tolist()
    sent, highest = [0] * sources, [0] * sources
    senders: list[int] = []
    items: list[Any] = []
    for source, time in zip(order, times.tolist(), strict=True):
        highest[source] = max(highest[source], time)
        sent[source] += 1
        senders.append(source)
        items.append(rxt.PointEvent(time, time))
        if sent[source] % 10 == 0:
            senders.append(source)
            items.append(rxt.Cti(highest[source]))
    return senders, items


def plain_loop(senders: list[int], items: list[Any], sources: int) -> int:
    """Return the number of events that are in time."""
    reached = [0] * sources
    high, kept = -DELAY, 0
    for source, item in zip(senders, items, strict=True):
        time = item.start
        if time > reached[source]:
            reached[source] = time
        if type(item) is rxt.Cti:
            high = max(high, time - DELAY)
        elif time >= high:
            kept += 1
    return kept


def subject(kind: Any, senders: list[int], items: list[Any], sources: int) -> int:
    """Return the number of events that a subject accepts."""
    merging = kind.create_point(DELAY)
    kept = 0

    def count(event: Any) -> None:
        nonlocal kept
        kept += type(event) is rxt.PointEvent

    merging.subscribe(count)
    pushes = [merging.input(f"source {number}").on_next for number in range(sources)]
    for source, item in zip(senders, items, strict=True):
        pushes[source](item)
    return kept


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    kinds = rxt.CtiSynchronizingSubject, rxt.CtiSynchronizingSubjectAlternate
    first: dict[str, float] = {}
    for sources in SIZES:
        data = (*make_items(options.events, sources), sources)
        answer = plain_loop(*data)
        running: dict[str, Callable[[], int]] = {LIMIT: lambda data=data: plain_loop(*data)}
        for kind in kinds:
            running[kind.__name__] = lambda kind=kind, data=data: subject(kind, *data)

        def check(kept: int, answer: int = answer) -> None:
            assert kept == answer, f"{kept:,} events, expected {answer:,}"

        seconds = measure.rounds(running, options.rounds, check)
        line = f"{sources:>7,} sources"
        for name, taken in seconds.items():
            cost = statistics.median(taken) / len(data[1]) * 1e9
            growth = cost / first.setdefault(name, cost)
            line += f"   {name} {cost:6.0f} ns, grown {growth:4.2f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
