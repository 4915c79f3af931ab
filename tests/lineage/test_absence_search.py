"""The answer to "why is there no such row": each event's way, and where it ended."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.operators.causes.lost_row import Candidate, Fate
from rxtemporal.view.lineage.absence import Absence, Wanted

Point, Interval = rxt.PointEvent, rxt.IntervalEvent


def make_readings(**options: Any) -> rxt.Streamable:
    """Return readings of two rooms, the last one behind the others."""
    rows = [(3, "a", 19), (7, "a", 25), (8, "b", 26), (30, "a", 21), (21, "b", 40)]
    events = [Point(t, {"room": room, "temp": temp}) for t, room, temp in rows]
    return rxt.from_events(events, name="readings", **options)


def make_cars() -> rxt.Streamable:
    """Return cars on a road."""
    rows = [(1, 9, 1, "A"), (20, 25, 2, "B"), (22, 26, None, "C"), (50, 60, 4, "D")]
    events = [Interval(s, e, {"lane": lane, "plate": plate}) for s, e, lane, plate in rows]
    return rxt.from_events(events, schema={"lane": int, "plate": str}, name="cars")


def make_tolls() -> rxt.Streamable:
    """Return tolls of lanes."""
    rows = [(4, 20, 1, 7), (40, 45, 2, 9)]
    events = [Interval(s, e, {"lane": lane, "toll": toll}) for s, e, lane, toll in rows]
    return rxt.from_events(events, name="tolls")


def first(absence: Absence, stream: str) -> Candidate:
    """Return the nearest event of a stream."""
    assert not absence.exists
    return absence.candidates[stream][0]


def find_fate(absence: Absence, stream: str) -> Fate:
    """Return the fate of the nearest event of a stream."""
    return first(absence, stream).fate


def test_dropped_by_where() -> None:
    """The fate of a row that a where dropped has the line and the values."""
    query = make_readings().where(pl.col("temp") > 20, lambda row: row["room"] == "a")
    fate = find_fate(rxt.why_not(query, at=3), "readings")
    assert (fate.kind, fate.operator, fate.values) == ("dropped", "where", {"temp": 19})
    assert fate.line is not None
    assert fate.line.startswith(__file__)
    assert fate.message.endswith("temp=19 does not satisfy temp > 20")
    fate = find_fate(rxt.why_not(query, where={"room": "b"}), "readings")
    assert (fate.kind, fate.values["room"]) == ("dropped", "b")


def test_dropped_after_a_window() -> None:
    """A condition on a window's result is named, with the value that failed."""
    rooms = make_readings().group_by("room").tumbling_window(10).aggregate(n=agg.count())
    fate = find_fate(rxt.why_not(rooms.where(pl.col("n") > 1), at=5, where={"room": "b"}),
                     "readings")  # fmt: skip
    assert (fate.kind, fate.values) == ("dropped", {"n": 1})


def test_late() -> None:
    """The fate of a late event says by how much, and the delay that would have kept it."""
    absence = rxt.why_not(make_readings(advance_time=5), at=21)
    found = first(absence, "readings")
    assert (found.position, found.fate.kind) == (4, "late")
    assert (found.fate.late_by, found.fate.delay) == (4, 9)
    assert "a delay of 9 ticks would have kept it" in str(absence)
    kept = rxt.why_not(make_readings(advance_time=9), at=21)
    assert kept.exists
    assert kept.results["temp"].to_list() == [40]


def test_a_delay_is_not_rounded_down() -> None:
    """The delay that is named in datetimes would have kept the event."""
    times = ("2026-01-01T00:10:00Z", "2026-01-01T00:01:02.003004Z")
    stream = rxt.from_events([Point(each, {"x": 1}) for each in times], advance_time="1m")
    (first, *_) = rxt.why_not(stream, at=times[1]).candidates["events"]
    assert first.fate.delay == 537_996_996
    assert "a delay of 8 min 58 s would have kept it" in first.fate.message


def test_no_partner() -> None:
    """A row without a partner has the key, and the nearest row with that key."""
    joined = make_cars().join(make_tolls(), on="lane")
    fate = find_fate(rxt.why_not(joined, where={"plate": "B"}), "cars")
    assert (fate.kind, fate.operator, fate.values) == ("no partner", "join", {"lane": 2})
    assert fate.others is not None
    assert fate.others.row(0, named=True)["toll"] == 9
    assert "16 ticks later" in fate.message
    fate = find_fate(rxt.why_not(joined, where={"plate": "C"}), "cars")
    assert fate.message.endswith("lane=null, and null matches nothing")
    fate = find_fate(rxt.why_not(joined, where={"plate": "D"}), "cars")
    assert fate.message.endswith("no row of the right stream with lane=4")
    fate = find_fate(rxt.why_not(joined, at=2, where={"plate": "A"}), "cars")
    assert fate.kind == "no partner"  # there is one, but not then


def test_the_condition_of_a_join() -> None:
    """If rows meet and where= is false, the fate says so."""
    joined = make_cars().join(make_tolls(), on="lane", where=pl.col("toll") > 8)
    fate = find_fate(rxt.why_not(joined, at=5), "cars")
    assert fate.kind == "no partner"
    assert fate.message.endswith("toll=7 does not satisfy where=toll > 8")


