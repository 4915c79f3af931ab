"""select by a Python function, and explode: lists that live inside a query."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import arrangements
import physical
import polars as pl
import pytest
from oracle import MAX_TIME
from physical import rows
from tables import A, B

import rxtemporal as rxt
from rxtemporal import ArgumentError, SchemaError
from rxtemporal.core.schema import payload_schema
from rxtemporal.operators.chop.plan import chop
from rxtemporal.operators.explode.plan import Explode, explode
from rxtemporal.operators.expressions import infer_field_type
from rxtemporal.operators.group_by import group_by
from rxtemporal.operators.where import Select, select_by_function

READINGS = rxt.EventBatch.from_dicts(
    [
        {"start_time": 1, "end_time": 5, "room": "lab", "text": "to be"},
        {"start_time": 2, "end_time": 9, "room": "hall", "text": ""},
        {"start_time": 3, "end_time": 4, "room": "lab", "text": None},
    ],
    cti=10,
)


def results(*operators: Any) -> list[tuple[Any, ...]]:
    """Return the operators' output for the readings: (start, end, *fields)."""
    return [
        (row.start, row.end, *row.payload.values())
        for row in rows(physical.run([READINGS], *operators))
    ]


def select(function: Any, **named: Any) -> Any:
    """Return the select of a function."""
    return select_by_function((function,), named)


# select by a function ----------------------------------------------------------------------------


@dataclasses.dataclass
class Length:
    """A result as a dataclass."""

    room: str
    length: int | None


class Pair(NamedTuple):
    """A result as a NamedTuple."""

    room: str
    length: int | None


def as_dict(row: dict[str, Any]) -> dict[str, Any]:
    """Return the text's length as a dict."""
    return {"room": row["room"], "length": None if row["text"] is None else len(row["text"])}


def as_length(row: dict[str, Any]) -> Length:
    """Return the same as a dataclass."""
    return Length(**as_dict(row))


def as_pair(row: dict[str, Any]) -> Pair:
    """Return the same as a NamedTuple."""
    return Pair(**as_dict(row))


@pytest.mark.parametrize(
    "selecting",
    [
        select(as_dict, schema={"room": str, "length": int}),
        select(as_dict, schema={"length": pl.Int64, "room": pl.String}),
        select(as_dict, schema=Length),
        select(as_length),
        select(as_pair),
        select(as_pair, schema={"room": str, "length": int}),
    ],
)
def test_select_by_a_function(selecting: Any) -> None:
    """Fields come from schema= or from the annotation; results are dicts or records."""
    (out,) = physical.run([READINGS], selecting)
    assert out.payload.sort("length", nulls_last=True).to_dicts() == [
        {name: row[name] for name in out.schema}
        for row in (
            {"room": "hall", "length": 0},
            {"room": "lab", "length": 5},
            {"room": "lab", "length": None},
        )
    ]
    assert out.start.tolist() == [1, 2, 3]


def test_select_by_a_function_keeps_the_keys() -> None:
    """Keys come first, and the function does not return them."""
    lengths = select(lambda row: {"n": len(row["text"] or "")}, schema={"n": int})
    assert results(group_by("room"), lengths) == [
        (1, 5, "lab", 5),
        (2, 9, "hall", 0),
        (3, 4, "lab", 0),
    ]
    with pytest.raises(SchemaError, match="'room' is a group key, which stays"):
        results(group_by("room"), select(as_dict, schema=Length))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"n": "five"}, r"returned {'n': 'five'} for {'room': 'lab', 'text': 'to be'}: field 'n'"),
        ({}, r"returned {} for .*: field 'n' is missing"),
        ({"n": 1, "m": 2}, r"field 'm'"),
        (None, r"returned None for"),
        ([1], r"returned \[1\] for"),
    ],
)
def test_a_result_that_does_not_fit_is_shown_with_its_row(result: Any, message: str) -> None:
    """The message shows the result, its payload, and the fault."""
    with pytest.raises(SchemaError, match=message):
        results(select(lambda row: result, schema={"n": int}))


def test_the_arguments_of_select_are_checked_when_composed() -> None:
    """A function needs a schema, and is the only argument."""
    with pytest.raises(ArgumentError, match=r"cannot see what a function returns.*schema="):
        select(lambda row: {})
    with pytest.raises(ArgumentError, match="cannot see"):
        select(as_dict)
    with pytest.raises(ArgumentError, match="takes one function and schema="):
        select(as_dict, schema=Length, other=pl.col("x"))
    with pytest.raises(ArgumentError, match="takes one function and schema="):
        select_by_function((as_dict, as_pair), {})
    with pytest.raises(SchemaError, match="field 'x' has type"):
        select(as_dict, schema={"x": dict})
    assert select_by_function(("x",), {"schema": pl.col("y")}) is None, "a field like any other"


def test_select_by_a_function_of_no_rows() -> None:
    """The output schema is known without rows."""
    (out,) = physical.run([READINGS.none(20)], select(as_dict, schema=Length))
    assert dict(out.schema) == {"room": pl.String, "length": pl.Int64}


# explode -----------------------------------------------------------------------------------------


def words(*others: str) -> Select:
    """Select the words of the text as a list."""
    split = pl.col("text").str.split(" ").list.filter(pl.element() != "")
    return Select(expressions=(*map(pl.col, others), split.alias("word"), pl.lit(7).alias("n")))


def test_explode_gives_a_row_for_each_element() -> None:
    """The element replaces the list; an empty or null list gives no row."""
    assert results(words("room"), explode("word")) == [
        (1, 5, "lab", "to", 7),
        (1, 5, "lab", "be", 7),
    ]


