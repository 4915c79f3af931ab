"""Prometheus: the collector in a registry, and the text of a scrape."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import rxtemporal as rxt
from rxtemporal.metrics.catalog import METRICS
from rxtemporal.metrics.collector import list_samples
from rxtemporal.metrics.prometheus import expose, register

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def start(**options: Any) -> tuple[rxt.PushSource, rxt.Process]:
    """Run a query over a source with one late row."""
    source = rxt.PushSource("readings", schema={"temp": int}, hand_off=rxt.HandOff())
    process = source.stream.run(rxt.Collect(), name="house", **options)
    source.push({"time": NOON, "temp": 1})
    source.push({"time": NOON.replace(minute=0, hour=11), "temp": 1})
    return source, process


def test_a_registry_has_the_metrics_of_a_process() -> None:
    """Each scrape reads the process; after unregistering nothing is left."""
    registry = CollectorRegistry()
    source, process = start()
    collector = register(process, registry=registry)
    labels = {"process": "house", "stream": "readings"}
    assert registry.get_sample_value("rxtemporal_events_total", labels) == 2
    source.push({"time": NOON, "temp": 1})
    assert registry.get_sample_value("rxtemporal_events_total", labels) == 3
    bucket = {**labels, "le": "3600.0"}
    assert registry.get_sample_value("rxtemporal_lateness_seconds_bucket", bucket) == 1
    assert registry.get_sample_value("rxtemporal_lateness_seconds_sum", labels) == 3_600
    registry.unregister(collector)
    assert generate_latest(registry) == b""
    process.stop()


def test_a_parser_reads_the_text() -> None:
    """Names, kinds and labels of the text are those of the list."""
    _, process = start()
    content_type, text = expose(list_samples(process.diagnostics(), NOON.timestamp()))
    assert content_type.startswith("text/plain")
    families = {each.name: each for each in text_string_to_metric_families(text.decode())}
    named = {each.family: each for each in METRICS.values()}
    assert families.keys() <= named.keys()
    for name, family in families.items():
        assert (family.type, family.documentation) == (named[name].kind.value, named[name].help)
        for sample in family.samples:
            assert sample.labels.keys() - {"le"} == set(named[name].labels)
    assert families["rxtemporal_cti_timestamp_seconds"].samples[0].value == NOON.timestamp()
    process.stop()


def test_openmetrics_is_given_to_who_asks_for_it() -> None:
    """The format follows the header Accept."""
    accept = "application/openmetrics-text; version=1.0.0"
    content_type, text = expose([], accept)
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")


def test_names_of_users_are_escaped() -> None:
    """A stream may be called anything."""
    source = rxt.PushSource('a"\\\nb', schema={"temp": int})
    process = source.stream.run(rxt.Collect())
    _, text = expose(list_samples(process.diagnostics(), 0.0))
    families = list(text_string_to_metric_families(text.decode()))
    events = next(each for each in families if each.name == "rxtemporal_events")
    assert events.samples[0].labels["stream"] == 'a"\\\nb'
    process.stop()


def test_a_second_collector_in_a_registry_is_refused() -> None:
    """The error says how a further process is added."""
    registry = CollectorRegistry()
    collector = register(registry=registry)
    _, process = start()
    with pytest.raises(rxt.BindingError, match="Hint: add\\(process\\)"):
        register(process, registry=registry)
    collector.add(process)
    assert b'rxtemporal_running{process="house"} 1.0' in generate_latest(registry)
    process.stop()


def test_what_is_no_process_is_refused() -> None:
    """A query that does not run has no metrics."""
    with pytest.raises(rxt.ArgumentError, match="register takes processes"):
        register(rxt.Collect())  # type: ignore[arg-type]


def test_without_the_client_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing package is named with its extra."""
    monkeypatch.setitem(__import__("sys").modules, "prometheus_client", None)
    with pytest.raises(rxt.BindingError, match=r"Hint: pip install 'rxtemporal\[serve\]'"):
        register()


def test_names_follow_the_conventions() -> None:
    """Counters end in _total, seconds and bytes in their unit, and no name comes twice."""
    for each in METRICS.values():
        assert each.prometheus.endswith("_total") == (each.kind.value == "counter")
        assert each.unit != "s" or "_seconds" in each.prometheus
        assert each.unit != "By" or "_bytes" in each.prometheus
    assert len({each.prometheus for each in METRICS.values()}) == len(METRICS)
