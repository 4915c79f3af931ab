"""``rxtemporal tap``: rows of a server as they come, each once, also over lost connections."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from live_service import serve

import rxtemporal as rxt
from rxtemporal.cli.main import main
from rxtemporal.serve import Settings, app, settings
from rxtemporal.serve.tokens import hash_token

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@contextlib.contextmanager
def serve_house(**tokens: settings.TokenSettings) -> Iterator[tuple[str, rxt.PushSource]]:
    """Serve a house with one stream and one query over it."""
    source = rxt.PushSource("readings", schema={"room": str, "temp": float})
    house = rxt.Application("house")
    house.query("hot", source.stream.where(lambda row: row["temp"] > 20))
    some = Settings(
        settings.ServerSettings(port=0), limits=settings.Limits(ahead=None), tokens=tokens
    )
    with serve(app(house, some)) as url:
        yield url, source


class Script(ThreadingHTTPServer):
    """Server whose events are written in advance: one answer for each connection."""

    daemon_threads = True

    def __init__(self, *answers: tuple[int, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = list(answers)
        self.asked: list[tuple[str, str | None]] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Script

    def do_GET(self) -> None:
        """Answer with the next one, and drop the connection."""
        lists = {"/queries": b'{"queries":[{"name":"hot"}]}', "/streams": b'{"streams":[]}'}
        status, body = 200, lists.get(self.path)
        if body is None:
            self.server.asked.append((self.path, self.headers["Last-Event-ID"]))
            status, body = self.server.answers.pop(0)
        self.send_response_only(status)
        # more is announced than comes: the connection breaks
        more = 100 if self.path not in lists and status == 200 else 0
        self.send_header("Content-Length", str(len(body) + more))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *arguments: Any) -> None:
        """Print nothing."""


@contextlib.contextmanager
def run_script(*answers: tuple[int, bytes]) -> Iterator[Script]:
    """Run a server of written answers."""
    server = Script(*answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def rows_event(position: int, *rows: dict[str, Any]) -> bytes:
    """Return an event of results."""
    return f"id: {position}\nevent: rows\ndata: {json.dumps(rows)}\n\n".encode()


def part_event(*rows: dict[str, Any]) -> bytes:
    """Return an event with some of the results with one start."""
    return f"event: rows\ndata: {json.dumps(rows)}\n\n".encode()


END = b"event: end\ndata: {}\n\n"


def test_results_of_a_query_are_printed_in_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """Those that are kept, then those that come, until the query has completed."""
    with serve_house() as (url, source):
        source.push([{"time": NOON, "room": "hall", "temp": 20.5}])
        source.push([{"time": NOON + timedelta(minutes=1), "room": "kitchen", "temp": 25.0}])
        source.close()
        assert main(["tap", url, "hot"]) == 0
    done = capsys.readouterr()
    assert [line.split() for line in done.out.splitlines()] == [
        ["start_time", "end_time", "room", "temp"],
        ["2026-05-01T12:00:00Z", "2026-05-01T12:00:00.000001Z", "hall", "20.5"],
        ["2026-05-01T12:01:00Z", "2026-05-01T12:01:00.000001Z", "kitchen", "25"],
    ]
    assert "the query has completed" in done.err


def test_results_are_printed_as_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """One object on each line, from a position on."""
    with serve_house() as (url, source):
        source.push([{"time": t, "room": "ü\x9b", "temp": 21.0} for t in (1, 2, 3)])
        source.close()
        assert main(["tap", url, "hot", "--json", "--from", "2"]) == 0
    out = capsys.readouterr().out
    assert [json.loads(line)["start_time"] for line in out.splitlines()] == [2, 3]
    assert "ü" in out
    assert "\x9b" not in out


def test_results_so_far_are_printed_as_they_change(capsys: pytest.CaptureFixture[str]) -> None:
    """Those that have gone are not, and nothing is printed while there are none."""
    now = [{"start_time": 0, "end_time": 60, "n": n} for n in (1, 2)]
    changes = (b"now", []), (b"now", now[:1]), (b"gone", now[:1]), (b"now", now[1:])
    events = [
        b"event: %s\ndata: %s\n\n" % (kind, json.dumps(rows).encode()) for kind, rows in changes
    ]
    with run_script((200, b"".join(events) + END)) as server:
        url = f"http://127.0.0.1:{server.server_port}/"
        assert main(["tap", url, "hot", "--now", "--json"]) == 0
        assert server.asked == [("/queries/hot/now?every=1s", None)]
    assert [json.loads(line)["n"] for line in capsys.readouterr().out.splitlines()] == [1, 2]


def test_results_with_one_start_that_come_in_parts_are_printed_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The parts before a lost connection come again, so they wait for the event with the id."""
    parts = [part_event({"x": 1}), part_event({"x": 2}), rows_event(9, {"x": 3})]
    with run_script((200, parts[0] + parts[1]), (200, b"".join(parts) + END)) as server:
        assert main(["tap", f"http://127.0.0.1:{server.server_port}", "hot", "--json"]) == 0
    assert capsys.readouterr().out.splitlines() == ['{"x":1}', '{"x":2}', '{"x":3}']


