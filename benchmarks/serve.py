"""Events per second into a service over HTTP, with durable receipts, from a process of its own.

The service is ``rxtemporal serve`` as users run it, on loopback, with a folder; the client is
``serve_client.py``. The loads, by HTTP over connections that are kept, with one request on its way:

* JSON lines of 100 rows a request, over 16 connections,
* one row a request, over 64 connections,
* Arrow streams of 10,000 rows a request, over 4 connections,
* messages of QoS 1 from an MQTT broker, one row each, if mosquitto is installed: ``serve_mqtt.py``.

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
import shutil
import signal
import socket
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
    "mqtt": "MQTT messages of one row, QoS 1",
}
SERVERS = {"rxtemporal": "rxtemporal, durable", "bare": "starlette alone"}
# what is measured of a kind, and its bound
GOALS = [
    ("lines", "events a second", ">=", 100_000.0),
    ("arrow", "events a second", ">=", 2_000_000.0),
    ("single", "requests a second", ">=", 5_000.0),
    ("single", "p99 of a receipt in ms", "<=", 20.0),
    ("mqtt", "events a second", ">=", 20_000.0),
]
# Debian has it where only root looks
MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")


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
def run_broker() -> Iterator[int]:
    """Run a broker that keeps nothing on disk; yield its port."""
    assert MOSQUITTO is not None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "mosquitto.conf"
        # all that the service has not taken yet waits in memory
        settings.write_text(
            f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n"
            "max_inflight_messages 2000\nmax_queued_messages 0\n"
        )
        Path(folder).chmod(0o755)
        broker = subprocess.Popen(
            [MOSQUITTO, "-c", str(settings)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            yield port
        finally:
            broker.terminate()
            broker.wait()


@contextlib.contextmanager
def serve(name: str, more: str = "") -> Iterator[tuple[Server, Path]]:
    """Run a server, with ``more`` settings; yield it, and the file with the sums at its end."""
    with tempfile.TemporaryDirectory(dir=DISK) as place:
        folder = Path(place)
        sums = folder / "sums.json"
        if name == "bare":
            command = [str(HERE / "serve_bare.py")]
        else:
            settings = folder / "serve.toml"
            settings.write_text(
                f'[server]\nport = 0\n[state]\nfolder = "{folder / "state"}"\n'
                f'[limits]\nahead = "off"\n{more}'
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
    if kind == "mqtt":
        return run_mqtt(seconds)
    with serve(name) as (server, sums):
        command = ["serve_client.py", kind, str(server.port), "--seconds", str(seconds)]
        figures, expected = _run_client(command, server)
        if name == "bare":
            found = _ask_sums(server.port)
        server.stop()
        if name != "bare":
            found = json.loads(sums.read_text())
    _check(f"{name}, {kind}", expected, found)
    return figures


def run_mqtt(seconds: float) -> dict[str, Any]:
    """Load the service by a broker; return the figures, once the sums have been checked."""
    with run_broker() as port:
        section = f'[mqtt]\nurl = "mqtt://127.0.0.1:{port}"\n'
        section += 'topics = ["readings"]\nclient_id = "house"\n'
        with serve("rxtemporal", section) as (server, sums):
            command = ["serve_mqtt.py", str(port), str(server.port)]
            command += ["--messages", str(round(20_000 * seconds))]
            figures, expected = _run_client(command, server)
            server.stop()
            found = json.loads(sums.read_text())
    _check("mqtt", expected, found)
    return figures


def _run_client(command: list[str], server: Server) -> tuple[dict[str, Any], dict[str, float]]:
    """Run a client; return its figures, and the sums of what was accepted."""
    name, *arguments = command
    command = [sys.executable, str(HERE / name), *arguments, "--pid", str(server.process.pid)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the client has failed: {' '.join(arguments)}\n{done.stderr}")
    figures = json.loads(done.stdout)
    return figures, figures.pop("sums")


def _check(what: str, expected: dict[str, float], found: dict[str, float]) -> None:
    if found != expected:
        raise SystemExit(f"{what}: {expected} were accepted, and {found} came out")


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
        "p50 of a receipt in ms": lambda one: one.get("p50", float("nan")) * 1e3,
        "p99 of a receipt in ms": lambda one: one.get("p99", float("nan")) * 1e3,
        "server's CPU in µs a request": lambda one: one["server_cpu"] / one["requests"] * 1e6,
        "client's CPU in µs a request": lambda one: one["client_cpu"] / one["requests"] * 1e6,
    }
    return {name: statistics.median(map(of, figures)) for name, of in rates.items()}


def find_kinds() -> list[str]:
    """Return the loads that this machine can have."""
    return [kind for kind in KINDS if kind != "mqtt" or MOSQUITTO]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each load lasts")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=find_kinds())
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    options = parser.parse_args()
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for _ in range(options.rounds):
        for kind in options.kinds:
            for name in SERVERS if kind != "mqtt" else ["rxtemporal"]:
                found.setdefault((kind, name), []).append(run(name, kind, options.seconds))
    medians = {key: describe(figures) for key, figures in found.items()}
    for (kind, name), figures in medians.items():
        print(f"{KINDS[kind]}: {SERVERS[name]}")
        for what, figure in figures.items():
            if figure == figure:
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