def test_removed() -> None:
    """A row that an anti join removed has the row that did it."""
    free = make_cars().left_anti_join(make_tolls(), on="lane")
    fate = find_fate(rxt.why_not(free, at=5, where={"plate": "A"}), "cars")
    assert (fate.kind, fate.operator) == ("removed", "left_anti_join")
    assert fate.others is not None
    assert fate.others.rows() == [(4, 20, 1, 7)]


def test_outside_windows() -> None:
    """Gaps between windows and too few starts are said."""
    cars = make_cars()
    fate = find_fate(
        rxt.why_not(cars.hopping_window(2, 40).aggregate(n=agg.count()), at=22), "cars"
    )
    assert (fate.kind, fate.operator) == ("outside", "hopping_window().aggregate")
    assert fate.message.endswith("the next one begins at 40")
    fate = find_fate(rxt.why_not(cars.count_window(5).aggregate(n=agg.count()), at=22), "cars")
    assert fate.message.endswith("it takes 5 starts, and there are 4")


def test_worse_ranks() -> None:
    """A row below the best has its value, and better rows."""
    best = make_readings().tumbling_window(10).top_k(1, "temp")
    fate = find_fate(rxt.why_not(best, at=5, where={"temp": 25}), "readings")
    assert (fate.kind, fate.values) == ("worse", {"temp": 25})
    assert fate.others is not None
    assert fate.others["temp"][0] == 26


@pytest.mark.parametrize("output", rxt.WindowOutput)
@pytest.mark.parametrize("period", [10, 5])
def test_better_ranks_are_those_of_the_windows_of_the_row(
    period: int, output: rxt.WindowOutput
) -> None:
    """The best rows of other windows are not named, nor those of other keys."""
    readings = [
        (0, "a", 9), (1, "a", 5), (2, "a", 7), (2, "b", 99),
        (20, "a", 1), (21, "a", 3), (22, "a", 2),
        (40, "a", 80), (41, "a", 70), (42, "a", 90),
    ]  # fmt: skip
    events = [rxt.PointEvent(time, {"room": room, "x": x}) for time, room, x in readings]
    rooms = rxt.from_events(events, name="readings").group_by("room")
    query = rooms.hopping_window(10, period, output=output).top_k(1, "x")
    for x, best in ((5, 9), (1, 3), (70, 90)):
        fate = find_fate(rxt.why_not(query, where={"x": x}), "readings")
        assert fate.kind == "worse", fate.message
        assert fate.others is not None
        assert set(fate.others["x"]) == {best}, fate.others


def test_waits_for_a_cti() -> None:
    """A result that is not final has the CTI that it waits for, and who holds it back."""
    settings = rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(1, 0, advance_to_infinity_on_shutdown=False),
        policy=rxt.AdvanceTimePolicy.DROP,
    )
    counts = make_readings(advance_time=settings).tumbling_window(10).aggregate(n=agg.count())
    absence = rxt.why_not(counts, at=31)
    fate = find_fate(absence, "readings")
    assert (fate.kind, fate.until) == ("waiting", 40)
    assert any("'readings'" in each for each in absence.holding_back)
    assert "held back: " in str(absence)


def test_elsewhere() -> None:
    """An event that is in another result has that result."""
    counts = make_readings().tumbling_window(10).aggregate(n=agg.count())
    fate = find_fate(rxt.why_not(counts, at=15), "readings")
    assert fate.kind == "elsewhere"
    assert fate.others is not None
    assert fate.others.rows() in ([(0, 10, 3)], [(20, 30, 1)])


def test_recordings_and_functions(tmp_path: Any) -> None:
    """A function of streams is bound to a recording."""
    with make_readings(advance_time=5).run(rxt.Collect(), record=tmp_path / "rec") as process:
        process.wait()
    absence = rxt.why_not(
        lambda readings: readings.where(pl.col("temp") > 20), at=3, recording=tmp_path / "rec"
    )
    assert find_fate(absence, "readings").kind == "dropped"


def test_shown() -> None:
    """It is shown as text and HTML; nothing that a payload contains acts on the reader's screen."""
    events = [Point(1, {"text": "</script>\x1b[2J\u202e" + "x" * 10_000})]
    query = rxt.from_events(events, name="<b>").where(pl.col("text") == "")
    absence = rxt.why_not(query, at=1)
    page = absence._repr_html_()
    assert "<b>" not in page
    assert "</script>" not in page
    assert len(page) < 4_000
    for text in (page, str(absence)):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert len(str(absence)) < 1_000


