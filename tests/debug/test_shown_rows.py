"""Samples of large runs: what is shown, and that it says so."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from page_columns import read_causes, read_column, read_numbers, read_rows

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.view.debug import data
from rxtemporal.view.debug.data import (
    choose,
    describe_flow,
    find_causes,
    find_places,
    spread,
    take_sample,
    write_json,
)
from rxtemporal.view.lineage.capture import capture
from rxtemporal.view.lineage.flow import Flow

EVENTS = 2_000


@pytest.fixture(scope="module")
def flow() -> Flow:
    """Return a run over two thousand readings, a few of them late."""
    times = np.arange(EVENTS) * 10
    times[::100] -= 500
    frame = pl.DataFrame({"start_time": times, "x": np.arange(EVENTS)})
    generation = rxt.AdvanceTimeGenerationSettings(1, 100)
    settings = rxt.AdvanceTimeSettings(generation, policy=rxt.AdvanceTimePolicy.DROP)
    stream = rxt.from_polars(frame, start="start_time", advance_time=settings, name="readings")
    even = stream.where(pl.col("x") % 2 == 0)
    return capture(even.where(pl.col("x") % 5 != 4)._node, every=50)


def test_a_small_run_is_whole(flow: Flow) -> None:
    """Each row is shown, and the page does not speak of a sample."""
    assert take_sample(flow).is_whole
    assert describe_flow(flow, "")["sampled"] is None


def test_a_sample_says_so_and_keeps_the_limit(flow: Flow) -> None:
    """No node and no arrivals are larger than the limit, and the counts stay those of the run."""
    found = describe_flow(flow, "", most=300)
    assert found["sampled"] == {"of": EVENTS, "shown": 300}
    assert [each["rows"]["start"]["n"] for each in found["nodes"]] == [300, 300, 300]
    assert found["nodes"][0]["rowsOut"] == len(flow.histories[0])
    assert f"of {EVENTS:,} events came late" in found["sentence"]


def test_all_nodes_together_keep_their_limit(flow: Flow) -> None:
    """A plan of many operators shows less of each."""
    sample = take_sample(flow, in_all=300)
    assert [len(each) for each in sample.rows] == [100, 100, 100]


def test_late_events_are_shown_first(flow: Flow) -> None:
    """All of the few late events are in a sample of a tenth."""
    found = describe_flow(flow, "", most=200)
    (arrivals,) = found["arrivals"]
    late = int((flow.arrivals["readings"].verdict == 2).sum())
    assert 10 < late < 30
    assert read_numbers(arrivals["verdict"]).count(2) == late


def test_a_shown_result_has_its_causes_shown(flow: Flow) -> None:
    """The chain from a result to its event is there for each result of a sample."""
    found = json.loads(write_json(describe_flow(flow, "", most=300)))
    source, kept, output = found["nodes"]
    assert source["causes"] is None
    assert output["causesNote"] is None
    rows = [read_rows(each) for each in found["nodes"]]
    for row, ((_, cause, _),) in zip(rows[2], read_causes(output), strict=True):
        ((_, below, _),) = read_causes(kept)[cause]
        assert rows[0][below]["x"] == rows[1][cause]["x"] == row["x"]
    (arrivals,) = found["arrivals"]
    arrived = {row for row in read_numbers(arrivals["row"]) if row >= 0}
    assert len(arrived) > 200


def test_the_first_and_the_last_row_are_shown(flow: Flow) -> None:
    """A sample spans the whole run."""
    found = describe_flow(flow, "", most=300)
    starts = read_column(found["nodes"][2]["rows"]["start"])
    whole = flow.histories[2].start
    assert (min(starts), max(starts)) == (whole.min(), whole.max())


def test_many_causes_are_cut_with_a_note() -> None:
    """A row of one window over all rows has as many causes as are allowed, and says so."""
    events = [rxt.PointEvent(t, {"x": t}) for t in range(100)]
    stream = rxt.from_events(events, name="readings")
    flow = capture(stream.tumbling_window(50).aggregate(n=agg.count())._node)
    assert find_causes(flow, 1, np.arange(2)).each is None
    cut = find_causes(flow, 1, np.arange(2), most=20)
    assert (cut.each, cut.rows, len(cut.of)) == (10, 2, 20)
    _, note = data.encode_causes(cut, [np.arange(100)], 2)
    assert note == "at most 10 causes of each row are shown"


def test_effort_for_causes_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of too many rows with too many causes the first ones have them."""
    monkeypatch.setattr(data, "MOST_COMPUTED", 100)
    monkeypatch.setattr(data, "_FIRST", 1)
    monkeypatch.setattr(data, "_BLOCK_CAUSES", 1)
    events = [rxt.PointEvent(t, {"x": t}) for t in range(100)]
    hops = rxt.from_events(events, name="readings").hopping_window(50, 10)
    flow = capture(hops.aggregate(n=agg.count())._node)
    count = len(flow.result)
    cut = find_causes(flow, 1, np.arange(count), most=count)
    assert 0 < cut.rows < count
    _, note = data.encode_causes(cut, [np.arange(100)], count)
    assert f"causes are shown of the first {cut.rows} of {count} rows" in note


def test_places_and_choices() -> None:
    """The small functions at their borders."""
    none = np.empty(0, np.int64)
    assert find_places(none, np.array([1])).tolist() == [-1]
    assert find_places(np.array([1, 4]), np.array([4, 9, 0])).tolist() == [1, -1, -1]
    assert spread(5, 9).tolist() == [0, 1, 2, 3, 4]
    assert spread(100, 3).tolist() == [0, 49, 99]
    assert choose(0, none, 5).tolist() == []
    assert choose(10, np.arange(8), 3).tolist() == [0, 3, 7]
