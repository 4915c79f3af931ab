"""ASGI application of a service: its life with the server, routes, rights and errors."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from rxtemporal.core.log import get_logger
from rxtemporal.core.safe_text import show
from rxtemporal.errors import ArgumentError
from rxtemporal.query.application import AnySink, Application
from rxtemporal.run.process import Process
from rxtemporal.serve import event_streams, health, ingest_routes, live_page, metrics
from rxtemporal.serve.openapi import describe_service
from rxtemporal.serve.responses import (
    GoneError,
    RequestError,
    dumps,
    find_header,
    send_error,
    send_json,
    to_request_error,
)
from rxtemporal.serve.routes import WEBSOCKET, Need, Route, Routes, check_host, check_origin
from rxtemporal.serve.service import Service, ServiceState
from rxtemporal.serve.settings import Settings
from rxtemporal.serve.tokens import Access
from rxtemporal.serve.traces import bind_trace

_log = get_logger(__name__)
_access = get_logger("rxtemporal.serve.access")


def app(
    what: Application | Process,
    settings: Settings | None = None,
    *,
    sinks: Mapping[str, AnySink] | None = None,
) -> ServiceApp:
    """Return an ASGI application that serves an application, or a process that you run.

    It has ``POST /streams/{name}`` for each ``PushSource``, ``GET /queries/{name}/events`` for each
    query, and the routes of health and metrics. A query of a process needs a ``ResultFeed`` among
    its sinks. ``sinks`` get the results of the queries of an application, too.

    A server with the lifespan protocol starts and stops the service. An application in which this
    one is mounted can do so with ``lifespan``; otherwise the first request starts it.

    >>> import rxtemporal as rxt
    >>> source = rxt.PushSource("readings", schema={"temp": float})
    >>> house = rxt.Application("house")
    >>> query = house.query("hot", source.stream)
    >>> app(house)
    ServiceApp(Service('house', new: streams readings))
    """
    return ServiceApp(what, settings, sinks)


class ServiceApp:
    """ASGI application of one service. Call ``app`` to make one."""

    def __init__(
        self,
        what: Application | Process,
        settings: Settings | None,
        sinks: Mapping[str, AnySink] | None = None,
    ) -> None:
        self._what, self._settings, self._sinks = what, settings, sinks
        self.service = Service(what, settings, sinks)
        self._routes = Routes(_list_routes(self.service))
        summary = "This description of the service, as OpenAPI 3.1."
        self.add_routes([Route("/openapi.json", "GET", self._describe, summary=summary)])
        self._starting: asyncio.Future[None] | None = None
        # True if only this machine may connect
        self.is_local = False

    def __repr__(self) -> str:
        return f"ServiceApp({self.service!r})"

    def set_local(self, *, is_local: bool) -> None:
        """Let only this machine connect, if ``is_local``."""
        self.is_local = is_local

    def add_routes(self, routes: Iterable[Route]) -> None:
        """Add routes for further paths."""
        self._routes.add(routes)

    def list_routes(self) -> list[Route]:
        """Return all routes."""
        return [*self._routes.list_routes()]

    def configure(self, settings: Settings) -> ServiceApp:
        """Return a copy with these settings. ``ArgumentError``: it has settings already."""
        if self._settings is not None:
            raise ArgumentError(
                "this application already has settings. Hint: leave settings out of serve.app(…)."
            )
        return ServiceApp(self._what, settings, self._sinks)

    @asynccontextmanager
    async def lifespan(self, parent: Any = None) -> AsyncIterator[None]:
        """Start the service, and stop it at the end; for ``lifespan=`` of an outer application."""
        await self.start()
        try:
            yield
        finally:
            self._starting = None
            self.service.drain()
            await asyncio.to_thread(self.service.stop)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or follow the lifespan protocol."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        answer = _Answer(self.service, scope, send)
        with suppress(GoneError, WebSocketDisconnect):  # there is nobody to answer
            try:
                with bind_trace(find_header(scope, "traceparent")):
                    await self._route(scope, receive, answer.send)
            except (GoneError, WebSocketDisconnect):
                raise
            except asyncio.CancelledError:
                if not self.service.is_leaving:
                    raise
                await self._answer_error(answer, self._make_cut_off())
            except Exception as error:
                await self._answer_error(answer, error)

    async def _describe(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the description of the service for programs."""
        described = describe_service(self.service, self.list_routes())
        await send_json(scope, send, 200, dumps(described))

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        root: str = scope.get("root_path", "")
        if root and path.startswith(root):
            path = path[len(root) :]
        method = WEBSOCKET if scope["type"] == "websocket" else scope["method"]
        route, scope["path_params"] = self._routes.find(path, method)
        if route.need is not Need.NOBODY:
            scope["access"] = self._find_access(scope, route)
            await self._wait_for_start()
            if route.need is Need.WRITE:
                self.service.check_takes()
        await route.handler(scope, receive, send)

    def _find_access(self, scope: Scope, route: Route) -> Access:
        """Return the rights of the caller; refuse one who lacks that of the route."""
        if self.service.tokens.is_open:
            check_origin(scope)
            if self.is_local:
                check_host(scope)
        given = find_header(scope, "authorization")
        access = self.service.tokens.find(given)
        if access is None:
            what = "needs a token" if given is None else "does not know the token"
            if given is not None and given.partition(" ")[0].lower() != "bearer":
                what = "takes tokens of the kind Bearer alone"
            raise RequestError(
                401,
                f"this service {what}. Hint: send the header `Authorization: Bearer TOKEN`, with "
                "the text that `rxtemporal serve --new-token NAME` has printed.",
            )
        if route.need is Need.READ and not access.may_read:
            raise RequestError(
                403,
                f"the token {access.name!r} may not read. Hint: read = true in its "
                "section of the settings.",
            )
        return access

    async def _answer_error(self, answer: _Answer, error: Exception) -> None:
        wait = self.service.settings.limits.retry_after
        known = to_request_error(error, wait)
        if known is None:
            _log.exception("request failed", path=answer.scope["path"])
            known = RequestError(500, "the service has failed with this request", close=True)
        if answer.status is None:
            await send_error(answer.scope, answer.send, known)

    def _make_cut_off(self) -> RequestError:
        """Return the answer to a request that has outlasted the patience of a server that stops."""
        return RequestError(
            503,
            "the service stops before it has answered; rows may be in the query. Hint: send the "
            "request again, rows with the same sequence numbers.",
            retry_after=self.service.settings.limits.retry_after,
            close=True,
        )

    # Life -----------------------------------------------------------------------------------------

    async def _live(self, receive: Receive, send: Send) -> None:
        """Follow the lifespan protocol of a server."""
        await receive()
        try:
            async with self.lifespan():
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except Exception as error:
            stage = "startup" if self.service.process is None else "shutdown"
            await send({"type": f"lifespan.{stage}.failed", "message": str(error)})
            raise
        await send({"type": "lifespan.shutdown.complete"})

    async def start(self) -> None:
        """Start the service once; all who call this wait for the same start."""
        if self._starting is None:
            self._starting = asyncio.ensure_future(asyncio.to_thread(self.service.start))
        starting = self._starting
        try:
            await asyncio.shield(starting)
        except Exception:
            self._starting = None  # the next request tries again
            raise

    async def _wait_for_start(self) -> None:
        """Wait until the service has started; start it if no server does."""
        state = self.service.state
        if state is not ServiceState.NEW and state is not ServiceState.STARTING:
            return
        if self._starting is None:
            atexit.unregister(self.service.stop)  # that of a start that has failed
            atexit.register(self.service.stop)
        try:
            await self.start()
        except Exception as error:
            _log.error("service.cannot_start", error=show(error))
            wait = self.service.settings.limits.retry_after
            raise RequestError(503, "the service cannot start", retry_after=wait) from error


