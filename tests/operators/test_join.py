"""Joins of streams whose fields are of different types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import physical
import polars as pl
import pytest
from captured_cases import read_cut
from forgetting import forgetful
from oracle import MAX_TIME

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.engine.key_matcher import KeyMatcher
from rxtemporal.engine.step import find_earliest_due
from rxtemporal.operators.join import step as join_step
from rxtemporal.operators.join.kernel import NOT_LISTED, release_ended
from rxtemporal.operators.join.step import JoinedPayload, JoinStep
from rxtemporal.testing import Stepper

LEFT = pl.DataFrame(
    {"start_time": [1, 2], "end_time": [9, 9], "k": [1, 2], "a": ["x", None]},
    schema_overrides={"k": pl.Int32},
)
RIGHT = pl.DataFrame(
    {"start_time": [3, 4], "end_time": [9, 9], "k": [2, 5], "b": [True, False], "t": [None, "z"]}
)


def test_rows_whose_lifetimes_only_touch_are_no_pair() -> None:
    """A row that starts where another one ends does not meet it, though it is still held."""
    left = [rxt.IntervalEvent(0, 5, {"k": 1, "a": 1}), rxt.IntervalEvent(1, 9, {"k": 2, "a": 2})]
    right = [rxt.IntervalEvent(3, 4, {"k": 2, "b": 1}), rxt.IntervalEvent(5, 8, {"k": 1, "b": 2})]
    joined = rxt.from_events(left).join(rxt.from_events(right), on="k")
    assert joined.to_polars(time="ticks").rows() == [(3, 4, 2, 2, 1)]


def test_a_pair_ends_when_the_cti_reaches_the_end_of_one_of_its_rows() -> None:
    """The other row, which is open, may end as late as it likes."""
    row = {"k": "a", "x": 1, "y": None}
    made = [
        physical.batches([(*begin, row), ("cti", 5), ("cti", 10)], [slice(2), slice(2, 3)])
        for begin in (("start", 0), ("interval", 0, 10))
    ]
    arrivals = [(side, made[side][number]) for number in range(2) for side in range(2)]
    plan = physical.planned(lambda a, b: a.join(b, on="k", suffix="_right"), 2)
    out = [batch for each in physical.stepped(plan, arrivals) for batch in each if len(batch)]
    assert [(batch.end.tolist(), batch.cti) for batch in out] == [([MAX_TIME], 5), ([10], 10)]


@pytest.mark.parametrize("method", ["join", "left_outer_join", "full_outer_join"])
def test_keys_of_two_types_are_joined_as_the_wider_one(method: str) -> None:
    """Batches and frames have the types that the query says, also where a partner is missing."""
    left, right = (
        rxt.from_polars(frame, start="start_time", end="end_time") for frame in (LEFT, RIGHT)
    )
    query = getattr(left, method)(right, on="k")
    assert query.schema["k"] == pl.Int64
    batches = list(query.to_batches())
    assert sum(map(len, batches))
    for batch in batches:
        assert batch.payload.schema == query.schema


def test_a_side_that_is_cut_off_before_its_first_batch_has_the_fields_of_the_plan() -> None:
    """A stopped run has counts of nothing yet; the join knows their fields none the less."""
    point = {"k": "a", "x": 1, "y": None}
    left = read_cut([("point", 0, point)], "left")
    right = read_cut([("point", 0, point)], "right")
    counts = right.group_by("k").hopping_window2(9, 4).aggregate(n=agg.count())
    joined = left.join(counts, on="k", where=pl.col("n") > 1)
    assert joined.to_events() == []
    assert rxt.why_not(joined, at=0).candidates["left"][0].fate.kind == "no partner"


def test_a_join_holds_and_saves_no_rows_that_have_ended() -> None:
    """It keeps some until there are many; they are neither counted, nor due, nor saved."""
    schema, joined = pl.Schema({"a": pl.Int64}), pl.Schema({"a": pl.Int64, "b": pl.Int64})
    step = JoinStep(
        KeyMatcher((), (), ()), (schema, schema), JoinedPayload({"b": "a"}, joined), None, ()
    )
    ticks = np.arange(3_000)
    payload = pl.DataFrame({"a": ticks})
    points = rxt.EventBatch.of_rows(ticks, ticks + 1, payload, cti=3_000)
    long = rxt.EventBatch.of_rows(ticks[:1], ticks[:1] + 4_000, payload[:1], cti=2_999)
    step.on_right(long)
    assert len(step.on_left(points)) == 2_999
    assert (step.rows, find_earliest_due(step)) == (2, 2_999)
    assert len(step.save()) < 10_000
    assert len(step.on_right(long.none(9_999))) == 1
    assert (step.rows, find_earliest_due(step)) == (1, 4_000)
    step.on_left(points.none(9_999))
    assert (step.rows, find_earliest_due(step)) == (0, None)


def test_a_row_that_ends_at_the_cti_is_released() -> None:
    """Nothing that is still to come overlaps it."""
    end, key = np.array([3, 4, 5]), np.zeros(3, np.int64)
    alive, nowhere = np.ones(3, np.bool_), np.full(3, NOT_LISTED)
    count = release_ended(end, alive, 4, key, nowhere, nowhere, np.full(1, NOT_LISTED))
    assert (count, alive.tolist()) == (2, [False, False, True])


def make_rows(cti: int, *lifetimes: tuple[str, int, int]) -> rxt.EventBatch:
    """Return rows with a text, and the CTI after them."""
    rows = [{"start_time": start, "end_time": end, "k": k} for k, start, end in lifetimes]
    if not rows:
        return rxt.EventBatch.empty({"k": pl.String}, cti)
    return rxt.EventBatch.from_dicts(rows, cti=cti)


def test_a_full_outer_join_holds_what_its_parts_hold() -> None:
    """The join, and the anti join of each side with the other."""
    left, right = (rxt.from_events([], schema={"k": str}, name=each) for each in ("left", "right"))
    queries = [left.full_outer_join(right, on="k"), left.join(right, on="k")]
    queries += [left.left_anti_join(right, on="k"), right.left_anti_join(left, on="k")]
    whole, *parts = map(Stepper, queries)
    for stepper in whole, *parts:
        stepper.push("left", make_rows(2, ("a", 1, 20)))
        stepper.push("right", make_rows(5, ("b", 1, 20), ("c", 3, 20)))
    assert all(each.rows for each in parts)
    assert whole.rows == sum(each.rows for each in parts)


def make_anti_join() -> Stepper:
    """Return an anti join of two streams, to be pushed into."""
    left, right = (rxt.from_events([], schema={"k": str}, name=each) for each in ("left", "right"))
    return Stepper(left.left_anti_join(right, on="k"))


def test_a_row_without_a_match_leaves_whole_at_its_end() -> None:
    """A right row that starts at the CTI covers nothing before it, so that nothing has to wait."""
    stepper = make_anti_join()
    stepper.push("right", make_rows(5))
    (found,) = stepper.push("left", make_rows(5, ("a", 0, 5)))
    assert (found.start.tolist(), found.end.tolist(), found.edge.tolist()) == ([0], [5], [0])


def test_a_key_is_held_for_a_right_row_that_is_still_to_begin() -> None:
    """Though no left row has come for it, and other keys come meanwhile."""
    with forgetful():
        stepper = make_anti_join()
        for name, rows in [
            ("right", make_rows(5, ("a", 10, 20))), ("left", make_rows(5)),
            ("left", make_rows(8, ("b", 6, 7))), ("right", make_rows(8)),
            ("left", make_rows(30, ("a", 12, 14))),
        ]:  # fmt: skip
            stepper.push(name, rows)
        assert sum(map(len, stepper.push("right", make_rows(30)))) == 0


@pytest.mark.parametrize("key", [[2, 1], ["b", "a"], [0.0, 2.0]], ids=["int", "text", "float"])
def test_fields_of_both_names_that_match_have_their_own_values(key: list[Any]) -> None:
    """They are equal, but for zeros of two signs."""
    lefts = [rxt.IntervalEvent(0, 9, {"x": n, "mine": each}) for n, each in enumerate(key)]
    theirs = [-each if isinstance(each, float) else each for each in key[:1]]
    rights = [rxt.IntervalEvent(2, 5, {"id": each, "y": 7}) for each in theirs]
    joined = rxt.from_events(lefts).join(rxt.from_events(rights), on={"mine": "id"})
    (row,) = joined.to_events()
    assert list(row.payload) == ["x", "mine", "id", "y"]
    assert [repr(value) for value in row.payload.values()] == [
        "0", repr(key[0]), repr(theirs[0]), "7",
    ]  # fmt: skip


DEVICES = pl.DataFrame(
    {"start": 0, "end": 99, "k": [1, 2, 3], "site": ["a", None, "a"], "zone": [1, 2, None]}
)
READINGS = pl.DataFrame(
    {"start": [*range(60)], "k": [n * n % 4 for n in range(60)], "x": [*range(60)]}
)
SHARED: dict[str, Callable[[rxt.Streamable], rxt.Streamable]] = {
    "as it is": lambda joined: joined,
    "by fields of the few": lambda joined: count_by(joined, "site", "zone"),
    "by the key": lambda joined: count_by(joined, "k"),
    "by fields of both": lambda joined: count_by(joined, "site", "x"),
    "some rows": lambda joined: count_by(joined.where(pl.col("zone") == 1), "site"),
    "some fields": lambda joined: count_by(joined.select("zone", "x", "site"), "site"),
    "one more field": lambda joined: count_by(
        joined.with_columns(more=pl.col("zone") + pl.col("x")), "zone", "site"
    ),
    "points": lambda joined: count_by(joined.alter_event_duration(pl.col("x") + 1), "site"),
}


def count_by(stream: rxt.Streamable, *keys: str) -> rxt.Streamable:
    """Count rows in windows of ten ticks."""
    return stream.group_by(*keys).tumbling_window(10).aggregate(n=agg.count())


@pytest.mark.parametrize("then", SHARED)
@pytest.mark.parametrize("devices_first", [False, True])
@pytest.mark.parametrize("key", [pl.Int64(), pl.Int32(), pl.String(), pl.Float64()], ids=str)
def test_pairs_that_share_rows_are_those_of_the_definition(
    then: str, devices_first: bool, key: pl.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results and their order are the same if rows that many pairs share are searched for."""
    devices = rxt.from_polars(DEVICES, start="start", end="end", unit=None)
    typed = READINGS.with_columns(pl.col("k").cast(key))
    if not key.is_integer():
        devices = devices.with_columns(k=pl.col("k").cast(key))
    readings = rxt.from_polars(typed, start="start", advance_time=3, batch_rows=20, unit=None)
    two = (devices, readings) if devices_first else (readings, devices)
    query = SHARED[then](two[0].join(two[1], on="k"))
    expected = [batch.to_dicts() for batch in query.to_batches()]
    monkeypatch.setattr(join_step, "MANY_PAIRS", 1)
    assert [batch.to_dicts() for batch in query.to_batches()] == expected
    assert any(expected)


