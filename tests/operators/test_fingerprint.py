"""Fingerprints of queries: only the query that saved a state can resume from it."""

from __future__ import annotations

import functools
import json
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from case_fingerprints import (
    AGGREGATES,
    CODE,
    PLACES,
    Least,
    Most,
    Weighted,
    counting,
    fingerprints,
    of_the_table,
    sides,
)
from child_process import environment
from faults import EvilError
from law_streams import CASES
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal import EventShape, agg
from rxtemporal.errors import CheckpointError
from rxtemporal.operators.operator import has_user_code
from rxtemporal.query.runs import shape_output
from rxtemporal.run.execution import Execution

TWO = [name for name, case in CASES.items() if case.inputs == 2]
col = pl.col


@pytest.mark.long
def test_the_same_in_another_process() -> None:
    """A fingerprint does not depend on the process: on addresses or the order of hashing."""
    code = "import json, case_fingerprints as t; print(json.dumps(t.of_the_table()))"
    env = environment(PYTHONHASHSEED="1")
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == of_the_table()


def test_each_query_has_its_own() -> None:
    """No two queries of the table of laws have the same fingerprint."""
    found = list(map(tuple, of_the_table().values()))
    assert len(set(found)) == len(found) > 100


@pytest.mark.parametrize("name", TWO)
def test_inputs_that_change_places_are_a_change(name: str) -> None:
    """Every operator's state has a left and a right side."""
    left, right = sides()
    query = CASES[name].query
    assert fingerprints(query, left, right) == fingerprints(query, *sides())
    assert fingerprints(query, left, right) != fingerprints(query, right, left)


def among(*others: int) -> Callable[..., rxt.Streamable]:
    """Return a query that differs by one of many constants, which polars does not show."""
    return lambda rows: rows.where(col("x").is_in([*range(50), *others, *range(50)]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (among(70), among(71)),
        (lambda s: s.where(col("y").round(1) > 2), lambda s: s.where(col("y").round(2) > 2)),
        (
            lambda s: s.select(n=col("x").replace({1: 2})),
            lambda s: s.select(n=col("x").replace({1: 3})),
        ),
        (counting(agg.quantile("y", 0.5, "lower")), counting(agg.quantile("y", 0.5, "higher"))),
        (counting(agg.expr(col("y").std(ddof=0))), counting(agg.expr(col("y").std(ddof=1)))),
        (counting(Least()), counting(Least(1))),
        (counting(Least()), counting(Most())),
    ],
)
def test_settings_that_polars_does_not_show_are_a_change(one: Any, other: Any) -> None:
    """Queries that print alike differ by options of functions, long lists or users' classes."""
    (left, _), (same, _), (right, _) = sides(), sides(), sides()
    assert fingerprints(one, left) == fingerprints(one, same) != fingerprints(other, right)


PARAMETERS = [1, 5, "a", 2.5, None, (1, 2), [2, 1], {"a": 1}, {"b"}, EventShape.EDGE, col("x")]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("code", CODE)
def test_parameters_of_users_functions_are_part_of_it(code: str, place: str) -> None:
    """However a function has its parameter, another value is another query.

    Lists, dicts and sets of the functions around it are its memory, and no parameters.
    """
    stream, _ = sides()
    given = [x for x in PARAMETERS if code != "within" or not isinstance(x, (list, dict, set))]
    found = [fingerprints(PLACES[place](CODE[code](each)), stream) for each in given]
    again = [fingerprints(PLACES[place](CODE[code](each)), stream) for each in given]
    assert found == again
    assert len(set(found)) == len(given)


def test_what_a_function_has_noted_is_no_part_of_it() -> None:
    """A query whose function keeps notes, or uses an object without a text, resumes."""
    stream, _ = sides()
    notes: list[int] = []
    evil = EvilError()

    def keep(row: dict[str, Any]) -> bool:
        notes.append(1)
        return row["x"] is not evil

    before = fingerprints(lambda s: s.where(keep), stream)
    notes.append(2)
    assert fingerprints(lambda s: s.where(keep), stream) == before


