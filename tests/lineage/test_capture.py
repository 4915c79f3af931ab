"""Capture: the rows, doors, imports and late events of a captured run are those of any run."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_arrivals import make_stream

import rxtemporal as rxt
from rxtemporal.operators.causes.history import (
    ACCEPTED,
    ADJUSTED,
    CTI,
    EDGE_END,
    LATE,
    NEVER,
    Arrivals,
    History,
)
from rxtemporal.query.bound_query import bind_query
from rxtemporal.view.lineage.capture import capture
from rxtemporal.view.lineage.flow import Flow

few = settings(max_examples=max(4, settings().max_examples // 20))
# one arrival in a step, as many as the run takes, and seven
STEPS = (None, 0, 7)


def compose(left: rxt.Streamable, right: rxt.Streamable) -> rxt.Streamable:
    """A query that uses its left stream twice."""
    joined = left.where(pl.col("v") > 0).join(right, on="k", suffix="_right")
    return joined.select("k", "v", w="v_right").union(left.select("k", "v", w="v")).stitch()


def draw(seed: int) -> tuple[rxt.Streamable, rxt.Streamable]:
    """Return two streams of a seed; the second one may import the CTIs of the first."""
    random = Random(seed)
    left = make_stream(random, "left")
    return left, make_stream(random, "right", "left" if random.random() < 0.4 else None)


def list_rows(history: History) -> list[str]:
    """Return the rows of a node in one order."""
    rows = zip(history.start.tolist(), history.end.tolist(), history.payload.rows(), strict=True)
    return sorted(map(repr, rows))


def list_results(frame: pl.DataFrame) -> list[str]:
    """Return the rows of a frame in the same form."""
    ends = frame.with_columns(pl.col("end_time").fill_null(rxt.MAX_TIME))
    return sorted(repr((start, end, tuple(rest))) for start, end, *rest in ends.rows())


def list_verdicts(flow: Flow) -> dict[str, list[Any]]:
    """Return what became of each arrival."""
    return {
        name: list(zip(each.verdict.tolist(), each.by.tolist(), each.reason.to_list(), strict=True))
        for name, each in flow.arrivals.items()
    }


def check_arrivals(arrivals: Arrivals, history: History) -> None:
    """Fail unless each row of an input has the arrivals that brought it."""
    enters = arrivals.row >= 0
    begins = enters & (arrivals.kind != EDGE_END)
    assert sorted(arrivals.row[begins].tolist()) == list(range(len(history)))
    rows = arrivals.row[begins]
    assert arrivals.payload[np.flatnonzero(begins)].rows() == history.payload[rows].rows()
    kept = begins & (arrivals.verdict == ACCEPTED)
    assert (arrivals.start[kept] == history.start[arrivals.row[kept]]).all()
    ends = enters & (arrivals.kind == EDGE_END) & (arrivals.verdict == ACCEPTED)
    assert (arrivals.end[ends] == history.end[arrivals.row[ends]]).all()


def check_seed(seed: int, folder: Path) -> None:
    """Compare captured runs with a run and with its recording."""
    left, right = draw(seed)
    query = compose(left, right)
    flows = [capture(query._node, every=every) for every in STEPS]
    for flow in flows:
        assert flow.error is None
        assert list_rows(flow.result) == list_results(query.to_polars(time="ticks"))
        assert list(map(list_rows, flow.histories)) == list(map(list_rows, flows[0].histories))
        assert list_verdicts(flow) == list_verdicts(flows[0])
        for history in flow.histories:
            if history.origin:
                check_arrivals(flow.arrivals[history.origin], history)
    query.run(rxt.Collect(), record=folder).wait()
    bound = bind_query(query, folder)
    for every in STEPS:
        again = capture(bound.stream._node, every=every, named=bound.named)
        assert list(map(list_rows, again.histories)) == list(map(list_rows, flows[0].histories))
        assert list_verdicts(again) == list_verdicts(flows[0])


@few
@given(seed=st.integers(0, 2**20))
def test_a_captured_run_is_that_of_any_run(seed: int) -> None:
    """Rows of all operators and verdicts on all arrivals do not depend on the size of steps."""
    with TemporaryDirectory() as folder:
        check_seed(seed, Path(folder, "run"))


@pytest.mark.full
@settings(max_examples=settings().max_examples * 3)
@given(seed=st.integers(0, 2**20))
def test_many_captured_runs_are_those_of_any_run(seed: int) -> None:
    """Rows of all operators and verdicts on all arrivals do not depend on the size of steps."""
    with TemporaryDirectory() as folder:
        check_seed(seed, Path(folder, "run"))


def test_late_events_are_those_that_a_run_reports() -> None:
    """The arrivals that were late have the reason and the distance of the run's late events."""
    left, _ = draw(3)
    found = left.late_events().to_polars(time="ticks")
    (arrivals,) = capture(left._node).arrivals.values()
    late = (arrivals.verdict == LATE) | (arrivals.verdict == ADJUSTED)
    assert arrivals.reason.filter(pl.Series(late)).to_list() == found["reason"].to_list()
    spans = found["by"].dt.total_microseconds().to_list()
    assert arrivals.by[late].tolist() == spans
    assert late.any()


