"""Bodies of requests: limits that are counted while reading, slow senders, senders that go."""

from __future__ import annotations

import asyncio
import gzip
import io
import tracemalloc
import zlib

import polars as pl
import pytest

from rxtemporal.ingress.verdict import Rejected
from rxtemporal.serve import bodies
from rxtemporal.serve.bodies import DisconnectError, Head, read_body
from rxtemporal.serve.body_rows import BodyError, make_raw_reader, read_rows
from rxtemporal.serve.responses import RequestError
from rxtemporal.serve.settings import Limits

MOST = 1_000_000
GONE = object()


def read(parts, encoding="", length=0, most=MOST, seconds=5.0, reserve=lambda count: None):
    """Return the body that is sent in parts; GONE is a sender that goes, None one that stalls."""
    waiting = list(parts)

    async def receive():
        part = waiting.pop(0)
        if part is None:
            await asyncio.sleep(60)
        if part is GONE:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": part, "more_body": bool(waiting)}

    head = Head("", encoding, length, None, None)
    return asyncio.run(read_body(receive, head, most, seconds, reserve))


def refuse(*arguments, **options):
    """Return the status of a body that is refused."""
    with pytest.raises(RequestError) as refused:
        read(*arguments, **options)
    return refused.value.status


def test_a_body_comes_in_parts():
    """They are put together, and each is counted."""
    counted = []
    assert read([b"ab", b"", b"cd"], reserve=counted.append) == b"abcd"
    assert sum(counted) == 4


@pytest.fixture(autouse=True)
def _is_impatient(monkeypatch):
    """Do not wait long for the rest of a body that is refused."""
    monkeypatch.setattr(bodies, "_DISCARD_PAUSE", 0.01)


def test_the_rest_of_a_refused_body_is_read():
    """Its sender is still sending, and would not see the answer; one that waits sends nothing."""
    taken = []

    async def receive():
        taken.append(part := 50_000)
        return {"type": "http.request", "body": b"x" * part, "more_body": sum(taken) < 2 * MOST}

    for length in (0, 2 * MOST):
        for waits in (False, True):
            taken.clear()
            head = Head("", "", length, None, None, waits)
            with pytest.raises(RequestError):
                asyncio.run(read_body(receive, head, MOST, 5.0, lambda count: None))
            assert sum(taken) == (0 if length and waits else 2 * MOST)


def test_a_body_over_the_limit_is_refused_before_it_is_kept():
    """By its length if it is told, else as soon as there are too many bytes."""
    assert refuse([None], length=MOST + 1) == 413
    assert refuse([b"x" * (MOST + 1), None]) == 413
    assert len(read([b"x" * MOST, b""])) == MOST


def test_a_slow_body_is_refused():
    """A sender that stalls gets 408."""
    assert refuse([b"a", None], seconds=0.02) == 408
    assert refuse([None], seconds=0.02) == 408


def test_a_sender_that_goes_gets_no_answer():
    """A connection that is closed in the middle of a body is not an error of the service."""
    with pytest.raises(DisconnectError):
        read([b"a", GONE])


