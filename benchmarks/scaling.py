"""Cost per event as the number of keys, or of rows alive, grows from 1 or 1,000 to a million.

The number of results per event stays the same along each curve. The one-shot limits grow as well,
because a larger working set misses the caches; the last columns show how much more the engine's
cost grows.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
from collections.abc import Callable

import figures
import measure
from algebra import LARGE, NUMBA_ONCE, POLARS_ONCE, columns, contenders
from workloads import Workload, w2, w3, w4, w6

LIMITS = POLARS_ONCE, NUMBA_ONCE


@dataclasses.dataclass(frozen=True, slots=True)
class Curve:
    """Workload at growing sizes; ``load`` makes it from a number of events and a size."""

    what: str
    sizes: tuple[int, ...]
    load: Callable[[int, int], Workload]


CURVES = {
    "w2": Curve(
        "W2, tumbling windows, over the number of keys",
        (1, 1_000, 100_000, 1_000_000),
        lambda events, keys: w2(events, keys),
    ),
    "w3": Curve(
        "W3, hopping windows, over the number of keys",
        (1, 1_000, 100_000, 1_000_000),
        lambda events, keys: w3(events, keys),
    ),
    "w4": Curve(
        "W4, temporal join, over the intervals alive",
        (1_000, 10_000, 100_000, 1_000_000),
        # four in five keys have an interval at a time
        lambda events, alive: w4(events, alive * 5 // 4, from_the_start=True),
    ),
    "w6": Curve(
        "W6, snapshot windows, over the intervals alive",
        (1_000, 10_000, 100_000, 1_000_000),
        lambda events, alive: w6(events, alive=alive),
    ),
}


class Point:
    """Measurement of one size of a curve."""

    def __init__(self, load: Workload, rounds: int, batch_rows: int) -> None:
        def check(result: object) -> None:
            load.check(columns(result))

        running = contenders(load, batch_rows)
        measure.warm(running, check)
        seconds = measure.rounds(running, rounds, check)
        (self.engine,) = (name for name in seconds if name not in LIMITS)
        self.cost = {
            name: statistics.median(taken) / load.rows_in * 1e9 for name, taken in seconds.items()
        }
        # round for round, so that what slows all contenders for a while does not count
        self.speed = {
            limit: statistics.median(measure.ratios(seconds, self.engine, limit))
            for limit in LIMITS
        }

    def growth(self, name: str, first: Point) -> float:
        """Return the factor by which a contender's cost has grown since the first point."""
        return self.cost[name] / first.cost[name]

    def over(self, limit: str, first: Point) -> float:
        """Return the factor by which the engine's cost has grown more than that of a limit."""
        return first.speed[limit] / self.speed[limit]


def draw(curve: Curve, options: argparse.Namespace, report: figures.Report) -> None:
    """Print one curve, a line for each size, and keep its figures."""
    print(f"{curve.what}; batches of {options.batch_rows:,}")
    print(f"{'':>11}   {'ns an event':^26}   {'growth':^23}   {'engine over':^15}")
    heads = ["polars", "numba", "engine"]
    print(f"{'size':>11} " + "".join(f"{head:>9}" for head in heads), end=" ")
    print("".join(f"{head:>8}" for head in heads) + "".join(f"{head:>9}" for head in heads[:2]))
    first: Point | None = None
    for size in curve.sizes:
        if size > options.most:
            break
        point = Point(curve.load(options.events, size), options.rounds, options.batch_rows)
        first = first or point
        names = [*LIMITS, point.engine]
        for name in names:
            of = "engine" if name == point.engine else name
            what = f"{of}, {size:,}"
            report.keep(
                figures.Figure(curve.what, what, point.cost[name], "ns", curve=of, size=size)
            )
        line = f"{size:>11,} " + "".join(f"{point.cost[name]:>9.1f}" for name in names) + " "
        line += "".join(f"{point.growth(name, first):>8.2f}" for name in names)
        print(line + "".join(f"{point.over(limit, first):>9.2f}" for limit in LIMITS), flush=True)
    print()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--curve", choices=[*CURVES, "all"], default="all")
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--most", type=int, default=1_000_000, help="largest size on the curve")
    parser.add_argument("--batch-rows", type=int, default=LARGE)
    options = figures.parse(parser, rounds=7)
    if options.quick:
        options.events, options.most = min(options.events, 100_000), min(options.most, 10_000)
    measure.keep_memory()
    report = figures.Report("scaling", options)
    for name in CURVES if options.curve == "all" else [options.curve]:
        draw(CURVES[name], options, report)
    report.save()


if __name__ == "__main__":
    main()
