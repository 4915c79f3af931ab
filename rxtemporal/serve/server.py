"""Server of a service: uvicorn with limits, and an end that loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import logging
import math
import os
import socket
import ssl
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import Any, TypeAlias, cast

from rxtemporal.errors import ArgumentError, BindingError
from rxtemporal.serve.asgi import ServiceApp
from rxtemporal.serve.event_streams import CONNECTION
from rxtemporal.serve.settings import ServerSettings, Settings

try:
    import uvicorn
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
    from websockets.http11 import Request
except ModuleNotFoundError as error:
    raise BindingError(
        f"the server needs {error.name!r}, which is not installed. "
        "Hint: pip install 'rxtemporal[serve]'."
    ) from error


class ConnectionConfig(uvicorn.Config):
    """Configuration of uvicorn, with the limits of a connection."""

    limits: ServerSettings


class Connection(HttpToolsProtocol):
    """Connection whose requests have a limited head, which has to arrive in a limited time.

    A connection beyond the number that may be open is answered 503, and closed.
    """

    def __init__(self, config: ConnectionConfig, *args: Any, **options: Any) -> None:
        super().__init__(config, *args, **options)
        self._limits = config.limits
        # the bytes of a head that is not complete; None while a body arrives
        self._head: int | None = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self._limits.max_connections:
            self._refuse(b"503 Service Unavailable", b"retry-after: 1\r\n")
        else:
            self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer of the head."""
        self._stop_watch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read the data; limit a head that is not complete."""
        if self._head is not None:
            self._head += len(data)
        super().data_received(data)
        if not self._head:
            return
        if self._head > self._limits.head_bytes:
            self._refuse(b"431 Request Header Fields Too Large")
        elif self._head_timer is None:
            self._watch_head()

    def on_headers_complete(self) -> None:
        """Begin with the body."""
        self._head = None
        self._stop_watch()
        super().on_headers_complete()
        # it is not a dict, since it is this package's own
        self.scope["extensions"] = cast(Any, {CONNECTION: self})

    def on_message_complete(self) -> None:
        """Begin with the next head."""
        self._head = 0
        super().on_message_complete()

    async def drain(self) -> None:
        """Wait until nearly all that was written has left the process."""
        await self.flow.drain()

    def abort(self) -> None:
        """Close at once; what has not been sent is dropped."""
        self.transport.abort()

    def _watch_head(self) -> None:
        self._head_timer = self.loop.call_later(self._limits.head_seconds, self._expire)

    def _stop_watch(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _expire(self) -> None:
        self._head_timer = None
        if self._head == 0:  # nothing has come: there is nobody to answer
            self.transport.close()
        elif self._head is not None:
            self._refuse(b"408 Request Timeout")

    def _refuse(self, status: bytes, headers: bytes = b"") -> None:
        if not self.transport.is_closing():
            end = b"content-length: 0\r\nconnection: close\r\n\r\n"
            self.transport.write(b"HTTP/1.1 " + status + b"\r\n" + headers + end)
            self.transport.close()


class SocketConnection(WebSocketsSansIOProtocol):
    """WebSocket that tells its application when what it has sent has left the process."""

    def handle_connect(self, event: Request) -> None:
        """Begin; the application is called later."""
        super().handle_connect(event)
        if not self.handshake_complete:  # which it is if the request was refused
            self.scope["extensions"][CONNECTION] = cast(Any, self)

    async def drain(self) -> None:
        """Wait until nearly all that was written has left the process."""
        await self.writable.wait()

    def abort(self) -> None:
        """Close at once; what has not been sent is dropped."""
        self.transport.abort()


# connections that wait to be accepted
_BACKLOG = 1024
# messages of a WebSocket that wait to be read
_MESSAGES = 4
# so long requests that are cut off when the server stops may take to say so
_LAST_SECONDS = 1.0
Senders: TypeAlias = Callable[[str, int], Coroutine[None, None, None]]


class Server(uvicorn.Server):
    """Server of one service, from its start until a signal.

    At the first SIGTERM or SIGINT it takes no new work (503), waits ``drain_seconds`` for requests
    that have begun, answers 503 to those that last longer, saves the run and returns. At the second
    one the process ends at once; what was acknowledged is in the log. ``senders`` gets the address
    once the server listens, and runs until it drains. A server that ``owns_process`` keeps the
    garbage collector from what it has loaded.
    """

    def __init__(
        self,
        app: ServiceApp,
        report: Callable[[str], object],
        senders: Senders | None = None,
        *,
        owns_process: bool = False,
    ) -> None:
        self._app, self._report, self._senders = app, report, senders
        self._owns_process = owns_process
        self._settings = app.service.settings.server
        app.set_local(is_local=not app.service.settings.tokens)
        limits = app.service.settings.limits
        super().__init__(make_config(app, self._settings, limits.message_bytes))
        self._sending: asyncio.Task[None] | None = None
        self._freezing: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._error: BaseException | None = None

    def listen(self) -> None:
        """Serve until a signal comes. An error of the first start, or of the last run, is raised.

        ``ArgumentError``: the address cannot be used, or others reach it though there is no token.
        """
        check_address(self._app.service.settings)
        for name in ("certificate", "key", "client_ca"):
            path = getattr(self._settings, name)
            if path is not None and not path.is_file():
                raise ArgumentError(
                    f"[server] {name}: there is no file {path}. Hint: check the path."
                )
        try:
            self.config.load()
        except OSError as error:  # those of ssl are, too
            raise ArgumentError(
                f"[server] certificate, key and client_ca cannot be read as PEM files: {error}"
            ) from error
        listener = open_listener(self._settings)
        try:
            self.run(sockets=[listener])
        finally:
            listener.close()
        if self._error is not None:
            raise self._error

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and start the service; requests wait for that."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        await self._app.start()
        if self._owns_process:
            self._freezing = asyncio.create_task(self._freeze())
        for each in sockets or ():
            self._report(f"listening on {describe_address(each, self.config.is_ssl)}")
            if self._senders is not None:
                self._sending = asyncio.create_task(self._send(*each.getsockname()[:2]))
        for words in list_warnings(self._app.service.settings):
            self._report(words)

    async def _freeze(self) -> None:
        """Keep the garbage collector from what the process has loaded, which stays in use.

        To go through it takes some 70 ms, in which no one is answered, and under load that happens
        about twice a second. If the run fails, its objects are freed, and the pauses come again.
        """
        await asyncio.to_thread(self._app.service.compilation.wait)
        gc.collect()
        gc.freeze()
        self._app.service.call_on_restart(gc.unfreeze)

    async def _send(self, host: str, port: int) -> None:
        """Run the senders once the service is ready for them."""
        assert self._senders is not None
        await asyncio.to_thread(self._app.service.compilation.wait)
        await self._senders(host, port)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let requests end, save the run and stop."""
        self._report("draining")
        for task in (self._sending, self._freezing):
            if task is not None:
                task.cancel()
        self._app.service.drain()
        await super().shutdown(sockets)
        if cut_off := self.server_state.tasks:
            await asyncio.wait(cut_off, timeout=_LAST_SECONDS)
        await asyncio.to_thread(self._app.service.stop)
        self._error = self._app.service.error
        self._report("stopped")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain at the first signal; leave at once at the second.

        uvicorn raises a signal again once it has stopped; this server returns, so that the process
        ends with status 0.
        """
        if self.should_exit:
            with contextlib.suppress(OSError):
                os.write(2, b"leaving at once\n")  # a print may be going on
            os._exit(128 + sig)
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._app.service.drain)


def make_config(app: ServiceApp, settings: ServerSettings, message_bytes: int) -> ConnectionConfig:
    """Return the configuration of uvicorn."""
    config = ConnectionConfig(
        app,
        http=Connection,
        ws=SocketConnection,
        ws_max_size=message_bytes,
        ws_max_queue=_MESSAGES,
        ws_per_message_deflate=False,
        # the server starts and stops the service itself
        lifespan="off",
        # logging is the host's; uvicorn's access log has query strings
        log_config=None,
        access_log=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        server_header=False,
        timeout_keep_alive=math.ceil(settings.keep_alive),
        timeout_graceful_shutdown=math.ceil(settings.drain_seconds),
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
        ssl_ca_certs=None if settings.client_ca is None else str(settings.client_ca),
        ssl_cert_reqs=ssl.CERT_NONE if settings.client_ca is None else ssl.CERT_REQUIRED,
    )
    config.limits = settings
    # what takes long is told; nothing is, if the kernels are there
    logging.getLogger("rxtemporal.query.compilation").setLevel(logging.INFO)
    if settings.access_log:
        logging.getLogger("rxtemporal.serve.access").setLevel(logging.INFO)
    return config


def check_address(settings: Settings) -> None:
    """Refuse an address that others reach while everybody may do everything."""
    if not settings.tokens and not is_loopback(settings.server.host):
        raise ArgumentError(
            f"without tokens a service listens on this machine alone (127.0.0.1, ::1 or "
            f"localhost), got host {settings.server.host!r}. Hint: `rxtemporal serve --new-token "
            "NAME` makes a token and prints its section of the configuration."
        )


def list_warnings(settings: Settings) -> Iterator[str]:
    """Yield what somebody who starts the service should know."""
    if settings.state.folder is None:
        yield "no folder for the state: nothing is durable"
    if not settings.tokens:
        yield "no tokens: everybody on this machine may read and write"
    elif settings.server.certificate is None and not is_loopback(settings.server.host):
        yield "no certificate: tokens are sent as clear text"


def is_loopback(host: str) -> bool:
    """Return True if only this machine reaches the address.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def open_listener(settings: ServerSettings) -> socket.socket:
    """Return a socket that listens on the address of the settings."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise ArgumentError(
            f"cannot listen on {settings.host!r}, port {settings.port}: {error.strerror}. "
            "Hint: another service may have the port; port 0 takes a free one."
        ) from error
    return listener


def describe_address(listener: socket.socket, tls: bool) -> str:
    """Return the URL of a socket that listens."""
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http{'s' if tls else ''}://{shown}:{port}"
