"""Bodies of refused rows beside bodies of good ones: CPU time, and the wait of others.

The service is ``rxtemporal serve`` as users run it, on loopback, with a folder. Printed are the CPU
time of the service for a body of about 1 MB whose rows are all good and all refused, and the
longest wait of another sender of single rows while ten senders post such bodies all the time.
"""

from __future__ import annotations

import argparse
import http.client
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from serve import Server

HOUSE = """
import rxtemporal as rxt

fields = {"device": str, "temp": float}
readings = rxt.PushSource("readings", schema=fields, start="time", delay=10**9)
app = rxt.Application("house")
app.query("all", readings.stream)
"""
ROWS, SENDERS = 15_000, 10


@contextmanager
def serve() -> Iterator[Server]:
    """Run a service in a folder of its own."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "house.py").write_text(HOUSE)
        settings = '[server]\nport = 0\n[state]\nfolder = "state"\n[limits]\nahead = "off"\n'
        (folder / "serve.toml").write_text(settings)
        command = ["-m", "rxtemporal", "serve", "house.py:app", "--config", "serve.toml"]
        server = Server(command, folder)
        try:
            yield server
        finally:
            server.process.kill()
            server.process.wait()


def make_body(temp: Any) -> bytes:
    """Return a body of rows."""
    row = {"device": "attic", "time": 5, "temp": temp}
    return json.dumps([row] * ROWS).encode()


def post(server: Server, body: bytes, source: str) -> None:
    """Post a body."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
        headers = {"Content-Type": "application/json", "Source": source}
        connection.request("POST", "/streams/readings", body, headers)
        connection.getresponse().read()


def read_cpu(server: Server) -> float:
    """Return the CPU seconds of a server."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def measure_cpu(server: Server, body: bytes, rounds: int) -> float:
    """Return the CPU milliseconds of the service for a body."""
    post(server, body, "one")
    before = read_cpu(server)
    for _ in range(rounds):
        post(server, body, "one")
    return (read_cpu(server) - before) / rounds * 1e3


def measure_wait(server: Server, body: bytes, seconds: float) -> float:
    """Return the longest wait of a sender of single rows, while others post bodies."""
    ends = time.monotonic() + seconds

    def repeat(send: Callable[[], None]) -> None:
        while time.monotonic() < ends:
            send()

    threads = [
        threading.Thread(target=repeat, args=(lambda n=n: post(server, body, f"sender {n}"),))
        for n in range(SENDERS)
    ]
    for thread in threads:
        thread.start()
    longest, one = 0.0, json.dumps({"device": "hall", "time": 6, "temp": 20.5}).encode()
    while time.monotonic() < ends:
        began = time.perf_counter()
        post(server, one, "another")
        longest = max(longest, time.perf_counter() - began)
    for thread in threads:
        thread.join()
    return longest * 1e3


def main() -> None:
    """Measure both kinds of bodies in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    good, refused = make_body(20.5), make_body("hot")
    with serve() as server:
        cpu = [measure_cpu(server, body, options.rounds) for body in (good, refused)]
        print(f"CPU of a body of {ROWS} rows: good {cpu[0]:.0f} ms, refused {cpu[1]:.0f} ms "
              f"({cpu[1] / cpu[0]:.1f} times)")  # fmt: skip
        for name, body in (("good", good), ("refused", refused)):
            longest = measure_wait(server, body, options.seconds)
            print(f"longest wait beside {SENDERS} senders of {name} bodies: {longest:.0f} ms")


if __name__ == "__main__":
    main()
