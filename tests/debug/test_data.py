"""Data of the event-flow page: the JSON has what flowed, and nothing leaves its script."""

from __future__ import annotations

import json

import polars as pl
import pytest
from page_columns import read_causes, read_column, read_numbers, read_rows

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.view.debug.data import describe_flow, write_json
from rxtemporal.view.lineage.capture import capture

DROP = rxt.AdvanceTimePolicy.DROP


def read_events(delay: int = 3) -> rxt.Streamable:
    """Return seven readings of two devices, of which the fifth is late."""
    times = [(1, "a"), (4, "b"), (3, "a"), (12, "b"), (2, "a"), (25, "b"), (26, "a")]
    events = [rxt.PointEvent(t, {"device": name, "x": t * 10}) for t, name in times]
    generation = rxt.AdvanceTimeGenerationSettings(1, delay)
    settings = rxt.AdvanceTimeSettings(generation, policy=DROP)
    return rxt.from_events(events, advance_time=settings, name="readings")


def describe(query: rxt.Streamable, **options: int) -> dict:
    """Return the data of a query's page, through JSON."""
    return json.loads(write_json(describe_flow(capture(query._node), "test", **options)))


@pytest.fixture(scope="module")
def windows() -> dict:
    """Return the data of a query with windows."""
    hot = read_events().where(pl.col("x") > 10)
    return describe(hot.group_by("device").tumbling_window(10).aggregate(n=agg.count()))


def test_the_plan_is_there(windows: dict) -> None:
    """Each node has its name, its line without the folder, its inputs and its keys."""
    nodes = windows["nodes"]
    assert [each["name"] for each in nodes] == [
        "readings", "where", "group_by", "tumbling_window().aggregate",
    ]  # fmt: skip
    assert [each["inputs"] for each in nodes] == [[], [0], [1], [2]]
    assert [each["kind"] for each in nodes] == ["source", *["operator"] * 3]
    assert nodes[1]["line"].startswith("test_data.py:")
    assert nodes[2]["keys"] == ["device"]
    assert windows["output"] == 3
    assert nodes[0]["fields"] == [
        {"name": "device", "type": "String"}, {"name": "x", "type": "Int64"}
    ]  # fmt: skip


def test_the_rows_are_those_of_a_run(windows: dict) -> None:
    """The rows of the output are what the query returns, and each count is right."""
    query = read_events().where(pl.col("x") > 10).group_by("device").tumbling_window(10)
    frame = query.aggregate(n=agg.count()).to_polars()
    found = [
        {"start_time": row["start"], "end_time": row["end"], "device": row["device"], "n": row["n"]}
        for row in read_rows(windows["nodes"][3])
    ]
    order = lambda row: (row["start_time"], row["device"])  # noqa: E731
    assert sorted(found, key=order) == sorted(frame.to_dicts(), key=order)
    assert [each["rowsIn"] for each in windows["nodes"]] == [7, 6, 5, 5]
    assert [each["rowsOut"] for each in windows["nodes"]] == [6, 5, 5, 5]


def test_the_causes_of_a_row_are_rows_of_the_input(windows: dict) -> None:
    """A row that passed a filter has one cause: itself in the input."""
    source, kept = read_rows(windows["nodes"][0]), read_rows(windows["nodes"][1])
    for row, causes in zip(kept, read_causes(windows["nodes"][1]), strict=True):
        ((side, cause, role),) = causes
        assert (side, role) == (0, 0)
        assert source[cause]["x"] == row["x"]


def test_the_arrivals_say_what_became_of_each(windows: dict) -> None:
    """In order of arrival: times, verdicts, how late, the row in the stream, the position."""
    (arrivals,) = windows["arrivals"]
    assert (arrivals["stream"], arrivals["name"]) == (0, "readings")
    assert read_column(arrivals["start"]) == [1, 4, 3, 12, 2, 25, 26]
    assert read_numbers(arrivals["verdict"]) == [0, 0, 0, 0, 2, 0, 0]
    assert read_numbers(arrivals["by"]) == [0, 0, 0, 0, 7, 0, 0]
    assert read_column(arrivals["reason"])[4] == "dropped"
    assert read_numbers(arrivals["position"]) == list(range(7))
    rows = read_numbers(arrivals["row"])
    assert rows[4] == -1
    source = read_rows(windows["nodes"][0])
    starts = [source[row]["start"] for row in rows if row >= 0]
    assert starts == [1, 4, 3, 12, 25, 26]
    assert read_column(arrivals["payload"][1]) == [10, 40, 30, 120, 20, 250, 260]


def test_the_sentence_says_what_came_late_and_what_would_have_helped(windows: dict) -> None:
    """The delay that it names is one with which nothing is late, and one tick less loses it."""
    assert windows["sentence"] == (
        "Everything is final. 'readings': 1 of 7 events came late (1 dropped); "
        "a delay of 10 ticks in place of 3 ticks would have kept them."
    )
    assert windows["delay"] == {"readings": 3}
    assert "late" not in describe(read_events(10))["sentence"]
    assert "1 of 7" in describe(read_events(9))["sentence"]


