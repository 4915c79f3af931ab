"""Events per second into a service over HTTP, with durable receipts, from a process of its own.

The service is ``rxtemporal serve`` as users run it, on loopback, with a folder; the client is
``serve_client.py``. Three loads, each over connections that are kept, with one request on its way:

* JSON lines of 100 rows a request, over 16 connections,
* one row a request, over 64 connections,
* Arrow streams of 10,000 rows a request, over 4 connections.

Beside it ``serve_bare.py``: the same routes written with starlette alone, which parses and answers,
and neither keeps nor computes anything. Both are loaded in turns. After each load the numbers and
totals of the query's windows are compared with what the receipts have accepted.

The CPU time of the client is shown apart: on a machine of two cores it takes one from the server.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DISK = os.environ.get("RXTEMPORAL_DISK")
PATIENCE = 60.0
KINDS = {
    "lines": "JSON lines, 100 rows a request",
    "single": "one row a request, 64 connections",
    "arrow": "Arrow, 10,000 rows a request",
}
SERVERS = {"rxtemporal": "rxtemporal, durable", "bare": "starlette alone"}
# what is measured of a kind, and its bound
GOALS = [
    ("lines", "events a second", ">=", 100_000.0),
    ("arrow", "events a second", ">=", 2_000_000.0),
    ("single", "requests a second", ">=", 5_000.0),
    ("single", "p99 of a receipt in ms", "<=", 20.0),
]


class Server:
    """A server as a process: its port, and how it ended."""

    def __init__(self, command: list[str], folder: Path, **environment: str) -> None:
        self._log = folder / "server.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *command], stderr=log, stdout=log, cwd=folder,
                env={**os.environ, **environment},
            )  # fmt: skip
        self.port = self._find_port()

    def _find_port(self) -> int:
        """Wait until the server says where it listens."""
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends and self.process.poll() is None:
            _, there, rest = self._log.read_text().partition("listening on http://127.0.0.1:")
            if there and "\n" in rest:
                return int(rest.split()[0].rstrip("/"))
            time.sleep(0.05)
        raise SystemExit(f"the server has not started:\n{self._log.read_text()}")

    def stop(self) -> None:
        """Ask the server to end, and check that it does so without an error."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE)
        # uvicorn raises the signal again when it has ended
        if status not in (0, -signal.SIGTERM):
            raise SystemExit(f"the server ended with {status}:\n{self._log.read_text()}")


@contextlib.contextmanager
def serve(name: str) -> Iterator[tuple[Server, Path]]:
    """Run a server; yield it and the file with the sums, which is there when it has ended."""
    with tempfile.TemporaryDirectory(dir=DISK) as place:
        folder = Path(place)
        sums = folder / "sums.json"
        if name == "bare":
            command = [str(HERE / "serve_bare.py")]
        else:
            settings = folder / "serve.toml"
            settings.write_text(
                f'[server]\nport = 0\n[state]\nfolder = "{folder / "state"}"\n'
                '[limits]\nahead = "off"\n'
            )
            house = f"{HERE / 'serve_house.py'}:app"
            command = ["-m", "rxtemporal", "serve", house, "--config", str(settings)]
        server = Server(command, folder, RXTEMPORAL_SUMS=str(sums))
        try:
            yield server, sums
        finally:
            if server.process.poll() is None:
                server.process.kill()
                server.process.wait()


def run(name: str, kind: str, seconds: float) -> dict[str, Any]:
    """Load a server; return the figures, once the sums have been checked."""
    with serve(name) as (server, sums):
        command = [sys.executable, str(HERE / "serve_client.py"), kind, str(server.port)]
        command += ["--pid", str(server.process.pid), "--seconds", str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"the client of {name} has failed: {done.stderr}")
        figures: dict[str, Any] = json.loads(done.stdout)
        expected = figures.pop("sums")
        if name == "bare":
            found = _ask_sums(server.port)
        server.stop()
        if name != "bare":
            found = json.loads(sums.read_text())
    if found != expected:
        raise SystemExit(f"{name}, {kind}: {expected} were accepted, and {found} came out")
    return figures


def _ask_sums(port: int) -> dict[str, float]:
    """Return the sums of the bare server without those of the last reading, which is 0."""
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
        f"http://127.0.0.1:{port}/sums"
    ) as answer:
        found = json.load(answer)
    return {**found, "events": found["events"] - 1}


def describe(figures: list[dict[str, Any]]) -> dict[str, float]:
    """Return the medians of the rounds."""
    rates = {
        "events a second": lambda one: one["events"] / one["seconds"],
        "requests a second": lambda one: one["requests"] / one["seconds"],
        "p50 of a receipt in ms": lambda one: one["p50"] * 1e3,
        "p99 of a receipt in ms": lambda one: one["p99"] * 1e3,
        "server's CPU in µs a request": lambda one: one["server_cpu"] / one["requests"] * 1e6,
        "client's CPU in µs a request": lambda one: one["client_cpu"] / one["requests"] * 1e6,
    }
    return {name: statistics.median(map(of, figures)) for name, of in rates.items()}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each load lasts")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=[*KINDS])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    options = parser.parse_args()
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for _ in range(options.rounds):
        for kind in options.kinds:
            for name in SERVERS:
                found.setdefault((kind, name), []).append(run(name, kind, options.seconds))
    medians = {key: describe(figures) for key, figures in found.items()}
    for (kind, name), figures in medians.items():
        print(f"{KINDS[kind]}: {SERVERS[name]}")
        for what, figure in figures.items():
            print(f"    {what:<32} {figure:>14,.1f}")
    print()
    for kind, what, sign, bound in GOALS:
        if kind in options.kinds:
            figure = medians[kind, "rxtemporal"][what]
            print(f"{KINDS[kind]}, {what:<24} {figure:>14,.1f}   {sign} {bound:,.0f}")
    if options.json:
        plain = {f"{kind}, {name}": each for (kind, name), each in medians.items()}
        options.json.write_text(json.dumps(plain, indent=1))


if __name__ == "__main__":
    main()
