"""Samples of a process: the values of its metrics at one moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICKS_PER_SECOND
from rxtemporal.ingress.lateness import LateReason
from rxtemporal.metrics.catalog import METRICS, Metric
from rxtemporal.run.diagnostics import (
    Diagnostics,
    OperatorDiagnostics,
    QueryDiagnostics,
    StreamDiagnostics,
)
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
    for each in operators:
        # one line may have several operators of the same name
        rows[each.name, each.line.rsplit("/", 1)[-1]] += each.rows
    for labels, held in rows.items():
        yield "operator.rows", labels, held


def _read_query(of: QueryDiagnostics, now: float) -> _Read:
    labels = (of.name,)
    yield "results", labels, of.rows_out
    yield from _read_cti("query.cti", labels, of.cti, now)
    yield "query.cti.age", labels, of.cti_age
    yield "sink.restarts", labels, of.sink_restarts