class _Answer:
    """One answer: its status, once it begins, which the service counts."""

    __slots__ = ("_send", "_service", "scope", "status")

    def __init__(self, service: Service, scope: Scope, send: Send) -> None:
        self._service, self.scope, self._send = service, scope, send
        self.status: int | None = None

    async def send(self, message: Message) -> None:
        """Send a message, and note the status."""
        kind = message["type"]
        if kind in ("http.response.start", "websocket.http.response.start"):
            self._note(message["status"])
        elif kind == "websocket.accept":
            self._note(101)
        try:
            await self._send(message)
        except OSError as error:
            raise GoneError from error
        except RuntimeError as error:
            # uvicorn calls a WebSocket that it has closed itself, for its silence, a mistake
            if self.scope["type"] == "websocket":
                raise GoneError from error
            raise

    def _note(self, status: int) -> None:
        self.status = status
        if self._service.settings.server.access_log:
            # without the query string, in which senders may put secrets
            scope = self.scope
            _access.info(scope.get("method", "WEBSOCKET"), path=scope["path"], status=status)
        self._service.counts.requests[status] += 1


def _list_routes(service: Service) -> list[Route]:
    """Return the routes of a service; each module has its own."""
    modules = event_streams, health, ingest_routes, live_page, metrics
    return [route for module in modules for route in module.list_routes(service)]
