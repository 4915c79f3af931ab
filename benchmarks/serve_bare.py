"""The service of ``serve.py`` written with starlette alone: it parses and answers.

Nothing is durable, nothing is late, and there is no query; so this is what the server and the
parsing cost.
"""

from __future__ import annotations

import io
import socket
import sys

import msgspec
import polars as pl
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


class Reading(msgspec.Struct):
    """A row."""

    device: str
    time: str
    temp: float


decode_lines = msgspec.json.Decoder(Reading).decode_lines
encode = msgspec.json.Encoder().encode
sums = {"events": 0, "total": 0.0}


async def answer(request: Request) -> Response:
    """Parse the rows of a body, and answer how many there are."""
    body = await request.body()
    if request.headers["content-type"] == "application/vnd.apache.arrow.stream":
        frame = pl.read_ipc_stream(io.BytesIO(body))
        count, total = frame.height, float(frame["temp"].sum())
    else:
        rows = decode_lines(body)
        count, total = len(rows), sum(row.temp for row in rows)
    sums["events"] += count
    sums["total"] += total
    receipt = {"accepted": count, "late": [], "duplicates": 0, "refused": []}
    return Response(encode(receipt), media_type="application/json")


async def tell(request: Request) -> Response:
    """Answer with the sums of all rows."""
    return JSONResponse(sums)


def main() -> None:
    """Serve on a free port until a signal."""
    app = Starlette(
        routes=[
            Route("/streams/readings", answer, methods=["POST"]),
            Route("/sums", tell),
        ]
    )
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", file=sys.stderr, flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False)).run([listener])


if __name__ == "__main__":
    main()
