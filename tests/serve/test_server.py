"""The server as a process: it begins, ends without loss, begins again, and leaves at once."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import httpx
import pytest
from served import Faulty, make_house, rows
from service_process import PATIENCE, serve, write_house
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

import rxtemporal as rxt
from rxtemporal.errors import ArgumentError, BindingError, ProcessEndedError
from rxtemporal.serve import Settings
from rxtemporal.serve import app as serve_app
from rxtemporal.serve import server as server_module
from rxtemporal.serve.server import Server, check_address, is_loopback, list_warnings

SENDERS = 4


def send_all(url: str, sender: int, enough: threading.Event) -> list[int]:
    """Send one row after the other as a device; return the numbers of those acknowledged."""
    acknowledged = []
    with httpx.Client(
        base_url=url, headers={"Source": f"device {sender}"}, timeout=PATIENCE
    ) as client:
        for number in itertools.count():
            row = {"ts": number, "device": "a", "temp": 1, "n": number}
            try:
                answer = client.post("/streams/readings", json=row)
            except httpx.TransportError:
                return acknowledged
            if answer.status_code == 503:
                assert "retry-after" in answer.headers
                return acknowledged
            receipt = answer.raise_for_status().json()
            assert (receipt["accepted"], receipt["durable"]) == (1, True)
            acknowledged.append(number)
            if number == 20:
                enough.set()
    raise AssertionError


def test_what_was_acknowledged_is_there_after_each_end(tmp_path: Path) -> None:
    """SIGTERM under load: status 0, and no receipt is broken; a second one leaves at once."""
    arguments = [write_house(tmp_path), "--port", "0", "--state", str(tmp_path / "state")]
    with serve(*arguments) as first, ThreadPoolExecutor(SENDERS) as pool:
        url, enough = first.listen(), threading.Event()
        sent = [pool.submit(send_all, url, each, enough) for each in range(SENDERS)]
        assert enough.wait(PATIENCE)
        first.process.send_signal(signal.SIGTERM)
        assert first.wait() == 0
        first.wait_for("stopped")
        acknowledged = [each.result() for each in sent]
    assert min(map(len, acknowledged)) > 0

    with serve(*arguments) as second:
        url = second.listen()
        for sender, numbers in enumerate(acknowledged):
            rows = [{"ts": n, "device": "a", "temp": 1, "n": n} for n in numbers]
            again = httpx.post(
                f"{url}/streams/readings",
                json=rows,
                headers={"Source": f"device {sender}"},
                timeout=PATIENCE,
            ).json()
            assert (again["accepted"], again["duplicates"]) == (0, len(numbers))
        with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port)) as slow:
            slow.sendall(
                b"POST /streams/readings HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n["
            )
            httpx.get(f"{url}/healthz")  # the body has begun
            second.process.send_signal(signal.SIGTERM)
            second.wait_for("draining")
            second.process.send_signal(signal.SIGTERM)
            assert second.wait() == 128 + signal.SIGTERM


# Limits, with a server in a thread ----------------------------------------------------------------


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    """The address of a server with narrow limits."""
    limits = {"head_bytes": 2048, "head_seconds": 0.3, "max_connections": 3, "port": 0}
    served = serve_app(make_house()[0], Settings.parse({"server": limits}))
    said: list[str] = []
    ready = threading.Event()

    def report(words: str) -> None:
        said.append(words)
        ready.set()

    server = Server(served, report)
    thread = threading.Thread(target=server.listen)
    thread.start()
    assert ready.wait(PATIENCE)
    url = urlsplit(said[0].partition("listening on ")[2])
    assert url.hostname is not None
    assert url.port is not None
    yield url.hostname, url.port
    server.handle_exit(signal.SIGTERM, None)
    thread.join(PATIENCE)
    assert said[1:3] == [
        "no folder for the state: nothing is durable",
        "no tokens: everybody on this machine may read and write",
    ]
    assert said[3:] == ["draining", "stopped"]


def read_all(connection: socket.socket) -> bytes:
    """Return what comes until the server closes the connection."""
    connection.settimeout(PATIENCE)
    received = b""
    while data := connection.recv(65536):
        received += data
    return received


def test_a_client_that_sends_far_too_much_gets_the_answer(address: tuple[str, int]) -> None:
    """It has sent all before it reads, as clients do that are not told to wait."""
    url = "http://{}:{}/streams/readings".format(*address)
    with pytest.raises(HTTPError) as refused:
        urlopen(Request(url, data=bytes(20 << 20)), timeout=PATIENCE)
    assert refused.value.code == 413


def test_a_head_is_limited_in_size_and_time(address: tuple[str, int]) -> None:
    """Headers without end get 431, a head that does not come on 408, and silence nothing."""
    with socket.create_connection(address) as large:
        large.sendall(b"GET /healthz HTTP/1.1\r\n" + b"A: " + b"x" * 4000)
        assert read_all(large).startswith(b"HTTP/1.1 431 ")
    with socket.create_connection(address) as slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n")
        assert read_all(slow).startswith(b"HTTP/1.1 408 ")
    with socket.create_connection(address) as silent:
        assert read_all(silent) == b""


def test_an_error_of_the_last_run_is_raised() -> None:
    """A run that fails while the server drains is an error, with which the program ends."""
    app, source = make_house()
    sink, ready = Faulty(), threading.Event()
    served = serve_app(app, Settings.parse({"server": {"port": 0}}), sinks={"totals": sink})
    raised: list[BaseException] = []

    def listen() -> None:
        try:
            server.listen()
        except OSError as error:
            raised.append(error)

    server = Server(served, lambda words: ready.set())
    thread = threading.Thread(target=listen)
    thread.start()
    assert ready.wait(PATIENCE)
    source.push(rows(range(5)))
    sink.error = OSError("the table is away")
    served.service.drain()
    with contextlib.suppress(ProcessEndedError):
        source.push({"ts": 10, "device": "a", "temp": 1, "n": 10})
    server.handle_exit(signal.SIGTERM, None)
    thread.join(PATIENCE)
    assert raised == [sink.error]


def test_requests_that_outlast_the_drain_are_told_to_come_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A post gets 503 and Retry-After, a WebSocket its closing code, and the log no traceback."""
    held, entered, ready = threading.Event(), threading.Event(), threading.Event()

    def hold(row: object) -> bool:
        entered.set()
        return held.wait(PATIENCE)

    source = rxt.PushSource("readings", schema={"device": str})
    house = rxt.Application("house")
    house.query("all", source.stream.where(hold))
    said: list[str] = []

    def report(words: str) -> None:
        said.append(words)
        ready.set()

    settings = Settings.parse({"server": {"port": 0, "drain_seconds": 0}})
    server = Server(serve_app(house, settings), report)
    thread = threading.Thread(target=server.listen)
    thread.start()
    assert ready.wait(PATIENCE)
    url = f"{said[0].partition('listening on ')[2]}/streams/readings"
    with connect(url.replace("http", "ws", 1)) as client, ThreadPoolExecutor(1) as pool:
        row = {"time": 1, "device": "a"}
        posted = pool.submit(httpx.post, url, json=row, timeout=PATIENCE)
        assert entered.wait(PATIENCE)
        client.send('{"time": 2, "device": "a"}')
        server.handle_exit(signal.SIGTERM, None)
        answer = posted.result()
        with pytest.raises(ConnectionClosed) as closed:
            client.recv(PATIENCE)
    held.set()
    thread.join(PATIENCE)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "the service stops before it has answered" in answer.json()["error"]
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1012
    assert [each for each in caplog.records if each.exc_info] == []


