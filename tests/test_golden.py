"""Cases with known answers from outside: the documents' tables, and runs of another engine.

The cases lie beside the repository and not in it; where they are not at hand the tests skip.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from needs import skip_or_fail

import rxtemporal as rxt
from rxtemporal import agg

GOLDEN = Path(__file__).parents[2] / "shared" / "golden"

Case = dict[str, Any]
Row = tuple[int, int, Any]

# Operators of cases that are not run, and why.
NO_OPERATOR = "the library has no such operator yet"
LEFT_OUT = {
    "alter_duration": NO_OPERATOR,
    "chop": NO_OPERATOR,
    "clip": NO_OPERATOR,
    "clip_duration_constant": NO_OPERATOR,
    "count_window": NO_OPERATOR,
    "cross_join": NO_OPERATOR,
    "distinct": NO_OPERATOR,
    "extend_lifetime": NO_OPERATOR,
    "group_hopping_sum_count": "needs hopping_window, which gives a row for every window",
    "group_moving_average": "needs hopping_window, which gives a row for every window",
    "group_sliding_sum_count": "needs alter_event_duration",
    "group_tumbling_sum": "needs tumbling_window, on top of joins",
    "hopping_count": "needs hopping_window, which gives a row for every window",
    "hopping_sum": "needs alter_event_lifetime",
    "join": NO_OPERATOR,
    "left_anti_join": NO_OPERATOR,
    "left_outer_join": NO_OPERATOR,
    "pipeline_final": "needs join, chop and tumbling_window",
    "point_at_end": NO_OPERATOR,
    "point_to_signal": NO_OPERATOR,
    "self_clip_self_join": "needs clip_event_duration and join",
    "session_sum": "needs session_lifetimes",
    "session_window": "needs session_lifetimes",
    "shift": NO_OPERATOR,
    "sliding_sum": "needs alter_event_duration",
    "snapshot_topk": "needs top_k",
    "snapshot_windows": "asks for the rows of each window, and no aggregate collects them",
    "stitch": NO_OPERATOR,
    "theta_join": "needs join",
    "to_point_stream": "needs to_point_events",
    "tumbling_count": "needs tumbling_window, or alter_event_lifetime in the other engine's sense",
    "tumbling_sum": "needs tumbling_window, on top of joins",
    "tumbling_topk": "needs tumbling_window and top_k",
    "tumbling_uda": "needs user-defined aggregates",
    "tumbling_udo": "needs user-defined operators",
    "union": NO_OPERATOR,
}

SUBJECTS = (rxt.CtiSynchronizingSubject, rxt.CtiSynchronizingSubjectAlternate)


def cases() -> list[Case]:
    """Every case of the folder; none where there is no folder."""
    files = [GOLDEN / "documents.jsonl", GOLDEN / "random.jsonl"]
    texts = [file.read_text(encoding="utf-8") for file in files if file.exists()]
    return [json.loads(line) for text in texts for line in text.splitlines()]


CASES = cases()
RUN: set[str] = set()


def of(*operators: str) -> list[Any]:
    """The cases of these operators; a single one that skips where there are no cases."""
    RUN.update(operators)
    found = [pytest.param(case, id=case["id"]) for case in CASES if case["operator"] in operators]
    return found or [pytest.param(None, id="absent")]


@pytest.fixture(autouse=True)
def _at_hand() -> None:
    if not CASES:
        skip_or_fail("golden", f"there are no cases with known answers in {GOLDEN}")


# A case's times and events ------------------------------------------------------------------------


class Clock:
    """A case's times as ticks: numbers in the case's unit, ISO texts, or "inf"."""

    def __init__(self, case: Case, zero: int = 0) -> None:
        unit = case["params"].get("unit", "")
        self.zero, self.tick = zero, 1
        if unit.startswith("seconds after "):
            self.zero, self.tick = rxt.ticks(datetime.fromisoformat(unit.split()[-1])), 1_000_000

    def time(self, time: int | str) -> int:
        """A moment."""
        if time == "inf":
            return rxt.MAX_TIME
        if isinstance(time, str):
            return rxt.ticks(datetime.fromisoformat(time.split()[0]))
        return self.zero + time * self.tick


def event(given: list[Any], clock: Clock) -> Any:
    """An event as a case writes it."""
    kind, start, *rest = given
    at = clock.time(start)
    match kind:
        case "punctuation" | "cti":
            return rxt.Cti(at)
        case "point" | "insert":
            return rxt.PointEvent(at, rest[0])
        case "interval":
            return rxt.IntervalEvent(at, clock.time(rest[0]), rest[1])
        case "start":
            return rxt.EdgeEvent.create_start(at, rest[-1])
        case "end":
            return rxt.EdgeEvent.create_end(at, clock.time(rest[0]), rest[1])
    raise AssertionError(given)


class Unsized:
    """Events whose number is not known beforehand, so that each CTI is answered at once."""

    def __init__(self, events: list[Any]) -> None:
        self._events = events

    def __iter__(self) -> Iterator[Any]:
        return iter(self._events)


def stream(case: Case, batches: str) -> rxt.Streamable:
    """The case's input, in large batches or in small ones."""
    given = case["inputs"]["input"]
    if isinstance(given, dict):
        rows = 1_000 if batches == "large" else 1
        return rxt.read_csv(GOLDEN / given["$data"], start="start", end="end", batch_rows=rows)
    events = [event(each, Clock(case)) for each in given]
    return rxt.from_events(events if batches == "large" else Unsized(events))


