"""Records of a few events as JSON: they come back as from a frame, or a frame is written."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from rxtemporal import Cti, EdgeEvent, EventBatch, IntervalEvent, PointEvent
from rxtemporal.core.payloads import PayloadReader
from rxtemporal.engine.codec import dump_frame
from rxtemporal.ingress.source import Sent
from rxtemporal.storage.event_log.columns import (
    MOST_RECORDS,
    Mark,
    Rows,
    load_records,
    make_json_encoder,
    to_frame,
)

SCHEMA = pl.Schema(
    {
        "text": pl.String(),
        "flag": pl.Boolean(),
        "small": pl.Int8(),
        "large": pl.Int64(),
        "single": pl.Float32(),
        "temp": pl.Float64(),
        "nothing": pl.Null(),
        "day": pl.Date(),
        "local": pl.Datetime("us"),
        "at": pl.Datetime("us", "UTC"),
        "there": pl.Datetime("us", "Asia/Tokyo"),
        "length": pl.Duration("us"),
    }
)
# a moment in Tokyo is a datetime of Python, too
UTC_TIMES = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.just(UTC))


class Reading(NamedTuple):
    """A payload that is not a dict."""

    temp: float


def nullable(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values, or null."""
    return st.none() | values


PAYLOADS = st.fixed_dictionaries(
    {
        "text": nullable(st.text()),
        "flag": nullable(st.booleans()),
        "small": nullable(st.integers(-128, 127)),
        "large": nullable(st.integers(-(2**63), 2**63 - 1)),
        "single": nullable(st.floats(width=32) | st.integers(-(2**24), 2**24)),
        "temp": nullable(st.floats() | st.integers(-(2**53), 2**53)),
        "nothing": st.none(),
        "day": nullable(st.dates()),
        "local": nullable(st.datetimes(allow_imaginary=False)),
        "at": nullable(UTC_TIMES),
        "there": nullable(UTC_TIMES),
        "length": nullable(st.timedeltas(timedelta(days=-10_000_000), timedelta(days=10_000_000))),
    }
)
TIMES = st.integers(-(2**40), 2**40)
EVENTS = st.one_of(
    st.builds(PointEvent, TIMES, PAYLOADS),
    st.builds(lambda start, payload: IntervalEvent(start, start + 3, payload), TIMES, PAYLOADS),
    st.builds(EdgeEvent.create_start, TIMES, PAYLOADS),
    st.builds(
        lambda start, payload: EdgeEvent.create_end(start, start + 3, payload), TIMES, PAYLOADS
    ),
    st.builds(Cti, TIMES),
)
SENT = st.builds(
    Sent,
    EVENTS,
    nullable(st.text(st.characters(codec="utf-8"))),
    nullable(st.integers(-(2**63), 2**63 - 1)),
    st.booleans(),
    nullable(TIMES),
)
MARKS = st.sampled_from([Mark("outside", 7), Mark("completed"), Mark("failed")])
ITEMS = st.lists(EVENTS | SENT | MARKS, min_size=1, max_size=6)


def frame_of(items: Sequence[Any], schema: pl.Schema = SCHEMA) -> pl.DataFrame:
    """The records as a frame."""
    return to_frame(items, PayloadReader(schema))


