"""The live path: events that come one by one or in small batches, beside csp and one-shot limits.

csp 0.19.1 runs as a child process in an environment of its own, which is made with pip the first
time; without it, its rows are left out. All contenders of a row take turns in one run, and each
result is checked against an independent answer before its time counts. Events are made before the
clock starts; pushed events count when the sink has got the last result.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import events
import figures
import live_rows as rows
import measure
from algebra import LARGE, NUMBA_ONCE, POLARS_ONCE, SMALL, columns, contenders, streaming
from figures import Report, summarize
from peer import CACHE, NoPeerError, Peer
from workloads import WORKLOADS, Workload

CSP = "csp==0.19.1"
TINY = 64
# between the name of a workload and the size of its batches
BATCHES = ", batches of "
# how many times as fast as which other contender, by batch size
BESIDE_CSP = {"w2": 1.0, "w3": 1.0, "w4": 1.0, "w5": 1.0}
BESIDE_ONCE: dict[int, dict[str, tuple[str, float]]] = {
    SMALL: {
        "w2": (POLARS_ONCE, 1.2),
        "w3": (POLARS_ONCE, 5.0),
        "w4": (POLARS_ONCE, 0.4),
        "w5": (POLARS_ONCE, 0.1),
        "w6": (NUMBA_ONCE, 0.5),
    },
    LARGE: {
        "w2": (POLARS_ONCE, 2.5),
        "w3": (POLARS_ONCE, 8.0),
        "w4": (POLARS_ONCE, 0.9),
        "w5": (POLARS_ONCE, 0.3),
        "w6": (NUMBA_ONCE, 1.0),
    },
}
# of W4 in large batches, in CPU time of all threads
BESIDE_CPU = 1.0
OBJECTS = {
    "in: from_events, a CTI after every ten": 0.7,
    "in: from_observable, a CTI after every ten": 0.5,
    "out: to_events of a frame": 0.5,
}


class Sizes:
    """How many events each row has."""

    def __init__(self, quick: bool) -> None:
        self.pushed = 20_000 if quick else 500_000
        self.latency = 500 if quick else 10_000
        self.tiny = 20_000 if quick else 400_000
        self.large = 150_000 if quick else None  # as in W2 to W6
        self.objects = 20_000 if quick else 500_000
        self.w1 = 40_000 if quick else 1_000_000


class Live:
    """One run: its options, the sizes, the peer if there is one, and the report."""

    def __init__(self, options: argparse.Namespace, peer: Peer | None, report: Report) -> None:
        self._options = options
        self._sizes = Sizes(options.quick)
        self._peer = peer
        self._report = report

    def _measure(
        self,
        table: str,
        items: int,
        running: Mapping[str, Callable[[], Any]],
        check: Callable[[Any], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> measure.Seconds:
        """Return the seconds of some contenders, once their rates are reported."""
        measure.warm(running, check)
        seconds = measure.rounds(running, self._options.rounds, check, clock)
        for name, taken in seconds.items():
            rates = [items / each / 1e6 for each in taken]
            curve, _, size = name.partition(BATCHES)
            place: dict[str, Any] = (
                {"curve": curve, "size": int(size.replace(",", ""))} if size else {}
            )
            self._report.add(summarize(table, name, rates, "M/s", **place))
        return seconds

    def _compare(
        self, table: str, seconds: measure.Seconds, name: str, beside: str, asked: float
    ) -> None:
        """Report how many times as fast one contender is as another, if that has run."""
        if beside in seconds:
            what, values = f"{name} / {beside}", measure.ratios(seconds, name, beside)
            self._report.add(summarize(table, what, values, "×", asked))

    def push(self) -> None:
        """Events one by one through a subject and where + select to a sink behind a hand-off."""
        table, load = "Pushed one by one, behind a hand-off", WORKLOADS["w5"](self._sizes.pushed)
        made = rows.make_events(load)
        running: dict[str, Callable[[], Any]] = {
            f"a CTI every {every:,}": partial(rows.push, rows.with_ctis(made, every))
            for every in (1_000, 10, 1)
        }
        if self._peer is not None:
            running[CSP] = rows.push_to(self._peer, load)
        seconds = self._measure(table, len(made), running, load.check)
        for every, asked in ((10, 1.0), (1, 0.6)):
            self._compare(table, seconds, f"a CTI every {every}", CSP, asked)

    def threads(self) -> None:
        """Eight threads into one subject, beside one."""
        table, load = "Pushed by several threads", WORKLOADS["w5"](self._sizes.pushed)
        items = rows.with_ctis(rows.make_events(load), 10)
        many, one = f"{rows.THREADS} threads", "one thread"
        running = {
            one: partial(rows.push, items),
            many: partial(rows.push, items, rows.THREADS),
            f"{many}, an input each": partial(rows.push, items, rows.THREADS, inputs=True),
        }
        seconds = self._measure(table, load.rows.height, running, load.check)
        self._compare(table, seconds, many, one, 0.8)

    def latency(self) -> None:
        """One event with its CTI to the subscriber."""
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in rows.LATENCIES}
        for query, wanted, _ in rows.LATENCIES.values():
            rows.latency(query, wanted, self._sizes.latency // 5)  # warm
        for _ in range(self._options.rounds):
            for name, (query, wanted, _) in rows.LATENCIES.items():
                measured = rows.latency(query, wanted, self._sizes.latency)
                taken[name].append(rows.quantiles(measured))
        for name, (*_, asked) in rows.LATENCIES.items():
            table, middle = "One event and its CTI", [p50 for p50, _ in taken[name]]
            self._report.add(summarize(table, f"{name}, p50", middle, "µs", asked))
            self._report.add(
                summarize(table, f"{name}, p99", [high for _, high in taken[name]], "µs")
            )
            ratios = [high / p50 for p50, high in taken[name]]
            self._report.add(summarize(table, f"{name}, p99 / p50", ratios, "× p50", 4.0))

    def batches(self) -> None:
        """W2 to W6 in batches of three sizes."""
        for name, make in WORKLOADS.items():
            self._tiny(make(self._sizes.tiny))
            sizes = () if self._sizes.large is None else (self._sizes.large,)
            self._once(make(*sizes))
            if name == "w4":
                self._cpu(make(*sizes))

    def _tiny(self, load: Workload) -> None:
        table, own = f"Batches of {TINY}", f"{load.name}{BATCHES}{TINY}"
        running: dict[str, Callable[[], Any]] = {own: partial(streaming, load, TINY)}
        beside = f"{load.name}, {CSP}"
        if self._peer is not None and load.name in BESIDE_CSP:
            running[beside] = rows.run_in(self._peer, load)
        seconds = self._measure(table, load.rows.height, running, _checking(load))
        self._compare(table, seconds, own, beside, BESIDE_CSP.get(load.name, 0))

    def _once(self, load: Workload) -> None:
        running = contenders(load, SMALL, LARGE)
        table = f"{load.name.upper()}, {load.rows.height:,} rows"
        seconds = self._measure(table, load.rows.height, running, _checking(load))
        for batch_rows, asked in BESIDE_ONCE.items():
            own = f"{load.name}{BATCHES}{batch_rows:,}"
            self._compare(table, seconds, own, *asked[load.name])

    def _cpu(self, load: Workload) -> None:
        running = contenders(load, LARGE)
        del running[NUMBA_ONCE]
        own = f"{load.name}{BATCHES}{LARGE:,}"
        table = f"{load.name.upper()}, {load.rows.height:,} rows, CPU time"
        check = _checking(load)
        seconds = self._measure(table, load.rows.height, running, check, time.process_time)
        self._compare(table, seconds, own, POLARS_ONCE, BESIDE_CPU)

    def events(self) -> None:
        """Python objects in and out."""
        table, running_check = "Python objects", events.contenders(self._sizes.objects)
        running = {name: running_check[0][name] for name in (events.LIMIT, *OBJECTS)}
        seconds = self._measure(table, self._sizes.objects, running, running_check[1])
        for name, asked in OBJECTS.items():
            self._compare(table, seconds, name, events.LIMIT, asked)

    def w1(self) -> None:
        """W1: batches through a subject, beside their events one by one."""
        table, load = "W1, through a subject", rows.Batches(self._sizes.w1)
        whole, single = f"batches of {rows.BATCH:,}", "event by event"
        running = {
            single: partial(load.run, load.events),
            whole: partial(load.run, load.batches),
        }
        seconds = self._measure(table, self._sizes.w1, running, load.check)
        self._compare(table, seconds, whole, single, 50.0)


ROWS: dict[str, Callable[[Live], None]] = {
    "push": Live.push,
    "threads": Live.threads,
    "latency": Live.latency,
    "batches": Live.batches,
    "events": Live.events,
    "w1": Live.w1,
}


def _checking(load: Workload) -> Callable[[Any], None]:
    return lambda result: load.check(columns(result))


def run(options: argparse.Namespace, peer: Peer | None) -> None:
    """Measure the rows asked for."""
    report = Report("live", options)
    live = Live(options, peer, report)
    for name in options.rows or ROWS:
        report.say(f"\n{ROWS[name].__doc__}")
        ROWS[name](live)
    report.save()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), help="the rows; default all")
    parser.add_argument("--no-csp", action="store_true", help="leave csp out")
    parser.add_argument(
        "--cache", type=Path, default=CACHE, help="folder of csp's environment (%(default)s)"
    )
    options = figures.parse(parser, rounds=7)
    measure.keep_memory()
    try:
        peer = None if options.no_csp else Peer(CSP, "peer_csp.py", options.cache)
    except NoPeerError as error:
        print(f"without csp: {error}")
        peer = None
    if peer is None:
        run(options, None)
        return
    with peer:
        run(options, peer)


if __name__ == "__main__":
    main()
