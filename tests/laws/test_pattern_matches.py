"""Matches of patterns are those of a model that tries every way, however rows arrive."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import arrangements
import buckets
import oracle
import pattern_model
import physical
import polars as pl
import pytest
from drawn_patterns import Drawn, patterns
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from oracle import MAX_TIME, Event

import rxtemporal as rxt
from rxtemporal import pattern as pt
from rxtemporal.errors import ArgumentError

# each example compiles nothing, but composes a query and runs it four times
examples = settings(max_examples=2 * settings().max_examples)

Found = list[tuple[str, int, float, str, int]]
Parts = list[tuple[str, int, float, float, int, bool]]
OPTIONAL = Drawn(
    "B ~> A* ~> B*", {"A": "x > 0"}, {"skip": "past_last", "within": 9, "max_gap": None}
)
# the second row matches what follows A*, so the third one is not taken as A
REPEATED: list[Event] = [
    *(("point", at, {"k": "a", "x": x, "y": float(at)}) for at, x in enumerate((0, 0, 1))),
    ("cti", MAX_TIME),
]
# what the engine refuses, and the model reads in a way of its own
OPEN = "behind ~>> and what may be empty"


@st.composite
def streams(
    draw: st.DrawFn,
    most: int = 8,
    values: Sequence[int | None] = (None, 0, 1, 1, 2, 3),
    steps: Sequence[int] = (0, 1, 2),
) -> list[Event]:
    """Draw some points of two keys with CTIs between them; each row has a number of its own."""
    keys, each = st.sampled_from("aab"), st.sampled_from(values)
    rows = draw(st.lists(st.tuples(keys, each, st.sampled_from(steps)), max_size=most))
    items: list[Event] = []
    time = 0
    for number, (key, value, step) in enumerate(rows):
        time += step
        items.append(("point", time, {"k": key, "x": value, "y": float(number)}))
        if draw(st.integers(0, 2)) == 0:
            items.append(("cti", time))
    return [*items, ("cti", MAX_TIME)]


def detect(stream: rxt.Streamable, drawn: Drawn) -> rxt.Streamable:
    """Return the query: each row of a match."""
    return stream.group_by("k").detect(
        drawn.text, rows="all", measures={"n": pt.count("A")} if "A" in drawn.text else None,
        **drawn.settings, **drawn.expressions,
    ).ungroup()  # fmt: skip


def detect_parts(stream: rxt.Streamable, drawn: Drawn) -> rxt.Streamable:
    """Return the query of matches and of the longest part of each other start."""
    measures = {"last": pl.col("y"), "n": pl.sum_horizontal(*map(pt.count, drawn.variables))}
    return stream.group_by("k").detect(
        drawn.text, timeouts=True, measures=measures, **drawn.settings, **drawn.expressions
    ).ungroup()  # fmt: skip


Query = Callable[[rxt.Streamable, Drawn], rxt.Streamable]


def compose(drawn: Drawn, query: Query = detect) -> rxt.Streamable:
    """Return the plan of the query, if engine and model accept the pattern."""
    try:
        return physical.planned(lambda stream: query(stream, drawn), unit="ticks")
    except ArgumentError as error:
        # the engine knows that alternatives behind an empty one are never taken
        assume(OPEN not in str(error) and "always leads" not in str(error))
        with pytest.raises(ValueError, match=r"."):
            search([], drawn)
        assume(False)
        raise


def search(
    rows: list[oracle.Row], drawn: Drawn, *, timeouts: bool = False
) -> list[pattern_model.Match]:
    """Return the model's matches; it takes a limit of gaps as half-open."""
    chosen = {**drawn.settings, "timeouts": timeouts}
    if chosen["max_gap"] is not None:
        chosen["max_gap"] += 1
    return pattern_model.match(rows, drawn.text, drawn.functions, **chosen)


def expect(items: list[Event], drawn: Drawn) -> Found:
    """Return the rows of the model's matches."""
    found: Found = []
    for key in "ab":
        rows = [row for row in oracle.canonical(items) if row.payload["k"] == key]
        ordered = pattern_model.sort_rows(rows)
        for match in search(rows, drawn):
            count = sum(name == "A" for _, name in match.rows) if "A" in drawn.text else -1
            found += [
                (key, ordered[match.first].start, ordered[at].payload["y"], name, count)
                for at, name in match.rows
            ]
    return sorted(found)


def expect_parts(items: list[Event], drawn: Drawn) -> Parts:
    """Return the model's matches and parts: the key, the lifetime, the last row, the rows."""
    found: Parts = []
    for key in "ab":
        rows = [row for row in oracle.canonical(items) if row.payload["k"] == key]
        ordered = pattern_model.sort_rows(rows)
        for match in search(rows, drawn, timeouts=True):
            first, last = ordered[match.first], ordered[match.rows[-1][0]]
            lifetime = first.start, last.start + 1
            found.append((key, *lifetime, last.payload["y"], len(match.rows), match.complete))
    return sorted(found)