def without_nulls(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with records that are not ahead told so, as a reader takes them."""
    return frame.with_columns(pl.col("^ahead$").fill_null(value=False))


def dump(items: Sequence[Any], schema: pl.Schema = SCHEMA) -> bytes:
    """The records as JSON."""
    content = make_json_encoder(schema)(items)
    assert content is not None
    return content


@settings(max_examples=max(20, settings().max_examples // 2))
@given(ITEMS)
def test_records_come_back_as_from_a_frame(items: list[Any]) -> None:
    """Of each kind, with values of each type at its bounds, with senders and without."""
    assert_frame_equal(load_records([dump(items)]), frame_of(items))


@settings(max_examples=max(10, settings().max_examples // 4))
@given(st.lists(ITEMS, min_size=1, max_size=3), st.randoms())
def test_contents_are_read_as_one_frame(entries: list[list[Any]], chance: random.Random) -> None:
    """Some are JSON and some are frames, as in a log with few events and many by turns."""
    contents = [
        dump(items) if chance.random() < 0.5 else dump_frame(frame_of(items)) for items in entries
    ]
    want = pl.concat([frame_of(items) for items in entries], how="diagonal_relaxed")
    found, want = map(without_nulls, (load_records(contents), want))
    assert_frame_equal(found, want, check_column_order=False)


def test_entries_with_other_fields_are_read_together() -> None:
    """A field that was null at first has a type later."""
    first = dump([PointEvent(1, {"x": None})], pl.Schema({"x": pl.Null()}))
    later = dump([PointEvent(2, {"x": 5})], pl.Schema({"x": pl.Int64()}))
    frame = load_records([first, later])
    assert frame.get_column("payload").struct.unnest().to_dicts() == [{"x": None}, {"x": 5}]


def test_a_stream_without_fields_has_records() -> None:
    """Its payloads are empty."""
    items = [PointEvent(1, {}), Cti(2), Sent(PointEvent(3, {}), "a")]
    assert_frame_equal(load_records([dump(items, pl.Schema())]), frame_of(items, pl.Schema()))


def test_payloads_need_not_be_dicts() -> None:
    """A NamedTuple has its fields, a scalar is one."""
    temp = pl.Schema({"temp": pl.Float64()})
    content = dump([PointEvent(1, Reading(0.5))], temp)
    assert_frame_equal(load_records([content]), frame_of([PointEvent(1, {"temp": 0.5})], temp))
    scalar = pl.Schema({"payload": pl.Int64()})
    content = dump([PointEvent(1, 7)], scalar)
    assert_frame_equal(load_records([content]), frame_of([PointEvent(1, 7)], scalar))


class Evil:
    """An object whose own code raises."""

    def __len__(self) -> int:
        raise RuntimeError

    __hash__ = __eq__ = __len__  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text", 7),
        ("text", "\ud800"),
        ("text", type("Text", (str,), {})("subclass")),
        ("flag", 1),
        ("small", 128),
        ("small", 1.0),
        ("small", True),
        ("large", 2**63),
        ("temp", True),
        ("temp", 2**53 + 1),
        ("single", "warm"),
        ("nothing", 0),
        ("text", Evil()),
        ("day", datetime(2026, 1, 1)),
        ("local", date(2026, 1, 1)),
        ("local", datetime(2026, 1, 1, tzinfo=UTC)),
        ("at", datetime(2026, 1, 1)),
        ("at", datetime(2026, 1, 1, tzinfo=ZoneInfo("Asia/Tokyo"))),
        ("length", timedelta.max),
    ],
)
def test_a_value_that_is_not_exact_is_left_to_the_frame(name: str, value: Any) -> None:
    """The frame takes it or tells what is wrong."""
    payload = dict.fromkeys(SCHEMA) | {name: value}
    assert make_json_encoder(SCHEMA)([PointEvent(1, payload)]) is None


def test_fields_too_few_or_too_many_are_left_to_the_frame() -> None:
    """As is an object that is not a payload."""
    encode = make_json_encoder(pl.Schema({"x": pl.Int64()}))
    for payload in {}, {"y": 1}, {"x": 1, "y": 2}, Evil():
        assert encode([PointEvent(1, payload)]) is None


def test_other_types_many_records_and_batches_are_left_to_the_frame() -> None:
    """Decimals are not written as text, and a frame is faster for many."""
    decimals = make_json_encoder(pl.Schema({"x": pl.Decimal(38, 2)}))
    assert decimals([PointEvent(1, {"x": Decimal("1.5")})]) is None
    numbers = make_json_encoder(pl.Schema({"x": pl.Int64()}))
    events = [PointEvent(n, {"x": n}) for n in range(MOST_RECORDS + 1)]
    assert numbers(events) is None
    assert numbers(events[1:]) is not None
    batch = EventBatch.from_dicts([{"start_time": 1, "x": 1}])
    assert numbers([Rows(batch, own=False)]) is None


def test_numbers_that_json_does_not_know_come_back() -> None:
    """Infinities and NaN."""
    temp = pl.Schema({"temp": pl.Float64()})
    values = [math.inf, -math.inf, math.nan, -0.0]
    frame = load_records([dump([PointEvent(1, {"temp": value}) for value in values], temp)])
    there = frame.get_column("payload").struct.field("temp").to_list()
    assert [*map(repr, there)] == [*map(repr, values)]