def history(result: rxt.Streamable) -> list[Row]:
    """The rows that come out, sorted; a payload of one field is its value."""
    rows: list[Row] = []
    for payload in result.to_polars(time="ticks").to_dicts():
        start, end = payload.pop("start_time"), payload.pop("end_time")
        value = payload if len(payload) > 1 else next(iter(payload.values()))
        rows.append((start, rxt.MAX_TIME if end is None else end, value))
    return in_order(rows)


def expected(case: Case, later: int = 0) -> list[Row]:
    """The rows that the case asks for, sorted, and later by so much."""
    time = Clock(case).time
    return in_order(
        [(time(start) + later, time(end) + later, value) for start, end, value in case["expected"]]
    )


def in_order(rows: list[Row]) -> list[Row]:
    """Rows in an order in which two histories can be compared."""
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


both_ways = pytest.mark.parametrize("batches", ["large", "small"])


# Windows and relational operators -----------------------------------------------------------------


@both_ways
@pytest.mark.parametrize("case", of("snapshot_count"))
def test_snapshot_count(case: Case, batches: str) -> None:
    """The count of rows alive is the known one."""
    result = stream(case, batches).snapshot_window().aggregate(n=agg.count())
    assert history(result) == expected(case)


@both_ways
@pytest.mark.parametrize("case", of("snapshot_sum", "snapshot_min", "snapshot_max"))
def test_snapshot_aggregates(case: Case, batches: str) -> None:
    """Sum, least and greatest value of the rows alive are the known ones, nulls left out."""
    aggregate = getattr(agg, case["operator"].removeprefix("snapshot_"))
    field = case["params"].get("value", "payload")
    result = stream(case, batches).snapshot_window().aggregate(value=aggregate(field))
    assert history(result) == expected(case)


@both_ways
@pytest.mark.parametrize("case", of("group_apply"))
def test_group_apply(case: Case, batches: str) -> None:
    """The sum of the rows alive is the known one for each key."""
    assert case["params"] == {"group": "k", "apply": "snapshot Sum(v)"}
    grouped = stream(case, batches).group_by("k")
    assert history(grouped.snapshot_window().aggregate(v=agg.sum("v"))) == expected(case)


@both_ways
@pytest.mark.parametrize("case", of("snap_to_window_intervals", "hopping2_count"))
def test_tamed_hopping_windows(case: Case, batches: str) -> None:
    """Altered lifetimes and counts are those that the document prints."""
    clock, params = Clock(case), case["params"]
    windows = (
        params["duration"] * clock.tick,
        params["interval"] * clock.tick,
        clock.time(params["alignment"]),
    )
    events = stream(case, batches)
    if case["operator"] == "hopping2_count":
        result = events.hopping_window2(*windows).aggregate(n=agg.count())
    else:
        result = events.snap_to_window_intervals(*windows)
    assert history(result) == expected(case)


@both_ways
@pytest.mark.parametrize("case", of("quantize_lifetime", "quantize_tumbling_count"))
def test_quantized_lifetimes(case: Case, batches: str) -> None:
    """A lifetime quantized to windows is the one snapped to them, which lies one window later."""
    size = case["params"]["size"]
    events = stream(case, batches)
    if case["operator"] == "quantize_lifetime":
        result = events.snap_to_window_intervals(size, size)
    else:
        result = events.hopping_window2(size, size).aggregate(n=agg.count())
    assert history(result) == expected(case, later=size)


TAGS = GOLDEN / "data" / "hello_toll_tags.csv"
PREDICATES = {
    "CpuId in (1,2)": lambda: pl.col("CpuId").is_in([1, 2]),
    "where CpuId in (1,2)": lambda: pl.col("CpuId").is_in([1, 2]),
    "Tag empty or lost/stolen": lambda: (pl.col("Tag") == "") | pl.col("Tag").is_in(lost_tags()),
}


def lost_tags() -> list[str]:
    """The tags that were reported lost or stolen."""
    tags = pl.read_csv(TAGS, schema_overrides={"TagId": pl.String})
    return tags.filter("IsReportedLostOrStolen")["TagId"].to_list()


@both_ways
@pytest.mark.parametrize("case", of("where", "select"))
def test_where_and_select(case: Case, batches: str) -> None:
    """The rows that satisfy a predicate, and their chosen fields, are the known ones."""
    events = stream(case, batches)
    if "Tag" in (events.schema or {}):
        # what the sample reads as text, the file's numbers included
        events = events.with_columns(pl.col("Tag", "TollId").cast(pl.String).fill_null(""))
    params = case["params"]
    result = events.where(PREDICATES[params.get("predicate") or params["after"]]())
    assert history(result.select(*case["expected"][0][2])) == expected(case)


@both_ways
@pytest.mark.parametrize("case", of("ingress"))
def test_edges_become_intervals(case: Case, batches: str) -> None:
    """Interval events and pairs of edges in one stream describe the same kind of rows."""
    assert history(stream(case, batches)) == expected(case)


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


def test_every_operator_is_run_or_left_out() -> None:
    """Each case's operator is run here, or left out for a reason; no reason is out of date."""
    operators = {case["operator"] for case in CASES}
    assert RUN | set(LEFT_OUT) == operators
    assert not RUN & set(LEFT_OUT)
