"""relate by example: every relation, gaps, open rows, the CTI, what is held, and errors."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import oracle_relations
import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.operators.relate.kernel import is_related
from rxtemporal.operators.relate.relations import NAMES, flag_relations, invert
from rxtemporal.testing import Stepper

SPANS = list(combinations(range(6), 2))
LEFT, RIGHT = {"k": str, "a": int}, {"k": str, "b": int}
Batch = rxt.EventBatch
Edge = rxt.EdgeEvent


def make_rows(field: str, *spans: tuple[int, int], name: str = "events") -> rxt.Streamable:
    """Return rows of one key with these lifetimes, numbered in a field."""
    rows = [rxt.IntervalEvent(*span, {"k": "u", field: i}) for i, span in enumerate(spans)]
    return rxt.from_events(rows, schema={"k": str, field: int}, name=name)


def find(how: Any, within: int | None = None) -> set[tuple[int, int]]:
    """Return the pairs of ``SPANS`` that are related."""
    left, right = make_rows("a", *SPANS), make_rows("b", *SPANS)
    made = left.relate(right, how, "k", within).to_polars(time="ticks")
    for row in made.iter_rows(named=True):
        both = *SPANS[row["a"]], *SPANS[row["b"]]
        assert (row["start_time"], row["end_time"]) == (min(both), max(both))
    return set(zip(made["a"].to_list(), made["b"].to_list(), strict=True))


def test_of_two_lifetimes_one_relation_is_true() -> None:
    """All pairs of short lifetimes are related by their definition, and each in one way."""
    found = {name: find(name, within=100) for name in NAMES}
    for name, pairs in found.items():
        holds = oracle_relations.RELATIONS[name]
        assert pairs == {
            (i, j)
            for (i, l), (j, r) in product(enumerate(SPANS), enumerate(SPANS))  # noqa: E741
            if holds(*l, *r)
        }
    assert sum(map(len, found.values())) == len(set.union(*found.values())) == len(SPANS) ** 2


def test_the_limit_of_a_gap_is_part_of_the_relation() -> None:
    """On both sides the gap is from the end to the start, and shorter than ``within``."""
    wanted = np.array(flag_relations(["before", "after", "meets"]))
    assert is_related(0, 5, 9, 12, wanted, 5)
    assert not is_related(0, 5, 9, 12, wanted, 4)
    assert is_related(9, 12, 0, 5, wanted, 5)
    assert not is_related(9, 12, 0, 5, wanted, 4)
    assert is_related(0, 5, 5, 12, wanted, 1)


@pytest.mark.parametrize("name", NAMES)
def test_the_inverse_relates_the_same_pairs_from_the_other_side(name: str) -> None:
    """``a during b`` is ``b contains a``."""
    inverse = oracle_relations.INVERSE[name]
    assert find(name, within=3) == {(i, j) for j, i in find(inverse, within=3)}
    assert NAMES[invert(flag_relations([name])).index(True)] == inverse


def test_a_set_of_relations_is_their_union() -> None:
    """Lists, tuples and sets are taken, in any order."""
    both = find("during") | find("equals")
    assert find(["equals", "during"]) == find(("during", "equals")) == find({"during", "equals"})
    assert find(frozenset({"during", "equals"})) == both


def test_a_gap_is_shorter_than_within() -> None:
    """Rows that follow after exactly ``within`` are too late; other relations are not limited."""
    left = make_rows("a", (0, 10))
    right = make_rows("b", (10, 11), (11, 12), (14, 15), (15, 16), (5, 30))
    assert left.relate(right, "before", "k", 5).to_polars()["b"].to_list() == [1, 2]
    assert left.relate(right, "overlaps", "k", 2).to_polars()["b"].to_list() == [4]
    late = right.relate(left, "after", "k", 5).to_polars(time="ticks")
    assert late.rows() == [(0, 12, "u", 1, 0), (0, 15, "u", 2, 0)]


def test_points() -> None:
    """A point lives for a tick, so the next tick's point meets it."""
    points = [rxt.PointEvent(t, {"t": t}) for t in (1, 2, 4)]
    one, other = rxt.from_events(points), rxt.from_events(points).select(u="t")
    meets = one.relate(other, "meets").to_polars()
    assert (meets["t"].to_list(), meets["u"].to_list()) == ([1], [2])
    assert one.relate(other, "equals").to_polars()["u"].to_list() == [1, 2, 4]
    assert one.relate(other, "before", within=3).to_polars().select("t", "u").rows() == [
        (1, 4), (2, 4)
    ]  # fmt: skip