def read_parts(rows: list[oracle.Row]) -> Parts:
    """Return the engine's matches and parts."""
    return sorted(
        (p["k"], row.start, row.end, p["last"], p["n"], p["complete"])
        for row in rows
        for p in [row.payload]
    )


def read(rows: list[oracle.Row]) -> Found:
    """Return the rows of the engine's matches."""
    return sorted(
        (p["k"], p["match"], p["y"], p["variable"], p.get("n", -1))
        for p in (row.payload for row in rows)
    )


def check(
    plan: rxt.Streamable,
    items: list[Event],
    expected: list[Any],
    number: int,
    read: Callable[[list[oracle.Row]], list[Any]] = read,
) -> None:
    """Compare the engine with the model, for one arrangement of the rows."""
    random = Random(number)
    assert read(physical.rows(run(plan, items, random))) == expected
    moved = arrangements.reorder(items, random)
    made = [(0, batch) for batch in physical.batches(moved, arrangements.cut(moved, random))]
    out = [b for some in physical.stepped(plan, made, lambda: random.random() < 0.5) for b in some]
    assert read(physical.rows(out)) == expected
    assert out[-1].cti == MAX_TIME
    parts, cti = buckets.in_parts(plan, (items,), random)
    assert (read(parts), cti) == (expected, MAX_TIME)


def run(plan: rxt.Streamable, items: list[Event], random: Random) -> list[rxt.EventBatch]:
    """Run event by event; with a limit of time, the CTI is held no longer than that."""
    made = physical.batches(items, arrangements.cut_evenly(items, 1))
    return [batch for some in physical.stepped(plan, ((0, b) for b in made)) for batch in some]


@examples
@example(drawn=OPTIONAL, items=REPEATED, number=0)
@given(drawn=patterns(back=False), items=streams(), number=st.integers(0, 2**20))
def test_matches_over_rows(drawn: Drawn, items: list[Event], number: int) -> None:
    """With conditions over rows and those before them."""
    check(compose(drawn), items, expect(items, drawn), number)


@examples
@given(drawn=patterns(back=True), items=streams(), number=st.integers(0, 2**20))
def test_matches_over_ways(drawn: Drawn, items: list[Event], number: int) -> None:
    """With conditions over the rows matched so far."""
    check(compose(drawn), items, expect(items, drawn), number)


@examples
@given(drawn=patterns(back=True, by_columns=True), items=streams(), number=st.integers(0, 2**20))
def test_matches_by_columns(drawn: Drawn, items: list[Event], number: int) -> None:
    """And with conditions that the kernel cannot test."""
    check(compose(drawn), items, expect(items, drawn), number)


@examples
@given(drawn=patterns(back=False, limited=True), items=streams(), number=st.integers(0, 2**20))
def test_parts_over_rows(drawn: Drawn, items: list[Event], number: int) -> None:
    """Each start that no match takes gives its longest part, with timeouts."""
    plan = compose(drawn, detect_parts)
    check(plan, items, expect_parts(items, drawn), number, read_parts)


@examples
@given(drawn=patterns(back=True, limited=True), items=streams(), number=st.integers(0, 2**20))
def test_parts_over_ways(drawn: Drawn, items: list[Event], number: int) -> None:
    """And with conditions over the rows matched so far."""
    plan = compose(drawn, detect_parts)
    check(plan, items, expect_parts(items, drawn), number, read_parts)


@examples
@given(
    drawn=patterns(back=False),
    gap=st.integers(0, 12),
    # more rows than a model can try all ways of, most of them alike
    items=streams(40, (0, 1, 1, 1, 2, 3), (0, 1, 1, 2, 5)),
    number=st.integers(0, 2**20),
)
def test_ways_of_one_state_are_followed_together_or_each_by_itself(
    drawn: Drawn, gap: int, items: list[Event], number: int
) -> None:
    """A condition about the match so far keeps all ways apart, be it true of each."""
    drawn = dataclasses.replace(drawn, settings={**drawn.settings, "max_gap": gap})
    together = compose(drawn)
    apart = compose(drawn, detect_apart)
    try:
        expected = read(physical.rows(run(apart, items, Random(number))))
    except ArgumentError as error:
        # more ways from one row than are followed
        if "ways to go on" not in str(error):
            raise
        assume(False)
        raise
    check(together, items, expected, number)


def detect_apart(stream: rxt.Streamable, drawn: Drawn) -> rxt.Streamable:
    """Return the query of ``detect``, with conditions that keep all ways apart."""
    stream = stream.group_by("k")
    expressions = {
        name: drawn.expressions.get(name, pl.lit(True)) & (pt.count(name) >= 0)
        for name in drawn.variables
    }
    return stream.detect(
        drawn.text, rows="all", measures={"n": pt.count("A")} if "A" in drawn.text else None,
        **drawn.settings, **expressions,
    ).ungroup()  # fmt: skip
