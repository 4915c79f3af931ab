"""Routes of the way in of a service."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from rxtemporal.core.log import get_logger
from rxtemporal.serve.bodies import read_head
from rxtemporal.serve.ingest import Ingest, Sender
from rxtemporal.serve.responses import RequestError, dumps, to_request_error
from rxtemporal.serve.routes import WEBSOCKET, Need, Route
from rxtemporal.serve.service import Service

_log = get_logger(__name__)
# so many messages of one WebSocket wait for their receipts; then none is read
MOST_MESSAGES = 64
# closing codes of RFC 6455
_TOO_BIG, _RESTART = 1009, 1012


class IngestSocket:
    """One WebSocket that pushes rows.

    The next messages are read while the first ones wait for their receipts. A message that is
    refused gets ``{"error": …, "status": …}`` in the place of a receipt, and the WebSocket stays
    open; it is closed if a message is too large (1009), or if the service stops (1012).
    """

    def __init__(
        self,
        ingest: Ingest,
        sender: Sender,
        socket: WebSocket,
    ) -> None:
        self._ingest, self._sender, self._socket = ingest, sender, socket
        self._reader: asyncio.Task[int | None]
        # messages are pushed in the order in which they came
        self._order = asyncio.Lock()
        self._answers: asyncio.Queue[asyncio.Task[bytes] | None] = asyncio.Queue(MOST_MESSAGES)

    async def run(self) -> None:
        """Answer messages until one side closes."""
        service = self._ingest.service
        await self._socket.accept()
        self._reader = asyncio.create_task(self._read())
        writer = asyncio.create_task(self._write())
        service.add_drain_callback(self._stop)
        code: int | None = _RESTART
        try:
            with contextlib.suppress(asyncio.CancelledError):
                code = await self._reader
            await self._answers.put(None)
            if await writer and code is not None:
                await self._socket.close(code)
        finally:
            service.remove_drain_callback(self._stop)
            self._reader.cancel()
            writer.cancel()

    def _stop(self) -> None:
        """Read no more messages."""
        self._reader.cancel()

    async def _read(self) -> int | None:
        """Read messages until the end; return the code to close with, None if it is closed."""
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return None
            text = message.get("text")
            # a text of lone surrogates is not JSON, and is told so
            body = message["bytes"] if text is None else text.encode("utf-8", "surrogatepass")
            if len(body) > self._ingest.limits.message_bytes:
                return _TOO_BIG
            await self._answers.put(asyncio.create_task(self._answer(body)))

    async def _write(self) -> bool:
        """Send the receipts; return False if the sender has gone, and has got only some."""
        is_there = True
        while (answer := await self._answers.get()) is not None:
            text = (await answer).decode()
            if is_there:
                try:
                    await self._socket.send_text(text)
                except Exception:  # each server has its own
                    is_there = False
                    self._stop()
        return is_there

    async def _answer(self, body: bytes) -> bytes:
        ingest = self._ingest
        share = ingest.load.share()
        try:
            ingest.service.check_takes()
            share.add(len(body))
            return await ingest.push(self._sender, share, body, None, None, self._order)
        except Exception as error:
            return self._encode_error(error)
        finally:
            share.release()

    def _encode_error(self, error: Exception) -> bytes:
        known = to_request_error(error, self._ingest.limits.retry_after)
        if known is None:
            _log.exception("a message has failed", stream=self._sender.stream.name)
            known = RequestError(500, "the service has failed with this message")
        answer = {"error": known.reason, "status": known.status, **known.more}
        if known.retry_after is not None:
            answer["retry_after"] = known.retry_after
        return dumps(answer)


async def open_socket(ingest: Ingest, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer the WebSocket ``/streams/{name}``."""
    head = read_head(scope)
    sender = ingest.admit(scope, head)
    if head.first is not None:
        raise RequestError(
            400,
            "a WebSocket does not support the header Sequence: a refused message would shift the "
            "numbers. Hint: send the numbers in the rows.",
        )
    await IngestSocket(ingest, sender, WebSocket(scope, receive, send)).run()


def list_routes(service: Service) -> list[Route]:
    """Return the routes by which rows and CTIs come in."""
    ingest = Ingest(service)
    path = "/streams/{name}"
    return [
        Route(
            path,
            "POST",
            ingest.post_rows,
            Need.WRITE,
            summary="Push rows, also as CloudEvents 1.0, and get their receipt.",
        ),
        Route(
            f"{path}/cti",
            "POST",
            ingest.post_cti,
            Need.WRITE,
            summary="Advance the time of the stream.",
        ),
        Route(
            path,
            WEBSOCKET,
            partial(open_socket, ingest),
            Need.WRITE,
            summary="Each message is a body, and each answer its receipt.",
        ),
    ]