def test_arguments() -> None:
    """Mistakes are named: no row, a field that the result does not have, a stream without end."""
    query = make_readings().select("temp")
    with pytest.raises(rxt.ArgumentError, match="which row is missing"):
        rxt.why_not(query)
    with pytest.raises(rxt.ArgumentError, match=r"'room', which the result does not have.*'temp'"):
        rxt.why_not(query, where={"room": "a"})
    with pytest.raises(rxt.ArgumentError, match="mapping from fields to values"):
        rxt.why_not(query, where=[3])  # type: ignore[arg-type]
    with pytest.raises(rxt.ArgumentError, match="does not fit the fields"):
        rxt.why_not(query, where={"temp": "warm"})
    with pytest.raises(rxt.ArgumentError, match=r"where takes a predicate, got .* of type Int64"):
        rxt.why_not(query, where=pl.col("temp") + 1)
    with pytest.raises(rxt.ArgumentError, match="looks at other rows"):
        rxt.why_not(query, where=pl.col("temp").sum() > 1)


def test_a_row_that_no_predicate_has_seen() -> None:
    """A row that came before the error, in the same batch, was not dropped."""

    def fails(row: dict[str, Any]) -> bool:
        if row["temp"] == 2:
            raise ValueError("two")
        return True

    events = [Point(1, {"temp": 0}), Point(1, {"temp": 1}), Point(4, {"temp": 2})]
    query = rxt.from_events(events, advance_time=1, name="readings").where(fails)
    absence = rxt.why_not(query, at=4)
    assert isinstance(absence.error, ValueError)
    fates = {each.payload["temp"]: each.fate.kind for each in absence.candidates["readings"]}
    assert fates == {0: "elsewhere", 1: "ended", 2: "ended"}


def test_rows_behind_an_end_edge_at_the_end_of_time() -> None:
    """Such an edge leaves its row as it is, and is no row itself."""
    events = [
        rxt.EdgeEvent.create_start(1, {"x": 1}),
        rxt.EdgeEvent.create_end(1, rxt.MAX_TIME, {"x": 1}),
        Point(2, {"x": 2}),
        Point(3, {"x": 3}),
    ]
    query = rxt.from_events(events, name="readings").where(pl.col("x") < 3)
    candidates = rxt.why_not(query, {"x": 3}).candidates["readings"]
    found = {each.payload["x"]: (each.end, each.fate.kind) for each in candidates}
    assert found == {1: (rxt.MAX_TIME, "elsewhere"), 2: (3, "elsewhere"), 3: (4, "dropped")}


def test_a_stream_that_also_removes() -> None:
    """Of a stream that is on both sides of an anti join the side that gives rows counts."""
    cars = make_cars()
    alone = cars.left_anti_join(cars.where(pl.col("lane") == 2), on="lane")
    fate = find_fate(rxt.why_not(alone, where={"plate": "D", "lane": 5}), "cars")
    assert (fate.kind, fate.operator) == ("elsewhere", "left_anti_join")
    fate = find_fate(rxt.why_not(alone, where={"plate": "B"}), "cars")
    assert fate.kind == "removed"
    clipped = cars.clip_event_duration(cars, on="lane")
    assert find_fate(rxt.why_not(clipped, at=100), "cars").kind == "elsewhere"


def test_a_stream_that_a_join_reads_twice() -> None:
    """An event that is in the result by one way is not lost, whatever becomes of the other way."""
    cars = make_cars()
    paired = cars.cross_join(cars.where(pl.col("plate") == "B").select(other="plate"))
    fate = find_fate(rxt.why_not(paired, where={"plate": "C", "other": "A"}), "cars")
    assert fate.kind == "elsewhere"
    assert fate.message.startswith("in the result [22, 25) lane=null plate='C' other='B', whose")
    assert "another way ended: dropped by where" in fate.message
    assert find_fate(rxt.why_not(paired, at=90, where={"plate": "C"}), "cars").kind == "elsewhere"
    later = cars.shift_event_time(100).union(cars.where(pl.col("lane") == 1))
    fate = find_fate(rxt.why_not(later, at=23, where={"plate": "C"}), "cars")
    assert fate.kind == "dropped"
    assert "another way is in the result [122, 126)" in fate.message


def test_rows_that_only_remove() -> None:
    """A right row of an anti join or a clip gives no row, and says which it removes or ends."""
    cars, tolls = make_cars(), make_tolls()
    free = cars.left_anti_join(tolls, on="lane", where=pl.col("toll") < 9)
    for at in (5, 70):
        fate = find_fate(rxt.why_not(free, at=at, where={"lane": 1}), "tolls")
        assert (fate.kind, fate.operator) == ("removes", "left_anti_join")
        assert fate.message.endswith("it removes [1, 9) lane=1 plate='A'")
    fate = find_fate(rxt.why_not(free, at=42, where={"lane": 2}), "tolls")
    assert fate.message.endswith("it removes no row")
    clipped = cars.clip_event_duration(tolls, on="lane")
    fate = find_fate(rxt.why_not(clipped, at=5, where={"lane": 1}), "tolls")
    assert fate.kind == "removes"
    assert fate.message.endswith("it ends [1, 9) lane=1 plate='A'")


def test_the_distance_of_a_lifetime_is_that_of_its_nearest_tick() -> None:
    """A lifetime does not contain its end; the tick before is its last."""
    wanted = Wanted(10, {}, "ticks")
    starts, ends = np.array([3, 8, 9, 12]), np.array([10, 11, 10, 20])
    assert wanted.measure(starts, ends).tolist() == [1, 0, 1, 2]
