"""Results posted to a web service: each is taken once, whatever the server and the network do."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import rxtemporal as rxt
from rxtemporal.errors import ArgumentError, RxTemporalError
from rxtemporal.sinks.http import read_retry_after

Answer = tuple[int, Mapping[str, str], str] | str
TAKEN: Answer = (200, {}, "thanks")


class Receiver(ThreadingHTTPServer):
    """Server that answers as it is told, and then takes everything."""

    daemon_threads = True

    def __init__(self, *answers: Answer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = list(answers)
        self.requests: list[tuple[Mapping[str, str], list[Any]]] = []
        self.connections = 0
        self.waits = threading.Event()
        self.release = threading.Event()

    @property
    def url(self) -> str:
        """The URL to post to."""
        return f"http://127.0.0.1:{self.server_address[1]}/results?of=test"

    @property
    def starts(self) -> list[int]:
        """The starts of all rows that were taken."""
        return [row["start_time"] for _, rows in self.requests for row in rows]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Receiver

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_POST(self) -> None:
        """Answer as told."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = self.server.answers.pop(0) if self.server.answers else TAKEN
        if answer == "drop":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if answer == "wait":
            self.server.waits.set()
            self.server.release.wait(60)
            return
        if answer == "close":
            answer = TAKEN
            self.close_connection = True
        status, headers, text = answer
        if status < 300:
            rows = [json.loads(line) for line in body.splitlines()]
            self.server.requests.append((dict(self.headers), rows))
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(text))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *arguments: Any) -> None:
        """Print nothing."""


