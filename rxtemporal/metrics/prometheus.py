"""Metrics for Prometheus: a collector for a registry of ``prometheus_client``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
    from prometheus_client.core import Metric as Family
    from prometheus_client.registry import CollectorRegistry

# content type and body of an answer to a scrape
Exposition = tuple[str, bytes]


class SampleCollector:
    """Collector of some metrics in a registry, which calls ``collect`` at each scrape."""

    def __init__(self, metrics: Iterable[Metric], collect: Callable[[], Iterable[Sample]]) -> None:
        _import_client()
        self._metrics, self._collect = tuple(metrics), collect

    def collect(self) -> Iterable[Family]:
        """Return the metrics with their current samples."""
        return make_families(self._collect())

    def describe(self) -> Iterable[Family]:
        """Return the metrics without samples: the names that the registry reserves."""
        return [_make_family(each) for each in self._metrics]


class PrometheusCollector(SampleCollector):
    """Collector of processes in a registry, which calls ``collect`` at each scrape.

    ``add`` adds another process, or the next run of the same name, whose counters continue.
    """

    def __init__(self, *processes: Process) -> None:
        collector = Collector(*processes)
        super().__init__(list_metrics(MetricOwner.PROCESS), collector.collect)
        self.add, self.remove = collector.add, collector.remove


def register(*processes: Process, registry: CollectorRegistry | None = None) -> PrometheusCollector:
    """Register processes with a registry of ``prometheus_client``, by default its own.

    The metrics are computed at each scrape. ``registry.unregister(collector)`` removes them.

    >>> import rxtemporal as rxt
    >>> from prometheus_client import CollectorRegistry
    >>> registry = CollectorRegistry()
    >>> with rxt.from_events([rxt.PointEvent(4, 2)]).run(rxt.Collect(), name="visits") as process:
    ...     collector = register(process, registry=registry)
    >>> labels = {"process": "visits", "query": "visits"}
    >>> registry.get_sample_value("rxtemporal_results_total", labels)
    1
    """
    for each in processes:
        if not isinstance(each, Process):
            raise ArgumentError(
                f"register takes processes, got {each!r}. Hint: run(sink) returns one."
            )
    collector = PrometheusCollector(*processes)
    hint = "add(process) of the collector that register returned the first time."
    register_collector(collector, registry, hint)
    return collector


def register_collector(
    collector: SampleCollector, registry: CollectorRegistry | None, hint: str
) -> None:
    """Register a collector with a registry, by default that of ``prometheus_client``."""
    try:
        (registry or _import_client().REGISTRY).register(collector)
    except ValueError as error:
        raise BindingError(
            f"the registry has metrics of rxtemporal already. Hint: {hint}"
        ) from error


def expose(samples: Iterable[Sample], accept: str = "") -> Exposition:
    """Return samples as text, in the format that the header Accept of a scrape asks for."""
    client = _import_client()
    encode, content_type = client.exposition.choose_encoder(accept)
    return content_type, encode(_Families(lambda: make_families(samples)))


class _Families:
    """Registry with nothing but ``collect``, which is all that an encoder reads."""

    def __init__(self, collect: Callable[[], Iterable[Family]]) -> None:
        self.collect = collect


def make_families(samples: Iterable[Sample]) -> list[Family]:
    """Return the metrics of ``prometheus_client`` with these samples, in the order of the list."""
    families: dict[str, Any] = {}
    for sample in samples:
        metric = sample.metric
        if metric.name not in families:
            families[metric.name] = _make_family(metric)
        if isinstance(sample.value, Histogram):
            counts = accumulate(sample.value.buckets)
            buckets = list(zip(list_bounds(), map(float, counts), strict=True))
            families[metric.name].add_metric(sample.labels, buckets, sample.value.sum)
        else:
            families[metric.name].add_metric(sample.labels, sample.value)
    return [families[name] for name in METRICS if name in families]


def _make_family(metric: Metric) -> Any:
    core = _import_client().core
    makes = {
        MetricKind.COUNTER: core.CounterMetricFamily,
        MetricKind.GAUGE: core.GaugeMetricFamily,
        MetricKind.HISTOGRAM: core.HistogramMetricFamily,
    }
    return makes[metric.kind](metric.family, metric.help, labels=metric.labels)


def _import_client() -> Any:
    try:
        import prometheus_client
        import prometheus_client.core
    except ImportError as error:
        raise BindingError(
            f"metrics for Prometheus need prometheus-client: {error}. "
            "Hint: pip install 'rxtemporal[serve]'."
        ) from error
    return prometheus_client
