"""A service that receives JSON over TCP, and one query over all its connections.

Each line is a message: a list of readings. The answer to a message says how many of its readings
have been accepted; by then they are on disk. The service stops in the middle and starts again with
the same folder, without losing one: each connection is an input of its own, in which a message that
a client sends a second time is recognized by the numbers of its readings. The sample starts its own
clients, and ends when they have sent everything.

    python samples/ingest_service.py
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile

import polars as pl

import rxtemporal as rxt
from rxtemporal import agg

CLIENTS, MESSAGES, READINGS = 8, 20, 25
LAST = MESSAGES * READINGS
SCHEMA = {"client": str, "value": int, "n": int}


async def answer(source, reader, writer) -> None:
    """Push the messages of one connection; its first line is the name of the client."""
    with source.input((await reader.readline()).decode().strip()) as client:
        async for line in reader:
            verdict = await client.push_async(json.loads(line))
            told = {"accepted": verdict.accepted, "duplicates": verdict.duplicates}
            writer.write(json.dumps(told).encode() + b"\n")
    writer.close()


@contextlib.asynccontextmanager
async def serve(folder: str, sink: rxt.Sink):
    """Run the service over a folder; yield its source and its port."""
    source = rxt.PushSource("readings", schema=SCHEMA, delay=LAST, seq="n")
    counted = source.stream.group_by("client").tumbling_window(100)
    totals = counted.aggregate(readings=agg.count(), total=agg.sum("value"))
    process = totals.run(sink, resume=folder)
    # somebody who operates it is told if it fails; until then each push raises ProcessEndedError
    process.add_done_callback(lambda ended: ended.error and print("failed:", ended.error))
    try:
        async with await asyncio.start_server(
            lambda *streams: answer(source, *streams), "127.0.0.1", 0
        ) as server:
            yield source, server.sockets[0].getsockname()[1]
    finally:
        # the end of this run: its state is saved, and the stream goes on with the next one
        await asyncio.to_thread(process.stop)


async def send(port: int, name: str, messages: range) -> dict[str, int]:
    """Send messages, each after the answer to the one before; return the sums of the answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{name}\n".encode())
    sums = {"accepted": 0, "duplicates": 0}
    for message in messages:
        times = range(message * READINGS, (message + 1) * READINGS)
        rows = [{"time": each, "client": name, "value": each, "n": each} for each in times]
        writer.write(json.dumps(rows).encode() + b"\n")
        for key, count in json.loads(await reader.readline()).items():
            sums[key] += count
    writer.close()
    return sums


async def send_all(port: int, messages: range) -> None:
    """Send the messages of all clients at once, and print what has come of them."""
    clients = [f"client {n}" for n in range(CLIENTS)]
    sums = await asyncio.gather(*(send(port, name, messages) for name in clients))
    accepted, duplicates = (sum(each[key] for each in sums) for key in ("accepted", "duplicates"))
    print(f"{accepted:,} readings accepted, {duplicates} duplicates")


async def main() -> None:
    results = rxt.Collect()
    with tempfile.TemporaryDirectory() as folder:
        async with serve(folder, results) as (_, port):
            await send_all(port, range(MESSAGES // 2))
        async with serve(folder, results) as (source, port):
            # the last message again: the service may have stopped before a client had its answer
            await send_all(port, range(MESSAGES // 2 - 1, MESSAGES))
            # a CTI by which all windows are final; it counts less the delay, like any reading
            source.push(rxt.Cti(2 * LAST))

    totals = results.to_polars().group_by("client").agg(pl.sum("readings", "total")).sort("client")
    for client, readings, total in totals.iter_rows():
        print(f"{client}: {readings} readings, sum {total:,}")


if __name__ == "__main__":
    asyncio.run(main())
