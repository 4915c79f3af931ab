"""Metrics of streaming queries in Spark, from the progress that Spark reports."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICKS_PER_SECOND
from rxtemporal.metrics.catalog import METRICS, MetricOwner, list_metrics
from rxtemporal.metrics.collector import Sample
from rxtemporal.metrics.opentelemetry import make_instruments
from rxtemporal.metrics.prometheus import SampleCollector, register_collector
from rxtemporal.spark.jvm.callbacks import add_listener
from rxtemporal.spark.jvm.session import require_pyspark
from rxtemporal.spark.jvm.session import session as open_or_start

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from prometheus_client.registry import CollectorRegistry
    from pyspark.sql import SparkSession

    from rxtemporal.spark.cluster.progress_listener import QueryCounts


class SparkMetrics:
    """Metrics of the streaming queries of a session, by their names; see ``metrics``.

    Values are those of the last micro-batch; counters begin with this object. Threads: any.
    """

    def __init__(self, session: SparkSession) -> None:
        from rxtemporal.spark.cluster.progress_listener import ProgressListener

        self._session, self._listener = session, ProgressListener()
        add_listener(session, self._listener)

    def register(self, registry: CollectorRegistry | None = None) -> SampleCollector:
        """Register with a registry of ``prometheus_client``, by default its own.

        ``registry.unregister`` of the result undoes it. ``BindingError`` if the registry has
        metrics of another session.
        """
        collector = SampleCollector(list_metrics(MetricOwner.SPARK), self.collect)
        register_collector(collector, registry, "register one session with a registry.")
        return collector

    def instrument(self, meter: Meter | None = None) -> None:
        """Make instruments of OpenTelemetry, by default of the program's meter provider."""
        make_instruments(list_metrics(MetricOwner.SPARK), self.collect, meter)

    def collect(self) -> list[Sample]:
        """Return the current samples."""
        return [
            Sample(METRICS[f"spark.{metric}"], (name,), value)
            for name, query in self._listener.list_queries()
            for metric, value in _read_query(query, time.time())
        ]

    def stop(self) -> None:
        """Stop listening; the samples stay as they are. Idempotent."""
        self._session.streams.removeListener(self._listener)


def metrics(session: SparkSession | None = None) -> SparkMetrics:
    """Listen to the streaming queries of a session, and return their metrics.

    ``session`` is by default the running one. Each micro-batch of each query, of this library or
    not, gives its duration, rows, rates and the size of its state; of ``run`` over streaming
    DataFrames also the CTI before which all results are there. ``register()`` and ``instrument()``
    of the result make them metrics of Prometheus and of OpenTelemetry, labelled with the name of
    the query (``queryName``), or its id. Call it before the queries start; one that runs already
    appears with its next micro-batch.

    Costs a call into this process for each micro-batch. ``BindingError`` for Spark Connect and
    without pyspark.
    """
    require_pyspark()
    return SparkMetrics(open_or_start() if session is None else session)


def _read_query(query: QueryCounts, now: float) -> Iterator[tuple[str, float]]:
    yield "running", float(query.running)
    yield "failures", query.failures
    yield "batches", query.batches
    yield "rows", query.rows
    yield "batch.age", now - query.last
    yield from query.values.items()
    if MIN_TIME < query.cti < MAX_TIME:
        seconds = query.cti / TICKS_PER_SECOND
        yield "cti.timestamp", seconds
        yield "cti.lag", now - seconds
