"""Rows as bytes: JSON lines and Arrow IPC, pushed and read as batches, whatever the bytes are."""

from __future__ import annotations

import io
import json
import random
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal import ArrowIpc, JsonLines
from rxtemporal.errors import ArgumentError, BindingError, SchemaError
from rxtemporal.ingress.encoded_rows import JsonMessages

FIELDS = {"device": str, "temp": float, "n": int}
ROW = {"ts": 5, "device": "a", "temp": 20.5, "n": 3}
GOOD = json.dumps(ROW).encode()
values = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=5)
)
rows_of_json = st.lists(
    st.fixed_dictionaries(
        {"ts": st.one_of(st.integers(0, 99), st.just("2026-05-01T12:00:00Z"), values)},
        optional={"device": values, "temp": values, "n": values, "more": values},
    ),
    max_size=60,
)


def read(rows: Any, **options: Any) -> tuple[list[dict[str, Any]], list[tuple[int, str]]]:
    """Return the rows of a batch made of some rows, and the numbers and reasons of the others."""
    batch, rejected = rxt.make_batch(rows, **{"schema": FIELDS, "start": "ts", **options})
    return batch.to_dicts(), [(each.index, each.reason) for each in rejected]


def ipc(frame: pl.DataFrame, form: str = "stream") -> bytes:
    """Return a frame as Arrow IPC."""
    file = io.BytesIO()
    (frame.write_ipc if form == "file" else frame.write_ipc_stream)(file)
    return file.getvalue()


@given(rows_of_json)
def test_a_line_is_read_as_its_dict_is(rows: list[dict[str, Any]]) -> None:
    """The same rows are accepted, with the same values, and the others for the same reasons."""
    lines = [json.dumps(row) for row in rows]
    whole = [json.loads(line) for line in lines]
    good, bad = read(JsonLines("\n".join(lines).encode()))
    expected, misfits = read(whole)
    assert repr(good) == repr(expected)
    strict = {number: reason for number, reason in bad if "is not a JSON object" not in reason}
    assert strict == {n: f"line {n + 1}: {why}" for n, why in misfits if n in strict}
    assert {number for number, _ in bad} >= {number for number, _ in misfits}
    # only what JSON itself does not know is not an object: NaN, and numbers beyond the floats
    others = {number for number, _ in bad} - {number for number, _ in misfits}
    assert all("NaN" in lines[n] or "Infinity" in lines[n] for n in others)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"ts": 5, "temp": NaN}', "invalid character"),
        (b'{"ts": 5, "temp": -Infinity}', "invalid character"),
        (b'{"ts": 5, "temp": 1e999}', "Number out of range"),
        (b'{"ts": 5, "n": ' + b"9" * 5_000 + b"}", "Integer value out of range"),
        (b'{"ts": 5, "device": "\\ud800"}', "it is not a JSON object"),
        (b'{"ts": 5, "device": "\xff"}', "not written in UTF-8"),
        (b'{"a":' * 50_000, "nested too deeply"),
        (b"[" * 50_000, "Expected `object`, got `array`"),
        (b'{"ts": 5, "dev', "truncated"),
        (b'{"ts": 5}{"ts": 6}', "trailing characters"),
        (b"\xef\xbb\xbf" + GOOD, "invalid character"),
        (b"\x00", "invalid character"),
        (b"null", "Expected `object`, got `null`"),
        (b'{"ts": 5, "device": "a", "temp": "hot", "n": 1}', "field 'temp' is Float64"),
        (b'{"ts": 5, "device": "a", "temp": 1, "n": 1.0}', "field 'n' is Int64"),
        (b'{"ts": 5, "device": "a", "temp": 1, "n": 9223372036854775808}', "field 'n' is Int64"),
        (b'{"ts": 5, "device": "a", "temp": 1}', "field 'n' is missing"),
        (b'{"ts": 1e5, "device": "a", "temp": 1, "n": 1}', "'ts' is not a valid time"),
        (b'{"ts": "2026-05-01", "device": "a", "temp": 1, "n": 1}', "'ts' has no offset"),
    ],
)
@pytest.mark.parametrize("lines", [2, 50])
def test_a_bad_line_loses_none_of_the_others(line: bytes, reason: str, lines: int) -> None:
    """It is rejected with its number; empty lines are counted, and are not rows."""
    data = b"\n \r\n".join([*[GOOD] * (lines - 1), line, GOOD]) + b"\r\n\n"
    good, bad = read(JsonLines(data))
    assert len(good) == lines
    ((index, why),) = bad
    assert index == lines - 1
    assert why.startswith(f"line {2 * lines - 1}: ")
    assert reason in why