def test_windows_are_shaded_where_they_are(windows: dict) -> None:
    """The windows that have results, once each; nothing for other operators."""
    shaded = windows["nodes"][3]["window"]
    assert read_column(shaded["start"]) == [0, 10, 20]
    assert read_column(shaded["end"]) == [10, 20, 30]
    assert windows["nodes"][1]["window"] is None


def test_windows_of_points_end_where_the_points_are() -> None:
    """A result that is a point at its window's end shades the window before it."""
    output = rxt.WindowOutput.POINT_AT_END
    hops = read_events().hopping_window(10, 5, output=output).aggregate(n=agg.count())
    shaded = describe(hops)["nodes"][1]["window"]
    assert read_column(shaded["start"])[:3] == [-5, 0, 5]
    assert read_column(shaded["end"])[:3] == [5, 10, 15]
    counted = read_events().count_window(2).aggregate(n=agg.count())
    assert describe(counted)["nodes"][1]["window"] is None


def test_keys_are_lanes_from_the_source_to_the_result(windows: dict) -> None:
    """Rows are laid out by the key, also before they are grouped next, and after the windows."""
    lanes = [each["rows"]["lane"] for each in windows["nodes"]]
    # the source's rows go through the filter first
    assert lanes[0] is None
    for lane in lanes[1:]:
        assert set(read_column(lane)) == {"a", "b"}


def test_ctis_and_held_rows_are_curves(windows: dict) -> None:
    """Each node has its CTI after each step that advanced it, up to the end of time."""
    ctis = read_column(windows["nodes"][0]["ctis"]["cti"])
    assert ctis == [-2, 1, 9, 22, 23, float("inf")]
    held = windows["nodes"][3]["heldCurve"]
    assert len(read_numbers(held["step"])) == len(read_numbers(held["rows"]))
    assert max(read_numbers(held["rows"])) > 0
    assert windows["steps"] == 8


def test_a_row_that_never_ends_is_open() -> None:
    """Its end is infinite, and no step has closed it."""
    events = [rxt.EdgeEvent.create_start(1, {"x": 1}), rxt.PointEvent(5, {"x": 2})]
    node = describe(rxt.from_events(events, name="doors"))["nodes"][0]
    rows = {row["x"]: row for row in read_rows(node)}
    assert (rows[1]["end"], rows[1]["closed"]) == (float("inf"), -1)
    assert rows[2]["closed"] == rows[2]["known"]


def test_who_holds_back_is_marked() -> None:
    """A run that was cut off waits for the stream with the lower CTI, which says so."""
    generation = rxt.AdvanceTimeGenerationSettings(1, 0, advance_to_infinity_on_shutdown=False)
    settings = rxt.AdvanceTimeSettings(generation, policy=DROP)
    slow = rxt.from_events([rxt.PointEvent(3, {"x": 1})], advance_time=settings, name="slow")
    fast = rxt.from_events([rxt.PointEvent(9, {"x": 2})], name="fast")
    found = describe(slow.union(fast))
    assert {each["name"]: each["holdsBack"] for each in found["nodes"]} == {
        "slow": True, "fast": False, "union": False,
    }  # fmt: skip
    assert "'slow'" in found["sentence"]
    assert "final" not in found["sentence"]


def test_an_error_of_the_run_is_the_sentence() -> None:
    """The page shows what there was, and says why it stopped."""

    def fail(row: dict) -> bool:
        raise ValueError("broken <here>")

    found = describe(read_events().where(fail))
    assert found["sentence"].startswith("The run failed: ")
    assert "broken <here>" in found["sentence"]
    assert found["nodes"][0]["rowsOut"] > 0


HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "\u202e\u2066evil\u2069",
    "\x00\x1b[31m\x7f",
    "\u2028\u2029",
    "x" * 100_000,
    "]]>",
    "\U0001f600",
]


def test_nothing_leaves_the_script() -> None:
    """Texts, field names, names of streams and titles: no ``<`` and nothing but ASCII."""
    events = [rxt.PointEvent(t, {HOSTILE[0]: text, "k": text}) for t, text in enumerate(HOSTILE)]
    stream = rxt.from_events(events, name=HOSTILE[0])
    flow = capture(stream.group_by("k").to_point_events()._node)
    text = write_json(describe_flow(flow, HOSTILE[0]))
    assert "<" not in text
    assert text.isascii()
    assert not [each for each in text if ord(each) < 32]
    found = json.loads(text)
    rows = read_rows(found["nodes"][0])
    assert [row["k"] for row in rows[:5]] == HOSTILE[:5]
    assert found["nodes"][0]["fields"][0]["name"] == HOSTILE[0]
    assert len(text) < 30_000


def test_the_sentence_tells_of_the_clocks_of_devices() -> None:
    """As the run left them: how many are behind, and which of them furthest."""
    times = [("a", 7_200), ("c", 7_300), ("b", 60), ("a", 7_260)]
    events = [rxt.PointEvent(time, {"device": name}) for name, time in times]
    stream = rxt.from_events(events, advance_time=5, clock="device", name="readings")
    windows = stream.group_by("device").tumbling_window(10).aggregate(n=agg.count())
    assert describe(windows)["sentence"] == (
        "Everything is final. Of 3 devices of 'readings', 1 is behind and 0 silent; "
        "furthest behind: 'b' by 7,200 ticks."
    )
