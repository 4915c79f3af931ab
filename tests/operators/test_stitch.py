"""stitch: rows of equal payload that touch become one."""

from __future__ import annotations

from typing import Any

import arrangements
import oracle
import oracle_lifetimes
import physical
import polars as pl
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import MAX_TIME, MIN_TIME

import rxtemporal as rxt
from rxtemporal import EventBatch
from rxtemporal.operators.stitch.plan import stitch

SCHEMA = pl.Schema(physical.SCHEMA)
A = {"k": "a", "x": 1, "y": None}


def stitched(*lifetimes: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the lifetimes of rows of one payload, stitched."""
    items = [*(("interval", *lifetime, A) for lifetime in lifetimes), ("cti", MAX_TIME)]
    made = physical.batches(items, [slice(0, len(items))])
    return sorted((row.start, row.end) for row in physical.rows(physical.run(made, stitch())))


def told(items: list[Any]) -> list[tuple[int, int, int, bool]]:
    """Return CTI, start, end and True for an edge of each output row; one event is a batch."""
    made = physical.batches(items, arrangements.cut_evenly(items, 1))
    return [
        (batch.cti, int(start), int(end), bool(edge))
        for batch in physical.run(made, stitch())
        for start, end, edge in zip(batch.start, batch.end, batch.edge, strict=True)
    ]


def test_rows_that_touch_are_joined() -> None:
    """Rows touch if one ends where the other starts; a gap or an overlap keeps them apart."""
    assert stitched((0, 5), (5, 9), (9, 12)) == [(0, 12)]
    assert stitched((0, 5), (6, 9)) == [(0, 5), (6, 9)]
    assert stitched((0, 5), (4, 9)) == [(0, 5), (4, 9)]
    assert stitched((0, 5), (5, MAX_TIME)) == [(0, MAX_TIME)]


def test_the_oldest_chains_continue() -> None:
    """Of three chains that end where two rows start, the two oldest continue."""
    assert stitched((0, 9), (1, 9), (2, 9), (9, 12), (9, 12)) == [(0, 12), (1, 12), (2, 9)]


def test_the_older_of_two_chains_continues_also_where_its_last_row_began_later() -> None:
    """A chain is as old as its first row."""
    assert stitched((0, 5), (2, 10), (5, 10), (10, 15)) == [(0, 15), (2, 10)]


def test_rows_that_nothing_continues_begin_chains_of_their_own() -> None:
    """Of two rows that start where one ends, the one that ends first begins its own chain."""
    assert stitched((0, 9), (9, 12), (9, 20)) == [(0, 20), (9, 12)]


def test_the_row_that_ends_first_takes_the_newest_chain() -> None:
    """Rows that start together continue chains in the order in which they end."""
    assert stitched((0, 9), (3, 9), (9, 20), (9, 10)) == [(0, 20), (3, 10)]
    assert stitched((0, 9), (3, 9), (9, MAX_TIME), (9, 10)) == [(0, MAX_TIME), (3, 10)]


def test_equal_means_equal_as_a_key() -> None:
    """Null equals null, NaN equals NaN, -0.0 equals 0.0; every field counts."""
    items: list[Any] = []
    nan, other_nan = float("nan"), float("nan")
    for t, y in [
        (0, None),
        (1, None),
        (10, nan),
        (11, other_nan),
        (20, 0.0),
        (21, -0.0),
        (22, 1.0),
    ]:
        items.append(("point", t, {"k": None, "x": 1, "y": y}))
    made = physical.batches([*items, ("cti", MAX_TIME)], [slice(0, 8)])
    found = physical.rows(physical.run(made, stitch()))
    assert sorted((row.start, row.end) for row in found) == [(0, 2), (10, 12), (20, 22), (22, 23)]


def test_an_end_waits_for_the_cti_above_it() -> None:
    """At a CTI equal to a row's end another row may still start there."""
    items = [("interval", 0, 5, A), ("cti", 1), ("cti", 5), ("point", 5, A), ("cti", 6), ("cti", 7)]
    assert told(items) == [(1, 0, MAX_TIME, True), (7, 0, 6, True)]


def test_an_open_row_continues_a_chain() -> None:
    """The row's end edge ends the chain; a chain whose end is known at once leaves complete."""
    items = [("point", 4, A), ("start", 5, A), ("cti", 5), ("end", 5, 7, A), ("cti", 7), ("cti", 9)]
    assert told(items) == [(5, 4, MAX_TIME, True), (9, 4, 7, True)]
    items = [("point", 4, A), ("point", 5, A), ("cti", 9)]
    assert told(items) == [(9, 4, 6, False)]


@given(data=st.data(), keys=st.sampled_from([(), ("k",)]))
@settings(max_examples=4 * settings().max_examples)
def test_stitch_is_the_definition(data: st.DataObject, keys: tuple[str, ...]) -> None:
    """Under any cut and restarts before each batch, chains are those of the plain model."""
    values = data.draw(st.sampled_from([strategies.few_payloads(), st.just(A)]))
    items = arrangements.finish(data.draw(strategies.streams(payload=values)))
    made = physical.batches(items, data.draw(strategies.cuts(len(items))))
    made = physical.group(made, keys)
    expected = oracle_lifetimes.stitch(oracle.canonical(items))
    step, cti = stitch().make(SCHEMA, keys), MIN_TIME
    out: list[EventBatch] = []
    for batch in made:
        saved, step = step.save(), stitch().make(SCHEMA, keys)
        step.load(saved)
        out.append(step.on_batch(batch))
        cti = out[-1].check(cti).cti
        assert (cti, out[-1].keys) == (batch.cti, keys)
        assert oracle.equal_up_to(expected, physical.rows(out), cti)
    assert oracle.history(physical.rows(out)) == oracle.history(expected)
    assert step.rows == 0 or any(item[0] == "start" for item in items)


@pytest.mark.full
def test_renumbering_rows_changes_no_chains() -> None:
    """Renumbering the rows held does not change the results."""
    items = arrangements.make_tangled_stream(2_000)
    cut = arrangements.cut_evenly(items, 97)
    found = physical.rows(physical.run(physical.batches(items, cut), stitch()))
    expected = oracle_lifetimes.stitch(oracle.canonical(items))
    assert oracle.history(found) == oracle.history(expected)


@pytest.mark.parametrize("endless", [False, True])
@pytest.mark.long
def test_only_rows_that_have_not_ended_are_held(endless: bool) -> None:
    """Chains, edges and payloads of ended rows are forgotten."""
    items: list[Any] = []
    for t in range(2_500):
        row = {"k": str(t), "x": t, "y": None}
        items += [("start", t, A if t % 2 else row), ("interval", t, MAX_TIME, A)][: 1 + endless]
        if t >= 3:
            earlier = {"k": str(t - 3), "x": t - 3, "y": None}
            items.append(("end", t - 3, t, A if (t - 3) % 2 else earlier))
        items.append(("cti", t))
    cut = arrangements.cut_at_ctis(items)
    step: Any = stitch().make(SCHEMA, ())
    held = []
    for batch in physical.batches(items, cut):
        step.on_batch(batch)
        held.append((step.rows, len(step._chains), len(step._open), len(step._values) // 1_000))
    assert max(map(max, held)) <= 6


def test_a_payload_without_fields_is_equal_to_itself() -> None:
    """Rows without fields are stitched like any others."""
    batch = EventBatch.of_rows(
        *([pl.Series(times).to_numpy() for times in ([0, 5], [5, 9])]), pl.DataFrame(height=2), 99
    )
    out = physical.run([batch], stitch())
    assert [(int(out[0].start[0]), int(out[0].end[0]))] == [(0, 9)]


def test_a_pipeline_has_it_as_an_operator() -> None:
    """A grouped stream stays grouped."""
    lamps = [rxt.IntervalEvent(s, e, {"lamp": "on"}) for s, e in ((0, 5), (5, 9))]
    batches = list(rxt.from_events(lamps).group_by("lamp").to_batches())
    out = physical.run(batches, stitch())
    assert out[-1].keys == ("lamp",)
    assert [(row.start, row.end) for row in physical.rows(out)] == [(0, 9)]
