"""Payloads made from columns are the rows that polars gives."""

from __future__ import annotations

import enum
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from rxtemporal.core.columns import Columns
from rxtemporal.core.payloads import list_payloads as _list_payloads
from rxtemporal.core.payloads import make_zipper

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


@pytest.mark.parametrize("rows", [0, 1, 3, 300])
def test_a_payload_is_the_row_of_its_frame(rows: int) -> None:
    """Each value has the type and the value that polars gives it, in the order of the fields."""
    frame = pl.concat([FRAME] * 100).head(rows)
    payloads = list_payloads(frame)
    assert payloads == frame.to_dicts()
    kinds = [[type(value) for value in row.values()] for row in payloads]
    assert kinds == [[type(value) for value in row.values()] for row in frame.to_dicts()]
    assert all(list(row) == frame.columns for row in payloads)


@pytest.mark.parametrize("rows", [2, 200])
@pytest.mark.parametrize(
    "name", ["'", "__class__", '"', "\\", "\n", "{}", "{x!r}", "c0", "v0", "a b", "ä", "\0"]
)
def test_a_field_has_any_name(name: str, rows: int) -> None:
    """A name is a text alone, whatever it looks like."""
    numbers = range(rows)
    assert list_payloads(pl.DataFrame({name: numbers})) == [{name: n} for n in numbers]
    frame = pl.DataFrame({name: numbers, "z": numbers})
    assert list_payloads(frame) == [{name: n, "z": n} for n in numbers]


@pytest.mark.parametrize("fields", [1, 5, 40])
def test_many_payloads_are_apart(fields: int) -> None:
    """A payload that a program changes is changed alone, and can be given any other fields."""
    row = {f"f{number}": number for number in range(fields)}
    changed, *others = list_payloads(pl.DataFrame([row] * 100))
    for number in range(100):
        changed[f"new {number}"] = number
    del changed["f0"]
    assert len(changed) == fields + 99
    assert list_payloads(pl.DataFrame([row] * 100)) == [*others, row]


def test_a_scalar_is_its_bare_value() -> None:
    """The rows of a stream of scalars are the values of their one field."""
    assert list_payloads(pl.DataFrame({"payload": [1, None]})) == [1, None]


def test_rows_without_fields_are_empty_dicts() -> None:
    """Each row is a dict of its own."""
    first, second = list_payloads(pl.DataFrame(height=2))
    assert first == second == {}
    assert first is not second


def test_names_of_rows_are_plain_whoever_asked_first() -> None:
    """The function that makes rows is kept for all who have equal names."""

    class Name(enum.StrEnum):
        FIELD = "a field of this test alone"

    for names in ((Name.FIELD,), (Name.FIELD.value,)):
        for count in (1, 2):
            rows = make_zipper(names)([*range(count)])
            assert {type(key) for row in rows for key in row} == {str}
