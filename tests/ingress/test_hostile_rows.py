"""Hostile rows: whatever is pushed, it alone is rejected, and what passes fits everywhere."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, tzinfo
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from products import draw_product

from rxtemporal import Cti, EdgeEvent, EventBatch, PointEvent
from rxtemporal.core.payloads import PayloadReader
from rxtemporal.engine.codec import dumps
from rxtemporal.ingress.packer import Packer
from rxtemporal.ingress.row_reader import COLUMN_ROWS, RowReader
from rxtemporal.ingress.verdict import Rejected

SCHEMA = {"device": pl.String, "temp": pl.Float64}
GOOD = {"time": 5, "device": "a", "temp": 20.5}
MANY = COLUMN_ROWS + 8


def make(schema: Any = SCHEMA) -> RowReader:
    """Return a reader of readings."""
    return RowReader("readings", pl.Schema(schema), start="time")


def boom(*_: Any) -> Any:
    """Raise an exception."""
    raise RuntimeError("boom")


def hostile(*names: str, base: type = object) -> Any:
    """Return an object whose methods of these names raise."""
    return type("Hostile", (base,), dict.fromkeys(names, boom))()


class EvilZone(tzinfo):
    """A time zone that raises."""

    utcoffset = boom


class EvilMeta(type):
    """A class of classes that raise."""

    __hash__ = __eq__ = boom  # type: ignore[assignment]

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("boom")


EvilClass = EvilMeta("EvilClass", (), {})


class SaysYes(str):
    """A key that is equal to every text."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("boom")


