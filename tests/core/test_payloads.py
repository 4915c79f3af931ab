"""Payloads: which objects are flat records, what their fields' types are, and who does not fit."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

from rxtemporal.core.payloads import BadPayloadError, PayloadReader
from rxtemporal.core.schema import conform, infer_type, payload_schema, payload_type
from rxtemporal.errors import SchemaError

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
UTC_TIME = pl.Datetime("us", "UTC")


@dataclasses.dataclass
class Reading:
    """A payload as a dataclass."""

    room: str
    temp: float | None = None


class Pair(NamedTuple):
    """A payload as a NamedTuple."""

    room: str
    temp: float | None = None


def read(*values: Any, schema: Any = None) -> tuple[list[Any], Any]:
    """What the values of a field x come out as, and its type."""
    reader = PayloadReader(None if schema is None else payload_schema({"x": schema}))
    frame = reader.frame([{"x": value} for value in values])
    return frame["x"].to_list(), frame.schema["x"]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (True, pl.Boolean()),
        (5, pl.Int64()),
        (-(2**63), pl.Int64()),
        (1.5, pl.Float64()),
        (np.float64(1.5), pl.Float64()),
        ("a", pl.String()),
        (b"a", pl.Binary()),
        (NOON, UTC_TIME),
        (datetime(2026, 1, 1), pl.Datetime("us", None)),
        (date(2026, 1, 1), pl.Date()),
        (timedelta(microseconds=1), pl.Duration("us")),
        (Decimal("1.25"), pl.Decimal(38, 2)),
        (Decimal("1E+2"), pl.Decimal(38, 0)),
        (None, pl.Null()),
    ],
)
def test_a_first_value_shows_its_fields_type(value: Any, dtype: pl.DataType) -> None:
    """Each of Python's scalar types has one type of column, and comes back equal."""
    assert infer_type("x", value) == dtype
    assert read(value) == ([value], dtype)


@pytest.mark.parametrize(
    "value",
    [
        [1],
        (1, 2),
        {"a": 1},
        {1},
        object(),
        int,
        np.int64(5),
        1j,
        Decimal("NaN"),
        Decimal("-Infinity"),
    ],
)
def test_what_is_no_scalar_is_refused_by_field_and_value(value: Any) -> None:
    """A field that holds a list, a record or any other object is named with what it holds."""
    with pytest.raises(BadPayloadError, match=r"field 'x' holds .*a payload is a flat record"):
        read(value)


@pytest.mark.parametrize("payload", [[1, 2], (1, 2), {1, 2}, object(), Reading])
def test_what_is_no_record_is_refused(payload: Any) -> None:
    """A payload that is neither a record nor a scalar is refused as the field ``payload``."""
    with pytest.raises(BadPayloadError, match=r"field 'payload' holds .*flat record"):
        PayloadReader().frame([payload])


@dataclasses.dataclass
class Other:
    """A payload whose temperature is not a field."""

    room: str
    note: str

    @property
    def temp(self) -> float:
        """A value that is not stored."""
        return 0.5


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (Other("hall", "x"), "field 'note' appears in mid-stream"),
        (Pair("hall", 0.5), None),
        ({"room": "hall", "temp": None}, None),
        ({"room": "hall"}, "field 'temp' is missing"),
        ("hall", "field 'payload' appears in mid-stream"),
        (Reading("hall", True), "field 'temp' is Float64 and cannot hold True"),
    ],
)
@pytest.mark.parametrize("beside", [[], [Reading("attic", 0.25)]])
def test_payloads_of_any_kind_fit_by_their_fields(
    payload: Any, message: str | None, beside: list[Any]
) -> None:
    """Alone or beside one of another kind: all fields of the schema and no other, of its types."""
    reader = PayloadReader(payload_schema(Reading))
    payloads = [*beside, payload]
    if message is None:
        rows = [{"room": "attic", "temp": 0.25}] * len(beside)
        assert reader.frame(payloads).to_dicts()[: len(beside)] == rows
        assert reader.frame(payloads)["room"].to_list()[-1] == "hall"
        return
    with pytest.raises(BadPayloadError, match=message) as raised:
        reader.frame(payloads)
    assert raised.value.row == len(beside)


def test_scalars_of_several_kinds_are_payloads() -> None:
    """Numbers and nulls of the field ``payload``; a bool is not a number."""
    reader = PayloadReader(pl.Schema({"payload": pl.Float64()}))
    assert reader.frame([1, 0.5, None])["payload"].to_list() == [1.0, 0.5, None]
    with pytest.raises(BadPayloadError, match="cannot hold True"):
        reader.frame([1, 0.5, True])


@pytest.mark.parametrize("name", [1, None, ""])
def test_a_field_has_a_name(name: Any) -> None:
    """A dict with a key that is not a non-empty str is refused."""
    with pytest.raises(BadPayloadError, match=f"name is a non-empty str, got {name!r}"):
        PayloadReader().frame([{name: 1}])


