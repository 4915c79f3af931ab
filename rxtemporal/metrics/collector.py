"""Collector of the metrics of processes, computed at each scrape."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICKS_PER_SECOND
from rxtemporal.errors import BindingError
from rxtemporal.ingress.lateness import LateReason
from rxtemporal.metrics.catalog import METRICS, Metric, MetricKind
from rxtemporal.run.diagnostics import (
    Diagnostics,
    OperatorDiagnostics,
    QueryDiagnostics,
    StreamDiagnostics,
)
from rxtemporal.run.process import Process
from rxtemporal.storage.event_log.verification import StorageDiagnostics


class Histogram(NamedTuple):
    """Value of a histogram: the number in each bucket, and the sum of what was observed."""

    buckets: tuple[int, ...]
    sum: float


Value: TypeAlias = float | Histogram


class Sample(NamedTuple):
    """Value of one metric for one set of labels, in the order of the metric's."""

    metric: Metric
    labels: tuple[str, ...]
    value: Value


def list_samples(of: Diagnostics, now: float) -> list[Sample]:
    """Return the samples of a process; ``now`` is the wall clock in seconds since 1970.

    A process whose times are plain numbers has no sample of a metric that needs datetimes.
    """
    found = [(name, (of.name, *labels), value) for name, labels, value in _read(of, now)]
    samples = [Sample(METRICS[name], labels, value) for name, labels, value in found]
    return [each for each in samples if of.time == "datetime" or not each.metric.needs_datetimes]


_Read: TypeAlias = Iterator[tuple[str, tuple[str, ...], Value]]


def _read(of: Diagnostics, now: float) -> _Read:
    yield "running", (), float(of.running)
    if of.storage is not None:
        yield from _read_storage(of.storage)
    for stream in of.streams:
        yield from _read_stream(stream, now)
        yield from _read_inputs(stream)
        yield from _read_hand_off(stream)
    yield from _read_operators(of.operators)
    for query in of.queries:
        yield from _read_query(query, now)
    for stall in of.holding_back():
        labels = (stall.query, stall.stream or "")
        yield "held_back.age", labels, stall.cti_age
        yield "held_back.rows", labels, stall.rows


def _read_storage(of: StorageDiagnostics) -> _Read:
    yield "storage.size", (), of.file_bytes
    yield "log.records", (), of.records
    if of.checkpoints is not None:
        yield "checkpoints", (), of.checkpoints
        yield "checkpoint.size", (), of.checkpoint_bytes or 0
        yield "checkpoint.age", (), of.checkpoint_age or 0.0


def _read_stream(of: StreamDiagnostics, now: float) -> _Read:
    labels = (of.name,)
    yield "lateness", labels, Histogram(of.lateness, of.total_lateness / TICKS_PER_SECOND)
    yield "largest_lateness", labels, of.largest_lateness / TICKS_PER_SECOND
    yield "ahead.events", labels, of.ahead
    yield from _read_cti("cti", labels, of.cti, now)
    yield "cti.age", labels, of.cti_age
    yield "waiting.events", labels, of.rows
    yield "open.events", labels, of.open_rows
    yield "idle", labels, float(of.idle)
    if (clocks := of.clocks) is not None:
        states = {"live": clocks.live - clocks.behind, "behind": clocks.behind}
        for state, count in (states | {"silent": clocks.silent}).items():
            yield "devices", (of.name, state), count


def _read_inputs(of: StreamDiagnostics) -> _Read:
    inputs, labels = of.inputs.values(), (of.name,)
    # what a subject has dropped is counted in its inputs alone; a PushSource counts in both places
    late: Counter[LateReason] = Counter()
    for each in inputs:
        late.update(each.late_by_reason)
    yield "events", labels, max(of.events_in, sum(each.events for each in inputs))
    for reason in LateReason:
        yield "late.events", (of.name, reason.value), max(of.late.get(reason, 0), late[reason])
    yield "duplicates", labels, sum(each.duplicates for each in inputs)
    yield "unsure", labels, sum(each.unsure for each in inputs)
    yield "rejected", labels, sum(each.rejected for each in inputs)
    yield "inputs", labels, len(inputs)


def _read_cti(name: str, labels: tuple[str, ...], cti: int, now: float) -> _Read:
    if MIN_TIME < cti < MAX_TIME:
        seconds = cti / TICKS_PER_SECOND
        yield f"{name}.timestamp", labels, seconds
        yield f"{name}.lag", labels, now - seconds


def _read_hand_off(of: StreamDiagnostics) -> _Read:
    if of.hand_off is not None:
        labels = (of.name,)
        yield "hand_off.events", labels, of.hand_off.rows_waiting
        yield "hand_off.spilled", labels, of.hand_off.rows_spilled
        yield "hand_off.blocks", labels, of.hand_off.times_blocked
        yield "hand_off.blocked", labels, of.hand_off.blocked.total_seconds()


def _read_operators(operators: tuple[OperatorDiagnostics, ...]) -> _Read:
    rows: Counter[tuple[str, str]] = Counter()
    late: Counter[tuple[str, str]] = Counter()
    for each in operators:
        # one line may have several operators of the same name
        labels = each.name, each.line.rsplit("/", 1)[-1]
        rows[labels] += each.rows
        if each.late:
            late[labels] += sum(each.late.values())
    for labels, held in rows.items():
        yield "operator.rows", labels, held
    for labels, count in late.items():
        yield "operator.late", labels, count


