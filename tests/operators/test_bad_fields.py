"""Queries that do not fit their fields: refused when composed, or at the first event."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from input_ways import FRAME, WAITING_WAYS, collect, parametrize_ways, place_pattern

import rxtemporal as rxt
from rxtemporal import Cti, PointEvent, agg
from rxtemporal.errors import SchemaError

Stream = rxt.Streamable
Compose = Callable[[Stream], Any]

x, s, z = pl.col("x"), pl.col("s"), pl.col("z")


def with_list(stream: Stream) -> Stream:
    """Return the stream with a list field, as select makes it for explode."""
    return stream.with_columns(many=pl.concat_list("x", "x"))


HAS = r"there are \['x', 's'\]"
POLARS_HAS = r'column "z".*there are x: Int64, s: String'
NO_KEYS = r"grouped by \['s'\] and \[\]\. Hint: ungroup\(\) both"

# what is composed, the operator that the message blames, what it says
BAD_FIELDS: dict[str, tuple[Compose, str, str]] = {
    "where: unknown": (lambda st: st.where(z > 1), "where", POLARS_HAS),
    "where: not boolean": (
        lambda st: st.where(x),
        "where",
        r'takes a predicate, got col\("x"\) of type Int64',
    ),
    "where: several results": (
        lambda st: st.where(pl.all().is_null()),
        "where",
        "one result.*gives 2",
    ),
    "select: unknown": (lambda st: st.select("z"), "select", POLARS_HAS),
    "select: two of one name": (
        lambda st: st.select("x", x=s),
        "select",
        "two fields are named 'x'",
    ),
    "select: nested result": (
        lambda st: st.select(y=pl.struct("x", "s")),
        "select",
        r"field 'y' has type Struct.*Hint",
    ),
    "select: a key": (
        lambda st: st.group_by("s").select(s=x),
        "select",
        "'s' is a group key and cannot be changed. Hint",
    ),
    "select(fn): a key": (
        lambda st: st.group_by("s").select(dict, schema={"s": str}),
        "select",
        "'s' is a group key, which stays as it is. Hint",
    ),
    "with_columns: unknown": (lambda st: st.with_columns(y=z + 1), "with_columns", POLARS_HAS),
    "drop: unknown": (lambda st: st.drop("z"), "drop", f"no field 'z'; {HAS}"),
    "drop: a key": (lambda st: st.group_by("s").drop("s"), "drop", "'s' is a group key"),
    "explode: unknown": (lambda st: st.explode("z"), "explode", f"no field 'z'; {HAS}"),
    "explode: no list": (
        lambda st: st.explode("x"),
        "explode",
        "takes a list field, and 'x' is Int64. Hint: make a list with select",
    ),
    "distinct: unknown": (lambda st: st.distinct("s", "z"), "distinct", f"no field 'z'; {HAS}"),
    "distinct: a list": (
        lambda st: with_list(st).distinct(),
        "distinct",
        "'many' is a list, which cannot be compared",
    ),
    "stitch: a list": (
        lambda st: with_list(st).stitch(),
        "stitch",
        r"'many' is List\(Int64\), which cannot be compared. Hint: explode\(\)",
    ),
    "group_by: unknown": (lambda st: st.group_by("z"), "group_by", f"no field 'z'; {HAS}"),
    "group_by: a list": (
        lambda st: with_list(st).group_by("many"),
        "group_by",
        r"'many' is List\(Int64\), which cannot be a key",
    ),
    "group_by: twice": (
        lambda st: st.group_by("s").group_by("x"),
        "group_by",
        r"grouped already, by \['s'\]",
    ),
    "to_signal: unknown": (lambda st: st.to_signal("z"), "to_signal", f"no field 'z'; {HAS}"),
    "to_signal: a list": (
        lambda st: with_list(st).to_signal("many"),
        "to_signal",
        r"'many' is List\(Int64\), which cannot be a key",
    ),
    "previous: unknown": (
        lambda st: st.previous("z", max_gap=5),
        "previous",
        f"no field 'z'; {HAS}",
    ),
    "previous: twice": (
        lambda st: st.previous("x", max_gap=5).previous("x"),
        "previous",
        "adds the field 'x_before', which exists already",
    ),
    "deadband: unknown": (lambda st: st.deadband("z", 1), "deadband", f"no field 'z'; {HAS}"),
    "deadband: a text": (
        lambda st: st.deadband("s", 1),
        "deadband",
        "deadband compares numbers, and 's' is String",
    ),
    "scan: a key": (
        lambda st: st.group_by("s").scan(0, print, schema={"s": str}),
        "scan",
        "'s' is a group key.*Hint: leave it out of schema=",
    ),
    "alter duration: unknown": (
        lambda st: st.alter_event_duration(z),
        "alter_event_duration",
        r'column "z".*there are x: Int64, s: String, start: Int64, end: Int64',
    ),
    "alter duration: no duration": (
        lambda st: st.alter_event_duration(s),
        "alter_event_duration",
        "gives String; a duration is a Duration or an integer of ticks. Hint: cast",
    ),
    "union: a field less": (
        lambda st: st.union(st.select("x")),
        "union",
        "differ in 's': String and missing. Hint: select",
    ),
    "union: another type": (
        lambda st: st.union(st.with_columns(x=x.cast(pl.Float64))),
        "union",
        "differ in 'x': Int64 and Float64. Hint",
    ),
    "union: one grouped": (lambda st: st.group_by("s").union(st), "union", NO_KEYS),
    "join: one grouped": (lambda st: st.group_by("s").join(st, on="x"), "join", NO_KEYS),
    "join: other keys": (
        lambda st: st.group_by("s").join(st.group_by("x")),
        "join",
        r"grouped by \['s'\] and \['x'\]",
    ),
    "join: unknown on the left": (
        lambda st: st.join(st, on="z"),
        "join",
        r"left stream has no field 'z'; it has \['x', 's'\]",
    ),
    "join: unknown on the right": (
        lambda st: st.join(st.select("x"), on={"s": "z"}),
        "join",
        r"right stream has no field 'z'; it has \['x'\]",
    ),
    "join: keys of other types": (
        lambda st: st.join(st, on={"x": "s"}),
        "join",
        "'x' is Int64 and 's' is String, which cannot be equal. Hint: cast",
    ),
    "join: a list": (
        lambda st: with_list(st).join(with_list(st), on="many"),
        "join",
        r"'many' is List\(Int64\), which cannot be a key",
    ),
    "join: fields that clash": (
        lambda st: st.join(st, on="x"),
        "join",
        "both streams have a field 's'. Hint: suffix='_right'",
    ),
    "join: suffix that clashes": (
        lambda st: st.with_columns(s_r=s).join(st, on="x", suffix="_r"),
        "join",
        "two fields would be named 's_r'.*another suffix",
    ),
    "join: where unknown": (
        lambda st: st.join(st, on="x", where=z > 1, suffix="_r"),
        "join",
        r'column "z".*there are x: Int64, s: String, s_r: String',
    ),
    "join: where not boolean": (
        lambda st: st.join(st, on="x", where=x, suffix="_r"),
        "join",
        r'where= takes a predicate, got col\("x"\), which gives x: Int64',
    ),
    "cross_join: fields that clash": (
        lambda st: st.cross_join(st),
        "cross_join",
        "cross_join: both streams have a field 'x'. Hint: suffix='_right'",
    ),
    "left_outer_join: fields that clash": (
        lambda st: st.left_outer_join(st, on="x"),
        "left_outer_join",
        "left_outer_join: both streams have a field 's'. Hint: suffix=",
    ),
    "full_outer_join: keys of other types": (
        lambda st: st.full_outer_join(st, on={"x": "s"}),
        "full_outer_join",
        "full_outer_join: 'x' is Int64 and 's' is String",
    ),
    "left_anti_join: unknown": (
        lambda st: st.left_anti_join(st, on="z"),
        "left_anti_join",
        r"left stream has no field 'z'; it has \['x', 's'\]",
    ),
    "left_anti_join: where unknown": (
        lambda st: st.left_anti_join(st, on="x", where=z > 1),
        "left_anti_join",
        'column "z".*there are x: Int64, s: String, s_right: String',
    ),
    "clip: unknown": (
        lambda st: st.clip_event_duration(st, on="z"),
        "clip_event_duration",
        r"left stream has no field 'z'; it has \['x', 's'\]",
    ),
    "aggregate: unknown": (
        lambda st: st.snapshot_window().aggregate(n=agg.sum("z")),
        "snapshot_window().aggregate",
        POLARS_HAS,
    ),
    "aggregate: unknown to expr": (
        lambda st: st.tumbling_window(5).aggregate(n=agg.expr(z.sum())),
        "tumbling_window().aggregate",
        POLARS_HAS,
    ),
    "aggregate: unknown in a session": (
        lambda st: st.session_window(5).aggregate(n=agg.first("z")),
        "session_window().aggregate",
        POLARS_HAS,
    ),
    "aggregate: name of a key": (
        lambda st: st.group_by("s").hopping_window2(2, 1).aggregate(s=agg.count()),
        "hopping_window2().aggregate",
        "aggregate 's' has the name of a group key",
    ),
    "aggregate: of a list": (
        lambda st: with_list(st).count_window(2).aggregate(n=agg.last("many")),
        "count_window().aggregate",
        r"'many' has type List\(Int64\).*Hint",
    ),
    "aggregate: a value for each row": (
        lambda st: st.hopping_window(5, 1).aggregate(n=agg.expr(x + 1)),
        "hopping_window().aggregate",
        "gives one value for each row, and one for all rows is needed. Hint",
    ),
    "aggregate: two values": (
        lambda st: st.snapshot_window().aggregate(n=agg.expr(pl.all().first())),
        "snapshot_window().aggregate",
        "gives 2 fields where one is needed",
    ),
    "top_k: unknown": (
        lambda st: st.snapshot_window().top_k(1, "z"),
        "snapshot_window().top_k",
        f"top_k: .*{POLARS_HAS}",
    ),
    "top_k: a field called rank": (
        lambda st: st.with_columns(rank=x).tumbling_window(5).top_k(1, "x"),
        "tumbling_window().top_k",
        "adds the field 'rank', which exists already. Hint: rank='place' names",
    ),
    "top_k: the name of a field": (
        lambda st: st.snapshot_window().top_k(1, "x", rank="s"),
        "snapshot_window().top_k",
        "adds the field 's', which exists already. Hint: rank='place' names",
    ),
    "top_k: the name of a key": (
        lambda st: st.group_by("s").count_window(2).top_k(1, "x", rank="s"),
        "count_window().top_k",
        "adds the field 's', which exists already. Hint: rank='place' names",
    ),
    "apply: a key": (
        lambda st: st.group_by("s").snapshot_window().apply(list, schema={"s": str}),
        "snapshot_window().apply",
        "'s' is a group key, which is added automatically. Hint",
    ),
}
BAD_FIELDS |= {
    f"{name}: of strings": (
        lambda st, make=make: st.snapshot_window().aggregate(n=make("s")),
        "snapshot_window().aggregate",
        rf"{name}\(.*\) of type String is not defined. Hint: cast it",
    )
    for name, make in {
        "sum": agg.sum,
        "avg": agg.avg,
        "std": agg.std,
        "var": agg.var,
        "quantile": lambda field: agg.quantile(field, 0.5),
    }.items()
}
bad_fields = pytest.mark.parametrize(
    ("compose", "operator", "message"), BAD_FIELDS.values(), ids=BAD_FIELDS
)


@bad_fields
def test_wrong_fields_are_an_error_when_composed(
    compose: Compose, operator: str, message: str
) -> None:
    """The message names the operator, the field, the known fields, and the composing line."""
    with pytest.raises(SchemaError, match=rf"(?s){message}.*{place_pattern(operator, __file__)}"):
        compose(rxt.from_polars(FRAME, start="t"))
    with pytest.raises(SchemaError, match=rf"(?s){message}.*{place_pattern(operator, __file__)}"):
        compose(rxt.from_events([PointEvent(1, {"x": 1, "s": "a"})]))


@parametrize_ways("compose, operator, message", BAD_FIELDS, WAITING_WAYS)
def test_a_query_over_unknown_fields_is_checked_at_the_first_event(
    stream_of: Callable[..., Stream], compose: Compose, operator: str, message: str
) -> None:
    """If a source has no schema, the same error with the same line goes to on_error, once."""
    events = [PointEvent(1, {"x": 1, "s": "a"}), Cti(2), PointEvent(3, {"x": 1, "s": "a"})]
    out, errors = collect(compose(stream_of(events)))
    assert out == []
    [error] = errors
    assert isinstance(error, SchemaError)
    assert re.search(rf"(?s){message}.*{place_pattern(operator, __file__)}", str(error))


def test_the_line_is_that_of_the_call() -> None:
    """An error's place is the line that called the method, also inside a function."""

    def query(stream: Stream) -> Stream:
        return stream.where(z > 1)  # this line

    line = query.__code__.co_firstlineno + 1
    with pytest.raises(SchemaError, match=re.escape(f"{__file__}:{line}")):
        query(rxt.from_polars(FRAME, start="t"))


def test_a_users_own_package_beside_ours_is_named(tmp_path: Path) -> None:
    """Code in a folder whose name begins with the package's name is the user's."""
    beside = Path(rxt.__file__).parent.with_name("rxtemporal_app") / "query.py"
    code = compile("query = stream.drop('z')", str(beside), "exec")
    with pytest.raises(SchemaError, match=re.escape(f"composed at {beside}:1")):
        exec(code, {"stream": rxt.from_polars(FRAME, start="t")})


def test_a_list_does_not_leave_a_query() -> None:
    """A query that ends without explode is refused before it runs, or by its first event."""
    known = with_list(rxt.from_polars(FRAME, start="t"))
    message = r"'many' is List\(Int64\); lists exist only inside a query\. Hint: explode\('many'\)"
    with pytest.raises(SchemaError, match=message):
        known.to_polars()
    unknown = rxt.from_events([PointEvent(1, {"x": 1}), Cti(2)])
    for stream in (known, with_list(unknown), with_list(unknown).shift_event_time(1)):
        out, [error] = collect(stream)
        assert out == []
        assert isinstance(error, SchemaError)
        assert re.search(message, str(error))
    assert known.explode("many").to_polars().height == 2 * FRAME.height