@pytest.mark.parametrize("value", [b"1e999", b"-1e999", b'"\xff"'])
def test_an_item_of_a_message_that_cannot_be_decoded_loses_none_of_the_others(
    value: bytes,
) -> None:
    """It alone is rejected, as a line of JSON lines is; so is what is no object."""
    item = b'{"ts": 5, "device": "a", "temp": ' + value + b', "n": 1}'
    array = b"[\n" + GOOD + b",\n" + item + b", 5, " + GOOD + b"\n]"
    good, bad = read(JsonMessages([GOOD, array, GOOD]))
    assert len(good) == 4
    assert [index for index, _ in bad] == [2, 3]


def test_no_lines_are_no_rows() -> None:
    """Nothing is read, and nothing rejected."""
    for data in b"", b"\n", b" \r\n\n":
        assert read(JsonLines(data)) == ([], [])


def test_types_without_a_json_form_are_texts() -> None:
    """A text that is none is rejected by its field."""
    schema = {
        "day": date, "at": datetime, "price": pl.Decimal(10, 2), "data": bytes, "naive": pl.Datetime
    }  # fmt: skip
    texts: dict[str, Any] = {
        "day": "2026-05-01",
        "at": "2026-05-01T14:00:00+02:00",
        "price": "1.50",
        "data": "AP8=",
        "naive": "2026-05-01T12:00:00",
    }
    lines = [json.dumps({"ts": 5, **texts})]
    lines += [json.dumps({"ts": 5, **texts, name: "?"}) for name in texts]
    good, bad = read(JsonLines("\n".join(lines).encode()), schema=schema)
    assert good == [
        {
            "start_time": 5,
            "end_time": 6,
            "day": date(2026, 5, 1),
            "at": datetime(2026, 5, 1, 12, tzinfo=UTC),
            "price": Decimal("1.50"),
            "data": b"\x00\xff",
            "naive": datetime(2026, 5, 1, 12),
        }
    ]
    assert [number for number, _ in bad] == [1, 2, 3, 4, 5]
    assert "field 'day' is Date and cannot hold '?' (str)" in bad[0][1]


@pytest.mark.parametrize("form", ["stream", "file"])
def test_arrow_is_read_as_its_frame_is(form: str) -> None:
    """With intervals, integers as floats, and fields that the schema does not name."""
    rows = [{"ts": n, "until": None if n % 2 else n + 9, "temp": n, "x": 1} for n in range(40)]
    frame = pl.DataFrame(rows)
    options: dict[str, Any] = {"schema": {"temp": float}, "end": "until"}
    assert read(ArrowIpc(ipc(frame, form)), **options) == read(frame, **options)
    assert len(read(frame, **options)[0]) == 40