@contextlib.contextmanager
def receive(*answers: Answer) -> Iterator[Receiver]:
    """Run a server with these first answers."""
    server = Receiver(*answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.release.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait little between two attempts."""
    monkeypatch.setattr("rxtemporal.sinks.positioned.FIRST", 0.001)
    monkeypatch.setattr("rxtemporal.sinks.positioned.MOST", 0.01)


def post(sink: rxt.Http, *times: int) -> None:
    """Run a query of points at these times, with a CTI behind each, into a sink."""
    source = rxt.PushSource("readings", schema={"x": int})
    with source.stream.run(sink, name="hot"):
        with contextlib.suppress(rxt.ProcessEndedError):
            for t in times:
                source.push([{"time": t, "x": t}, rxt.Cti(t + 1)])
        source.close()


def test_rows_are_posted_as_json_lines_with_their_position() -> None:
    """A request has the rows from one time up to another, over one connection."""
    with receive() as server:
        post(rxt.Http(server.url, headers={"Authorization": "Bearer x"}), 1, 5)
    (first, rows), (second, others) = server.requests
    assert rows == [{"start_time": 1, "end_time": 2, "x": 1}]
    assert others == [{"start_time": 5, "end_time": 6, "x": 5}]
    assert first["Content-Type"] == "application/x-ndjson"
    assert first["Authorization"] == "Bearer x"
    assert [each["Results-To"] for each in (first, second)] == ["2", "6"]
    assert (first["Results-From"], second["Results-From"]) == (str(rxt.MIN_TIME), "2")
    assert (first["Idempotency-Key"], second["Idempotency-Key"]) == ("hot:2", "hot:6")
    assert server.connections == 1


@pytest.mark.parametrize(
    "failures",
    [["drop"], [(503, {}, "")], [(429, {}, ""), (500, {}, ""), "drop"], [(408, {}, "")], ["close"]],
    ids=["drop", "503", "several", "408", "close"],
)
def test_what_may_pass_is_sent_again(failures: list[Answer]) -> None:
    """The same request, with the same key, until it is taken; no row is doubled."""
    with receive(TAKEN, *failures) as server:
        sink = rxt.Http(server.url)
        post(sink, 1, 5, 9)
    assert server.starts == [1, 5, 9]
    # a connection that was silent, and is closed, is made again at once
    assert sink.restarts == sum(failure not in ("drop", "close") for failure in failures)
    assert sink.away_since is None


def test_an_answer_that_will_not_pass_ends_the_run() -> None:
    """The error has what the server said, and no secret."""
    with receive((422, {}, "x is not a number")) as server:
        sink = rxt.Http(server.url, headers={"Authorization": "Bearer secret"})
        with pytest.raises(RxTemporalError, match=r"422 .*x is not a number") as caught:
            post(sink, 1)
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(sink)
    assert server.requests == []


def test_refused_rows_are_kept_in_a_file(tmp_path: Path) -> None:
    """With the answer; the rows after them are posted. An answer about the sender ends the run."""
    letters = tmp_path / "refused.jsonl"
    with receive((422, {}, "x is not a number"), TAKEN, (401, {}, "who are you")) as server:
        sink = rxt.Http(server.url, dead_letters=letters)
        with pytest.raises(RxTemporalError, match=r"401 .*who are you"):
            post(sink, 1, 2, 3)
    found = [json.loads(line) for line in letters.read_text("utf-8").splitlines()]
    assert [each["row"]["start_time"] for each in found] == [1]
    assert {each["query"] for each in found} == {"hot"}
    assert all(re.fullmatch(r"422 .*: x is not a number", each["answer"]) for each in found)
    assert (sink.refused, server.starts) == (1, [2])


def test_a_redirection_is_not_followed() -> None:
    """It would take the rows, and the headers, to another place."""
    with (
        receive((307, {"Location": "http://127.0.0.1:1/"}, "")) as server,
        pytest.raises(RxTemporalError, match="307"),
    ):
        post(rxt.Http(server.url), 1)


def test_patience_ends() -> None:
    """The error says for how long, and the last reason."""
    with (
        receive(*[(503, {}, "down for repair")] * 10_000) as server,
        pytest.raises(RxTemporalError, match=r"0\.05 seconds: 503 .*down for repair"),
    ):
        post(rxt.Http(server.url, patience=0.05), 1)


def test_a_server_that_is_not_there_is_waited_for() -> None:
    """The run begins before the server does."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{found.getsockname()[1]}/"
    with pytest.raises(RxTemporalError, match="ConnectionRefusedError"):
        post(rxt.Http(url, patience=0.02), 1)


def test_the_server_says_how_long_to_wait() -> None:
    """``Retry-After`` counts, in seconds and as a date; one beyond the patience ends it at once."""
    waited = list[float]()
    with receive((503, {"Retry-After": "0.25"}, "")) as server:
        sink = rxt.Http(server.url)
        wait = sink._cancelled.wait
        sink._cancelled.wait = lambda timeout=None: waited.append(timeout) or wait(0)  # type: ignore
        post(sink, 1)
    assert waited == [0.25]
    with (
        receive((503, {"Retry-After": "3600"}, "")) as server,
        pytest.raises(RxTemporalError, match="503"),
    ):
        post(rxt.Http(server.url), 1)
    assert 25 < read_retry_after(formatdate(time.time() + 30, usegmt=True)) <= 30
    assert read_retry_after(formatdate(time.time() - 30, usegmt=True)) == 0
    assert read_retry_after("nan") == read_retry_after("-1") == 0


def test_a_server_that_never_answers_is_left_when_the_run_fails() -> None:
    """The write that waits is cancelled; a stop without an error waits as long as the sink."""
    with receive("wait") as server:
        sink = rxt.Http(server.url, timeout=60)
        source = rxt.PushSource("readings", schema={"x": int}, hand_off=rxt.HandOff())
        process = source.stream.run(sink)
        source.push([{"time": 1, "x": 1}, rxt.Cti(2)])
        assert server.waits.wait(30)
        stopper = threading.Thread(target=process.stop, args=(RuntimeError(),))
        stopper.start()
        stopper.join(30)
        assert not stopper.is_alive()
    assert process.ended


def test_a_server_that_is_too_slow_is_asked_again() -> None:
    """The time limit counts for one attempt."""
    with receive("wait") as server:
        post(rxt.Http(server.url, timeout=0.05), 1, 2)
    assert server.starts == [1, 2]


def test_many_rows_are_several_requests() -> None:
    """About ``rows`` in each; rows with one start stay together."""
    times = [1, 1, 1, 2, 3, 3, 3, 3, 3, 3, 4, 5, 6]
    with receive() as server:
        events = [*(rxt.PointEvent(t, {"x": n}) for n, t in enumerate(times)), rxt.Cti(9)]
        with rxt.from_events(events).run(rxt.Http(server.url, rows=4)):
            pass
    assert server.starts == times
    requests = [(int(h["Results-From"]), int(h["Results-To"]), r) for h, r in server.requests]
    assert [(begin, end, len(rows)) for begin, end, rows in requests] == [
        (rxt.MIN_TIME, 3, 4), (3, 4, 6), (4, rxt.MAX_TIME, 3),
    ]  # fmt: skip


def test_a_run_that_resumes_posts_what_was_not_taken(tmp_path: Path) -> None:
    """Results since the checkpoint come again; with the positions a receiver takes each once."""

    def start(url: str) -> tuple[rxt.PushSource, rxt.Process]:
        source = rxt.PushSource("readings", schema={"x": int}, seq="x")
        return source, source.stream.run(rxt.Http(url), resume=tmp_path / "state")

    with receive() as server:
        source, process = start(server.url)
        source.push({"time": 10, "x": 1})
        source.push({"time": 20, "x": 2})
        process.stop()  # saved
        source, process = start(server.url)
        source.push({"time": 30, "x": 3})
        source.push({"time": 40, "x": 4})
        process.stop(RuntimeError("not saved"))
        source, process = start(server.url)
        source.push({"time": 50, "x": 5})
        source.close()
        process.wait()
    # without a crash each request continues where the one before ended
    assert server.requests[0][0]["Results-From"] == str(rxt.MIN_TIME)
    taken, position = list[int](), rxt.MIN_TIME
    for headers, rows in server.requests:
        assert int(headers["Results-From"]) <= position
        taken += [row["start_time"] for row in rows if row["start_time"] >= position]
        position = max(position, int(headers["Results-To"]))
    assert taken == [10, 20, 30, 40, 50]
    assert server.starts.count(10) == 1


@pytest.mark.parametrize(
    "url",
    ["", "example.org", "ftp://x/", "http://", "http://x:99999/", "http://x/ y", "http://ü/", 5],
)
def test_a_url_that_is_none_is_refused(url: Any) -> None:
    """When the sink is made, not when the first result is there."""
    with pytest.raises(ArgumentError, match="absolute URL"):
        rxt.Http(url)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"rows": 0}, "rows must be positive"),
        ({"timeout": 0}, "timeout is positive"),
        ({"patience": -1}, "patience not negative"),
        ({"headers": {"Host": "x"}}, "'Host' is set by the sink"),
        ({"headers": {"X": "a\r\nb: c"}}, "printable"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], reason: str) -> None:
    """Each says what is allowed."""
    with pytest.raises(ArgumentError, match=reason):
        rxt.Http("http://x/", **arguments)


