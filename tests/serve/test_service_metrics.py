"""The route /metrics: a scrape of a service, over its runs."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.parser import text_string_to_metric_families

import rxtemporal as rxt
from rxtemporal.brokers.mqtt_feed import MqttStats
from rxtemporal.metrics.catalog import METRICS
from rxtemporal.serve.asgi import ServiceApp, app
from rxtemporal.serve.metrics import ServiceMetrics, instrument, list_broker_counts
from rxtemporal.serve.service import Service
from rxtemporal.serve.settings import Settings

LABELS = (("process", "house"), ("stream", "readings"))


def make_house() -> tuple[rxt.Application, rxt.PushSource]:
    """Return an application that fails with a temperature of 0, and its source."""
    source = rxt.PushSource("readings", schema={"temp": int})
    house = rxt.Application("house")
    house.query("all", source.stream.where(lambda row: 1 / row["temp"] > 0))
    return house, source


def parse(text: str) -> dict[tuple[Any, ...], float]:
    """Return the samples of a scrape, by name and labels."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def get(served: ServiceApp, path: str) -> httpx.Response:
    """Ask for a path."""
    transport = httpx.ASGITransport(served)
    async with httpx.AsyncClient(transport=transport, base_url="http://house") as client:
        return await client.get(path)


def test_a_scrape_has_the_figures_of_run_and_requests() -> None:
    """The text has what was pushed, and the requests by code, itself not yet among them."""
    house, source = make_house()
    served = app(house)

    async def scrape() -> tuple[httpx.Response, dict[tuple[Any, ...], float]]:
        async with served.lifespan():
            source.push({"time": 1, "temp": 20})
            assert (await get(served, "/nothing")).status_code == 404
            answer = await get(served, "/metrics")
        return answer, parse(answer.text)

    answer, found = asyncio.run(scrape())
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert found["rxtemporal_events_total", *LABELS] == 1
    assert found["rxtemporal_requests_total", ("code", "404")] == 1
    assert found["rxtemporal_running", ("process", "house")] == 1
    assert found["rxtemporal_restarts_total",] == 0


def test_what_is_refused_is_counted() -> None:
    """A row that does not fit and a body that cannot be read count alike; a receipt is counted."""
    house, _ = make_house()
    served = app(house)
    bodies = {"[{": 400, '[{"time": 1, "temp": "hot"}, {"time": 1, "temp": 2}]': 200}

    async def scrape() -> dict[tuple[Any, ...], float]:
        transport = httpx.ASGITransport(served)
        async with (
            served.lifespan(),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
        ):
            for body, status in bodies.items():
                answer = await client.post("/streams/readings", content=body)
                assert answer.status_code == status, answer.text
            return parse((await client.get("/metrics")).text)

    found = asyncio.run(scrape())
    assert found["rxtemporal_refused_total",] == 2
    assert found["rxtemporal_receipts_total",] == 1
    assert found["rxtemporal_rejected_total", *LABELS] == 1
    assert found["rxtemporal_requests_total", ("code", "400")] == 1


def test_rows_of_a_body_that_never_come_to_the_source_are_counted() -> None:
    """A line that is not JSON, too many fields, and a CloudEvent without a source are rejected."""
    house, source = make_house()
    served = app(house, Settings.parse({"limits": {"fields": 3}}))
    row = {"time": "2026-05-01T12:00:00Z", "temp": 1}
    event = {"specversion": "1.0", "type": "t", "source": "d", "id": "a", **row, "data": row}
    lines, batch = "application/x-ndjson", "application/cloudevents-batch+json"
    bodies = [
        (f"{json.dumps(row)}\n{{bad\n{json.dumps({**row, 'temp': 'hot'})}", lines, 2),
        (json.dumps([{**row, "a": 1, "b": 2}]), "application/json", 1),
        (json.dumps([{**event, "source": ""}, event]), batch, 1),
    ]

    async def run() -> dict[tuple[Any, ...], float]:
        transport = httpx.ASGITransport(served)
        async with (
            served.lifespan(),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
        ):
            for body, kind, refused in bodies:
                headers = {"content-type": kind, "source": "device 7"}
                answer = await client.post("/streams/readings", content=body, headers=headers)
                assert len(answer.json()["refused"]) == refused, answer.text
            return parse((await client.get("/metrics")).text)

    found = asyncio.run(run())
    assert found["rxtemporal_rejected_total", *LABELS] == found["rxtemporal_refused_total",] == 4
    counts = {name: each.rejected for name, each in source.stats().inputs.items()}
    assert counts == {"device 7": 3, "d": 1}


