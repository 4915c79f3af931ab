"""The command ``bench``: rates, shares of time and latency of a query."""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal.cli.options import INTERRUPTED, add_input_options, parse_seconds
from rxtemporal.engine.stage import Stage
from rxtemporal.ingress.stream_time import StreamTime
from rxtemporal.ingress.unpacker import list_events
from rxtemporal.operators.plan import Node
from rxtemporal.query.bound_query import apply_query

SIZES = (64, 1_024, 65_536)
# events whose latency is measured, at most
SINGLE = 20_000
REST = "sources, results"
Query = Callable[..., Any]
Pushes = Sequence[tuple[str, int, Sequence[Any]]]


@dataclasses.dataclass(frozen=True, slots=True)
class Rate:
    """Rate of a query in batches of one size, and the share of time of each operator."""

    batch_rows: int
    rows_per_second: float
    shares: Mapping[str, float]

    @property
    def batch_time(self) -> float:
        """The time for one batch, in seconds."""
        return self.batch_rows / self.rows_per_second


@dataclasses.dataclass(frozen=True, slots=True)
class Latency:
    """Time from pushing one event and its CTI until their results are delivered, in seconds."""

    middle: float
    high: float
    events: int


class InputRows:
    """Rows of one input stream in memory, to be cut into batches of any size.

    After each batch comes the highest CTI that the rows behind it allow.
    """

    def __init__(self, name: str, stream: rxt.Streamable) -> None:
        batches = list(stream.to_batches())
        if not any(map(len, batches)):
            raise rxt.SourceError(
                f"the input {name!r} has no rows to measure with. Hint: check its file, and that "
                "--delay does not drop all of its rows."
            )
        self.batch = rxt.EventBatch.concat(batches)
        ends = self.batch.find_ends()
        times = (
            self.batch.start if ends is None else np.where(ends, self.batch.end, self.batch.start)
        )
        # for each row the lowest time of it and all rows behind it
        self._lowest = np.append(np.minimum.accumulate(times[::-1])[::-1], rxt.MAX_TIME)

    def cut(self, batch_rows: int) -> Iterator[tuple[int, rxt.EventBatch]]:
        """Yield batches of so many rows, each with the lowest time from it on."""
        for begin in range(0, len(self.batch), batch_rows):
            part = self.batch.slice(begin, begin + batch_rows)
            cti = int(self._lowest[begin + len(part)])
            yield int(self._lowest[begin]), part.replace(cti=cti)


class OperatorTimer:
    """Clock that is given to one operator at a time; the time of the others stands still."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {REST: 0.0}
        self._running = [REST]
        self._since = time.perf_counter()

    def _switch(self) -> None:
        now = time.perf_counter()
        name = self._running[-1]
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._since
        self._since = now

    def start(self) -> None:
        """Begin to measure: what came before does not count."""
        self.seconds = dict.fromkeys(self.seconds, 0.0)
        self._since = time.perf_counter()

    def run(self, name: str, work: Callable[[Any], Any], batch: Any) -> Any:
        """Give the clock to an operator while it works on a batch; return what it returns."""
        self._switch()
        self._running.append(name)
        try:
            return work(batch)
        finally:
            self._switch()
            self._running.pop()

    def shares(self) -> dict[str, float]:
        """Return the share of time of each operator, and of the rest."""
        self._switch()
        total = sum(self.seconds.values())
        return {name: seconds / total for name, seconds in self.seconds.items()}


class TimedOperator:
    """Operator of a plan that runs under a timer; otherwise like the one that it stands for."""

    def __init__(self, operator: Any, name: str, timer: OperatorTimer) -> None:
        self._operator, self._name, self._timer = operator, name, timer
        timer.seconds[name] = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operator, name)

    def make_stage(self, *given: Any) -> Stage:
        """Return the operator's stage, whose step has the clock while it works."""
        stage: Stage = self._operator.make_stage(*given)
        stage.wrap_step(partial(_TimedStep, self._timer, self._name))
        return stage


class _TimedStep:
    """Step that runs under a timer."""

    def __init__(self, timer: OperatorTimer, name: str, step: Any) -> None:
        self._step = step
        for method in ("on_batch", "on_left", "on_right"):
            if (work := getattr(step, method, None)) is not None:
                setattr(self, method, partial(timer.run, name, work))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._step, name)


def time_operators(query: rxt.Streamable, timer: OperatorTimer) -> rxt.Streamable:
    """Return the same query, with a timer for each operator."""
    made: dict[int, Node] = {}
    for number, node in enumerate(query._node.list_nodes()):
        inputs = tuple(made[id(each)] for each in node.inputs)
        operator: Any = node.operator
        if operator is not None:
            place = operator.line.rsplit("/", 1)[-1]
            operator = TimedOperator(operator, f"{number}. {operator.name} ({place})", timer)
        made[id(node)] = dataclasses.replace(node, inputs=inputs, operator=operator)
    return rxt.Streamable(made[id(query._node)])


class Discard(rxt.Sink):
    """Sink that discards what comes."""

    shape = rxt.EventShape.EDGE

    def write(self, batch: rxt.EventBatch) -> None:
        """Do nothing."""