class Run:
    """A run of a relation, fed by hand; ``take`` returns the new results and the CTI."""

    def __init__(self, how: Any, on: Any = "k", within: int | None = None) -> None:
        left = rxt.from_events([], schema=LEFT, name="left")
        right = rxt.from_events([], schema=RIGHT, name="right")
        self.stepper = Stepper(left.relate(right, how, on, within))
        self.cti = rxt.MIN_TIME

    def take(
        self, side: str, cti: int, *rows: tuple[int, int | None], edge: int = 0, key: Any = "u"
    ) -> tuple[list[tuple[int, int]], int]:
        """Push rows of a key and a CTI; an end of None is that of a start edge."""
        start = np.array([start for start, _ in rows], np.int64)
        end = np.array([rxt.MAX_TIME if end is None else end for _, end in rows], np.int64)
        names = LEFT if side == "left" else RIGHT
        payload = pl.DataFrame(
            {name: [key if name == "k" else 0] * len(rows) for name in names},
            schema={"k": pl.String, list(names)[1]: pl.Int64},
        )
        batch = Batch(start, end, np.full(len(rows), edge), payload, cti)
        out = self.stepper.push(side, batch)
        self.cti = max([self.cti, *(each.cti for each in out)])
        assert not any(each.has_edges for each in out)
        return [
            pair
            for each in out
            for pair in zip(each.start.tolist(), each.end.tolist(), strict=True)
        ], self.cti


def test_the_cti_waits_for_the_last_start_of_a_partner() -> None:
    """A row holds it for as long as one that begins at the CTI may be related, and no longer."""
    holds = {"before": 13, "meets": 10, "overlaps": 9, "finished_by": 9, "contains": 8,
             "equals": 4, "during": 4, "after": 4}  # fmt: skip
    for how, last in holds.items():
        run = Run(how, within=4)
        run.take("left", 0, (4, 10))
        for cti in range(1, 16):
            run.take("left", cti)
            _, reached = run.take("right", cti)
            assert reached == (4 if 4 < cti <= last else cti), how
            assert run.stepper.rows == (cti <= last), how


def test_an_open_row_waits_for_its_end() -> None:
    """A result needs both ends; time waits, since the result begins with the older row."""
    run = Run("during")
    assert run.take("right", 3, (1, None), edge=7) == ([], rxt.MIN_TIME)
    assert run.take("left", 20, (4, 6)) == ([], 1)
    assert run.take("right", 20) == ([], 1)
    assert run.take("right", 20, (1, 25), edge=7) == ([(1, 25)], 1)
    assert run.take("right", 24) == ([], 1)  # another alarm may come before 24
    assert run.take("left", 24) == ([], 24)


def test_an_open_row_that_finds_no_partner_does_not_hold_time() -> None:
    """An alarm has to be in a repair that began before it, and there is none."""
    run = Run("during")
    run.take("left", 9, (4, None), edge=1)
    assert run.take("right", 9) == ([], 9)
    assert run.stepper.rows == 0
    assert run.take("left", 9, (4, 12), edge=1) == ([], 9)


def test_a_pair_that_cannot_be_related_any_more_is_forgotten() -> None:
    """An open row that has lasted longer than the other cannot be within it."""
    run = Run("contains")
    run.take("left", 5, (0, 10))
    run.take("right", 5, (2, None), edge=1)
    assert run.take("left", 9) == ([], 0)
    assert run.take("right", 9) == ([], 0)
    assert run.stepper.rows == 2  # it may end at 9
    run.take("left", 10)
    assert run.take("right", 10) == ([], 10)
    assert run.stepper.rows == 0


@pytest.mark.parametrize(("how", "side"), [("finished_by", "left"), ("finishes", "right")])
def test_an_open_row_may_end_at_the_cti(how: str, side: str) -> None:
    """The CTI promises that nothing before it changes: rows may still end together at it."""
    run, other = Run(how), "right" if side == "left" else "left"
    run.take(side, 9, (0, 10))
    run.take(other, 9, (2, None), edge=1)
    run.take(side, 10)
    assert run.take(other, 10) == ([], 0)
    assert run.take(other, 10, (2, 10), edge=1) == ([(0, 10)], 10)


def test_an_open_row_that_has_outlived_the_other_cannot_end_with_it() -> None:
    """After the CTI has passed the end of the one the other ends later."""
    run = Run("finished_by")
    run.take("left", 9, (0, 10))
    run.take("right", 10, (2, None), edge=1)
    assert run.take("left", 10) == ([], 0)
    run.take("left", 11)
    assert run.take("right", 11) == ([], 11)
    assert run.stepper.rows == 0


def test_of_two_open_rows_one_ends() -> None:
    """The pair waits on, until it is certain that the other one ends too late."""
    run = Run("contains")
    run.take("left", 9, (0, None), edge=1)
    run.take("right", 9, (2, None), edge=1)
    assert run.take("left", 9, (0, 10), edge=1) == ([], 0)
    assert run.take("right", 9) == ([], 0)
    run.take("left", 10)
    assert run.take("right", 10) == ([], 10)
    assert run.stepper.rows == 0


