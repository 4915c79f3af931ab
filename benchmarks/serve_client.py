"""The client of ``serve.py``, in a process of its own: prepared bodies over kept connections.

Each connection sends its next request when it has the receipt of the one before. A body is made of
a template, in which only the times are changed. The result is one line of JSON: requests, events
and seconds of the measured part, latencies, the CPU time of client and server in it, and the sums
of all that was accepted, also while warming up.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import selectors
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
DEVICES = 50
LINES, ROWS = 100, 10_000
MARK = b"YYYY-MM-DDTHH:MM:SS"
TYPES = {"lines": "application/x-ndjson", "single": "application/x-ndjson",
         "arrow": "application/vnd.apache.arrow.stream"}  # fmt: skip
CONNECTIONS = {"lines": 16, "single": 64, "arrow": 4}


def value(row: int) -> float:
    """Return the temperature of a row; sums of them are exact."""
    return (row % 64) * 0.25


def line(row: int, time: str) -> bytes:
    """Return a row as a line of JSON."""
    text = f'{{"device":"device {row % DEVICES}","time":"{time}Z","temp":{value(row)}}}\n'
    return text.encode()


class Lines:
    """Bodies of JSON lines, a second of readings in each."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.total = sum(value(row) for row in range(rows))
        mark = MARK.decode()
        self._body = b"".join(line(row, f"{mark}.{row * 10:03}") for row in range(rows))
        self.size = len(self._body)

    def make(self, number: int) -> bytes:
        """Return the body of a request."""
        second = BEGIN + timedelta(seconds=number)
        return self._body.replace(MARK, second.strftime("%Y-%m-%dT%H:%M:%S").encode())