def test_a_scrape_before_the_first_run_has_the_counters_of_the_service() -> None:
    """Nothing is known of a run yet, and that is not an error."""
    service = Service(make_house()[0])
    assert {each.metric.name for each in ServiceMetrics(service).collect()} == {
        "dead_letters.failed",
        "receipts",
        "refused",
        "restarts",
    }


def test_opentelemetry_has_the_figures_of_a_service() -> None:
    """The instruments of a service have what was pushed, and the receipts."""
    house, source = make_house()
    service = Service(house)
    reader = InMemoryMetricReader()
    instrument(service, MeterProvider([reader], shutdown_on_exit=False).get_meter("house"))
    service.start()
    source.push({"time": 1, "temp": 20})
    data = reader.get_metrics_data()
    service.stop()
    assert data is not None
    found = {
        metric.name: [getattr(point, "value", None) for point in metric.data.data_points]
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
    }
    assert found["rxtemporal.events"] == [1]
    assert found["rxtemporal.receipts"] == [0]


def test_the_figures_of_a_broker_are_metrics() -> None:
    """Each figure of the feed is a metric of the list, and none is left out."""
    stats = MqttStats(True, 7, 3, 1, 2, 4, 1, 0)
    found = {each.metric.name: each.value for each in list_broker_counts(stats)}
    assert found["mqtt.connected"] == 1
    assert (found["mqtt.messages"], found["mqtt.qos0"], found["mqtt.dropped"]) == (7, 3, 1)
    assert found.keys() == {name for name in METRICS if name.startswith("mqtt.")}


def test_counters_go_on_after_a_failure() -> None:
    """A run that fails is started again, and its counters are added to those before."""
    house, source = make_house()
    service = Service(house, Settings.parse({"state": {"restart_after": 0.001}}))
    metrics = ServiceMetrics(service)

    def read(name: str) -> float:
        return sum(each.value for each in metrics.collect() if each.metric.name == name)

    service.start()
    first = service.process
    assert first is not None
    source.push({"time": 1, "temp": 20})
    with pytest.raises(rxt.ProcessEndedError):
        source.push({"time": 2, "temp": 0})
    before = read("events")
    for _ in range(1_000):
        if service.process is not first:
            break
        asyncio.run(asyncio.sleep(0.01))
    source.push({"time": 5, "temp": 20})
    assert (read("events"), read("restarts"), read("running")) == (before + 1, 1, 1)
    service.stop()


class FailsOnce(rxt.Sink):
    """Sink that fails when it is asked to."""

    fails = False

    def write(self, batch: rxt.EventBatch) -> None:
        """Fail, if it is time."""
        if self.fails:
            self.fails = False
            raise RuntimeError("the sink fails")


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("is_scraped", [False, True])
def test_a_run_counts_though_it_ends_and_another_begins_between_two_scrapes(
    is_kept: bool, is_scraped: bool, tmp_path: Path
) -> None:
    """Its rows count once, not as often as those of the run after it; duplicates do, too."""
    (house, source), sink = make_house(), FailsOnce()
    state = {"restart_after": 0.001, **({"folder": str(tmp_path / "state")} if is_kept else {})}
    service = Service(house, Settings.parse({"state": state}), {"all": sink})
    metrics = ServiceMetrics(service)

    def push(numbers: range) -> None:
        for n in numbers:
            row = {"time": n, "temp": 20}
            source.push([row, row, {"time": n}], seq=[n, n, n])

    service.start()
    first = service.process
    push(range(5))
    if is_scraped:
        metrics.collect()
    sink.fails = True
    # in a run with a folder the row is on disk, and so is accepted
    with nullcontext() if is_kept else pytest.raises(rxt.ProcessEndedError):
        source.push({"time": 5, "temp": 20}, seq=5)
    deadline = time.monotonic() + 20
    while service.process is first:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    push(range(6, 13))
    found = {each.metric.name: each.value for each in metrics.collect()}
    assert (found["events"], found["duplicates"], found["rejected"]) == (13, 12, 12)
    assert first is not None
    assert first.diagnostics().streams[0].inputs["source"].duplicates == 5
    service.stop()