def test_fields_are_chosen_and_computed_without_spreading_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows that pairs share are still so behind operators that pass fields on."""
    monkeypatch.setattr(join_step, "MANY_PAIRS", 1)
    devices = rxt.from_polars(DEVICES, start="start", end="end", unit=None)
    readings = rxt.from_polars(READINGS, start="start", advance_time=0, batch_rows=60, unit=None)
    joined = readings.join(devices, on="k").select("x", "site", device="k", next=pl.col("x") + 1)
    most = max(joined.alter_event_duration(5).point_at_end().to_batches(), key=len)
    assert most.columns.find_repeated(["device", "site"]) is not None
    assert most.columns.find_repeated(["next"]) is None
    assert most.payload["next"].to_list() == [x + 1 for x in most.payload["x"]]


@pytest.mark.parametrize(("asks", "few"), [(False, 4), (True, 20)])
def test_rows_that_nobody_reads_as_few_are_seldom_searched_for(
    asks: bool, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After four results in vain it is done for one in so many."""
    monkeypatch.setattr(join_step, "MANY_PAIRS", 20)
    many = pl.DataFrame({"start": [*range(800)], "k": [1, 2, 3, 2] * 200, "x": [*range(800)]})
    devices = rxt.from_polars(DEVICES.with_columns(end=999), start="start", end="end", unit=None)
    readings = rxt.from_polars(many, start="start", advance_time=0, batch_rows=40, unit=None)
    results = []
    for batch in readings.join(devices, on="k").to_batches():
        results.append(batch.columns)
        if asks:
            batch.columns.find_repeated(["site"])
    assert sum(columns.find_repeated(["site"]) is not None for columns in results) == few
