"""Laws of all operators, as properties over one table of operators."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import arrangements
import oracle
import physical
import polars as pl
import polars.selectors as cs
import pytest
import strategies
from buckets import in_parts, split
from forgetting import forgetful
from hypothesis import example, given
from hypothesis import strategies as st
from law_streams import (
    CASES,
    Expected,
    Sides,
    drawn,
    each_operator,
    every_case,
    examples,
    final_cti,
    in_runs,
    plan,
)
from oracle import MAX_TIME, MIN_TIME, Event
from polars.testing import assert_frame_equal
from reactivex import compose

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal import operators as ops
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.testing import Stepper


@every_case
@examples
@given(data=st.data())
def test_laws(name: str, data: st.DataObject) -> None:
    """A case gives its model's history and CTIs, however its streams arrive and wherever it stops.

    The streams are drawn, and the model's history is computed, once for all checks.
    """
    sides, random = drawn(name, data)
    expected = Expected(CASES[name], sides)
    check_each_event(name, sides, random, expected)
    check_cuts_and_order(name, sides, random, expected)
    check_restarts(name, sides, random, expected)
    check_buckets(name, sides, random, expected)


def check_each_event(name: str, sides: Sides, random: Random, expected: Expected) -> None:
    """Check event by event: each CTI is the rule's, none is broken, what it commits is there."""
    case = CASES[name]
    singles = [physical.batches(items, arrangements.cut_evenly(items, 1)) for items in sides]
    arrivals = arrangements.interleave(
        [list(zip(*side, strict=True)) for side in zip(sides, singles, strict=True)], random
    )
    ctis, reached = [MIN_TIME] * case.inputs, MIN_TIME
    events: list[list[Event]] = [[] for _ in sides]
    out: list[rxt.EventBatch] = []
    steps = physical.stepped(plan(name), ((side, batch) for side, (_, batch) in arrivals))
    for (side, (item, _)), made in zip(arrivals, steps, strict=True):
        out, before = out + made, reached
        reached = made[-1].cti if made else reached
        if item[0] == "cti":
            ctis[side] = item[1]
            assert reached == case.find_cti(min(ctis), events)
        else:  # no later row, but the end of an open one, may let a CTI that was held go on
            events[side].append(item)
            assert reached in (before, case.find_cti(min(ctis), events))
        if reached > before:
            expected.check(out, reached)
    expected.check(out, reached)


def check_cuts_and_order(name: str, sides: Sides, random: Random, expected: Expected) -> None:
    """Check that cuts, legal reorderings and interleavings change nothing, through Rx too."""
    moved = tuple(arrangements.reorder(items, random) for items in sides)
    out = physical.pushed(plan(name), in_runs(moved, random))
    cti = final_cti(CASES[name], sides)
    assert (out[-1].cti if out else MIN_TIME) == cti
    expected.check(out, cti)


def check_restarts(name: str, sides: Sides, random: Random, expected: Expected) -> None:
    """Check that saving and loading after any batches changes neither history nor final CTI.

    Neither does forgetting keys as soon as nothing is held for them.
    """
    made = in_runs(sides, random)
    out: list[rxt.EventBatch] = []
    with forgetful() if random.random() < 0.7 else nullcontext():
        for some in physical.stepped(plan(name), made, lambda: random.random() < 0.4):
            out += some
    cti = final_cti(CASES[name], sides)
    assert out[-1].cti == cti
    expected.check(out, cti)


def check_buckets(name: str, sides: Sides, random: Random, expected: Expected) -> None:
    """Check that buckets by key, each by itself, give together the history and the final CTI.

    Every bucket has all CTIs; the final CTI is the least of theirs.
    """
    if split(plan(name))[0].reason is None:
        out, reached = in_parts(plan(name), sides, random)
        cti = final_cti(CASES[name], sides)
        assert reached == cti
        expected.check_rows(out, cti)