def _read_query(of: QueryDiagnostics, now: float) -> _Read:
    labels = (of.name,)
    yield "results", labels, of.rows_out
    yield from _read_cti("query.cti", labels, of.cti, now)
    yield "query.cti.age", labels, of.cti_age
    yield "sink.restarts", labels, of.sink_restarts
    yield "sink.lag", labels, of.sink_lag


_Key: TypeAlias = tuple[Metric, tuple[str, ...]]


class Totals:
    """The totals of counters and histograms of a process that is started again and again.

    What a life counts is added to the totals of those before it. Its counters need not begin at 0:
    a run with ``log=`` or ``resume=`` continues with saved ones, and counts the rows of its log
    again; the inputs of a subject count on while one run after the other has it.
    """

    def __init__(self) -> None:
        self._totals: dict[_Key, Value] = {}
        # what the lives before this one have counted, as far as this life does not
        self._before: dict[_Key, Value] = {}

    def begin_life(self, first: Iterable[Sample]) -> None:
        """Begin a new life; ``first`` are the samples with which it begins."""
        counted = {each[:2]: each.value for each in first}
        self._before = {
            key: _less(total, counted[key]) if key in counted else total
            for key, total in self._totals.items()
        }

    def add_up(self, samples: Iterable[Sample]) -> list[Sample]:
        """Return the samples of this life with totals in place of counters.

        A counter that this life does not have yet is there with its total.
        """
        samples = list(samples)
        counted = {each[:2]: each.value for each in samples if _is_count(each.metric)}
        for key, value in counted.items():
            total = _plus(value, self._before.get(key))
            self._totals[key] = _highest(total, self._totals.get(key))
        gauges = [each for each in samples if not _is_count(each.metric)]
        return [*self.list_totals(), *gauges]

    def list_totals(self) -> list[Sample]:
        """Return the samples of counters and histograms at the last ``add_up``."""
        return [Sample(*key, value) for key, value in self._totals.items()]


def _is_count(metric: Metric) -> bool:
    return metric.kind is not MetricKind.GAUGE


def _plus(value: Value, before: Value | None) -> Value:
    if before is None:
        return value
    if isinstance(value, Histogram) and isinstance(before, Histogram):
        buckets = zip(value.buckets, before.buckets, strict=True)
        return Histogram(tuple(a + b for a, b in buckets), value.sum + before.sum)
    assert not isinstance(value, Histogram)
    assert not isinstance(before, Histogram)
    return value + before


def _less(total: Value, now: Value) -> Value:
    """Return by how much a total is above a value, at least 0."""
    if isinstance(total, Histogram) and isinstance(now, Histogram):
        buckets = zip(total.buckets, now.buckets, strict=True)
        return Histogram(tuple(max(a - b, 0) for a, b in buckets), max(total.sum - now.sum, 0.0))
    assert not isinstance(total, Histogram)
    assert not isinstance(now, Histogram)
    return max(total - now, 0)


def _highest(total: Value, last: Value | None) -> Value:
    """Return a total, or the last one where that is higher: counters are read without a lock."""
    if last is None or isinstance(total, Histogram) or isinstance(last, Histogram):
        return total
    return max(total, last)


class Collector:
    """Collector of the samples of processes; it costs them nothing between scrapes.

    Counters of a process with the name of an earlier one continue those. Threads: any.

    >>> import rxtemporal as rxt
    >>> collector = Collector()
    >>> for life in range(2):
    ...     process = rxt.from_events([rxt.PointEvent(4, 2)]).run(rxt.Collect(), name="visits")
    ...     with process:
    ...         collector.add(process)
    ...     found = {each.metric.name: each.value for each in collector.collect()}
    ...     print(found["events"], found["running"])
    1 0.0
    2 0.0
    """

    def __init__(self, *processes: Process, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._processes: dict[str, Process] = {}
        self._totals: dict[str, Totals] = {}
        for each in processes:
            self.add(each)

    def add(self, process: Process) -> None:
        """Add a process, or the next run of the same name. Idempotent.

        ``BindingError``: another one of this name is running.
        """
        with self._lock:
            self._add(process)

    def _add(self, process: Process) -> None:
        before = self._processes.get(process.name)
        if before is process:
            return
        if before is not None and before.running:
            raise BindingError(
                f"two running processes are called {process.name!r}, and their metrics would have "
                "the same labels. Hint: run(sink, name=...) gives each its own name."
            )
        self._processes[process.name] = process
        totals = self._totals.setdefault(process.name, Totals())
        if before is not None:
            # what it has counted since it was last asked
            totals.add_up(list_samples(before.diagnostics(), self._now()))
            totals.begin_life(list_samples(process.first_diagnostics(), self._now()))

    def remove(self, process: Process) -> None:
        """Forget a process and its counters."""
        with self._lock:
            if self._processes.get(process.name) is process:
                del self._processes[process.name], self._totals[process.name]

    def collect(self) -> list[Sample]:
        """Return the current samples of all processes."""
        with self._lock:
            return [
                sample
                for name, process in self._processes.items()
                for sample in self._totals[name].add_up(
                    list_samples(process.diagnostics(), self._now())
                )
            ]
