"""OpenTelemetry: observable instruments with the same figures."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import rxtemporal as rxt
from rxtemporal.metrics.catalog import METRICS, MetricKind
from rxtemporal.metrics.opentelemetry import instrument

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def read(reader: InMemoryMetricReader) -> dict[str, Any]:
    """Export once; return the metrics by name."""
    data = reader.get_metrics_data()
    assert data is not None
    scopes = data.resource_metrics[0].scope_metrics
    return {metric.name: metric for scope in scopes for metric in scope.metrics}


def values(metric: Any) -> dict[tuple[Any, ...], float]:
    """Return the values of a metric by its labels, without the name of the process."""
    return {
        tuple(value for name, value in sorted(point.attributes.items()) if name != "process"):
            point.value
        for point in metric.data.data_points
    }  # fmt: skip


def test_a_meter_has_the_metrics_of_a_process() -> None:
    """Each export reads the process once, and has its figures with units and help."""
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader], shutdown_on_exit=False).get_meter("house")
    source = rxt.PushSource("readings", schema={"temp": int})
    process = source.stream.run(rxt.Collect(), name="house")
    source.push({"time": NOON, "temp": 1})
    instrument(process, meter=meter)
    assert values(read(reader)["rxtemporal.events"]) == {("readings",): 1}
    source.push({"time": NOON.replace(hour=11), "temp": 1})
    found = read(reader)
    assert values(found["rxtemporal.events"]) == {("readings",): 2}
    assert values(found["rxtemporal.cti.timestamp"]) == {("readings",): NOON.timestamp()}
    late = values(found["rxtemporal.lateness.bucket"])
    assert (late["900.0", "readings"], late["3600.0", "readings"]) == (0, 1)
    assert late["+Inf", "readings"] == 1
    assert values(found["rxtemporal.lateness.sum"]) == {("readings",): 3_600}
    for name, metric in METRICS.items():
        if metric.kind is not MetricKind.HISTOGRAM and f"rxtemporal.{name}" in found:
            there = found[f"rxtemporal.{name}"]
            assert (there.unit, there.description) == (metric.unit, metric.help)
    process.stop()


def test_an_export_collects_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All instruments of one export share one reading of the process."""
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader], shutdown_on_exit=False).get_meter("house")
    process = rxt.from_events([rxt.PointEvent(4, 2)]).run(rxt.Collect())
    process.wait()
    instrument(process, meter=meter)
    read_diagnostics, readings = process.diagnostics, []
    monkeypatch.setattr(process, "diagnostics", lambda: readings.append(1) or read_diagnostics())
    for _ in range(3):
        read(reader)
    assert len(readings) == 3


def test_without_the_api_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing package is named with its extra."""
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.metrics", None)
    with pytest.raises(rxt.BindingError, match=r"Hint: pip install 'rxtemporal\[otel\]'"):
        instrument()


def test_what_is_no_process_is_refused() -> None:
    """A query that does not run has no metrics."""
    with pytest.raises(rxt.ArgumentError, match="instrument takes processes"):
        instrument(rxt.Collect())  # type: ignore[arg-type]
