"""Metrics of streaming queries, from events of Spark's listener."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry

from rxtemporal.errors import BindingError
from rxtemporal.metrics.catalog import MetricOwner, list_metrics

pytest.importorskip("pyspark")
from rxtemporal.spark import metrics
from rxtemporal.spark.cluster.progress_listener import ProgressListener

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = 3_600_000_000


def make_event(**changes: Any) -> Any:
    """Return the progress of a micro-batch of ten rows with a state of two buckets."""
    state = {"numRowsTotal": 3, "memoryUsedBytes": 100, "customMetrics": {"rocksdbSstFileSize": 7}}
    progress = {
        "id": "1f", "name": "hours", "numInputRows": 10, "durationMs": {"triggerExecution": 250},
        "inputRowsPerSecond": 5.0, "processedRowsPerSecond": 40.0, "observedMetrics": {},
        "stateOperators": [SimpleNamespace(**state), SimpleNamespace(**state)],
    }  # fmt: skip
    return SimpleNamespace(progress=SimpleNamespace(**{**progress, **changes}))


def only(listener: ProgressListener) -> Any:
    """Return the counts of the only query."""
    ((_, counts),) = listener.list_queries()
    return counts


def test_counters_are_added_up_and_values_are_the_last() -> None:
    """Both operators of a query with states are in the size of its state."""
    listener = ProgressListener()
    listener.onQueryProgress(make_event())
    listener.onQueryProgress(make_event(numInputRows=4))
    counts = only(listener)
    assert (counts.batches, counts.rows, counts.running) == (2, 14, True)
    assert counts.values == {
        "batch.duration": 0.25, "batch.rows": 4, "input_rate": 5.0, "process_rate": 40.0,
        "state.rows": 6, "state.memory": 200, "state.files": 14,
    }  # fmt: skip


@pytest.mark.parametrize("rate", [None, float("nan"), float("inf")])
def test_a_rate_that_spark_does_not_know_is_none_at_all(rate: float | None) -> None:
    """The first micro-batch has no time in which its rows arrived."""
    listener = ProgressListener()
    listener.onQueryProgress(make_event(inputRowsPerSecond=rate))
    assert only(listener).values["input_rate"] == 0.0


def test_the_cti_is_the_lowest_of_the_results_and_stays() -> None:
    """Metrics of others are not read, and a micro-batch without all buckets says nothing."""
    listener = ProgressListener()
    observed = {"rxtemporal.cti.a": {"cti": 2 * HOUR}, "rxtemporal.cti.b": {"cti": HOUR}}
    listener.onQueryProgress(make_event(observedMetrics={**observed, "late": {"events": 3}}))
    assert only(listener).cti == HOUR
    listener.onQueryProgress(make_event(observedMetrics={"rxtemporal.cti.a": {"cti": None}}))
    assert only(listener).cti == HOUR


def test_a_query_that_ends_or_rests_has_no_rates() -> None:
    """It is found again by its id, and continues its counters when it starts again."""
    listener = ProgressListener()
    listener.onQueryStarted(SimpleNamespace(id="1f", name="hours"))
    listener.onQueryProgress(make_event())
    listener.onQueryIdle(SimpleNamespace(id="1f"))
    assert only(listener).values["process_rate"] == 0.0
    listener.onQueryProgress(make_event())
    listener.onQueryTerminated(SimpleNamespace(id="1f", exception="it broke"))
    counts = only(listener)
    assert (counts.running, counts.failures, counts.values["input_rate"]) == (False, 1, 0.0)
    listener.onQueryStarted(SimpleNamespace(id="1f", name="hours"))
    assert (only(listener).running, only(listener).batches) == (True, 2)


def test_a_query_without_a_name_has_its_id() -> None:
    """Spark says None, when it starts and in its progress."""
    listener = ProgressListener()
    listener.onQueryStarted(SimpleNamespace(id="1f", name=None))
    listener.onQueryProgress(make_event(name=None))
    assert [name for name, _ in listener.list_queries()] == ["1f"]


@pytest.mark.java
def test_a_registry_has_the_metrics_of_a_session(spark: SparkSession) -> None:
    """Any streaming query of the session is in it, except for the CTI, which it does not have."""
    found, registry = metrics(spark), CollectorRegistry()
    found.register(registry)
    with pytest.raises(BindingError, match="one session"):
        found.register(registry)
    rates = spark.readStream.format("rate").option("rowsPerSecond", 1000).load()
    written = (
        rates.writeStream.format("noop").queryName("rates").trigger(processingTime="0 seconds")
    )
    query = written.start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    java: Any = spark.sparkContext._jsc
    java.sc().listenerBus().waitUntilEmpty()
    found.stop()
    found.stop()
    labels = {"query": "rates"}
    names = {
        each.prometheus for each in list_metrics(MetricOwner.SPARK) if ".cti." not in each.name
    }
    values = {name: registry.get_sample_value(name, labels) for name in names}
    assert None not in values.values()
    assert values["rxtemporal_spark_running"] == 0.0
    assert (values["rxtemporal_spark_batches_total"] or 0) >= 1
