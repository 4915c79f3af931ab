"""Whatever is sent, a service answers it: never 500, never without an end, and it goes on."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import tempfile
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from service_clients import make_house, reading

from rxtemporal.serve.asgi import app
from rxtemporal.serve.settings import DeadLetterSettings, Limits, Settings

ALLOWED = {200, 400, 403, 404, 405, 408, 413, 415}
few = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
many = settings(few, max_examples=3_000, derandomize=False)


def make_arrow():
    """Return an Arrow stream."""
    file = io.BytesIO()
    rows = {"time": [1, 2], "device": ["a", "b" * 50], "temp": [0.5, None], "n": [1, 2]}
    pl.DataFrame(rows).write_ipc_stream(file)
    return file.getvalue()


SEEDS = [
    json.dumps(reading(5, n=1)).encode(),
    json.dumps([reading(5, "ä\U0001f600"), reading(6, temp=None)]).encode(),
    b"\n".join(json.dumps(reading(n)).encode() for n in range(3)),
    json.dumps(reading("2026-05-01T12:00:00Z")).encode(),
    b'{"time": 1e999, "device": "\\ud800", "temp": -1e-999}',
    b'{"time": ' + b"9" * 5_000 + b', "device": NaN}',
    b'[{"time": 9223372036854775807, "device": "", "temp": 1' + b"0" * 400 + b"}, 5, null, [[]]]",
    make_arrow(),
    gzip.compress(json.dumps([reading(5)] * 50).encode()),
]
# bytes that have a meaning in one of the formats
TOKENS = [b"{", b"}", b"[", b"]", b'"', b"\\", b"\n", b",", b":", b"\x00", b"\xff", b"\x80", b"9"]


@st.composite
def mutants(draw):
    """Return a body that is almost one: bytes are changed, cut out, repeated."""
    body = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(body)))
        end = min(len(body), at + draw(st.integers(0, 8)))
        new = draw(st.one_of(st.sampled_from(TOKENS), st.binary(max_size=4)))
        body = body[:at] + new * draw(st.sampled_from([1, 1, 1, 300])) + body[end:]
    return body


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda each: (
        st.lists(each, max_size=4) | st.dictionaries(st.text(max_size=5), each, max_size=4)
    ),
    max_leaves=12,
)
fields = st.sampled_from(["time", "device", "temp", "n", "other"])
rows = st.dictionaries(fields, values, max_size=5)
objects = st.one_of(rows, st.lists(st.one_of(rows, values), max_size=5), values)
depths = st.builds(
    lambda open, n: open * n, st.sampled_from([b"[", b'{"a":', b"[["]), st.integers(1, 99_999)
)
texts = objects.map(lambda each: json.dumps(each).encode())
plain = st.one_of(mutants(), st.binary(max_size=200), texts, depths)
bodies = st.one_of(plain, plain, plain.map(gzip.compress))
kinds = st.sampled_from(
    [
        b"",
        b"application/json",
        b"application/x-ndjson",
        b"application/vnd.apache.arrow.stream",
        b"application/json; charset=\xff",
        b"image/png",
    ]
)
header_values = st.one_of(st.binary(max_size=20), st.integers(-2, 2**64).map(lambda n: b"%d" % n))
header_names = st.sampled_from(
    [b"source", b"sequence", b"content-encoding", b"content-length", b"origin", b"x-any"]
)
headers = st.tuples(
    kinds,
    st.sampled_from([b"", b"", b"gzip", b"deflate", b"br"]),
    st.lists(st.tuples(header_names, header_values), max_size=2),
).map(lambda each: [(b"content-type", each[0]), (b"content-encoding", each[1]), *each[2]])
paths = st.one_of(
    st.sampled_from(["/streams/readings", "/streams/readings", "/streams/readings/cti"]),
    st.text(max_size=10).map(lambda name: f"/streams/{name}"),
    st.sampled_from(["/streams/../../etc/passwd", "/streams/..", "/streams/readings/../cti"]),
)


class House:
    """A service that is asked without a server, in an event loop of its own."""

    def __init__(self, folder):
        self.folder = folder
        limits = Limits(body_bytes=200_000, rows=40, fields=8, text=1_000, waiting_bytes=4 << 20)
        letters = DeadLetterSettings(folder=folder / "letters", bytes=100_000, file_bytes=20_000)
        house, self.source = make_house()
        self.served = app(house, Settings(limits=limits, dead_letters=letters))
        self.runner = asyncio.Runner()
        self.lifespan = self.served.lifespan()

    def __enter__(self):
        self.runner.run(self.lifespan.__aenter__())
        return self

    def __exit__(self, *error):
        try:
            self.check()
        finally:
            self.runner.run(self.lifespan.__aexit__(None, None, None))
            self.runner.close()

    def ask(self, scope, messages):
        """Return what the service sends; the sender goes behind its messages."""
        end = {"type": f"{scope['type']}.disconnect"}
        asked, sent = iter(messages), []

        async def receive():
            await asyncio.sleep(0)
            return next(asked, end)

        async def send(message):
            sent.append(message)

        call = self.served({"headers": [], **scope}, receive, send)
        self.runner.run(asyncio.wait_for(call, 20))
        return sent

    def post(self, path, body, headers=(), cuts=()):
        """Return the status of a request and its answer."""
        edges = sorted({0, len(body), *(min(each, len(body)) for each in cuts)})
        parts = [body[a:b] for a, b in pairwise(edges)] or [b""]
        messages = [
            {"type": "http.request", "body": part, "more_body": n < len(parts)}
            for n, part in enumerate(parts, 1)
        ]
        scope = {"type": "http", "method": "POST", "path": path, "headers": list(headers)}
        start, answer = self.ask(scope, messages)
        return start["status"], json.loads(answer["body"])

    def check(self):
        """The service takes rows, nothing is left waiting, and its files are in one folder."""
        status, receipt = self.post("/streams/readings", json.dumps(reading(5)).encode())
        assert (status, receipt["accepted"] + len(receipt["late"])) == (200, 1)
        files = {path.parent.name for path in self.folder.rglob("*.jsonl")}
        assert files <= {"letters"}
        assert sum(path.stat().st_size for path in self.folder.rglob("*.jsonl")) <= 100_000


@pytest.fixture(scope="module")
def house():
    """Return a service for all examples."""
    with tempfile.TemporaryDirectory() as folder, House(Path(folder)) as house:
        yield house


def check_post(house, path, body, headers, cuts):
    """A request is answered with one of the promised codes, and each row has its fate."""
    status, answer = house.post(path, body, headers, cuts)
    assert status in ALLOWED, answer
    if status != 200:
        assert isinstance(answer["error"], str)
    elif "accepted" in answer:
        places = [each["index"] for each in [*answer["late"], *answer["refused"]]]
        assert len(places) == len(set(places))
        more = answer.get("more_refused", {"count": 0, "kinds": {}})
        assert sum(more["kinds"].values()) == more["count"]
        rows = answer["accepted"] + answer["duplicates"] + len(places) + more["count"]
        assert all(0 <= place < rows for place in places)


def check_socket(house, messages):
    """Each message has one answer, up to one that is too large."""
    scope = {"type": "websocket", "path": "/streams/readings"}
    asked = [
        {"type": "websocket.receive", "bytes" if type(each) is bytes else "text": each}
        for each in messages
    ]
    accept, *answers = house.ask(scope, [{"type": "websocket.connect"}, *asked])
    assert accept["type"] == "websocket.accept"
    assert len(answers) == len(messages)
    statuses = {json.loads(each["text"]).get("status", 200) for each in answers}
    assert statuses <= ALLOWED


posts = (paths, bodies, headers, st.lists(st.integers(0, 300), max_size=3))
frames = st.lists(st.one_of(plain, st.text(max_size=50), plain.map(lambda b: b.decode("latin-1"))))


@few
@given(*posts)
def test_any_request_is_answered(house, path, body, headers, cuts):
    """Raw bytes, headers, names, depth, compressed or not, in any parts."""
    check_post(house, path, body, headers, cuts)


@settings(few, max_examples=40)
@given(frames)
def test_any_message_is_answered(house, messages):
    """Bytes and texts of all kinds, one after the other."""
    check_socket(house, messages)


@pytest.mark.full
@many
@given(*posts)
def test_any_request_is_answered_at_length(house, path, body, headers, cuts):
    """As above, for longer."""
    check_post(house, path, body, headers, cuts)


@pytest.mark.full
@many
@given(frames)
def test_any_message_is_answered_at_length(house, messages):
    """As above, for longer."""
    check_socket(house, messages)


def test_the_seeds_are_answered(house):
    """Each body that is almost right, in each form."""
    for body in SEEDS:
        for kind in (b"", b"application/json", b"application/x-ndjson"):
            check_post(house, "/streams/readings", body, [(b"content-type", kind)], [7])
