"""Metrics of a service for Prometheus: those of its runs, and those of its requests."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rxtemporal.brokers.mqtt_feed import MqttStats
from rxtemporal.metrics.catalog import METRICS, MetricOwner, list_metrics
from rxtemporal.metrics.collector import Collector, Sample
from rxtemporal.metrics.opentelemetry import make_instruments
from rxtemporal.metrics.prometheus import expose
from rxtemporal.serve.responses import find_header
from rxtemporal.serve.routes import Route
from rxtemporal.serve.service import Counts, Service

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter


class ServiceMetrics:
    """Route ``/metrics`` of a service. Counters of its runs are added up."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._collector = Collector()
        # a run that begins and fails between two scrapes counts, too
        service.add_run_callback(self._collector.add)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a scrape."""
        accept = find_header(scope, "accept") or ""
        # ten thousand devices take a while, in which others are served
        content_type, body = await asyncio.to_thread(self._expose, accept)
        # the type says its version and charset
        await Response(body, headers={"content-type": content_type})(scope, receive, send)

    def _expose(self, accept: str) -> tuple[str, bytes]:
        return expose(self.collect(), accept)

    def collect(self) -> list[Sample]:
        """Return the current samples."""
        if self._service.process is not None:
            self._collector.add(self._service.process)
        broker = self._service.broker
        return [
            *self._collector.collect(),
            *list_counts(self._service.counts),
            Sample(METRICS["dead_letters.failed"], (), self._service.dead_letters.failed),
            *([] if broker is None else list_broker_counts(broker.stats())),
        ]


def list_counts(counts: Counts) -> Iterator[Sample]:
    """Yield the samples of the counters of a service."""
    for code, number in sorted(counts.requests.items()):
        yield Sample(METRICS["requests"], (str(code),), number)
    yield Sample(METRICS["receipts"], (), counts.receipts)
    yield Sample(METRICS["refused"], (), counts.refused)
    yield Sample(METRICS["restarts"], (), counts.restarts)


def list_broker_counts(stats: MqttStats) -> Iterator[Sample]:
    """Yield the samples of the feed from a broker."""
    for name, value in dataclasses.asdict(stats).items():
        yield Sample(METRICS[f"mqtt.{name}"], (), float(value))


def instrument(service: Service, meter: Meter | None = None) -> None:
    """Make instruments of OpenTelemetry for the metrics of a service and of its runs.

    ``meter`` is by default that of the program's meter provider. Call it once for each service.
    """
    metrics = list_metrics(MetricOwner.PROCESS, MetricOwner.SERVER)
    make_instruments(metrics, ServiceMetrics(service).collect, meter)


def list_routes(service: Service) -> list[Route]:
    """Return the route of the metrics of a service."""
    return [
        Route("/metrics", "GET", ServiceMetrics(service).answer, summary="Counters for Prometheus.")
    ]