def test_a_step_says_what_was_known_then() -> None:
    """With one arrival in a step a row leaves with the arrival that lets it go: a CTI's, here."""
    points = [rxt.PointEvent(1, "a"), rxt.EdgeEvent.create_start(3, "b"), rxt.PointEvent(12, "c"),
              rxt.EdgeEvent.create_end(3, 15, "b"), rxt.PointEvent(22, "d")]  # fmt: skip
    stream = rxt.from_events(points, name="s", advance_time=rxt.INCREASING_START_TIME)
    flow = capture(stream.tumbling_window(10).aggregate(n=rxt.agg.count())._node)
    source, windows = flow.histories[0], flow.result
    assert (source.known.tolist(), source.closed.tolist()) == ([0, 1, 2, 4], [0, 4, 2, 4])
    assert (flow.every, flow.arrivals["s"].step.tolist()) == (1, [0, 1, 2, 3, 4])
    assert windows.start.tolist() == [0, 10, 20]
    assert (windows.known >= [2, 4, 5]).all()
    assert flow.steps == 6
    assert len(windows.held) == len(windows.held_steps) > 0
    assert source.ctis.tolist()[-1] == rxt.MAX_TIME


def test_a_recording_whose_run_was_stopped_stops_there(tmp_path: Path) -> None:
    """Rows that were open are open, and the flow says who holds back the results."""
    subject: Any = rxt.CtiSynchronizingSubject.create_edge(0)
    stream = rxt.from_observable(subject, schema={"v": int}, name="pushed")
    process = stream.tumbling_window(10).aggregate(n=rxt.agg.count()).run(
        rxt.Collect(), record=tmp_path / "run"
    )  # fmt: skip
    one = subject.input("one")
    one.on_next(rxt.EdgeEvent.create_start(3, {"v": 1}))
    one.on_next(rxt.EdgeEvent.create_start(4, {"v": 2}))
    one.on_next(rxt.EdgeEvent.create_end(3, 6, {"v": 1}))
    one.on_next(rxt.Cti(7))
    process.stop()
    bound = bind_query(
        lambda pushed: pushed.tumbling_window(10).aggregate(n=rxt.agg.count()), tmp_path / "run"
    )
    flow = capture(bound.stream._node, named=bound.named)
    source = flow.histories[0]
    assert (source.end.tolist(), source.closed.tolist()[1]) == ([6, rxt.MAX_TIME], NEVER)
    assert (flow.arrivals["pushed"].kind == CTI).sum() == 1
    assert len(flow.result) == 0
    assert "pushed" in flow.holding_back[0]


def test_a_query_that_fails_has_what_came_before() -> None:
    """The error is in the flow, and so are the rows before it."""

    def broken(row: dict[str, Any]) -> bool:
        if row["payload"] == 3:
            raise ValueError("three")
        return True

    points = [rxt.PointEvent(t, t) for t in range(5)]
    settings = rxt.INCREASING_START_TIME
    flow = capture(rxt.from_events(points, advance_time=settings).where(broken)._node)
    assert flow.result.start.tolist() == [0, 1, 2]
    assert "three" in str(flow.error)


def test_streams_of_one_name_are_told_apart() -> None:
    """The second of two streams of one name has a number."""
    left, right = (rxt.from_events([rxt.PointEvent(t, t)], name="same") for t in (1, 2))
    flow = capture(left.union(right)._node)
    assert sorted(flow.arrivals) == ["same", "same 2"]
    assert flow.causes(flow.output, [0, 1]).side.tolist() == [0, 1]


def test_a_recording_of_pushes_has_their_verdicts(tmp_path: Path) -> None:
    """Late rows are late again, duplicates are not there, and each row has its sender."""
    fields = {"v": int, "seq": int}
    source = rxt.PushSource("pushed", schema=fields, start="ts", delay=5, seq="seq")
    process = source.stream.where(pl.col("v") > 0).run(rxt.Collect(), record=tmp_path / "run")
    one, two = source.input("one"), source.input("two")
    one.push([{"ts": 10, "v": 1, "seq": 1}, {"ts": 3, "v": 2, "seq": 2}])
    two.push([{"ts": 9, "v": 3, "seq": 1}])
    one.push([{"ts": 10, "v": 1, "seq": 1}, {"ts": 12, "v": 0, "seq": 3}])
    process.stop()
    bound = bind_query(lambda pushed: pushed.where(pl.col("v") > 0), tmp_path / "run")
    for every in STEPS:
        flow = capture(bound.stream._node, every=every, named=bound.named)
        arrivals = flow.arrivals["pushed"]
        assert arrivals.input.to_list() == ["one", "one", "two", "one"]
        assert arrivals.verdict.tolist() == [ACCEPTED, LATE, ACCEPTED, ACCEPTED]
        assert arrivals.by.tolist() == [0, 2, 0, 0]
        assert arrivals.row.tolist() == [0, -1, 1, 2]
        assert flow.result.payload.rows() == [(1, 1), (3, 1)]


def test_of_equal_edges_of_a_batch_the_last_are_late() -> None:
    """The verdict on a row of a batch is put to that row, not to an equal one before it."""
    rows = [(26, rxt.MAX_TIME, 1), (26, 27, 1), (30, 31, 0), (26, rxt.MAX_TIME, 2), (0, 1, 0)]
    start, end, edge = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    batch = rxt.EventBatch(start, end, edge, pl.DataFrame({"v": [1] * 5}), rxt.MIN_TIME)
    policy = rxt.AdvanceTimePolicy.ADJUST
    made = rxt.AdvanceTimeGenerationSettings(1, 0)
    advance = rxt.AdvanceTimeSettings(made, policy=policy)
    stream = rxt.from_events([batch], schema={"v": int}, name="batches", advance_time=advance)
    for every in STEPS:
        arrivals = capture(stream._node, every=every).arrivals["batches"]
        assert arrivals.verdict.tolist() == [ACCEPTED, ACCEPTED, ACCEPTED, ADJUSTED, LATE]
        assert arrivals.by.tolist() == [0, 0, 0, 4, 30]