@pytest.mark.parametrize(
    "payload", [{"room": "hall", "temp": 1.5}, Reading("hall", 1.5), Pair("hall", 1.5)]
)
def test_records_are_dicts_dataclasses_and_named_tuples(payload: Any) -> None:
    """Each kind of record gives the same columns."""
    assert PayloadReader().frame([payload]).to_dicts() == [{"room": "hall", "temp": 1.5}]


def test_a_bare_scalar_is_the_field_payload() -> None:
    """A stream of numbers has one field, called payload."""
    assert PayloadReader().frame([1, None, 3]).to_dicts() == [
        {"payload": 1},
        {"payload": None},
        {"payload": 3},
    ]


def test_a_record_may_be_empty() -> None:
    """Payloads without fields are rows all the same."""
    assert PayloadReader().frame([{}, {}]).shape == (2, 0)


def test_fields_are_matched_by_name_not_by_order() -> None:
    """Dicts may name their fields in any order."""
    assert PayloadReader().frame([{"a": 1, "b": 2}, {"b": 3, "a": 4}]).rows() == [(1, 2), (4, 3)]


def test_a_field_first_seen_as_null_takes_its_type_from_the_first_value() -> None:
    """Until a field has a value the reader is not settled; its type is that of the first."""
    reader = PayloadReader()
    assert not reader.is_complete
    reader.learn([{"x": None, "y": 1}])
    assert not reader.is_complete
    reader.learn([{"x": None, "y": 1}, {"x": 1.5, "y": 2}])
    assert reader.is_complete
    assert reader.schema == pl.Schema({"x": pl.Float64, "y": pl.Int64})


def test_a_value_that_does_not_fit_the_given_schema_is_told_to_change_that() -> None:
    """The hint fits those who gave schema=, too."""
    reader = PayloadReader(pl.Schema({"x": pl.Int64}))
    with pytest.raises(
        BadPayloadError,
        match=r"Hint: a field keeps its type; convert the value, or give schema= a type",
    ):
        reader.frame([{"x": "five"}])


def test_a_field_that_was_always_null_stays_of_type_null_once_rows_have_left() -> None:
    """A schema does not change in mid-stream: a value that comes too late names schema=."""
    reader = PayloadReader()
    reader.frame([{"x": None}])
    assert reader.is_complete
    with pytest.raises(
        BadPayloadError, match=r"field 'x' is Null and cannot hold 5 .*give schema="
    ):
        reader.frame([{"x": None}, {"x": 5}])


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (1, 1.5),
        (1, True),
        (1, "1"),
        (1, 2**63),
        (1, Decimal(1)),
        (1, NOON),
        (1, timedelta(1)),
        (True, 1),
        (1.5, True),
        (1.5, "1.5"),
        (1.5, Decimal("1.5")),
        ("a", 1),
        ("a", b"a"),
        (b"a", "a"),
        (NOON, 5),
        (NOON, datetime(2026, 1, 1)),
        (NOON, date(2026, 1, 1)),
        (datetime(2026, 1, 1), NOON),
        (date(2026, 1, 1), NOON),
        (date(2026, 1, 1), 5),
        (date(2026, 1, 1), "2026-01-01"),
        (timedelta(1), 5),
        (Decimal("1.5"), Decimal("1.25")),
        (Decimal("1.5"), 1.5),
        (1, [1]),
        (1, {"a": 1}),
        ("a", object()),
    ],
)
@pytest.mark.parametrize("together", [True, False], ids=["one frame", "two frames"])
def test_a_field_keeps_its_type(first: Any, then: Any, together: bool) -> None:
    """A value of another type is refused, not converted, however the rows are cut into frames."""
    reader = PayloadReader()
    good, bad = {"x": first}, {"x": then}
    if not together:
        reader.frame([good])
    with pytest.raises(BadPayloadError) as refused:
        reader.frame([good, good, bad, good] if together else [good, bad])
    assert refused.value.row == (2 if together else 1)
    assert f"cannot hold {then!r} ({type(then).__name__})" in str(refused.value)
    assert "Hint: a field keeps its type" in str(refused.value)


@pytest.mark.parametrize(
    ("first", "then", "dtype"),
    [
        (1.5, 1, pl.Float64()),
        (1, np.int64(2), pl.Int64()),
        (Decimal("1.25"), Decimal("1.5"), pl.Decimal(38, 2)),
        (NOON, NOON.astimezone(timezone(timedelta(hours=5))), UTC_TIME),
        ("a", None, pl.String()),
        (None, "a", pl.String()),
    ],
)
def test_what_means_the_same_fits(first: Any, then: Any, dtype: pl.DataType) -> None:
    """An integer is a float too, an instant is the same in any zone, and any field may be null."""
    assert read(first, then) == ([first, then], dtype)