def test_nothing_outlasts_a_row_that_never_ends() -> None:
    """An open row cannot overlap or be overlapped by its end, so nothing waits for it."""
    run = Run("overlaps")
    run.take("left", 9, (0, rxt.MAX_TIME))
    run.take("right", 9, (2, None), edge=1)
    assert run.take("left", 9) == ([], 9)
    assert run.stepper.rows == 0
    run = Run("during")
    run.take("right", 9, (0, None), edge=1)
    run.take("left", 9, (2, rxt.MAX_TIME))
    assert run.stepper.rows == 1  # the open one, which may contain others


def test_rows_that_never_end_end_together() -> None:
    """Of an open row that is known at the end of time, of others at once."""
    run = Run(["equals", "finishes", "starts"])
    run.take("left", 9, (1, rxt.MAX_TIME))
    assert run.take("right", 9, (1, rxt.MAX_TIME))[0] == [(1, rxt.MAX_TIME)]
    run.take("left", 20, (15, None), edge=4)
    assert run.take("right", 20)[0] == []
    run.take("left", rxt.MAX_TIME)
    assert run.take("right", rxt.MAX_TIME) == ([(1, rxt.MAX_TIME)], rxt.MAX_TIME)
    assert run.stepper.rows == 0


def test_a_row_without_a_key_holds_nothing() -> None:
    """Null matches nothing, whatever comes; without ``on`` it is a row like others."""
    for on, reached in (("k", 9), (None, 1)):
        run = Run("contains", on) if on else None
        if run is None:
            left = rxt.from_events([], schema={"a": int}, name="left")
            right = rxt.from_events([], schema={"b": int}, name="right")
            stepper = Stepper(left.relate(right, "contains"))
            batch = Batch.from_dicts([{"start_time": 1, "end_time": 20, "a": None}], cti=9)
            stepper.push("left", batch.replace(payload=pl.DataFrame({"a": [1]})))
            out = stepper.push("right", Batch.empty({"b": pl.Int64}, 9))
            assert out[-1].cti == reached
        else:
            run.take("left", 9, (1, 20), key=None)
            assert run.take("right", 9) == ([], reached)


def test_windows_follow() -> None:
    """The results are final and come in the place of the time where they begin."""
    left, right = make_rows("a", (3, 5), (8, 14), (21, 22)), make_rows("b", (1, 10), (20, 25))
    counts = left.relate(right, "during", "k").tumbling_window(20).aggregate(n=agg.count())
    assert counts.to_polars(time="ticks").rows() == [(0, 20, 1), (20, 40, 1)]


def test_edges_come_in_and_complete_rows_go_out() -> None:
    """Results are complete in every shape, also of rows that came as edges."""
    payload = {"k": "u", "b": 0}
    edges = [Edge.create_start(1, payload), Edge.create_end(1, 9, payload), rxt.Cti(30)]
    query = make_rows("a", (3, 5)).relate(rxt.from_events(edges), "during", "k")
    for shape in (rxt.EventShape.INTERVAL, rxt.EventShape.EDGE):
        (batch,) = (each for each in query.to_batches(shape=shape) if len(each))
        assert (batch.start.tolist(), batch.end.tolist()) == ([1], [9])
        assert not batch.has_edges


def test_a_key_that_is_computed_and_a_suffix() -> None:
    """Keys and names are as in a join."""
    left = make_rows("a", (3, 5), (4, 6))
    query = left.relate(
        make_rows("a", (3, 5), (4, 6)), "equals", [(pl.col("a") % 2, "a")], suffix="_r"
    )
    assert list(query.schema) == ["k", "a", "k_r", "a_r"]
    assert query.to_polars().select("a", "a_r").rows() == [(0, 0), (1, 1)]
    with pytest.raises(rxt.SchemaError, match=r"both streams have a field 'k'. Hint: suffix="):
        left.relate(left, "equals", on="a")


def test_groups() -> None:
    """Rows are related within their group, where null equals null."""
    payloads = [{"k": None, "a": 1}, {"k": "u", "a": 2}]
    left = rxt.from_events([rxt.IntervalEvent(3, 5, each) for each in payloads]).group_by("k")
    right = left.with_columns(b="a").drop("a")
    made = left.relate(right, "equals").ungroup().to_polars()
    assert made.select("k", "a", "b").rows() == [(None, 1, 1), ("u", 2, 2)]


