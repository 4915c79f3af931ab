"""Queries of several operators: what one makes is what the next one can take.

Edges whose ends come later, ids given anew, groups that stay, one stream used twice: each operator
keeps its laws alone, and here they feed each other. The model of a query is made of the models of
its operators, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import arrangements
import oracle
import physical
import pytest
from compositions import COMPOSITIONS, STREAM, Rows, plan
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import MAX_TIME, MIN_TIME
from oracle_lifetimes import UnboundedWindow
from random_queries import ENDS, PIECES, draw_query

import rxtemporal as rxt

Sides = tuple[list[oracle.Event], ...]
Model = Callable[..., Rows]


def in_runs(sides: Sides, random: Random, alone: bool = False) -> list[tuple[int, rxt.EventBatch]]:
    """The streams cut into batches, or into single events, and interleaved at random."""
    cuts = [arrangements.cut_evenly(s, 1) if alone else arrangements.cut(s, random) for s in sides]
    made = [physical.batches(items, runs) for items, runs in zip(sides, cuts, strict=True)]
    return arrangements.interleave(made, random)


def assert_same(model: Rows, out: list[rxt.EventBatch], cti: int) -> None:
    """Assert that the output is the model's history up to a CTI."""
    made = physical.rows(out)
    assert oracle.history(oracle.clip(made, cti)) == oracle.history(oracle.clip(model, cti))


def assert_steps(
    query: rxt.Streamable, model: Rows, sides: Sides, random: Random, alone: bool = False
) -> None:
    """Assert that each output CTI commits the model's rows, also after the steps are reloaded."""
    made = in_runs(sides, random, alone)
    stop, places = random.randrange(len(made)), iter(range(len(made)))
    out, reached = list[rxt.EventBatch](), MIN_TIME
    for some in physical.stepped(query, made, lambda: next(places) == stop):
        out += some
        if some and some[-1].cti > reached:
            reached = some[-1].cti
            assert_same(model, out, reached)
    assert reached == MAX_TIME


def assert_reordered(query: rxt.Streamable, model: Rows, sides: Sides, random: Random) -> None:
    """Assert that legal reorderings, cuts and interleavings change nothing, through Rx."""
    moved = tuple(arrangements.reorder(items, random) for items in sides)
    out = physical.pushed(query, in_runs(moved, random))
    assert out[-1].cti == MAX_TIME
    assert_same(model, out, MAX_TIME)


def assert_laws(query: rxt.Streamable, model: Model, sides: Sides, random: Random) -> None:
    """A query gives its model's history, or the error where that has no last piece or window."""
    try:
        history = list(model(*map(oracle.canonical, sides)))
    except UnboundedWindow:
        with pytest.raises(rxt.UnboundedWindowError):
            physical.pushed(query, in_runs(sides, random))
        return
    assert_steps(query, history, sides, random)
    assert_steps(query, history, sides, random, alone=True)
    assert_reordered(query, history, sides, random)


@pytest.mark.parametrize("name", COMPOSITIONS)
@given(
    sides=st.tuples(STREAM, STREAM) | st.tuples(STREAM, ENDS) | st.tuples(ENDS, ENDS),
    number=st.integers(0, 2**20),
)
def test_a_query_is_what_its_models_say(name: str, sides: Sides, number: int) -> None:
    """However streams arrive and wherever it is stopped, a query has its models' history."""
    assert_laws(plan(name), COMPOSITIONS[name].model, sides, Random(number))


@pytest.mark.parametrize("name", PIECES)
@given(data=st.data())
@settings(max_examples=max(5, settings().max_examples // 3))
def test_any_operators_follow_each_other_at_the_ends_of_time(
    name: str, data: st.DataObject
) -> None:
    """Whatever operators a query is made of, rows at both ends of time keep the laws."""
    chain, sides, number = data.draw(draw_query(name))
    query = physical.planned(chain.query, chain.inputs, unit="ticks")
    assert_laws(query, chain.model, sides, Random(number))
