"""Payloads made from columns are the rows that polars gives."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from rxtemporal.core.columns import Columns
from rxtemporal.core.payload_rows import list_payloads as _list_payloads

FRAME = pl.DataFrame(
    {
        "n": [1, None, 3],
        "x": [0.5, float("inf"), None],
        "ok": [True, None, False],
        "text": ["ä", None, ""],
        "data": [b"\x00", None, b""],
        "day": [date(2026, 1, 1), None, date.min],
        "at": [datetime(2026, 1, 1, tzinfo=UTC), None, datetime.max.replace(tzinfo=UTC)],
        "naive": [datetime(2026, 1, 1), None, datetime.min],
        "took": [timedelta(microseconds=1), None, -timedelta(days=1)],
        "price": [Decimal("1.50"), None, Decimal(0)],
        "nothing": [None, None, None],
    },
    schema_overrides={"n": pl.Int16, "price": pl.Decimal(10, 2)},
)


def list_payloads(frame: pl.DataFrame) -> list[Any]:
    """Return the payloads of a frame's columns."""
    return _list_payloads(Columns.from_frame(frame))


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_payload_is_the_row_of_its_frame(rows: int) -> None:
    """Each value has the type and the value that polars gives it, in the order of the fields."""
    frame = FRAME.head(rows)
    payloads = list_payloads(frame)
    assert payloads == frame.to_dicts()
    kinds = [[type(value) for value in row.values()] for row in payloads]
    assert kinds == [[type(value) for value in row.values()] for row in frame.to_dicts()]
    assert all(list(row) == frame.columns for row in payloads)


@pytest.mark.parametrize(
    "name", ["'", '"', "\\", "\n", "{}", "{x!r}", "c0", "v0", "a b", "ä", "\0"]
)
def test_a_field_has_any_name(name: str) -> None:
    """A name is a text alone, whatever it looks like."""
    assert list_payloads(pl.DataFrame({name: [1, 2]})) == [{name: 1}, {name: 2}]
    assert list_payloads(pl.DataFrame({name: [1], "z": [2]})) == [{name: 1, "z": 2}]


def test_a_scalar_is_its_bare_value() -> None:
    """The rows of a stream of scalars are the values of their one field."""
    assert list_payloads(pl.DataFrame({"payload": [1, None]})) == [1, None]


def test_rows_without_fields_are_empty_dicts() -> None:
    """Each row is a dict of its own."""
    first, second = list_payloads(pl.DataFrame(height=2))
    assert first == second == {}
    assert first is not second