@pytest.mark.parametrize("name", AGGREGATES)
def test_parameters_of_users_aggregates_are_part_of_it(name: str) -> None:
    """They are attributes of the object or of its class."""
    stream, _ = sides()
    found = [fingerprints(counting(AGGREGATES[name](each)), stream) for each in PARAMETERS]
    again = [fingerprints(counting(AGGREGATES[name](each)), stream) for each in PARAMETERS]
    assert found == again
    assert len(set(found)) == len(PARAMETERS)


def test_what_is_no_parameter_is_no_part_of_it() -> None:
    """Loggers and the like are named by their class; a value kept in the object is left out."""

    class Kept(Least):
        def __init__(self) -> None:
            self.log, self.itself = logging.getLogger("kept"), self

        @functools.cached_property
        def table(self) -> list[int]:
            return [1]

    stream, _ = sides()
    aggregate = Kept()
    before = fingerprints(counting(aggregate), stream)
    assert aggregate.table == [1]
    aggregate.log.setLevel("ERROR")
    assert fingerprints(counting(aggregate), stream) == before
    assert "log=Logger" in before[0]


def test_an_aggregate_with_another_parameter_cannot_resume_from_a_folder(tmp_path: Path) -> None:
    """The state would have rows of one weight and lose them with another."""

    def run(weight: float) -> None:
        rows = [rxt.PointEvent(t, {"y": 1.0}) for t in range(5)]
        query = counting(Weighted(weight))(rxt.from_events(rows, name=A))
        query.run(rxt.Collect(), resume=tmp_path).wait(60)

    run(1.0)
    run(1.0)
    with pytest.raises(
        CheckpointError, match=r"(?s)Saved: .*weight=1\.0.*Now: .*weight=5\.0.*Hint"
    ):
        run(5.0)


A, B = "a", "b"
Streams = dict[str, rxt.Streamable]
Query = Callable[[Streams], list[rxt.Streamable]]


def wide(stream: rxt.Streamable) -> rxt.Streamable:
    """Return the rows of a stream that are wide."""
    return stream.where(col("x") > 1)


def shared(streams: Streams) -> list[rxt.Streamable]:
    """Return a query with one filter, computed once."""
    rows = wide(streams[A])
    return [rows.union(rows)]


def twice(streams: Streams) -> list[rxt.Streamable]:
    """Return a query with two filters, each with its own state."""
    return [wide(streams[A]).union(wide(streams[A]))]


CHANGES: dict[str, tuple[Query, Query, str]] = {
    "sides": (
        lambda s: [s[A].left_anti_join(s[B], on="x")],
        lambda s: [s[B].left_anti_join(s[A], on="x")],
        "Saved: left_anti_join.*, of 'a' and 'b'. Now: left_anti_join.*, of 'b' and 'a'",
    ),
    "a filter on the other input": (
        lambda s: [wide(s[A]).union(s[B])],
        lambda s: [s[A].union(wide(s[B]))],
        "Saved: where.*, of 'a'. Now: where.*, of 'b'",
    ),
    "a filter on the other side of a join": (
        lambda s: [wide(s[A]).join(s[A], on="x")],
        lambda s: [s[A].join(wide(s[A]), on="x")],
        r"join.*, of where \(step 1\) and 'a'. Now: .*, of 'a' and where \(step 1\)",
    ),
    "the order of two steps like each other": (
        lambda s: [wide(s[A]).left_anti_join(wide(s[A]).stitch(), on="x")],
        lambda s: [wide(s[A]).stitch().left_anti_join(wide(s[A]), on="x")],
        "Saved: where.*, of 'a'. Now: stitch",
    ),
    "one step in place of two": (shared, twice, "Saved: union.*. Now: where"),
    "one stream for another": (
        lambda s: [s[A].join(s[A], on="x").union(s[B])],
        lambda s: [s[A].join(s[B], on="x").union(s[B])],
        "join.*, of 'a' and 'a'. Now: join.*, of 'a' and 'b'",
    ),
    "late events for the others": (
        lambda s: [s[A].late_events(suffix="_of").stitch(), s[A], s[B]],
        lambda s: [s[B].late_events(suffix="_of").stitch(), s[A], s[B]],
        "stitch.*, of late events of 'a'. Now: stitch.*, of late events of 'b'",
    ),
    "outputs": (
        lambda s: [s[A].union(s[B]), wide(s[A].union(s[B]))],
        lambda s: [s[A].union(s[B]), wide(s[B].union(s[A]))],
        "union.*, of 'a' and 'b'. Now: union.*, of 'b' and 'a'",
    ),
    "which of two outputs is which": (
        lambda s: [s[A], s[B]],
        lambda s: [s[B], s[A]],
        "Saved: an output of 'a'. Now: an output of 'b'",
    ),
}