def test_a_null_element_is_an_element() -> None:
    """A list of nulls gives rows with nulls."""
    lists = select(lambda row: {"x": [None, 1]}, schema={"x": list[int]})
    assert results(lists, explode("x"))[:2] == [(1, 5, None), (1, 5, 1)]


def test_explode_keeps_the_grouping() -> None:
    """The batches name the keys, and the rows have them."""
    (out,) = physical.run([READINGS], group_by("room"), words(), explode("word"))
    assert out.keys == ("room",)
    assert out.payload["room"].to_list() == ["lab", "lab"]


def exploded_by_x() -> list[Any]:
    """Return two rows of x elements each, open at the first CTI."""
    lists = select(
        lambda row: {"k": row["k"], "n": list(range(row["x"]))}, schema={"k": str, "n": list[int]}
    )
    items = [
        ("start", 1, A), ("start", 2, B), ("cti", 3), ("end", 2, 9, B), ("cti", 10),
        ("end", 1, 12, A), ("start", 11, B), ("end", 11, 12, B),
    ]  # fmt: skip
    cut = arrangements.cut_evenly(items, 1)
    return physical.run(physical.batches(items, cut), lists)


def test_exploded_edges_have_ids_of_their_own() -> None:
    """Each edge is closed once, with its row."""
    out = physical.run(exploded_by_x(), explode("n"))
    assert sorted(batch for each in out for batch in each.edge.tolist()) == [
        1, 1, 2, 2, 3, 3, 4, 4, 5, 5,
    ]  # fmt: skip
    assert sorted((r.start, r.end, r.payload["k"], r.payload["n"]) for r in rows(out)) == [
        (1, 12, "a", 0), (2, 9, "b", 0), (2, 9, "b", 1), (11, 12, "b", 0), (11, 12, "b", 1),
    ]  # fmt: skip


def test_explode_continues_from_its_saved_state() -> None:
    """A step saved and loaded after every batch gives the same ids."""
    made = exploded_by_x()
    step, plain = (explode("n").make(made[0].schema, ()) for _ in range(2))
    for batch in made:
        one, other = plain.on_batch(batch), step.on_batch(batch)
        assert (one.edge.tolist(), one.end.tolist()) == (other.edge.tolist(), other.end.tolist())
        state, step = step.save(), explode("n").make(made[0].schema, ())
        step.load(state)
    assert step.rows == 0


def test_explode_takes_a_list_field() -> None:
    """An unknown field, or one that is not a list, is refused when composed."""
    schema = pl.Schema({"x": pl.Int64, "l": pl.List(pl.String)})
    assert dict(explode("l").check(schema, ())) == {"x": pl.Int64, "l": pl.String}
    with pytest.raises(SchemaError, match=r"no field 'y'; there are \['x', 'l'\].*in explode"):
        explode("y").check(schema, ())
    with pytest.raises(SchemaError, match=r"takes a list field, and 'x' is Int64.*Hint"):
        explode("x").check(schema, ())
    with pytest.raises(ArgumentError, match="name of a field"):
        explode(3)  # type: ignore[arg-type]
    assert isinstance(explode("l"), Explode)


# Lists -------------------------------------------------------------------------------------------


def test_lists_are_refused_at_the_input() -> None:
    """A list is refused in a frame, in a schema and in an event."""
    frame = pl.DataFrame({"t": [1], "x": [[1, 2]]})
    with pytest.raises(SchemaError, match=r"'x' has type List\(Int64\).*lists exist only inside"):
        rxt.from_polars(frame, start="t")
    with pytest.raises(SchemaError, match="lists exist only inside"):
        rxt.from_events([], schema={"x": pl.List(pl.Int64)})
    with pytest.raises(SchemaError, match="lists exist only inside"):
        rxt.from_events([], schema={"x": list[int]})
    with pytest.raises(SchemaError, match="holds"):
        rxt.from_events([rxt.PointEvent(1, {"x": [1]})]).to_polars()


def test_lists_are_of_scalars_and_nothing_is_computed_over_them() -> None:
    """A list of lists is refused, and an aggregate of lists."""
    assert dict(payload_schema({"x": list[int] | None, "y": pl.List(pl.UInt8)}, lists=True)) == {
        "x": pl.List(pl.Int64),
        "y": pl.List(pl.Int16),
    }
    for nested in (pl.List(pl.List(pl.Int64)), pl.Struct({"x": pl.Int64})):
        with pytest.raises(SchemaError, match="no payload can carry"):
            payload_schema({"x": nested}, lists=True)
    with pytest.raises(SchemaError, match="lists exist only inside"):
        infer_field_type(pl.col("x"), pl.Schema({"x": pl.List(pl.Int64)}))


@pytest.mark.parametrize("value", [5, "ab", [1.5], [True], {"a": 1}])
def test_a_list_field_takes_lists_of_its_type(value: Any) -> None:
    """Any other value is refused, and the message shows the row."""
    with pytest.raises(SchemaError, match=r"field 'x' is List\(Int64\) and cannot hold"):
        results(select(lambda row: {"x": value}, schema={"x": list[int]}))


def test_lists_travel_through_lifetimes() -> None:
    """Lists are held and saved like other fields."""
    lists = select(lambda row: {"k": row["k"], "x": [1, 2]}, schema={"k": str, "x": list[int]})
    made = physical.batches([("start", 3, A), ("cti", 7)], [slice(0, 1), slice(1, 2)])
    made = physical.run(made, lists)
    step = chop(5).make(made[0].schema, ())
    step.on_batch(made[0])
    state, step = step.save(), chop(5).make(made[0].schema, ())
    step.load(state)
    out = step.on_batch(made[1])
    assert out.payload["x"].to_list() == [[1, 2], [1, 2]]
    assert out.end.tolist() == [5, MAX_TIME]
