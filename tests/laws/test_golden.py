"""Cases with known answers from outside: the documents' tables, and runs of another engine.

The cases lie beside the repository and not in it; where they are not at hand the tests skip.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import groupby
from typing import Any

import pytest
from golden_cases import GOLDEN, Case, Clock, Given, Unsized, cases, event
from golden_equivalents import equivalent
from golden_queries import QUERIES
from needs import skip_or_fail

import rxtemporal as rxt

Row = tuple[int, int, Any]

CASES = cases()
SUBJECTS = (rxt.CtiSynchronizingSubject, rxt.CtiSynchronizingSubjectAlternate)


def those(wanted: Callable[[Case], Any]) -> list[Any]:
    """The cases wanted; a single one that skips where there are no cases."""
    found = [pytest.param(case, id=case["id"]) for case in CASES if wanted(case)]
    return found or [pytest.param(None, id="absent")]


def of(operator: str) -> list[Any]:
    """The cases of an operator."""
    return those(lambda case: case["operator"] == operator)


@pytest.fixture(autouse=True)
def _at_hand() -> None:
    if not CASES:
        skip_or_fail("golden", f"there are no cases with known answers in {GOLDEN}")


# Histories ----------------------------------------------------------------------------------------


def history(result: rxt.Streamable) -> list[Row]:
    """The rows that come out, sorted."""
    rows: list[Row] = []
    for payload in result.to_polars(time="ticks").to_dicts():
        start, end = payload.pop("start_time"), payload.pop("end_time")
        rows.append((start, rxt.MAX_TIME if end is None else end, plain(payload)))
    return in_order(rows)


def expected(case: Case) -> list[Row]:
    """The rows that the case asks for, sorted."""
    time = Clock(case).time
    rows = [(time(start), time(end), plain(value)) for start, end, value in case["expected"]]
    return in_order(rows)


def plain(payload: Any) -> Any:
    """A payload in one form: records in records are named with a dot, one field is its value.

    A whole number is an integer, whether it was written with a point or not.
    """
    if isinstance(payload, float) and payload.is_integer():
        return int(payload)
    if isinstance(payload, list):
        return sorted(payload, key=json.dumps)
    if not isinstance(payload, dict):
        return payload
    if any(isinstance(value, dict) for value in payload.values()):
        payload = {f"{side}.{name}": v for side, row in payload.items() for name, v in row.items()}
    if len(payload) == 1:
        return plain(next(iter(payload.values())))
    return {name: plain(value) for name, value in payload.items()}


def in_order(rows: list[Row]) -> list[Row]:
    """Rows in an order in which two histories can be compared."""
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def contents(rows: list[Row]) -> list[Row]:
    """The payloads of each lifetime together, where a window was asked for the rows it holds."""
    return in_order(
        [
            (*lifetime, plain([row[2] for row in held]))
            for lifetime, held in groupby(rows, key=lambda row: row[:2])
        ]
    )


def stretches(rows: list[Row]) -> list[Row]:
    """Lifetimes of equal payload that meet or overlap as one: when there is such a row at all."""
    joined: list[Row] = []
    by_payload = sorted(rows, key=lambda row: (json.dumps(row[2], sort_keys=True), row[0]))
    for start, end, value in by_payload:
        if joined and joined[-1][2] == value and start <= joined[-1][1]:
            start, before, _ = joined.pop()
            end = max(before, end)
        joined.append((start, end, value))
    return in_order(joined)


def compared(case: Case, rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """Return the results and the expected ones, in a form in which they have to be equal."""
    wanted = expected(case)
    if case["operator"] == "distinct":
        # the other engine may split a stretch; a row for each maximal stretch is our definition
        return rows, stretches(wanted)
    if any(isinstance(value, list) for _, _, value in wanted):
        return contents(rows), wanted
    return rows, wanted


# Queries ------------------------------------------------------------------------------------------


def in_small_batches(case: Case) -> bool:
    """Return True for the tenth of the cases that also run in small batches by default."""
    return random.Random(case["id"]).random() < 0.1


def both_ways(wanted: Callable[[Case], Any]) -> Any:
    """The cases in large and in small batches; `tox -e full` runs what is left out."""
    cases = those(wanted)
    small = [
        pytest.param(
            *case.values,
            "small",
            id=f"{case.id}-small",
            marks=[] if case.values[0] and in_small_batches(case.values[0]) else [pytest.mark.full],
        )
        for case in cases
    ]
    large = [pytest.param(*case.values, "large", id=f"{case.id}-large") for case in cases]
    return pytest.mark.parametrize(("case", "batches"), large + small)


@both_ways(lambda case: case["operator"] in QUERIES)
def test_known_answers(case: Case, batches: str) -> None:
    """The case's operator gives the known rows, however its input is cut."""
    found, wanted = compared(case, history(QUERIES[case["operator"]](Given(case, batches))))
    assert found == wanted