@pytest.mark.parametrize("form", ["stream", "file"])
def test_whatever_the_bytes_are_arrow_is_read_or_rejected(form: str) -> None:
    """No bytes raise: they are rows, or rejected."""
    whole = ipc(pl.DataFrame([ROW] * 40), form)
    drawn = random.Random(7)
    cuts = [whole[:cut] for cut in (0, 1, 7, 8, 100, len(whole) // 2, len(whole) - 9)]
    for _ in range(40):
        damaged = bytearray(whole)
        damaged[drawn.randrange(len(whole))] = drawn.randrange(256)
        cuts.append(bytes(damaged))
    for data in cuts:
        batch, rejected = rxt.make_batch(ArrowIpc(data), schema=FIELDS, start="ts")
        assert len(batch) or rejected or data == b""
        batch.check()
    good, bad = read(ArrowIpc(GOOD))
    assert (good, bad[0][0]) == ([], 0)
    assert "it could not be read: " in bad[0][1]


def test_bytes_are_pushed_with_a_verdict() -> None:
    """Late rows, duplicates and rejected lines have their numbers among the lines."""
    source = rxt.PushSource("readings", schema=FIELDS, start="ts", seq="k", delay=0)
    lines = [{**ROW, "k": 1}, {**ROW, "k": 1}, {**ROW, "ts": 4, "k": 2}, {**ROW, "ts": 6, "k": 3}]
    data = "\n".join(map(json.dumps, lines)).encode() + b"\n{"
    out = rxt.Collect()
    with source.stream.run(out):
        verdict = source.push(JsonLines(data))
        assert (verdict.accepted, verdict.duplicates) == (2, 1)
        assert [late.index for late in verdict.late] == [2]
        assert [each.index for each in verdict.rejected] == [4]
        assert verdict.rejected[0].row == b"{"
        frame = pl.DataFrame([{**ROW, "ts": 7, "k": 4}])
        assert source.input("a").push(ArrowIpc(ipc(frame))).accepted == 1
        source.close()
    assert len(out.batch) == 3


def test_an_observable_may_send_bytes() -> None:
    """With start= they are rows; one that cannot be read ends the stream."""
    subject: Subject[Any] = Subject()
    out = rxt.Collect()
    process = rxt.from_observable(subject, schema=FIELDS, start="ts").run(out)
    subject.on_next(JsonLines(GOOD + b"\n" + GOOD))
    subject.on_next(rxt.Cti(6))
    assert len(out.batch) == 2
    subject.on_next(JsonLines(GOOD + b"\n{"))
    with pytest.raises(SchemaError, match=r"row 1 of 2 of stream 'observable' .*: line 2: "):
        process.wait()


def test_a_batch_of_rows_goes_into_a_subject() -> None:
    """Its CTI is the one that is given."""
    subject = rxt.CtiSynchronizingSubject.create_point(0)
    out: list[Any] = []
    subject.subscribe(out.append)
    batch, _ = rxt.make_batch(JsonLines(GOOD), schema=FIELDS, start="ts", cti=6)
    subject.input("a").on_next(batch)
    assert [(len(each), each.cti) for each in out] == [(1, 6)]


def test_a_batch_is_made_of_rows_with_a_whole_lifetime() -> None:
    """Events are rows; edges and CTIs are not."""
    payload = {"device": "a", "temp": 1.0, "n": 1}
    good, _ = read([rxt.PointEvent(5, payload), rxt.IntervalEvent(5, 9, payload)])
    assert [(row["start_time"], row["end_time"]) for row in good] == [(5, 6), (5, 9)]
    for item in rxt.Cti(5), rxt.EdgeEvent.create_start(5, payload):
        with pytest.raises(ArgumentError, match="rows with a whole lifetime"):
            read([item])


@pytest.mark.parametrize("kind", [JsonLines, ArrowIpc])
def test_only_bytes_are_taken(kind: Any) -> None:
    """A text is not."""
    with pytest.raises(ArgumentError, match=f"{kind.__name__} takes bytes, got str"):
        kind("{}")
    assert repr(kind(memoryview(b"{}"))) == f"{kind.__name__}(2 bytes)"


def test_without_msgspec_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is loaded by JSON lines alone."""
    monkeypatch.setitem(sys.modules, "msgspec", None)
    with pytest.raises(BindingError, match=r"pip install 'rxtemporal\[json\]'"):
        JsonLines(b"")
    ArrowIpc(b"")