def test_a_stream_is_tapped_until_ctrl_c() -> None:
    """Accepted rows come with their source; Ctrl-C ends it with 130 and without a word."""
    with serve_house() as (url, _):
        tap = subprocess.Popen(
            [sys.executable, "-m", "rxtemporal", "tap", url, "readings"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            rows = [{"time": 5, "room": "hall", "temp": 1.0}, {"time": 6, "room": "x", "temp": "?"}]
            done = threading.Event()

            def post() -> None:
                while not done.wait(0.05):  # nothing is kept for a tap that begins later
                    httpx.post(
                        f"{url}/streams/readings", json=rows, headers={"Source": "a"}, timeout=60
                    )

            sender = threading.Thread(target=post)
            sender.start()
            assert tap.stdout is not None
            heading, row = tap.stdout.readline(), tap.stdout.readline()
            done.set()
            sender.join()
            tap.send_signal(signal.SIGINT)
            _, errors = tap.communicate(timeout=30)
        finally:
            tap.kill()
            tap.wait()
    assert heading.split() == ["source", "time", "room", "temp"]
    assert row.split() == ["a", "5", "hall", "1"]
    assert (tap.returncode, errors) == (130, "")


def test_a_lost_connection_continues_where_it_was(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half an event is not an event: it comes again, and each row is printed once."""
    monkeypatch.setattr("rxtemporal.cli.tap._FIRST_PAUSE", 0.001)
    half = rows_event(9, {"x": 3})[:-1]
    with run_script(
        (200, b": keep-alive\n\n" + rows_event(5, {"x": 1}) + rows_event(7, {"x": 2}) + half),
        (503, b"{}"),
        (200, b""),
        (410, b'{"error":"gone"}'),
        (200, rows_event(20, {"x": 4}) + END),
    ) as server:
        url = f"http://127.0.0.1:{server.server_port}/"
        assert main(["tap", url, "hot", "--json", "--from", "oldest"]) == 0
    done = capsys.readouterr()
    assert done.out.splitlines() == ['{"x":1}', '{"x":2}', '{"x":4}']
    path = "/queries/hot/events?from=oldest"
    assert server.asked == [(path, None), (path, "7"), (path, "7"), (path, "7"), (path, None)]
    assert "rows are missing" in done.err


def test_a_query_that_has_completed_before(capsys: pytest.CaptureFixture[str]) -> None:
    """There is nothing to wait for."""
    with run_script((204, b"")) as server:
        assert main(["tap", f"127.0.0.1:{server.server_port}", "hot"]) == 0
    assert "completed" in capsys.readouterr().err


def test_what_a_device_sends_is_no_command_to_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Control characters are shown as text, in names and values."""
    rows = [{"a": "\x1b[2J", "\x1b]0;b\x07": None}, {"a": [1, "\x9b"], "end_time": None}]
    with run_script((200, rows_event(5, *rows) + END)) as server:
        assert main(["tap", f"127.0.0.1:{server.server_port}", "hot"]) == 0
    out = capsys.readouterr().out
    assert out.replace("\n", "").isprintable()
    assert "never ends" in out
    assert len(out.splitlines()) == 4


def test_errors_say_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong name, token, position or address ends with status 1 and a sentence."""
    token = settings.TokenSettings(hash_token("r"), read=True)
    with serve_house(reader=token) as (url, _):
        assert main(["tap", url, "hot", "--token", "x"]) == 1
        assert "answered 401" in capsys.readouterr().err
        right = ["--token", "r"]
        assert main(["tap", url, "cold", *right]) == 1
        assert "its queries are hot, and its streams readings" in capsys.readouterr().err
        assert main(["tap", url, "readings", "--from", "now", *right]) == 1
        assert "keeps no rows" in capsys.readouterr().err
        assert main(["tap", url, "readings", "--now", *right]) == 1
        assert "--now is for a query" in capsys.readouterr().err
        assert main(["tap", url, "hot", "--now", "--from", "now", *right]) == 1
        assert "one of the two" in capsys.readouterr().err
        assert main(["tap", url, "hot", "--from", "noon", *right]) == 1
        assert "a position is a number of ticks" in capsys.readouterr().err
    assert main(["tap", url, "hot"]) == 1
    assert "cannot reach" in capsys.readouterr().err
    assert main(["tap", "ftp://x", "hot"]) == 1
    assert "URL is http" in capsys.readouterr().err


def test_a_reader_of_the_output_may_leave() -> None:
    """As in ``rxtemporal tap … | head -1``: no traceback, and status 0."""
    answer = rows_event(5, *({"x": n} for n in range(50_000)))
    with run_script((200, answer)) as server:
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run(
            [sys.executable, "-m", "rxtemporal", "tap", f"127.0.0.1:{server.server_port}", "hot"],
            stdout=write, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
        os.close(write)
    assert (done.returncode, done.stderr) == (0, "")