@both_ways(equivalent)
def test_equivalent_queries(case: Case, batches: str) -> None:
    """Another query that means the same gives the known rows as well."""
    found, wanted = compared(case, history(equivalent(case)(Given(case, batches))))
    assert found == wanted


# Advancing time -----------------------------------------------------------------------------------

PRESETS = {
    "IncreasingStartTime": rxt.INCREASING_START_TIME,
    "StrictlyIncreasingStartTime": rxt.STRICTLY_INCREASING_START_TIME,
}


def settings(params: dict[str, Any]) -> rxt.AdvanceTimeSettings:
    """The settings that a case names, or spells out."""
    if "preset" in params:
        return PRESETS[params["preset"]]
    return rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(params["event_count"], params["delay"]),
        policy=rxt.AdvanceTimePolicy[params["policy"].upper()],
    )


def as_edges(events: list[Any]) -> list[Any]:
    """Events as the edge shape shows them: an interval is a start and an end."""
    edges: list[Any] = []
    for each in events:
        if isinstance(each, rxt.IntervalEvent):
            start, end = each.start, each.end
            edges.append(rxt.EdgeEvent.create_start(start, each.payload))
            edges.append(rxt.EdgeEvent.create_end(start, end, each.payload))
        else:
            edges.append(each)
    return edges


@pytest.mark.parametrize("case", of("advance_time"))
def test_advance_time(case: Case) -> None:
    """Events and CTIs come out in the known order, late events dropped or adjusted."""
    given = [event(each, Clock(case)) for each in case["inputs"]["sequence"]]
    wanted = [event(each, Clock(case)) for each in case["expected_sequence"]]
    points = all(isinstance(each, rxt.PointEvent) for each in given)
    shape = rxt.EventShape.POINT if points else rxt.EventShape.EDGE
    entered = rxt.from_events(Unsized(given), advance_time=settings(case["params"]))
    assert entered.to_events(shape, ctis=True) == (wanted if points else as_edges(wanted))


@pytest.mark.parametrize("subject_type", SUBJECTS)
@pytest.mark.parametrize("case", of("cti_synchronizing_subject"))
def test_cti_synchronizing_subject(case: Case, subject_type: Any) -> None:
    """Both subjects give the known sequence; time 0 of a case is the beginning of time."""
    clock = Clock(case, zero=rxt.MIN_TIME)
    subject = subject_type.create_point(case["params"]["delay"])
    seen: list[Any] = []
    subject.subscribe(seen.append)
    for given in case["inputs"]["sequence"]:
        subject.on_next(event(given, clock))
    assert seen == [event(given, clock) for given in case["expected_sequence"]]


def test_every_operator_is_run() -> None:
    """Each case's operator has a query, or a test of its own."""
    operators = {case["operator"] for case in CASES}
    assert operators == {*QUERIES, "advance_time", "cti_synchronizing_subject"}