def execution(query: Query) -> tuple[Execution, dict[str, Subject[Any]]]:
    """Return a run over two streams named in the run, and the subjects that push into them."""
    subjects: dict[str, Subject[Any]] = {A: Subject(), B: Subject()}
    in_order = rxt.INCREASING_START_TIME
    streams = {
        name: rxt.from_observable(each, schema={"x": int}, advance_time=in_order)
        for name, each in subjects.items()
    }
    outputs = [shape_output(each, EventShape.INTERVAL) for each in query(streams)]
    named = {id(stream._node.source): name for name, stream in streams.items()}
    return Execution(*outputs, names=named), subjects


def begun(run: Execution, outputs: int) -> None:
    """Start a run without reading its results; raise its errors."""
    failed: list[Exception] = []
    run.start_each([lambda batch: None] * outputs, failed.append, lambda: None)
    assert not failed


def saved(query: Query) -> tuple[bytes, int]:
    """Return the state of a run that has taken an event of each stream, and its outputs' number."""
    run, subjects = execution(query)
    outputs = len(run.wiring.leaves)
    begun(run, outputs)
    for time, name in enumerate(subjects):
        subjects[name].on_next(rxt.IntervalEvent(time, time + 5, {"x": 2}))
    return run.save(), outputs


@pytest.mark.parametrize("change", CHANGES)
def test_another_query_cannot_load_a_runs_state(change: str) -> None:
    """The error shows the saved and the present query; the unchanged query resumes."""
    one, other, says = CHANGES[change]
    state, outputs = saved(one)
    again, _ = execution(one)
    again.load(state)
    begun(again, outputs)
    run, _ = execution(other)
    run.load(state, "the folder 'kept' was begun")
    with pytest.raises(CheckpointError, match=f"(?s)since the folder.*{says}.*Hint"):
        begun(run, len(run.wiring.leaves))


def test_another_query_cannot_resume_from_a_folder(tmp_path: Path) -> None:
    """Swapping the sides of an anti join is noticed with ``resume=`` too."""

    def streams() -> list[rxt.Streamable]:
        frame = pl.DataFrame({"start": range(5), "x": range(5)})
        return [rxt.from_polars(frame, start="start", name=name) for name in (A, B)]

    one, other = streams()
    one.left_anti_join(other, on="x").run(rxt.Collect(), resume=tmp_path).wait(60)
    one, other = streams()
    with pytest.raises(CheckpointError, match=r"of 'a' and 'b'. Now: .* of 'b' and 'a'"):
        other.left_anti_join(one, on="x").run(rxt.Collect(), resume=tmp_path).wait(60)


class Truth(int):
    """Class that is called as a function."""


MAPPED = col("x").map_elements(abs, return_dtype=pl.Int64)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (lambda s: s.where(col("x") > 1), False),
        (lambda s: s.where(lambda row: row["x"] > 1), True),
        (lambda s: s.where(functools.partial(lambda least, row: row["x"] > least, 1)), True),
        (lambda s: s.tumbling_window(5).aggregate(n=agg.sum("x"), m=agg.count()), False),
        (lambda s: s.tumbling_window(5).aggregate(n=agg.expr(col("x").max())), False),
        (lambda s: s.tumbling_window(5).aggregate(n=agg.expr(MAPPED.max())), True),
        (lambda s: s.tumbling_window(5).aggregate(n=agg.expr(col("x").shuffle().first())), True),
        (lambda s: s.tumbling_window(5).aggregate(n=Most("x")), True),
        (lambda s: s.where(Truth), True),
        (lambda s: s.join(s, on="k", suffix="_r"), False),
    ],
)  # fmt: skip
def test_a_users_code_is_found(query: Callable[[Any], rxt.Streamable], expected: bool) -> None:
    """Functions, functions in expressions, and aggregates of the user's own."""
    stream = rxt.from_events([], schema={"k": pl.String, "x": pl.Int64}, name="s")
    operators = [node.operator for node in query(stream)._node.list_nodes()]
    assert any(map(has_user_code, operators)) is expected