def test_a_field_that_appears_or_vanishes_is_refused_by_name() -> None:
    """A row with more or fewer fields than the first is named with the stream's fields."""
    with pytest.raises(
        BadPayloadError, match=r"'y' appears in mid-stream, in .*fields are x: Int64"
    ):
        PayloadReader().frame([{"x": 1}, {"x": 1, "y": 2}])
    with pytest.raises(BadPayloadError, match=r"'x' is missing in \{\}; .*fields are x: Int64"):
        PayloadReader().frame([{"x": 1}, {}])
    with pytest.raises(BadPayloadError, match="'y' appears in mid-stream"):
        PayloadReader().frame([{"x": 1}, {"y": 1}])


@pytest.mark.parametrize(
    "given",
    [
        {"room": pl.String, "temp": pl.Float64()},
        {"room": str, "temp": float},
        Reading,
        Pair,
    ],
)
def test_a_schema_is_a_mapping_a_dataclass_or_a_named_tuple(given: Any) -> None:
    """``X | None`` means X; Python's types stand for polars'."""
    assert payload_schema(given) == pl.Schema({"room": pl.String, "temp": pl.Float64})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": list}, "field 'x' has type"),
        ({"x": pl.List(pl.Int64)}, r"field 'x' has type List\(Int64\).*flat record"),
        ({"x": pl.UInt64}, "no UInt64"),
        ({"x": int | str}, "field 'x' has type"),
        ({"x": Decimal}, r"name a Decimal field's type as pl\.Decimal"),
        ({1: int}, "name is a non-empty str, got 1"),
        (["x"], "schema= is a mapping"),
        (Reading("hall"), "schema= is a mapping"),
        (int, "schema= is a mapping"),
    ],
)
def test_what_is_no_schema_is_refused(given: Any, message: str) -> None:
    """The message names the field and what would do."""
    with pytest.raises(SchemaError, match=message):
        payload_schema(given)


def test_a_given_schema_holds_from_the_first_row() -> None:
    """A schema decides the type, where a first value would have shown another."""
    assert read(1, 2.5, schema=pl.Float32) == ([1.0, 2.5], pl.Float32())
    assert read(None, schema=pl.Int8) == ([None], pl.Int8())
    assert read(Decimal("1.5"), schema=pl.Decimal(10, 2)) == ([Decimal("1.5")], pl.Decimal(10, 2))
    with pytest.raises(BadPayloadError, match="field 'x' is Int8 and cannot hold 128"):
        read(128, schema=pl.Int8)
    with pytest.raises(BadPayloadError, match=r"cannot hold 1\.0"):
        read(1.0, schema=pl.Int8)


def test_a_naive_datetime_is_no_instant_in_a_payload_either() -> None:
    """A field declared as a datetime takes aware ones; a naive one names no instant."""
    with pytest.raises(BadPayloadError, match=r"cannot hold datetime.datetime\(2026, 1, 1"):
        read(datetime(2026, 1, 1), schema=datetime)


@pytest.mark.parametrize(
    "dtype", [pl.List(pl.Int64), pl.Struct({"a": pl.Int64}), pl.Time, pl.Object]
)
def test_a_nested_type_is_not_carried(dtype: Any) -> None:
    """What has no key and no Spark type is refused by name."""
    with pytest.raises(SchemaError, match="field 'x' has type"):
        payload_type("x", dtype)


@pytest.mark.parametrize(
    ("have", "want"),
    [(pl.Int32, pl.Int64), (pl.Int64, pl.Int8), (pl.Float32, pl.Float64), (pl.Null, pl.String)],
)
def test_columns_conform_where_nothing_is_lost(have: Any, want: Any) -> None:
    """Integers change their width, floats widen, and null is null of any type."""
    frame = pl.DataFrame({"x": [None]}, schema={"x": have})
    assert conform(frame, pl.Schema({"x": want})).schema == pl.Schema({"x": want})


@pytest.mark.parametrize(
    ("column", "want"),
    [
        ([1.5], pl.Int64),
        ([1], pl.Float64),
        (["1"], pl.Int64),
        ([1], pl.String),
        ([300], pl.Int8),
        ([NOON], pl.Date),
        ([True], pl.Int64),
    ],
)
def test_columns_do_not_conform_where_something_would_be_lost(column: Any, want: Any) -> None:
    """A column of another type is refused by its name."""
    with pytest.raises(SchemaError, match="field"):
        conform(pl.DataFrame({"x": column}), pl.Schema({"x": want}))


def test_columns_conform_by_name() -> None:
    """Other fields than the stream's are refused, another order is not."""
    schema = pl.Schema({"x": pl.Int64, "y": pl.Int64})
    assert conform(pl.DataFrame({"y": [2], "x": [1]}), schema).rows() == [(1, 2)]
    with pytest.raises(SchemaError, match=r"\['x', 'z'\] do not fit .*\['x', 'y'\]"):
        conform(pl.DataFrame({"x": [1], "z": [1]}), schema)
