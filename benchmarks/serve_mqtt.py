"""The MQTT client of ``serve.py``: messages of QoS 1, and how long the service takes for them.

Each message is one reading. They are published as fast as the broker acknowledges them, with at
most 5,000 on their way; the time ends when the service has acknowledged all to the broker, which it
does when they are durable. The result is one line of JSON, as that of ``serve_client.py``.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import time
import urllib.request
from typing import Any

from serve_client import Connection, Single, cpu_seconds, finish

TOPIC = b"readings"
WINDOW, PART = 5_000, 100
PATIENCE = 60.0
_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


def ask_broker(port: int) -> dict[str, Any]:
    """Return what the service says of its broker."""
    with _open(f"http://127.0.0.1:{port}/diagnostics") as answer:
        return dict(json.load(answer)["service"]["mqtt"])


def wait_for(port: int, key: str, least: int) -> None:
    """Wait until a figure of the service is so high."""
    ends = time.monotonic() + PATIENCE
    while ask_broker(port)[key] < least:
        if time.monotonic() > ends:
            raise SystemExit(f"the service has {ask_broker(port)}, and not {least} {key}")
        # each look costs the service a millisecond
        time.sleep(0.05)


class Publisher:
    """Connection to a broker that publishes readings."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        variable = b"\0\4MQTT\4\2\0\0" + b"\0\5bench"
        self._socket.sendall(b"\x10" + bytes([len(variable)]) + variable)
        if self._socket.recv(4, socket.MSG_WAITALL) != b"\x20\2\0\0":
            raise SystemExit("the broker has refused the connection")
        self._bodies = Single()
        self.published = self._acknowledged = 0
        self._rest = 0

    def publish(self, count: int) -> None:
        """Publish so many messages, and wait until the broker has all."""
        for begin in range(0, count, PART):
            number = min(PART, count - begin)
            self._socket.sendall(b"".join(self._make() for _ in range(number)))
            while self.published - self._acknowledged > WINDOW:
                self._receive()
        while self._acknowledged < self.published:
            self._receive()

    def _make(self) -> bytes:
        number = self.published
        self.published += 1
        body = self._bodies.make(number).rstrip()
        content = struct.pack(">H", len(TOPIC)) + TOPIC
        content += struct.pack(">H", number % 65_535 + 1) + body
        # two bytes of seven bits
        return b"\x32" + bytes([len(content) & 127 | 128, len(content) >> 7]) + content

    def _receive(self) -> None:
        """Count acknowledgements, which have four bytes each."""
        got = self._socket.recv(65_536)
        if not got:
            raise SystemExit("the broker has closed the connection")
        done, self._rest = divmod(self._rest + len(got), 4)
        self._acknowledged += done

    @property
    def sums(self) -> dict[str, float]:
        """The number and the total of all readings."""
        return {"events": self.published, "total": self.published * self._bodies.total}


def measure(broker: int, port: int, pid: int, warm: int, messages: int) -> dict[str, Any]:
    """Return the figures of so many messages."""
    wait_for(port, "connected", 1)
    # it subscribes when it is connected
    time.sleep(1.0)
    publisher = Publisher(broker)
    publisher.publish(warm)
    wait_for(port, "acknowledged", warm)
    server, own, begun = cpu_seconds(pid), time.process_time(), time.perf_counter()
    publisher.publish(messages)
    client = time.process_time() - own
    wait_for(port, "acknowledged", warm + messages)
    took = time.perf_counter() - begun
    figures = {
        "requests": messages,
        "events": messages,
        "seconds": took,
        "client_cpu": client,
        "server_cpu": cpu_seconds(pid) - server,
    }
    finish(Connection(("127.0.0.1", port)))
    return {**figures, "sums": publisher.sums}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("broker", type=int, help="port of the broker")
    parser.add_argument("port", type=int, help="port of the service")
    parser.add_argument("--pid", type=int, default=0, help="of the service, for its CPU time")
    parser.add_argument("--warm", type=int, default=20_000)
    parser.add_argument("--messages", type=int, default=100_000)
    options = parser.parse_args()
    figures = measure(options.broker, options.port, options.pid, options.warm, options.messages)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
