"""Metrics for OpenTelemetry: observable instruments of a meter."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from rxtemporal.errors import ArgumentError, BindingError
from rxtemporal.metrics.catalog import (
    METRICS,
    Metric,
    MetricKind,
    MetricOwner,
    list_bounds,
    list_metrics,
)
from rxtemporal.metrics.collector import Collector, Histogram, Sample
from rxtemporal.run.process import Process

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation


def instrument(*processes: Process, meter: Meter | None = None) -> Collector:
    """Make an observable instrument for each metric, and return the collector that they read.

    ``meter`` is by default that of the program's meter provider. ``add`` of the collector
    adds another process, ``remove`` removes one. OpenTelemetry has no observable histograms, so the
    lateness is two counters: ``.bucket`` counts the late events up to the bound ``le``, and
    ``.sum`` adds up their lateness.

    >>> import rxtemporal as rxt
    >>> with rxt.from_events([rxt.PointEvent(4, 2)]).run(rxt.Collect()) as process:
    ...     collector = instrument(process)
    """
    for each in processes:
        if not isinstance(each, Process):
            raise ArgumentError(
                f"instrument takes processes, got {each!r}. Hint: run(sink) returns one."
            )
    collector = Collector(*processes)
    make_instruments(list_metrics(MetricOwner.PROCESS), collector.collect, meter)
    return collector


def make_instruments(
    metrics: Iterable[Metric], collect: Callable[[], Iterable[Sample]], meter: Meter | None
) -> None:
    """Make the instruments of some metrics, which observe what ``collect`` returns.

    ``meter`` is by default that of the program's meter provider.
    """
    meter = meter or _import_api().get_meter("rxtemporal")
    readings = _Readings(collect)
    for metric in metrics:
        if metric.kind is MetricKind.GAUGE:
            make: Any = meter.create_observable_gauge
        else:
            make = meter.create_observable_counter
        if metric.kind is MetricKind.HISTOGRAM:
            callback = readings.observe(metric, _list_buckets, "bucket")
            make(f"{metric.opentelemetry}.bucket", [callback], "{event}", metric.help)
            callback = readings.observe(metric, _list_sum, "sum")
            make(f"{metric.opentelemetry}.sum", [callback], metric.unit, metric.help)
        else:
            callback = readings.observe(metric, _list_value, "")
            make(metric.opentelemetry, [callback], metric.unit, metric.help)


_Observations = Iterator[tuple[float, dict[str, str]]]


class _Readings:
    """Samples that all instruments of one meter share: they are collected once for each export."""

    def __init__(self, collect: Callable[[], Iterable[Sample]]) -> None:
        self._collect = collect
        self._lock = threading.Lock()
        self._samples: dict[str, list[Sample]] = {}
        # the instruments that have not observed the samples yet
        self._due: set[str] = set()

    def observe(
        self, metric: Metric, read: Callable[[Sample], _Observations], part: str
    ) -> Callable[[CallbackOptions], list[Observation]]:
        """Return the callback of an instrument."""
        observation = _import_api().Observation

        def callback(options: CallbackOptions) -> list[Observation]:
            return [
                observation(value, labels)
                for sample in self._read(metric, f"{metric.name} {part}")
                for value, labels in read(sample)
            ]

        return callback

    def _read(self, metric: Metric, instrument: str) -> list[Sample]:
        """Return the samples of a metric; collect if the instrument has observed the last ones."""
        with self._lock:
            if instrument not in self._due:
                samples: dict[str, list[Sample]] = {}
                for each in self._collect():
                    samples.setdefault(each.metric.name, []).append(each)
                self._samples = samples
                self._due = {f"{name} {part}" for name in METRICS for part in ("", "bucket", "sum")}
            self._due.discard(instrument)
            return self._samples.get(metric.name, [])


def _label(sample: Sample) -> dict[str, str]:
    return dict(zip(sample.metric.labels, sample.labels, strict=True))


def _list_value(sample: Sample) -> _Observations:
    assert not isinstance(sample.value, Histogram)
    yield sample.value, _label(sample)


def _list_buckets(sample: Sample) -> _Observations:
    assert isinstance(sample.value, Histogram)
    for bound, count in zip(list_bounds(), accumulate(sample.value.buckets), strict=True):
        yield count, {**_label(sample), "le": bound}


def _list_sum(sample: Sample) -> _Observations:
    assert isinstance(sample.value, Histogram)
    yield sample.value.sum, _label(sample)


def _import_api() -> Any:
    try:
        import opentelemetry.metrics
    except ImportError as error:
        raise BindingError(
            f"metrics for OpenTelemetry need its API: {error}. "
            "Hint: pip install 'rxtemporal[otel]'."
        ) from error
    return opentelemetry.metrics