class Bench:
    """Measurement of one query over rows in memory; ``seconds`` limits each single run."""

    def __init__(self, query: Query, streams: Mapping[str, rxt.Streamable], seconds: float) -> None:
        self._query, self._seconds = query, seconds
        self._inputs = {name: InputRows(name, stream) for name, stream in streams.items()}
        self.rows = sum(len(each.batch) for each in self._inputs.values())

    @property
    def sizes(self) -> list[int]:
        """The sizes of batches that the input is long enough for; at least one."""
        longest = max(len(each.batch) for each in self._inputs.values())
        return [size for n, size in enumerate(SIZES) if not n or SIZES[n - 1] < longest]

    def measure_rate(self, batch_rows: int, rounds: int = 3) -> Rate:
        """Return the rate in batches of one size: the median, and the shares of a further run."""
        pushes = [
            (time, name, [batch])
            for name, each in self._inputs.items()
            for time, batch in each.cut(batch_rows)
        ]
        pushes.sort(key=lambda push: push[0])
        ordered: Pushes = [(name, len(items[0]), items) for _, name, items in pushes]
        self._run(ordered)  # warm
        rates = [rows / sum(taken) for rows, taken in (self._run(ordered) for _ in range(rounds))]
        timer = OperatorTimer()
        self._run(ordered, timer)
        size = min(batch_rows, self.rows)
        return Rate(size, statistics.median(rates), timer.shares())

    def measure_latency(self) -> Latency:
        """Return the latency of single events, each with its CTI."""
        pushes = []
        for name, each in self._inputs.items():
            times = StreamTime(each.batch.time)
            events = list_events(each.batch.slice(0, SINGLE), times.form or "ticks")
            parts = zip(each.cut(1), events, strict=False)
            pushes += [
                (time, name, [event, rxt.Cti(times.show(part.cti))])
                for (time, part), event in parts
            ]
        pushes.sort(key=lambda push: push[0])
        _, taken = self._run([(name, 1, items) for _, name, items in pushes[:SINGLE]])
        steady = taken[len(taken) // 10 :]  # the first tenth compiles and fills the caches
        middle, high = np.percentile(steady, [50, 99])
        return Latency(float(middle), float(high), len(steady))

    def _run(self, pushes: Pushes, timer: OperatorTimer | None = None) -> tuple[int, list[float]]:
        """Push into a new run of the query; return the number of rows, and the seconds of each."""
        subjects: dict[str, Subject[Any]] = {name: Subject() for name in self._inputs}
        query = apply_query(
            self._query, {name: self._stream(name, subjects[name]) for name in subjects}
        )
        if timer is not None:
            query = time_operators(query, timer)
        process = query.run(Discard(), name="bench", warn_after=None)
        if timer is not None:
            timer.start()
        rows, taken = _push(subjects, pushes, self._seconds)
        for subject in subjects.values():
            subject.on_completed()
        process.wait()
        return rows, taken

    def _stream(self, name: str, subject: Subject[Any]) -> rxt.Streamable:
        return rxt.from_observable(subject, schema=self._inputs[name].batch.schema, name=name)


def _push(
    subjects: Mapping[str, Subject[Any]], pushes: Pushes, seconds: float
) -> tuple[int, list[float]]:
    rows, taken = 0, []
    end = time.perf_counter() + seconds
    for name, count, items in pushes:
        on_next = subjects[name].on_next
        begun = time.perf_counter()
        for item in items:
            on_next(item)
        now = time.perf_counter()
        taken.append(now - begun)
        rows += count
        if now > end:
            break
    return rows, taken


def describe(rates: Sequence[Rate], latency: Latency) -> Iterator[str]:
    """Yield the lines of the tables: rates, shares of time, latency."""
    yield f"{'rows in a batch':>16}{'rows/s':>14}{'µs a batch':>14}"
    for rate in rates:
        micros = rate.batch_time * 1e6
        yield f"{rate.batch_rows:>16,}{rate.rows_per_second:>14,.0f}{micros:>14,.0f}"
    names = list(rates[0].shares)
    width = max(len("share of time, by rows in a batch"), *map(len, names))
    heads = "".join(f"{rate.batch_rows:>10,}" for rate in rates)
    yield ""
    yield f"{'share of time, by rows in a batch':<{width}}{heads}"
    for name in [*names[1:], REST]:
        shares = "".join(f"{rate.shares.get(name, 0.0):>10.0%}" for rate in rates)
        yield f"{name:<{width}}{shares}"
    yield ""
    yield (
        "one event and its CTI until the results are delivered: "
        f"p50 {latency.middle * 1e6:,.0f} µs, p99 {latency.high * 1e6:,.0f} µs, "
        f"of {latency.events:,} events"
    )


DESCRIPTION = (
    "Reads the inputs into memory, and runs a query over them in batches of 64, "
    "1,024 and 65,536 rows and event by event, with a CTI after each. Prints rows per second, "
    "the share of time of each operator, and the latency of one event. The results of the "
    "query are discarded."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument(
        "query", metavar="MODULE:FUNCTION",
        help="the query, as in `rxtemporal replay`: a function of streams (or FILE.py:FUNCTION)",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", type=parse_seconds, default=3.0, metavar="N",
        help="limit of each single run, of which there are about 16 (default: %(default)g)",
    )  # fmt: skip
    add_input_options(parser, required=True)


def run(options: argparse.Namespace) -> int:
    """Run the command; Ctrl-C ends it."""
    from rxtemporal.cli.inputs import FileOptions, find_query, open_streams
    from rxtemporal.cli.progress import is_watched

    def report(words: str) -> None:
        if is_watched():
            print(words, file=sys.stderr, flush=True)

    files = FileOptions.of(options)
    query = find_query(options.query, "the query")
    try:
        report("reading the input …")
        bench = Bench(query, open_streams(options.input, files), options.seconds)
        print(f"{options.query} over {bench.rows:,} rows")
        rates = []
        for size in bench.sizes:
            report(f"measuring batches of {size:,} rows …")
            rates.append(bench.measure_rate(size))
        report("measuring single events …")
        latency = bench.measure_latency()
    except KeyboardInterrupt:
        return INTERRUPTED
    for line in describe(rates, latency):
        print(line)
    return 0