def test_a_password_in_the_url_is_refused() -> None:
    """URLs are logged; headers are not."""
    with pytest.raises(ArgumentError, match="logged") as caught:
        rxt.Http("http://me:secret@x/")
    assert "secret" not in str(caught.value)


def test_requests_of_devices_with_times_of_their_own_are_numbered(tmp_path: Path) -> None:
    """One that is sent again after a failure is the same, and the next ones follow."""
    with receive(TAKEN, (403, {}, "no"), TAKEN) as server:
        for life in range(2):
            source = rxt.PushSource(
                "rows", schema={"device": str, "n": int}, clock="device", seq="n"
            )
            sink = rxt.Http(server.url)
            process = source.stream.run(sink, name="q", resume=tmp_path)
            with contextlib.suppress(RxTemporalError):
                for device, time in (("a", 100), ("a", 200), ("b", 300), ("b", 400), ("b", 500)):
                    source.push({"time": time, "device": device, "n": time}, input=device)
            if life:
                process.stop()
            else:
                with pytest.raises(RxTemporalError, match="403"):
                    process.wait()
        keys = [headers["Idempotency-Key"] for headers, _ in server.requests]
        assert keys == ["q:1", "q:1", "q:2", "q:3"]
        assert [headers["Results-To"] for headers, _ in server.requests] == ["1", "1", "2", "3"]
        assert server.starts == [100, 100, 300, 400]


def test_numbered_requests_have_at_most_so_many_rows() -> None:
    """As others."""
    with receive() as server:
        source = rxt.PushSource("rows", schema={"device": str}, clock="device", batch_rows=25)
        with source.stream.run(rxt.Http(server.url, rows=10), name="q"):
            source.push([{"time": time, "device": "a"} for time in range(25)])
            source.close()
        assert [len(rows) for _, rows in server.requests] == [10, 10, 4, 1]
        keys = [headers["Idempotency-Key"] for headers, _ in server.requests]
        assert keys == ["q:1", "q:2", "q:3", "q:4"]
