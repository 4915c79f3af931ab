"""Queries of several operators: what one makes is what the next one can take.

Edges whose ends come later, ids given anew, groups that stay, one stream used twice: each operator
keeps its laws alone, and here they feed each other. The model of a query is made of the models of
its operators, in the same order.
"""

from __future__ import annotations

from random import Random

import arrangements
import oracle
import physical
import pytest
from compositions import COMPOSITIONS, STREAM, Rows, Sides, expected, plan
from hypothesis import given
from hypothesis import strategies as st
from oracle import MAX_TIME, MIN_TIME

import rxtemporal as rxt

# what several queries are made of, for the engine and for the model


# the queries


def in_runs(sides: Sides, random: Random) -> list[tuple[int, rxt.EventBatch]]:
    """The streams cut into batches and interleaved at random."""
    made = [physical.batches(items, arrangements.cut(items, random)) for items in sides]
    return arrangements.interleave(made, random)


def assert_same(model: Rows, out: list[rxt.EventBatch], cti: int) -> None:
    """Say that what came out is the model's history up to a CTI."""
    made = physical.rows(out)
    assert oracle.history(oracle.clip(made, cti)) == oracle.history(oracle.clip(model, cti))


def assert_steps(name: str, model: Rows, sides: Sides, random: Random) -> None:
    """At each output CTI all is there that it commits, also after the steps have been reloaded."""
    made = in_runs(sides, random)
    stop, places = random.randrange(len(made)), iter(range(len(made)))
    out, reached = list[rxt.EventBatch](), MIN_TIME
    for some in physical.stepped(plan(name), made, lambda: next(places) == stop):
        out += some
        if some and some[-1].cti > reached:
            reached = some[-1].cti
            assert_same(model, out, reached)
    assert reached == MAX_TIME


def assert_reordered(name: str, model: Rows, sides: Sides, random: Random) -> None:
    """Reorderings that no CTI forbids, cuts and interleavings change nothing, through Rx."""
    left, right = (arrangements.reorder(items, random) for items in sides)
    out = physical.pushed(plan(name), in_runs((left, right), random))
    assert out[-1].cti == MAX_TIME
    assert_same(model, out, MAX_TIME)


@pytest.mark.parametrize("name", COMPOSITIONS)
@given(sides=st.tuples(STREAM, STREAM), number=st.integers(0, 2**20))
def test_a_query_is_what_its_models_say(name: str, sides: Sides, number: int) -> None:
    """However streams arrive, and wherever it is stopped, a query gives its models' history."""
    random, model = Random(number), expected(name, sides)
    assert_steps(name, model, sides, random)
    assert_reordered(name, model, sides, random)