@pytest.mark.parametrize(
    ("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)]
)
def test_a_compressed_body_is_decompressed_in_parts(encoding, compress):
    """However it is cut, also into single bytes; one that is cut off is refused."""
    packed = compress(b"abc" * 1_000)
    assert read([bytes([byte]) for byte in packed], encoding) == b"abc" * 1_000
    assert read([packed, packed], encoding) == b"abc" * 2_000
    assert refuse([packed[:-1]], encoding) == 400
    assert refuse([packed + b"x"], encoding) == 400
    assert refuse([b"xyz"], encoding) == 400


def make_bomb(size):
    """Return the parts of a gzip stream of zeros."""
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = pack.compress(bytes(2**20)) + pack.flush(zlib.Z_FULL_FLUSH)
    return [gzip.compress(b"")[:10], *[block] * (size >> 20), None]


def test_a_bomb_is_refused_before_it_takes_memory():
    """A gigabyte of zeros in a megabyte: 413, and no more memory than the limit."""
    parts = make_bomb(2**30)
    assert sum(map(len, parts[:-1])) < 1_100_000
    tracemalloc.start()
    try:
        assert refuse(parts, "gzip", most=4 << 20) == 413
        assert tracemalloc.get_traced_memory()[1] < 12 << 20
    finally:
        tracemalloc.stop()


def test_a_stream_of_nothing_is_refused():
    """Compressed bytes that decompress to nothing count, too, and so do many small streams."""
    empty = gzip.compress(b"")
    assert refuse([empty * 65], "gzip") == 400
    stored = b"\x00\x00\x00\xff\xff"  # an empty block
    head = gzip.compress(b"")[:10]
    assert refuse([head, *[stored * 1_000] * 250, None], "gzip") == 413


def test_values_that_would_take_many_times_the_bytes_are_refused():
    """Sixteen megabytes of empty objects would be hundreds of megabytes in memory."""
    limits = Limits(waiting_bytes=1 << 20)
    for body in (b"[" + b"{}," * 30_000 + b"{}]", b"[" * 70_000, b"[0" + b",0" * 40_000 + b"]"):
        with pytest.raises(RequestError) as refused:
            read_rows(body, None, limits)
        assert refused.value.status == 413


@pytest.mark.parametrize("form", ["JSON", "JSON lines"])
def test_a_request_has_a_limited_number_of_rows(form):
    """More rows are refused as a whole, in each form."""
    rows = [b'{"a": 1}'] * 11
    body = b"\n".join(rows) + b"\n" if form == "JSON lines" else b"[" + b",".join(rows) + b"]"
    with pytest.raises(RequestError, match="at most 10 rows"):
        read_rows(body, form, Limits(rows=10))
    assert read_rows(body, form, Limits(rows=11)).rows == 11


def write_arrow(frame, **options):
    """Return an Arrow stream."""
    file = io.BytesIO()
    frame.write_ipc_stream(file, **options)
    return file.getvalue()


@pytest.mark.parametrize(
    ("frame", "options", "reason"),
    [
        ({"a": [0] * 1_000_000}, {"compression": "zstd"}, "Content-Encoding: gzip"),
        ({"a": pl.Series(["x"] * 9, dtype=pl.Categorical)}, {}, "cast it to a plain type"),
        ({"a": [[1]]}, {}, "nested values as JSON"),
        ({f"f{n}": [1] for n in range(300)}, {}, "more than 256 columns"),
    ],
)
def test_arrow_that_could_be_larger_inside_is_refused(frame, options, reason):
    """Compressed and nested columns, categories: each could be a bomb."""
    with pytest.raises(BodyError, match=reason):
        read_rows(write_arrow(pl.DataFrame(frame), **options), "Arrow", Limits())


def test_arrow_with_many_rows_is_refused():
    """Before the rows are read."""
    body = write_arrow(pl.DataFrame({"a": range(101)}))
    with pytest.raises(RequestError, match="at most 100 rows"):
        read_rows(body, "Arrow", Limits(rows=100))
    assert read_rows(body, "Arrow", Limits(rows=101)).rows == 101


def test_arrow_rows_that_share_a_text_are_counted_with_it():
    """A text of a thousand characters in each of a thousand rows is a million characters."""
    shared = pl.DataFrame({"a": pl.Series(["x" * 1_000]).new_from_index(0, 5_000)})
    body = write_arrow(shared)
    with pytest.raises(RequestError, match="rows share its bytes"):
        read_rows(body, "Arrow", Limits(body_bytes=1_000_000))


def test_an_arrow_file_is_no_stream():
    """The error says what to send."""
    file = io.BytesIO()
    pl.DataFrame({"a": [1]}).write_ipc(file)
    with pytest.raises(BodyError, match="format of streams"):
        read_rows(file.getvalue(), "Arrow", Limits())


@pytest.mark.parametrize("form", ["JSON", "JSON lines"])
def test_a_row_that_is_no_object_is_kept_whole(form):
    """A dead letter has all its bytes, however many they are."""
    bad = b'"' + b"x" * 5_000 + b'"'
    good = b'{"time": 1}'
    body = b"[" + good + b"," + bad + b"," + good + b", 1e999]" if form == "JSON" else None
    found = read_rows(body or good + b"\n\n" + bad + b"\n" + good, form, Limits())
    assert (found.rows, list(found.places)) == ((4, [0, 2]) if body else (3, [0, 2]))
    assert found.refused[0].row == bad
    assert found.refused[0].reason.startswith("" if body else "line 3: it is not a JSON object: ")


def test_the_bytes_of_a_row_are_those_of_its_object():
    """JSON lines may have two objects in a line, and one in two."""
    body = b'{"a": 1}{"a": 2}\n{"a":\n3}\n\n{"a": 4}'
    assert read_rows(body, "JSON lines", Limits()).rows == 4
    read_raw = make_raw_reader(body, "JSON lines")
    refused = Rejected(0, "its field is faulty", None)
    found = [read_raw(refused, place) for place in range(4)]
    assert found == [b'{"a": 1}', b'{"a": 2}', b'{"a":\n3}', b'{"a": 4}']
