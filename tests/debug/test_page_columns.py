"""Columns of the event-flow page: each type comes back, and nothing is larger than its limit."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from page_columns import read_column

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.view.debug import columns
from rxtemporal.view.debug.columns import cut_texts, encode_series, encode_texts, encode_ticks

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
NOON_TICKS = 1_777_636_800_000_000


@pytest.mark.parametrize(
    ("series", "kind", "expected"),
    [
        (pl.Series([1, None, -3]), "i32", [1, None, -3]),
        (pl.Series([2**40, None]), "f64", [2**40, None]),
        (pl.Series([2**60 + 1, None]), "dict", [str(2**60 + 1), None]),
        (pl.Series([2**64 - 1], dtype=pl.UInt64), "dict", [str(2**64 - 1)]),
        (pl.Series([-(2**53), 2**53]), "f64", [-(2**53), 2**53]),
        (pl.Series([1.5, None, float("inf")]), "f64", [1.5, None, float("inf")]),
        (pl.Series([True, None, False]), "dict", [True, None, False]),
        (pl.Series(["a", None, "", "a"]), "dict", ["a", None, "", "a"]),
        (pl.Series(["b", None], dtype=pl.Categorical), "dict", ["b", None]),
        (pl.Series(["b", None], dtype=pl.Enum(["a", "b"])), "dict", ["b", None]),
        (pl.Series([None, None]), "dict", [None, None]),
        (pl.Series([Decimal("1.50"), None]), "dict", ["1.50", None]),
        (pl.Series([b"\x00\xff", None]), "dict", ["00ff", None]),
        (pl.Series([[1, 2], None]), "dict", ["[1, 2]", None]),
        (pl.Series([{"a": 1}, None]), "dict", ['{"a": 1}', None]),
        (pl.Series([NOON, None]), "f64", [NOON_TICKS, None]),
        (pl.Series([NOON], dtype=pl.Datetime("ns", "UTC")), "f64", [NOON_TICKS]),
        (pl.Series([date(1970, 1, 2), None]), "f64", [86_400_000_000, None]),
        (pl.Series([time(0, 1), None]), "f64", [60_000_000, None]),
        (pl.Series([timedelta(seconds=-1), None]), "f64", [-1_000_000, None]),
        (pl.Series([], dtype=pl.Int64), "i32", []),
        (pl.Series([], dtype=pl.String), "dict", []),
        (pl.Series([], dtype=pl.Datetime("us", "UTC")), "f64", []),
    ],
)
def test_each_type_comes_back(series: pl.Series, kind: str, expected: list[object]) -> None:
    """What the page reads is what the column had, through JSON."""
    column = json.loads(json.dumps(encode_series(series), allow_nan=False))
    assert column["type"] == kind
    assert read_column(column) == expected


def test_a_time_and_a_span_say_so() -> None:
    """The page writes a date for one and a length for the other."""
    assert encode_series(pl.Series([NOON]))["as"] == "time"
    assert encode_series(pl.Series([timedelta(1)]))["as"] == "span"
    assert "as" not in encode_series(pl.Series([1]))


def test_times_are_exact_and_the_ends_of_time_infinite() -> None:
    """A tick is not lost, though a float cannot hold the time itself."""
    far = 250_000_000_000_000_001
    times = np.array([far, far + 1, MAX_TIME, MIN_TIME])
    assert read_column(encode_ticks(times)) == [far, far + 1, float("inf"), float("-inf")]
    assert read_column(encode_ticks(times[2:])) == [float("inf"), float("-inf")]


def test_a_long_text_is_cut() -> None:
    """A text of a million characters takes two hundred."""
    (text,) = read_column(encode_texts(["x" * 1_000_000]))
    assert len(text) == columns.MOST_CHARACTERS
    assert text.endswith("…")


def test_many_texts_are_cut_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    """All the texts of a column have a limit together, but each keeps some characters."""
    monkeypatch.setattr(columns, "MOST_IN_COLUMN", 2_000)
    cut = cut_texts([f"{number:0100}" for number in range(40)])
    assert {len(each) for each in cut} == {50}
    cut = cut_texts(["x" * 100] * 1_000)
    assert {len(each) for each in cut} == {16}


def test_a_value_of_the_users_own_class_is_described() -> None:
    """An object becomes a short text, whatever its code does."""

    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    (text,) = read_column(encode_series(pl.Series([Hostile()], dtype=pl.Object)))
    assert text.startswith("<Hostile")