def nest(levels: int) -> list[Any]:
    """Return a list nested so deep."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


ALL = ("__eq__", "__repr__", "__str__", "__len__", "__iter__", "__index__", "__float__", "__int__",
       "__bool__", "__getattribute__")  # fmt: skip
BAD_VALUES: list[Any] = [
    Decimal("1e40"), Decimal("sNaN"), nest(990), nest(90_000), 10**5000, -(10**400), "\ud800",
    b"x", True, 1 + 2j, [], {}, {1}, object(), hostile(*ALL), hostile("__hash__"),
    hostile("get", "__eq__", "__hash__", "keys"), EvilClass(),
    hostile("__float__", "__str__", "__encode__", base=bytes), datetime(2026, 1, 1),
    datetime(2026, 1, 1, tzinfo=EvilZone()), np.array([1, 2]), np.datetime64("2026"),
    pl.Series([1]),
    pl.DataFrame({"x": [1]}), lambda: None, type, NotImplemented, ..., memoryview(b"x"),
]  # fmt: skip
# where a value is in what is pushed
PLACES: dict[str, Callable[[Any], Any]] = {
    "row": lambda value: value,
    "field of an event": lambda value: PointEvent(5, {"device": "a", "temp": value}),
    "payload": lambda value: PointEvent(5, value),
    "field": lambda value: {**GOOD, "temp": value},
    "time": lambda value: {**GOOD, "time": value},
}
OTHER_ROWS: list[Any] = [
    {},
    {"time": 5},
    {SaysYes("device"): "a", "time": 5, "temp": 1.0},
    {SaysYes("other"): 1, "time": 5, "temp": 1.0},
    hostile("__getitem__", "__iter__", "__len__", "keys", "get", "items", base=dict),
    hostile("__getitem__", "__iter__", "__len__", "keys"),
    PointEvent.__new__(PointEvent),
    Cti.__new__(Cti),
    EdgeEvent.__new__(EdgeEvent),
    PointEvent,
    Cti,
    GOOD.keys(),
    pl.LazyFrame({"time": [1]}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("place", "number", "good"),
    draw_product(PLACES, range(len(BAD_VALUES)), [0, 2, MANY], together=2),
)
def test_no_value_raises_wherever_it_is(place, number, good):
    """Whatever a value is, the row that it is in is rejected, and the others are read."""
    check_rejected(PLACES[place](BAD_VALUES[number]), good)


@pytest.mark.parametrize(
    ("number", "good"), draw_product(range(len(OTHER_ROWS)), [0, 2, MANY], together=2)
)
def test_no_row_raises_and_the_others_pass(number, good):
    """Whatever a row is, it alone is rejected, and the others are read."""
    check_rejected(OTHER_ROWS[number], good)


def check_rejected(row: Any, good: int) -> None:
    """Read a row, alone or behind so many good ones: it is rejected, and its text is short."""
    reader = make()
    if not good:
        item, _ = reader.read_one(row)
        assert isinstance(item, Rejected)
        rejected = [item]
    else:
        read = reader.read([*[GOOD] * good, row])
        assert [each.index for each in read.rejected] == [good]
        assert len(read.items) == good
        rejected = list(read.rejected)
    assert rejected[0].row is row
    assert 0 < len(rejected[0].reason.encode()) < 1_000
    assert len(repr(rejected[0])) < 3_000


@pytest.mark.parametrize(("place", "number"), draw_product(PLACES, range(len(BAD_VALUES))))
def test_whatever_is_pushed_alone_is_rejected_or_read(place, number):
    """``read`` takes any object, also one that is not a list."""
    check_none_read(PLACES[place](BAD_VALUES[number]))


@pytest.mark.parametrize("number", range(len(OTHER_ROWS)))
def test_whatever_is_pushed_alone_as_a_row_is_rejected_or_read(number):
    """``read`` takes any object, also one that is not a row."""
    check_none_read(OTHER_ROWS[number])


def check_none_read(pushed: Any) -> None:
    """Push an object: none of its rows is accepted."""
    read = make().read(pushed)
    assert read.rows == len(read.rejected)
    assert not len(read.items)


def test_an_iterator_that_raises_is_rejected_as_one():
    """What was read before it is not pushed: the caller cannot know how far it came."""

    def rows():
        yield GOOD
        raise RuntimeError("boom")

    read = make().read(rows())
    assert [each.reason for each in read.rejected] == ["it could not be read: RuntimeError: boom"]
    assert (len(read.items), read.rows) == (0, 1)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_ctrl_c_passes_through(interrupt):
    """Only exceptions are rejected."""

    class Interrupts(dict[str, Any]):
        def __iter__(self):
            raise interrupt

        keys = __iter__

    for read in (make().read_one, lambda row: make().read([row]), make().read):
        with pytest.raises(interrupt):
            read(Interrupts(GOOD))


# What passes fits everywhere ----------------------------------------------------------------------

TYPES = {
    "b": pl.Boolean, "i": pl.Int16, "f": pl.Float64, "g": pl.Float32, "s": pl.String,
    "y": pl.Binary, "d": pl.Date, "n": pl.Datetime("us"), "t": pl.Datetime("us", "Europe/Berlin"),
    "p": pl.Duration("us"), "x": pl.Decimal(7, 3),
}  # fmt: skip
anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.decimals(),
    st.dates(), st.datetimes(), st.datetimes(timezones=st.timezones()), st.timedeltas(),
    st.text(st.characters(categories=["Cs"])), st.lists(st.integers()),
)  # fmt: skip


@given(st.lists(st.fixed_dictionaries({"time": st.one_of(st.integers(0, 9), anything),
                                       **dict.fromkeys(TYPES, anything)}), max_size=4))  # fmt: skip
def test_what_passes_fits_packer_state_and_query(rows):
    """Rows that pass give a batch, a saved state and Python values again."""
    reader = make(TYPES)
    for name in TYPES:
        single = make({name: TYPES[name]})
        slim = [{"time": 5, name: row[name]} for row in rows]
        check_further(single, single.read(slim).items)
    check_further(reader, reader.read(rows).items)


def check_further(reader: RowReader, items: Any) -> None:
    """Pack, save and unpack what a reader has returned."""
    packer = Packer(None, "readings", PayloadReader(reader.schema))
    for item in items:
        packer.take(item)
    dumps("packer", packer.save())
    batch = packer.pack()
    assert (0 if batch is None else len(batch)) == len(items)
    if batch is not None:
        batch.to_dicts("datetime")
        assert batch.schema == reader.schema


@given(st.lists(st.tuples(anything, anything), min_size=COLUMN_ROWS, max_size=COLUMN_ROWS + 2),
       st.sampled_from(sorted(TYPES)))  # fmt: skip
def test_columns_and_single_rows_have_one_meaning(values, name):
    """A list read by columns gives the same rows and rejects as its rows read alone."""
    reader = make({name: TYPES[name]})
    rows = [{"time": n, name: value} for n, (value, _) in enumerate(values)]
    fitting = [row for row in rows if not isinstance(reader.read_one(row)[0], Rejected)]
    read = reader.read(rows)
    kept = {id(row) for row in fitting}
    assert [each.index for each in read.rejected] == [
        number for number, row in enumerate(rows) if id(row) not in kept
    ]
    batch = reader.read(fitting * COLUMN_ROWS).items
    if fitting:
        assert isinstance(batch, EventBatch)
        alone = [reader.read_one(row)[0] for row in fitting]
        packer = Packer(None, "readings", PayloadReader(reader.schema))
        for event in alone:
            packer.take(event)
        expected = packer.pack()
        assert expected is not None
        assert batch.payload[: len(fitting)].equals(expected.payload)
