"""Memory and event loop of a service while its readers take nothing.

The service is ``rxtemporal serve`` as users run it, on loopback. Two loads, each in a
service of its own:

* rows of 60 kB, and readers that ask for them from the beginning and never read,
* a window of a minute with 100,000 devices, and readers that read it whole over both protocols.

Meanwhile ``/healthz`` is asked all the time. Printed are the longest answer, the memory of
the service before and at most, and the largest event.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import websockets.sync.client
from serve import Server
from websockets.exceptions import ConnectionClosed

HOUSE = """
import rxtemporal as rxt
from rxtemporal import agg

readings = rxt.PushSource("readings", schema={"device": str, "text": str}, start="time")
app = rxt.Application("house")
app.query("rows", readings.stream)
minutes = readings.stream.group_by("device").tumbling_window("1m")
app.query("minutes", minutes.aggregate(n=agg.count(), longest=agg.max("text")))
"""
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
# of a client, which most libraries have as their default
MOST_MESSAGE = 1 << 20


class Watch:
    """Process that asks for the health of a service all the time, and looks at its memory."""

    def __init__(self, server: Server) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        arguments = theirs, server.port, server.process.pid
        self._process = context.Process(target=watch, args=arguments, daemon=True)

    def __enter__(self) -> Watch:
        self._process.start()
        self._ours.recv()
        return self

    def __exit__(self, *error: object) -> None:
        self._ours.send(None)
        longest, before, most = self._ours.recv()
        self.text = (
            f"/healthz took {longest * 1e3:.0f} ms at most (bound: 100), "
            f"memory {before:.0f} to {most:.0f} MB"
        )
        self._process.join()


def watch(pipe: Any, port: int, pid: int) -> None:
    """Ask until there is a word; then tell the longest time, and the memory before and at most."""
    longest, before = 0.0, read_memory(pid)
    most = before
    pipe.send(None)
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        while not pipe.poll(0.005):
            began = time.perf_counter()
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            longest = max(longest, time.perf_counter() - began)
            most = max(most, read_memory(pid))
    pipe.send((longest, before, most))


def read_memory(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


@contextmanager
def serve() -> Iterator[Server]:
    """Run a service in a folder of its own."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "house.py").write_text(HOUSE)
        (folder / "serve.toml").write_text('[server]\nport = 0\n[limits]\nahead = "off"\n')
        command = ["-m", "rxtemporal", "serve", "house.py:app", "--config", "serve.toml"]
        server = Server(command, folder)
        try:
            yield server
        finally:
            server.process.kill()
            server.process.wait()


def post(server: Server, rows: list[dict[str, Any]]) -> None:
    """Post rows."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
        body = json.dumps(rows)
        connection.request("POST", "/streams/readings", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise SystemExit(answer.read().decode())


def make_row(device: int, second: float, text: str) -> dict[str, Any]:
    """Return a reading."""
    moment = (NOON + timedelta(seconds=second)).isoformat()
    return {"device": f"device {device}", "time": moment, "text": text}


def read_nothing(server: Server, query: str, readers: int) -> list[socket.socket]:
    """Return the connections of readers that ask and do not read."""
    found = []
    for _ in range(readers):
        client = socket.create_connection(("127.0.0.1", server.port))
        client.sendall(f"GET /queries/{query}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        found.append(client)
    return found


def run_idle(readers: int, rows: int) -> None:
    """Let readers of large rows take nothing."""
    with serve() as server:
        for first in range(0, rows, 100):
            post(server, [make_row(1, n, "x" * 60_000) for n in range(first, first + 100)])
        with Watch(server) as watched:
            clients = read_nothing(server, "rows", readers)
            time.sleep(10)
        for client in clients:
            client.close()
        print(f"{readers} readers that take nothing, {rows} rows of 60 kB: {watched.text}")


def run_large_window(readers: int, devices: int) -> None:
    """Let readers read one window of many devices."""
    largest: list[int] = []
    with serve() as server:
        threads = [
            threading.Thread(target=read_window, args=(server, number % 2 == 1, devices, largest))
            for number in range(readers)
        ]
        for first in range(0, devices, 10_000):
            post(server, [make_row(n, n / devices, "abc") for n in range(first, first + 10_000)])
        with Watch(server) as watched:
            for thread in threads:
                thread.start()
            post(server, [make_row(0, 120, "end")])
            for thread in threads:
                thread.join()
        print(f"{readers} readers of a window of {devices} devices: {watched.text}")
        if len(largest) != readers:
            raise SystemExit(f"only {len(largest)} of {readers} readers have had the window")
        print(f"the largest event has {max(largest)} bytes")


def read_window(server: Server, by_socket: bool, devices: int, largest: list[int]) -> None:
    """Read the rows of one window; each device has to be there once."""
    found: set[str] = set()
    most = count = 0
    events = read_messages(server) if by_socket else read_events(server)
    with suppress(ConnectionClosed):  # an event was too large
        for size, position, rows in events:
            most, count = max(most, size), count + len(rows)
            found.update(row["device"] for row in rows)
            if rows and position is not None:
                break
    if (len(found), count) != (devices, devices):
        raise SystemExit(f"{count} rows of {len(found)} devices have come")
    largest.append(most)


def read_events(server: Server) -> Iterator[tuple[int, str | None, list[Any]]]:
    """Yield the size, the position and the rows of server-sent events."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
        connection.request("GET", "/queries/minutes/events")
        answer = connection.getresponse()
        position, kind = None, ""
        while line := answer.readline():
            name, _, value = line.decode().strip().partition(": ")
            if name == "id":
                position = value
            elif name == "event":
                kind = value
            elif name == "data":
                yield len(line), position, json.loads(value) if kind == "rows" else []
                position = None


def read_messages(server: Server) -> Iterator[tuple[int, str | None, list[Any]]]:
    """Yield the same of the messages of a WebSocket."""
    url = f"ws://127.0.0.1:{server.port}/queries/minutes/events"
    with websockets.sync.client.connect(url, max_size=MOST_MESSAGE) as client:
        for text in client:
            event = json.loads(text)
            yield len(text), event["position"], event["data"] if event["event"] == "rows" else []


def main() -> None:
    """Run both loads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readers", type=int, default=60)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--devices", type=int, default=100_000)
    options = parser.parse_args()
    run_idle(options.readers, options.rows)
    run_large_window(options.readers, options.devices)


if __name__ == "__main__":
    main()