def make_shift() -> tuple[rxt.Streamable, rxt.Streamable]:
    """Return alarms and repairs."""
    alarms = [(3, 5, "u", 1), (8, 14, "u", 2), (6, 7, "w", 3), (8, 9, None, 4)]
    repairs = [(1, 10, "u", 5), (40, 45, "u", 6)]
    return (
        rxt.from_events(
            [rxt.IntervalEvent(s, e, {"k": k, "a": a}) for s, e, k, a in alarms], name="alarms"
        ),
        rxt.from_events(
            [rxt.IntervalEvent(s, e, {"k": k, "b": b}) for s, e, k, b in repairs], name="repairs"
        ),
    )


def test_why() -> None:
    """A result stands on its two rows."""
    alarms, repairs = make_shift()
    found = rxt.why(alarms.relate(repairs, "during", "k"), {"a": 1})
    assert found.causes["alarms"]["a"].to_list() == [1]
    assert found.causes["repairs"]["b"].to_list() == [5]


def find_fate(query: rxt.Streamable, stream: str, **where: Any) -> Any:
    """Return the fate of the nearest candidate of a stream."""
    return rxt.why_not(query, where=where).candidates[stream][0].fate


def test_why_not() -> None:
    """The nearest row with the key is named, with the relation that it has."""
    alarms, repairs = make_shift()
    query = alarms.relate(repairs, "during", "k")
    fate = find_fate(query, "alarms", a=2)
    assert (fate.kind, fate.operator, fate.values) == ("no partner", "relate", {"k": "u"})
    assert fate.message.endswith(
        "the nearest row of the right stream with k='u' is [1, 10) k='u' b=5: "
        "left overlapped_by right, and how= asks for during"
    )
    assert fate.others["b"].to_list() == [5, 6]
    fate = find_fate(query, "repairs", b=6)
    assert fate.message.endswith("[8, 14) k='u' a=2: left before right, and how= asks for during")
    assert find_fate(query, "alarms", a=3).message.endswith("no row of the right stream with k='w'")
    assert find_fate(query, "alarms", a=4).message.endswith("k=null, and null matches nothing")
    late = find_fate(alarms.relate(repairs, "before", "k", within=5), "repairs", b=6)
    assert late.message.endswith("the gap of 26 ticks is not shorter than within=5 ticks")


def test_why_not_yet() -> None:
    """A row whose partner is open waits for its end."""
    settings = rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(1, 0, advance_to_infinity_on_shutdown=False),
        policy=rxt.AdvanceTimePolicy.DROP,
    )
    rows = [rxt.IntervalEvent(3, 5, {"a": 1}), rxt.IntervalEvent(9, 11, {"a": 2})]
    left = rxt.from_events(rows, name="left", advance_time=settings)
    edges = [Edge.create_start(1, {"b": 1}), Edge.create_start(9, {"b": 2})]
    right = rxt.from_events(edges, name="right", advance_time=settings)
    query = left.relate(right, "during")
    fate = find_fate(query, "left", a=1)
    assert fate.kind == "waiting"
    assert fate.message.endswith(
        "waits for the end of this row or of its partner [1, never ends) b=1"
    )
    fate = find_fate(query, "left", a=2)
    assert (fate.kind, fate.until) == ("waiting", 10)


BAD: dict[str, tuple[Any, str]] = {
    "no relation": (
        lambda st: st.relate(st, "durin"),
        r"how='durin' is not a relation of lifetimes. Hint: did you mean 'during'\? The relations",
    ),
    "another word": (lambda st: st.relate(st, "inside"), "Hint: the relations are before, meets"),
    "no text": (lambda st: st.relate(st, [5]), "how=5 is not a relation"),
    "none": (lambda st: st.relate(st, []), r"or a list or set of names, got \[\]. Hint: relate\("),
    "a number": (lambda st: st.relate(st, 5), "how is the name of a relation"),
    "before without within": (
        lambda st: st.relate(st, "before", "x"),
        r"'before' needs within=.*Hint: relate\(other, 'before', within='5m'\)",
    ),
    "after among others": (
        lambda st: st.relate(st, {"after", "during"}, "x"),
        "'after' needs within=",
    ),
    "no gap": (lambda st: st.relate(st, "before", within=0), "within must be positive, got 0"),
    "a tick": (
        lambda st: st.relate(st, "before", within=1),
        "no gap is shorter than within=1, a tick: rows without a gap meet. Hint",
    ),
    "a bad span": (lambda st: st.relate(st, "before", within="5q"), "'q' is not a unit"),
    "no stream": (lambda st: st.relate(5, "during"), "relate takes another"),
    "on a number": (lambda st: st.relate(st, "during", 5), "relate: on is a field's name"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case: str) -> None:
    """Errors say what was given and what to write."""
    compose, message = BAD[case]
    stream = rxt.from_events([], schema={"x": int})
    with pytest.raises(rxt.ArgumentError, match=message):
        compose(stream)
