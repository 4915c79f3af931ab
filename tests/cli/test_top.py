"""``rxtemporal top``: the table of a server, from its diagnostics."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

import rxtemporal as rxt
from rxtemporal.cli import top
from rxtemporal.cli.main import main
from rxtemporal.cli.top import Answer, list_lines, make_board
from rxtemporal.serve.health import describe
from rxtemporal.serve.responses import dumps
from rxtemporal.serve.service import Service

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
CLOCK = "Fri, 01 May 2026 12:02:00 GMT"


@contextmanager
def serve(service: Service, status: int = 200, body: bytes | None = None) -> Iterator[str]:
    """Answer with the diagnostics of a service; yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, self.headers["Authorization"]))
            content = dumps(describe(service)) if body is None else body
            self.send_response_only(status)
            self.send_header("Date", CLOCK)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *words: Any) -> None:
            pass

    seen = service.__dict__.setdefault("seen", [])
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def service() -> Iterator[Service]:
    """A service of two streams, one of which holds the query back."""
    readings = rxt.PushSource("readings", schema={"temp": int}, seq="n")
    rooms = rxt.PushSource("rooms", schema={"floor": int})
    house = rxt.Application("house")
    house.query("placed", readings.stream.cross_join(rooms.stream))
    service = Service(house)
    service.start()
    for number in range(12):
        time = NOON + timedelta(seconds=number)
        readings.push({"time": time, "temp": 20, "n": 0}, input=f"device {number}")
    readings.push({"time": NOON, "temp": 20, "n": 1}, input="device 3")
    yield service
    service.stop()


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Run the command line; return the status, and what it printed."""
    status = main(["top", *arguments])
    return status, *capsys.readouterr()


def test_a_table_of_everything(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    """It has streams, queries, who holds back, and the ten devices furthest behind."""
    with serve(service) as url:
        status, out, err = run([url, "--once"], capsys)
    assert (status, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert lines[0][:3] == ["house:", "running,", "not"]
    assert "rooms" in out.splitlines()[1]
    (readings,) = [line for line in lines if line[:1] == ["readings"]]
    assert readings[1:5] == ["13", "-", "1", "0+"]
    assert readings[6:9] == ["12:00:11", "109", "s"]
    (placed,) = [line for line in lines if line[:1] == ["placed"]]
    assert placed[-1] == "rooms"
    devices = [line[1] for line in lines if line[:1] == ["device"]]
    assert devices == [str(number) for number in range(10)]


@pytest.mark.parametrize("rich", [True, False])
def test_names_are_printed_as_they_are(
    rich: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that looks like markup is not obeyed on a terminal, with ``rich`` and without."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    if not rich:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    source = rxt.PushSource("[red]x", schema={"temp": int})
    house = rxt.Application("house")
    house.query("all", source.stream)
    service = Service(house)
    service.start()
    source.push({"time": 5, "temp": 20})
    with serve(service) as url:
        status, out, _ = run([url, "--once"], capsys)
    service.stop()
    assert status == 0
    assert "[red]x" in out
    assert ("─" in out) == rich


def test_a_day_is_told_unless_it_is_today() -> None:
    """The date of a CTI is there if it is not the server's."""
    content = {"service": {}, "inputs": {}}
    of = {"cti": "2026-05-01T12:00:11Z", "cti_age": 3.0}
    today, later = (Answer(content, 0.0, NOON + timedelta(days=n)) for n in (0, 1))
    assert top._times(today, of)[0] == "12:00:11"
    assert top._times(later, of)[0] == "2026-05-01 12:00:11"
    assert top._times(today, {**of, "cti": 47})[:2] == ("47", "-")
    assert top._times(today, {**of, "cti": None})[:2] == ("-", "-")


def test_the_token_is_sent_and_the_path_kept(
    service: Service, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token comes from the option or the environment; a mounted server has a path."""
    monkeypatch.setenv("RXTEMPORAL_TOKEN", "from the environment")
    with serve(service) as url:
        run([f"{url}/house/", "--once"], capsys)
        run([url.removeprefix("http://"), "--once", "--token", "secret"], capsys)
    assert service.__dict__["seen"] == [
        ("/house/diagnostics", "Bearer from the environment"),
        ("/diagnostics", "Bearer secret"),
    ]


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (401, b"{}", "RXTEMPORAL_TOKEN"),
        (403, b"{}", "read = true"),
        (404, b"", "is this the address of rxtemporal serve"),
        (500, b"", "the log of the server"),
        (200, b"<html>", "is not diagnostics"),
        (200, b"[]", "is not diagnostics"),
    ],
)
def test_an_answer_that_is_none(
    service: Service,
    capsys: pytest.CaptureFixture[str],
    status: int,
    body: bytes,
    expected: str,
) -> None:
    """The error says what the server answered and what to do."""
    with serve(service, status, body) as url:
        code, out, err = run([url, "--once"], capsys)
    assert (code, out) == (1, "")
    assert expected in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://x:y", "http://127.0.0.1:99999"])
def test_an_address_that_is_none(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The error says what an address is."""
    code, _, err = run([url, "--once"], capsys)
    assert code == 1
    assert "http://HOST:PORT" in err


def test_a_server_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    """The error says that nobody answers, in one line and without a token."""
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as free:
        port = free.server_port
    code, _, err = run([f"127.0.0.1:{port}", "--token", "secret"], capsys)
    assert code == 1
    assert "Connection refused. Hint: is rxtemporal serve running" in err
    assert "secret" not in err


def test_it_goes_on_until_ctrl_c(
    service: Service, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look shows the rate since the last one; Ctrl-C ends it without a word."""
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(top.time, "sleep", sleep)
    with serve(service) as url:
        status, out, err = run([url, "--every", "0.5"], capsys)
    assert (status, err, looks) == (0, "", [0.5] * 3)
    assert out.count("house: running") == 3


def test_rates_are_those_between_two_looks(service: Service) -> None:
    """The events since the last look by the time since; a run that began anew has none below 0."""
    content = describe(service)
    before = dumps(content)

    first = Answer(json.loads(before), 10.0, NOON)
    second = Answer(json.loads(before), 12.0, NOON)
    second.content["run"]["streams"][0]["events_in"] += 300
    assert make_board(second, first).grids[0].rows[0][2] == "150"
    assert make_board(first._replace(time=14.0), second).grids[0].rows[0][2] == "0"


def test_a_server_that_goes_away_is_waited_for(
    service: Service, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last board stays, with the reason why there is no newer one."""
    looks: list[Any] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 1:
            context.__exit__(None, None, None)
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr(top.time, "sleep", sleep)
    context = serve(service)
    status, out, _ = run([context.__enter__()], capsys)
    assert status == 0
    assert "cannot reach http://127.0.0.1" in out
    assert out.count("house: running") == 2


def test_a_service_without_a_run_has_a_title() -> None:
    """Before the first run there are counters of the service alone."""
    source = rxt.PushSource("readings", schema={"temp": int})
    house = rxt.Application("house")
    house.query("all", source.stream)

    answer = Answer(json.loads(dumps(describe(Service(house)))), 0.0, NOON)
    assert list(list_lines(make_board(answer)))[1:] == ["  no run has begun"]