class Single:
    """Bodies of one reading, a hundred in a second."""

    rows, total = 1, value(7)

    def __init__(self) -> None:
        before, _, self._after = line(7, "@").partition(b"@")
        self._before = before
        self._second, self._text = -1, b""
        self.size = len(self.make(0))

    def make(self, number: int) -> bytes:
        """Return the body of a request."""
        second, rest = divmod(number, 100)
        if second != self._second:
            text = (BEGIN + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S")
            self._second, self._text = second, text.encode()
        return b"%b%b.%02d0%b" % (self._before, self._text, rest, self._after)


class Arrow:
    """Bodies of an Arrow stream, a second of readings in each; times are changed in place."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        first = int(BEGIN.timestamp()) * 1_000_000
        self._times = first + np.arange(rows) * (1_000_000 // rows)
        number = pl.int_range(rows, eager=True)
        frame = pl.DataFrame(
            {
                "device": "device " + (number % DEVICES).cast(pl.String),
                "time": pl.Series(self._times).cast(pl.Datetime("us", "UTC")),
                "temp": (number % 64) * 0.25,
            }
        )
        self.total = float(frame["temp"].sum())
        stream = io.BytesIO()
        frame.write_ipc_stream(stream, compat_level=pl.CompatLevel.oldest())
        self._body = stream.getvalue()
        self._place = self._body.index(self._times[:8].tobytes())
        self.size = len(self._body)

    def make(self, number: int) -> bytes:
        """Return the body of a request."""
        times = (self._times + number * 1_000_000).tobytes()
        end = self._place + len(times)
        return b"".join((self._body[: self._place], times, self._body[end:]))


BODIES: dict[str, Callable[[], Any]] = {
    "lines": lambda: Lines(LINES),
    "single": Single,
    "arrow": lambda: Arrow(ROWS),
}


class Connection:
    """One kept connection, with at most one request on its way."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.sent = 0.0
        self._waiting = memoryview(b"")
        self._received = b""

    def begin(self, request: bytes) -> None:
        """Send a request."""
        self._waiting, self._received = memoryview(request), b""
        self.sent = time.perf_counter()

    def send(self) -> bool:
        """Send what the socket takes; return True if all is sent."""
        try:
            while self._waiting:
                self._waiting = self._waiting[self.socket.send(self._waiting) :]
        except BlockingIOError:
            return False
        return True

    def receive(self) -> bytes | None:
        """Return the body of the answer; None if it is not complete."""
        got = self.socket.recv(65_536)
        if not got:
            raise SystemExit("the server has closed a connection")
        self._received += got
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end:
            return None
        lower = head.lower()
        length = int(lower.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return None
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"answer: {self._received[:400]!r}")
        return body


class Load:
    """Load of one kind on a server, until it has been measured for some seconds."""

    def __init__(self, kind: str, address: tuple[str, int]) -> None:
        self._bodies = BODIES[kind]()
        head = (
            f"POST /streams/readings HTTP/1.1\r\nHost: {address[0]}\r\n"
            f"Content-Type: {TYPES[kind]}\r\nContent-Length: {self._bodies.size}\r\n\r\n"
        )
        self._head = head.encode()
        self._selector = selectors.DefaultSelector()
        self.connections = [Connection(address) for _ in range(CONNECTIONS[kind])]
        self._number = self.requests = 0
        self.latencies: list[float] = []

    def run(self, seconds: float) -> None:
        """Send for so long, then wait for all receipts."""
        ends = time.perf_counter() + seconds
        for each in self.connections:
            self._send_next(each)
        busy = len(self.connections)
        while busy:
            for key, events in self._selector.select(30.0) or self._fail():
                each = key.data
                if events & selectors.EVENT_WRITE:
                    self._send(each)
                elif (receipt := each.receive()) is not None:
                    now = time.perf_counter()
                    self._note(receipt, now - each.sent)
                    self._selector.unregister(each.socket)
                    if now < ends:
                        self._send_next(each)
                    else:
                        busy -= 1

    def _fail(self) -> Any:
        raise SystemExit("the server has not answered for 30 seconds")

    def _send_next(self, each: Connection) -> None:
        body = self._bodies.make(self._number)
        self._number += 1
        each.begin(self._head + body)
        self._selector.register(each.socket, selectors.EVENT_READ, each)
        self._send(each)

    def _send(self, each: Connection) -> None:
        wants = selectors.EVENT_READ if each.send() else selectors.EVENT_WRITE
        if self._selector.get_key(each.socket).events != wants:
            self._selector.modify(each.socket, wants, each)

    def _note(self, receipt: bytes, latency: float) -> None:
        if json.loads(receipt)["accepted"] != self._bodies.rows:
            raise SystemExit(f"not all rows were accepted: {receipt[:400]!r}")
        self.requests += 1
        self.latencies.append(latency)

    @property
    def sums(self) -> dict[str, float]:
        """The number and the total of all readings that were accepted, but the last one."""
        return {
            "events": self.requests * self._bodies.rows,
            "total": self.requests * self._bodies.total,
        }


def finish(connection: Connection) -> None:
    """Send one reading far in the future, with which all windows before it are final."""
    after = (BEGIN + timedelta(days=200)).strftime("%Y-%m-%dT%H:%M:%S")
    body = line(0, after)
    head = (
        "POST /streams/readings HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: {TYPES['lines']}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    connection.socket.setblocking(True)
    connection.begin(head.encode() + body)
    connection.send()
    while connection.receive() is None:
        pass


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far; 0 where the system does not say."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return 0.0
    fields = stat.read_text().rpartition(")")[2].split()

    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(kind: str, address: tuple[str, int], pid: int, warm: float, seconds: float) -> Any:
    """Return the figures of a load."""
    load = Load(kind, address)
    load.run(warm)
    before, load.latencies = load.requests, []
    server, own, begun = cpu_seconds(pid), time.process_time(), time.perf_counter()
    load.run(seconds)
    took = time.perf_counter() - begun
    figures = {
        "requests": load.requests - before,
        "events": (load.requests - before) * load.sums["events"] // load.requests,
        "seconds": took,
        "client_cpu": time.process_time() - own,
        "server_cpu": cpu_seconds(pid) - server,
        "p50": float(np.quantile(load.latencies, 0.5)),
        "p99": float(np.quantile(load.latencies, 0.99)),
    }
    finish(load.connections[0])
    return {**figures, "sums": load.sums}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=BODIES)
    parser.add_argument("port", type=int)
    parser.add_argument("--pid", type=int, default=0, help="of the server, for its CPU time")
    parser.add_argument("--warm", type=float, default=2.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    address = "127.0.0.1", options.port
    print(json.dumps(measure(options.kind, address, options.pid, options.warm, options.seconds)))


if __name__ == "__main__":
    main()