def test_a_second_head_is_limited_as_the_first(address: tuple[str, int]) -> None:
    """On a connection that stays open each head has its own count and its own time."""
    request = b"GET /healthz HTTP/1.1\r\nHost: a\r\nA: " + b"x" * 1500 + b"\r\n\r\n"
    with socket.create_connection(address) as connection:
        for _ in range(3):
            connection.sendall(request)
            answer = b""
            while not answer.endswith(b'{"state":"running"}'):
                answer += connection.recv(65536)
        connection.sendall(request[:-10])
        assert read_all(connection).startswith(b"HTTP/1.1 408 ")


def test_connections_are_limited(address: tuple[str, int]) -> None:
    """One connection too many is answered 503; when another has gone there is room again."""
    with socket.create_connection(address), socket.create_connection(address):
        with socket.create_connection(address), socket.create_connection(address) as fourth:
            answer = read_all(fourth)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"retry-after: 1" in answer
        assert httpx.get("http://{}:{}/healthz".format(*address)).status_code == 200


# Addresses ----------------------------------------------------------------------------------------


def test_without_tokens_only_this_machine_connects() -> None:
    """Another address than that of this machine needs a token."""
    hosts = ["127.0.0.1", "127.8.9.1", "::1", "localhost", "0.0.0.0", "::", "10.0.0.1", "house"]
    assert [is_loopback(host) for host in hosts] == [True] * 4 + [False] * 4
    outside = {"server": {"host": "0.0.0.0"}}
    with pytest.raises(ArgumentError, match="without tokens a service listens on this machine"):
        check_address(Settings.parse(outside))
    token = {"hash": "sha256:" + "0" * 64}
    settings = Settings.parse({**outside, "state": {"folder": "x"}, "tokens": {"a": token}})
    check_address(settings)
    assert list(list_warnings(settings)) == ["no certificate: tokens are sent as clear text"]