@cache
def steady(
    ticks: int, shapes: tuple[str, ...], together: int = 50, *, passing: bool = False
) -> list[rxt.EventBatch]:
    """A steady stream in batches of so many ticks; each tick has its own key if ``passing``."""
    items = arrangements.make_steady_stream(ticks, shapes)
    if passing:
        items = [arrangements.name_by_start(item) for item in items]
    ends = [i + 1 for i, item in enumerate(items) if item[0] == "cti"][together - 1 :: together]
    return physical.batches(items, [slice(i, j) for i, j in pairwise([0, *ends])])


@dataclasses.dataclass
class Long:
    """Return a long stream's results, the most rows held by the steps, and the bytes saved."""

    out: list[rxt.EventBatch]
    rows: int = 0
    sizes: list[int] = dataclasses.field(default_factory=list)

    @property
    def size(self) -> int:
        """The least that was saved in the second half: where rows that are gone have just left."""
        return min(self.sizes[len(self.sizes) // 2 :])


def long_run(name: str, ticks: int, together: int = 50, *, passing: bool = False) -> Long:
    """Return what a case makes of a steady stream, the same on every side."""
    case = CASES[name]
    shapes = tuple(case.draws.get("shapes", strategies.SHAPES))
    stepper, found = Stepper(plan(name)), Long([])
    for number, batch in enumerate(steady(ticks, shapes, together, passing=passing)):
        for side in physical.SIDES[: case.inputs]:
            found.out += stepper.push(side, batch)
        found.rows = max(found.rows, stepper.rows)
        if number % 4 == 3:
            found.sizes.append(sum(map(len, stepper.save())))
    return found


@each_operator
def test_long_streams(name: str) -> None:
    """Ten times the data through the same operators hold no more at the peak, and give the same.

    Neither does what is saved grow. Rows that are held get new numbers now and then, which shows
    nowhere: in small batches and in one the history is the same.
    """
    short, long, whole = (long_run(name, *ticks) for ticks in ((400,), (4_000,), (4_000, 4_000)))
    if name not in GROW:
        assert long.rows <= 1.1 * short.rows + 5
    # a table keeps up to 1,024 rows that are gone, of some numbers of 8 bytes; scan has two tables
    numbers = 2 if name.startswith(("scan", "deadband", "previous")) else 1
    numbers = 4 if name.startswith("to_signal") else numbers  # and few rows go: none in some runs
    assert name in GROW or long.size <= 2 * short.size + numbers * 8 * 1_024
    if not long.out:  # there is no result before the end of time
        assert not whole.out
        return
    cti = long.out[-1].cti
    assert whole.out[-1].cti == cti
    assert_frame_equal(history(long.out, cti), history(whole.out, cti))


# rows that never end, and share a rank, are all in the results; a window without end has all rows
GROW = (
    "snapshot_window, of rows that never end, top_k by two, share",
    "whole_window, listed", "whole_window, top_k",
)  # fmt: skip
# what is held for a key for ever: its latest rows or values, or the state of a user's function
FOR_EVER = (
    "never_ends", "to_signal", "count_window", "whole_window", "scan, grouped", "deadband",
    "previous, third", "reference", "snapshot_window, of rows that never end",
)  # fmt: skip


@each_operator
def test_keys_that_pass_are_forgotten(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five times the data, in which no key comes again, through the same operators know no more.

    Forgetting keys shows nowhere: with it and without the history is the same.
    """
    known, state = list[int](), KeyCoder.state

    def noted(coder: KeyCoder) -> pl.DataFrame:
        known.append(len(coder))
        return state(coder)

    monkeypatch.setattr(KeyCoder, "state", noted)
    with forgetful():
        long_run(name, 200, passing=True)
        few = max(known, default=0)
        long = long_run(name, 1_000, passing=True)
    if not name.startswith(FOR_EVER) and "differences" not in name:
        told = "an operator that keeps something of each key for ever is named in FOR_EVER"
        assert max(known, default=0) <= 1.1 * few + 5, told
    never = long_run(name, 1_000, 1_000, passing=True)
    if not long.out:  # there is no result before the end of time
        assert not never.out
        return
    assert_frame_equal(history(long.out, long.out[-1].cti), history(never.out, long.out[-1].cti))


def history(out: list[rxt.EventBatch], cti: int) -> pl.DataFrame:
    """Return a history up to a CTI as a frame in order, floats to six digits."""
    lives = [pl.DataFrame({"start": b.start, "end": b.end, "edge": b.edge}) for b in out]
    frame = pl.concat(
        pl.concat([life, each.payload], how="horizontal")
        for life, each in zip(lives, out, strict=True)
    )
    rest = pl.exclude("edge", "end").first()
    edges = frame.filter(pl.col("edge") != 0).group_by("edge").agg(pl.col("end").min(), rest)
    rows = pl.concat([frame.filter(pl.col("edge") == 0), edges.select(frame.columns)])
    return (
        rows.drop("edge")
        .filter(pl.col("start") < cti)
        .with_columns(pl.col("end").clip(upper_bound=cti), cs.float().round(6))
        .sort(pl.all())
    )


def test_every_operator_is_held_to_the_laws() -> None:
    """Each public operator is the subject of a case, and so is what is made of an input stream.

    But for ``synchronize``, which is about streams of devices: see ``test_device_times``.
    """
    held = {name.split(",")[0] for name in CASES}
    told = "an operator has no case in tests/support/law_table*.py"
    assert held | {"synchronize"} == {*ops.__all__, "reference"}, told


@pytest.mark.parametrize(
    "query",
    [
        lambda s: s.chop(5),
        lambda s: s.hopping_window(5, 2).aggregate(n=agg.count()),
        lambda s: s.tumbling_window(10**9).aggregate(n=agg.count()),
        lambda s: s.group_by("k").tumbling_window(7).top_k(1, "x"),
    ],
)
@given(items=strategies.streams(extremes=False))
@example([("interval", 3, MAX_TIME, {"k": "a", "x": 1, "y": None})])
@examples
def test_endless_rows_have_no_last_piece(query: Any, items: list[Event]) -> None:
    """An operator that cuts rows into pieces raises at the end of time if a row never ends."""
    items = arrangements.finish(items)
    arrivals = [(0, batch) for batch in physical.batches(items, arrangements.cut_evenly(items, 1))]
    endless = any(row.end == MAX_TIME for row in oracle.canonical(items))
    with pytest.raises(rxt.UnboundedWindowError) if endless else nullcontext():
        physical.pushed(physical.planned(query), arrivals)


@pytest.mark.parametrize("name", [each for each in CASES if each.startswith("relate")])
@pytest.mark.parametrize("begun", ["start", "interval"])
@pytest.mark.parametrize("side", [0, 1])
def test_a_row_that_goes_on_waits_for_no_partner_that_time_does_not_allow(
    name: str, begun: str, side: int
) -> None:
    """What begins at the last tick can meet the end of the row, or end with it, and no more."""
    row = {"k": None, "x": 1, "y": None}
    event = ("start", 0, row) if begun == "start" else ("interval", 0, MAX_TIME, row)
    sides: list[list[Event]] = [[("cti", MAX_TIME)], [("cti", MAX_TIME)]]
    sides[side] = [event, ("cti", MAX_TIME - 2), ("cti", MAX_TIME - 1), ("cti", MAX_TIME)]
    check_each_event(name, (*sides,), Random(0), Expected(CASES[name], (*sides,)))


PIPES: dict[str, tuple[Any, str]] = {
    "where": (ops.where(pl.col("x") > 1), "where"),
    "apply": (
        compose(ops.group_by("k"), ops.apply(ops.snapshot_window().aggregate(n=agg.count()))),
        "apply",
    ),
    "multicast": (
        ops.multicast(
            lambda s: s.pipe(ops.where(pl.col("x") > 1), ops.join(s, on="k", suffix="_right"))
        ),
        "multicast",
    ),
}


@pytest.mark.parametrize("name", PIPES)
@examples
@given(data=st.data())
def test_pipes(name: str, data: st.DataObject) -> None:
    """An operator in `pipe` has the results of the method of the same name."""
    operator, same = PIPES[name]
    sides, random = drawn(same, data)
    out = physical.run([batch for _, batch in in_runs(sides, random)], operator)
    Expected(CASES[same], sides).check(out, final_cti(CASES[same], sides))
