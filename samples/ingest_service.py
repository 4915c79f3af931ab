"""A service that receives JSON lines over TCP, and one query over all its connections.

Each connection has its own input on one subject. The query runs behind a hand-off that spills to
disk, so the event loop never waits for it. A line that has only a time is a CTI. The sample starts
its own clients, and ends when they have sent everything.

    python samples/ingest_service.py
"""

from __future__ import annotations

import asyncio
import json

import polars as pl

import rxtemporal as rxt
from rxtemporal import agg

CLIENTS, LINES = 8, 500
SCHEMA = {"client": str, "value": int}


async def serve(subject, reader, writer) -> None:
    """Push the events of one connection; its first line is the name of the client."""
    with subject.input((await reader.readline()).decode().strip()) as into:
        async for line in reader:
            fields = json.loads(line)
            time = fields.pop("time")
            into.on_next(rxt.PointEvent(time, fields) if fields else rxt.Cti(time))
    writer.write(b"done\n")
    writer.close()


async def send(port: int, name: str) -> None:
    """Send lines with a CTI after every ten, and wait until the service has read them all."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{name}\n".encode())
    for time in range(LINES):
        line = {"time": time, "client": name, "value": time}
        writer.write(json.dumps(line).encode() + b"\n")
        if time % 10 == 9:
            writer.write(json.dumps({"time": time}).encode() + b"\n")
            await writer.drain()
    writer.write_eof()
    assert await reader.read() == b"done\n"


async def main() -> None:
    subject = rxt.CtiSynchronizingSubjectAlternate.create_point(delay=LINES)
    hand_off = rxt.HandOff(max_rows=1_000, when_full=rxt.WhenFull.SPILL)
    lines = rxt.from_observable(subject, schema=SCHEMA, name="lines", hand_off=hand_off)
    counted = lines.group_by("client").tumbling_window(100)
    results = rxt.Collect()
    process = counted.aggregate(n=agg.count(), total=agg.sum("value")).run(results)

    async with await asyncio.start_server(
        lambda *streams: serve(subject, *streams), "127.0.0.1", 0
    ) as server:
        port = server.sockets[0].getsockname()[1]
        await asyncio.gather(*(send(port, f"client {n}") for n in range(CLIENTS)))
    subject.on_completed()
    await asyncio.to_thread(process.wait, 60)

    totals = results.to_polars().group_by("client").agg(pl.sum("n", "total")).sort("client")
    for client, n, total in totals.iter_rows():
        print(f"{client}: {n} lines, sum {total:,}")
    waiting = process.diagnostics().streams[0].hand_off.rows_waiting
    print(f"{subject.stats().late} late, {waiting} left")


if __name__ == "__main__":
    asyncio.run(main())