def test_a_wrong_certificate_is_told(tmp_path: Path) -> None:
    """A file that is none of PEM is an error of the settings, before anything begins."""
    (tmp_path / "cert.pem").write_text("no certificate")
    said = {
        "cert.pem": "certificate, key and client_ca cannot be read",
        "missing.pem": r"\[server\] certificate: there is no file .*missing.pem",
    }
    for name, message in said.items():
        settings = Settings.parse({"server": {"certificate": str(tmp_path / name), "port": 0}})
        server = Server(serve_app(make_house()[0], settings), lambda words: None)
        with pytest.raises(ArgumentError, match=message):
            server.listen()


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without uvicorn the error says what to install."""
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(BindingError, match=r"needs 'uvicorn'.*rxtemporal\[serve\]"):
        importlib.reload(server_module)


def test_a_port_in_use_is_told() -> None:
    """An address that cannot be used is an error with a hint."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = Settings.parse({"server": {"port": taken.getsockname()[1]}})
        server = Server(serve_app(make_house()[0], settings), lambda words: None)
        with pytest.raises(ArgumentError, match="another service may have the port"):
            server.listen()


COUNTING = """
import gc, sys
import rxtemporal as rxt
from rxtemporal import serve


class Frozen(rxt.Sink):
    def write(self, batch):
        print("frozen:", gc.get_freeze_count() > 10_000, file=sys.stderr, flush=True)


readings = rxt.PushSource("readings", schema={"device": str}, start="ts", unit="ticks")
house = rxt.Application("house")
house.query("frozen", readings.stream)
app = serve.app(house, sinks={"frozen": Frozen()})
"""


def test_a_process_that_serves_has_no_long_collections(tmp_path: Path) -> None:
    """Once its kernels are there, the collector does not go through what has been loaded."""
    (tmp_path / "counting.py").write_text(COUNTING)
    with serve(f"{tmp_path / 'counting.py'}:app", "--port", "0") as service:
        url = service.listen()
        until = time.monotonic() + PATIENCE
        for number in itertools.count(1):
            row = {"ts": number, "device": "a"}
            httpx.post(f"{url}/streams/readings", json=row, timeout=PATIENCE)
            if service.wait_for("frozen:").endswith("True"):
                break
            assert time.monotonic() < until, "nothing has been frozen"
        service.process.send_signal(signal.SIGTERM)
        assert service.wait() == 0
