"""Health of a service: is it alive, does it take work, and how far behind is each device."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from starlette.types import Receive, Scope, Send

from rxtemporal.core.safe_text import show
from rxtemporal.ingress.input_state import SourceStats
from rxtemporal.run.diagnostics import StreamDiagnostics, to_plain
from rxtemporal.serve.responses import dumps, send_json
from rxtemporal.serve.routes import Need, Route
from rxtemporal.serve.service import Service, ServiceState

# a folder with less room cannot take the next checkpoint for sure
LEAST_FREE = 16 << 20
# seconds that one write of a sink may take
SINK_PATIENCE = 30.0
# inputs of a stream that the diagnostics have: those furthest behind
MOST_INPUTS = 10


class Health:
    """Routes of a service that say how it is.

    ``/healthz`` answers 200 while the service lives. ``/readyz`` answers 200 if it takes work, and
    503 otherwise, with each condition. ``/diagnostics`` has all counters as JSON.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    async def live(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer that the service lives."""
        await send_json(scope, send, 200, dumps({"state": self._service.state.value}))

    async def ready(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer whether the service takes work, with the conditions for it."""
        conditions = dict(list_conditions(self._service))
        ready = all(each is True for each in conditions.values())
        body = dumps({"ready": ready, "conditions": conditions})
        await send_json(scope, send, 200 if ready else 503, body)

    async def diagnose(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the counters of the run and of the service."""
        # with many devices this takes long, and receipts do not wait for it
        body = await asyncio.to_thread(lambda: dumps(describe(self._service)))
        await send_json(scope, send, 200, body)


def list_routes(service: Service) -> list[Route]:
    """Return the routes of the health of a service."""
    health = Health(service)
    return [
        Route("/healthz", "GET", health.live, Need.NOBODY, summary="The service lives."),
        Route(
            "/readyz",
            "GET",
            health.ready,
            Need.NOBODY,
            summary="The service takes work, or the conditions that it lacks.",
        ),
        Route(
            "/diagnostics",
            "GET",
            health.diagnose,
            summary="All counters of the run and of the service.",
        ),
    ]


def list_conditions(service: Service) -> Iterator[tuple[str, bool | str]]:
    """Yield each condition of taking work: True, or the reason against it.

    A reason has no detail of an error: everybody may ask.
    """
    state, process = service.state, service.process
    yield "running", state is ServiceState.RUNNING or f"the service is {state.value}"
    if process is None:
        return
    # without the diagnostics, which cost much with many devices: everybody may ask
    yield "recovered", process.running or "the run has ended"
    yield "compiled", service.compilation.describe()
    yield "log", _check_folder(service.settings.state.folder)
    yield "hand_off", _check_queues(service)
    if service.broker is not None:
        yield "broker", service.broker.error is None or "the feed of the broker has failed"
    slow = [name for name, each in service.pairs.items() if each.busy_for > SINK_PATIENCE]
    yield (
        "sinks",
        not slow
        or f"a write of {', '.join(slow)} takes over {SINK_PATIENCE:g} seconds, or what it writes "
        "to does not answer for as long",
    )


def _check_folder(folder: Path | None) -> bool | str:
    if folder is None:
        return True
    try:
        place = os.statvfs(folder)
    except OSError as error:
        return f"the folder of the log: {error.strerror}"
    if not os.access(folder, os.W_OK):
        return "the folder of the log is not writable"
    return place.f_bavail * place.f_frsize >= LEAST_FREE or "the disk of the log is full"


def _check_queues(service: Service) -> bool | str:
    full = [name for name, source in service.sources.items() if not source.has_room(1)]
    return not full or f"the hand-off of {', '.join(full)} is full"


def describe(service: Service) -> dict[str, Any]:
    """Return the counters of a service and of its run, as plain values."""
    error = service.error
    about = {
        "name": service.name,
        "state": service.state.value,
        "durable": service.is_durable,
        "last_error": None if error is None else show(error),
        "counts": to_plain(service.counts, "ticks"),
    }
    if service.broker is not None:
        about["mqtt"] = dataclasses.asdict(service.broker.stats())
    if service.process is None:
        return {"service": about}
    counts = service.process.diagnostics()
    streams = tuple(_shorten(each) for each in counts.streams)
    behind = {each.name: len(each.inputs) for each in counts.streams}
    run = dataclasses.replace(counts, streams=streams).to_dict()
    return {"service": about, "run": run, "inputs": behind}


def _shorten(stream: StreamDiagnostics) -> StreamDiagnostics:
    """Return the diagnostics of a stream with its inputs furthest behind, those first."""
    worst = sorted(stream.inputs.items(), key=_lag, reverse=True)[:MOST_INPUTS]
    return dataclasses.replace(stream, inputs=dict(worst))


def _lag(item: tuple[str, SourceStats]) -> int:
    return item[1].lag or 0
