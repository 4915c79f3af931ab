"""peek by example: windows that are open, applications, keys, devices, and when it is refused."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal import agg

BEGIN = datetime(2026, 5, 1, tzinfo=UTC)


def push(source: rxt.PushSource, *rows: tuple[float, str, float]) -> None:
    """Push rows of a minute, a room and a value."""
    for minute, room, value in rows:
        source.push({"time": BEGIN + timedelta(minutes=minute), "room": room, "v": value})


def make_source(**options: Any) -> rxt.PushSource:
    """Return a source of rooms and values."""
    given = {"delay": "2m"} | options
    return rxt.PushSource("readings", schema={"room": str, "v": float}, **given)


def sum_tens(stream: rxt.Streamable) -> rxt.Streamable:
    """Return the sum of each room's ten minutes."""
    windows = stream.group_by("room").tumbling_window("10m")
    return windows.aggregate(v=agg.sum("v"), n=agg.count())


def show(frame: Any) -> list[tuple[float, str, float]]:
    """Return the minute of each result, its room and its value."""
    return sorted(
        ((row["start_time"] - BEGIN) / timedelta(minutes=1), row["room"], row["v"])
        for row in frame.to_dicts()
    )


@pytest.mark.parametrize("resumes", [False, True])
def test_windows_that_are_open(resumes: bool, tmp_path: Path) -> None:
    """Their values so far, with rows that wait for the delay; nothing that has been given."""
    source, sink = make_source(), rxt.Collect()
    process = sum_tens(source.stream).run(sink, resume=tmp_path / "state" if resumes else None)
    assert process.peek().is_empty()
    push(source, (1, "a", 1), (8, "b", 2), (11, "a", 4))
    assert show(process.peek()) == [(0, "a", 1), (0, "b", 2), (10, "a", 4)]
    push(source, (9.5, "a", 8), (12, "b", 16))
    assert show(sink.to_polars()) == [(0, "a", 9), (0, "b", 2)]
    assert show(process.peek()) == [(10, "a", 4), (10, "b", 16)]
    source.close()
    process.wait()
    assert process.peek().is_empty()
    assert process.peek().schema["v"].is_float()
    assert len(sink.to_dicts()) == 4


def test_the_run_goes_on_as_if_nobody_had_looked() -> None:
    """Whatever is looked at, and however often."""
    results = []
    for looks in (False, True):
        source, sink = make_source(hand_off=rxt.HandOff(100)), rxt.Collect()
        with sum_tens(source.stream).run(sink) as process:
            for n in range(60):
                push(source, (n / 2, "ab"[n % 2], n))
                if looks:
                    process.peek(keys={"room": "a"})
            source.close()
        results.append(show(sink.to_polars()))
    assert results[0] == results[1]


def test_rows_that_are_open_end_now() -> None:
    """One tick above the highest start; a result that has begun by then is there."""
    edges: Subject[Any] = Subject()
    stream = rxt.from_observable(edges, schema={"k": str}, name="stays")
    process = stream.tumbling_window(10).aggregate(time=agg.duration(), n=agg.count()).run(
        rxt.Collect()
    )  # fmt: skip
    edges.on_next(rxt.EdgeEvent.create_start(3, {"k": "a"}))
    edges.on_next(rxt.PointEvent(14, {"k": "b"}))
    assert process.peek().rows() == [(0, 10, 7, 1), (10, 20, 6, 2)]
    process.stop()


def test_an_application_has_several_queries() -> None:
    """One is chosen by its name, and rows by their fields."""
    source = make_source()
    app = rxt.Application("house")
    app.query("sums", sum_tens(source.stream))
    app.query("signal", source.stream.to_signal("room"))
    process = app.run(sinks={"sums": rxt.Collect(), "signal": rxt.Collect()})
    push(source, (1, "a", 1), (2, "b", 2), (3, "c", 4), (4, "a", 8))
    assert show(process.peek("sums", keys={"room": ["a", "c"]})) == [(0, "a", 9), (0, "c", 4)]
    open_ended = process.peek("signal", {"room": "a"})
    assert open_ended["v"].to_list() == [1, 8]
    assert open_ended["end_time"].to_list() == [BEGIN + timedelta(minutes=4), None]
    with pytest.raises(rxt.ArgumentError, match="there are 'sums', 'signal'"):
        process.peek()
    with pytest.raises(rxt.ArgumentError, match="no query 'mean'; there are"):
        process.peek("mean")
    with pytest.raises(rxt.ArgumentError, match="no field 'k'; there are start_time"):
        process.peek("sums", {"k": 1})
    process.stop()


def test_each_device_is_cut_at_its_own_time() -> None:
    """What one has not come to is left out, though others have."""
    source = make_source(clock="room", delay="0s")
    process = sum_tens(source.stream).run(rxt.Collect())
    push(source, (1, "slow", 1), (2, "fast", 2), (41, "fast", 4), (12, "slow", 8))
    assert show(process.peek()) == [(10, "slow", 8), (40, "fast", 4)]
    process.stop()


def test_looks_from_other_threads() -> None:
    """While rows are pushed; each look is at one moment between two pushes."""
    source, sink = make_source(), rxt.Collect()
    process = source.stream.tumbling_window("1d").aggregate(n=agg.count()).run(sink)
    found, done = list[int](), threading.Event()

    def look() -> None:
        while not done.is_set():
            found.extend(process.peek()["n"].to_list())

    thread = threading.Thread(target=look)
    thread.start()
    for n in range(300):
        push(source, (n, "a", n))
    done.set()
    thread.join()
    assert found == sorted(found)
    assert process.peek()["n"].to_list() == [300]
    process.stop()


def test_not_from_inside_of_a_batch() -> None:
    """There the results are on their way."""
    source, failed = make_source(delay="0s"), list[str]()

    def look(row: Any) -> None:
        try:
            process.peek()
        except rxt.BindingError as error:
            failed.append(str(error))

    process = source.stream.run(look)
    push(source, (1, "a", 1), (2, "a", 2))
    assert "call it on another thread" in failed[0]
    process.stop()


def test_a_look_leaves_rejected_rows_to_the_run() -> None:
    """Those that come after it, too."""
    source, rejected = rxt.PushSource("s", schema={"v": int}, delay=0), rxt.Collect()
    app = rxt.Application("rows and rejects")
    app.query("rows", source.stream)
    app.query("rejected", source.rejects.stream)
    process = app.run(sinks={"rows": rxt.Collect(), "rejected": rejected})
    for time, value in enumerate((1, "bad", 2, "worse", 3)):
        source.push({"time": time, "v": value})
        process.peek("rows")
    source.close()
    process.wait()
    assert len(rejected.to_polars()) == 2


def test_many_rows_of_one_window_are_no_endless_row() -> None:
    """However many windows come before the one that is open."""
    source = rxt.PushSource("s", schema={"k": int}, delay=0)
    minutes = source.stream.group_by("k").tumbling_window(60).aggregate(n=agg.count())
    process = minutes.tumbling_window(3_600).aggregate(n=agg.sum("n")).run(rxt.Collect())
    source.push(pl.DataFrame({"time": [5] * 120_000, "k": range(120_000)}))
    assert process.peek().rows() == [(0, 3_600, 120_000)]
    process.stop()


def test_one_query_of_an_application_does_not_wait_for_another() -> None:
    """Windows over rows that never end, beside long ones and rows that end late."""
    source = rxt.PushSource("s", schema={"k": int}, delay=0)
    endless = source.stream.to_signal("k")
    app = rxt.Application("house")
    app.query("seconds", endless.tumbling_window(1).aggregate(n=agg.count()))
    app.query("days", source.stream.tumbling_window(10**9).aggregate(n=agg.count()))
    app.query("gaps", source.stream.to_signal("k", max_gap=10**9))
    process = app.run(sinks={name: rxt.Collect() for name in ("seconds", "days", "gaps")})
    source.push([{"time": 0, "k": 1}, {"time": 5, "k": 2}])
    assert process.peek("days").rows() == [(0, 10**9, 2)]
    assert process.peek("gaps")["end_time"].to_list() == [10**9, 10**9 + 5]
    assert process.peek("seconds").rows() == [(5, 6, 2), (6, 7, 2)]
    process.stop()


def test_sessions_of_devices_that_are_behind() -> None:
    """All devices have passed what is shown, not only the one that is furthest ahead."""
    source = rxt.PushSource("s", schema={"d": str}, delay=0, clock="d")
    query = source.stream.group_by("d").session_window(8).aggregate(n=agg.count())
    process = query.run(rxt.Collect())
    for time, device in ((10, "b"), (3, "a"), (13, "a")):
        source.push({"time": time, "d": device})
    assert sorted(process.peek().rows()) == [(10, 18, "b", 1), (13, 21, "a", 1)]
    process.stop()


def test_rows_that_never_end_in_windows_without_end() -> None:
    """The rows themselves are shown, though windows over them have no end."""
    source = rxt.PushSource("s", schema={"k": int}, delay=0)
    signal = source.stream.to_signal("k")
    counts = signal.tumbling_window(10).aggregate(n=agg.count(), k=agg.max("k"))
    process = signal.select("k").union(counts.select("k")).run(rxt.Collect())
    source.push({"time": 3, "k": 1})
    assert process.peek().sort("end_time").rows() == [(3, None, 1), (0, 10, 1)]
    process.stop()


def test_a_source_that_has_ended_counts() -> None:
    """Its rows are as high as before."""
    ended, other = Subject[Any](), Subject[Any]()
    left = rxt.from_observable(ended, schema={"v": int}, name="left")
    right = rxt.from_observable(other, schema={"v": int}, name="right")
    process = left.union(right).tumbling_window(10).aggregate(n=agg.count()).run(rxt.Collect())
    other.on_next(rxt.PointEvent(3, {"v": 1}))
    ended.on_next(rxt.PointEvent(45, {"v": 1}))
    ended.on_completed()
    assert process.peek().rows() == [(0, 10, 1), (40, 50, 1)]
    process.stop()


def test_a_source_without_given_fields() -> None:
    """They are those of its rows."""
    events: Subject[Any] = Subject()
    process = (
        rxt.from_observable(events, name="s")
        .tumbling_window(10)
        .aggregate(n=agg.count())
        .run(rxt.Collect())
    )
    assert process.peek(keys={"n": 1}).is_empty()
    events.on_next(rxt.PointEvent(3, {"v": 1}))
    assert process.peek(keys={"n": 1}).rows() == [(0, 10, 1)]
    process.stop()


@pytest.mark.parametrize("clock", [None, "k"])
def test_functions_whose_parameters_change(clock: str | None) -> None:
    """A look is a copy of the same query, whatever they are by then."""
    calls = 0

    def count(row: Any) -> bool:
        nonlocal calls
        calls += 1
        return True

    source = rxt.PushSource("s", schema={"k": int}, delay=0, clock=clock)
    query = source.stream.where(count).group_by("k").tumbling_window(10).aggregate(n=agg.count())
    process = query.run(rxt.Collect())
    for time, key in ((1, 1), (2, 2), (1_003, 1), (4, 2)):
        source.push({"time": time, "k": key})
    shown = [(1_000, 1_010, 1, 1)]
    assert sorted(process.peek().rows()) == ([(0, 10, 2, 2), *shown] if clock else shown)
    process.stop()


def test_edges_have_the_ends_that_they_will_have() -> None:
    """Also where a row begins now and ends later; null if it never does."""
    source = rxt.PushSource("s", schema={"k": int}, delay=0)
    sink = rxt.Collect(shape=rxt.EventShape.EDGE)
    process = source.stream.to_signal("k", max_gap=100).run(sink)
    source.push([{"time": 3, "k": 1}, {"time": 7, "k": 2}])
    assert process.peek().rows() == [(7, 107, 2)]
    process.stop()


def test_what_waits_in_a_hand_off() -> None:
    """A look waits for one batch of a slow sink, writes nothing, and holds no producer up."""
    inside, go_on, threads = threading.Event(), threading.Event(), list[str]()

    def write(row: Any) -> None:
        threads.append(threading.current_thread().name)
        inside.set()
        go_on.wait(20)

    source = make_source(delay="0s", hand_off=rxt.HandOff(1_000))
    app = rxt.Application("slow")
    app.query("rows", source.stream)
    app.query("late", source.stream.late_events())
    process = app.run(sinks={"rows": write, "late": lambda row: None})
    push(source, (5, "a", 1), (6, "a", 2))
    assert inside.wait(20)
    push(source, (7, "a", 4), (1, "a", 8), (8, "a", 16))
    with pytest.raises(TimeoutError, match=r"busy with a batch for 0.05 s. Hint: diagnostics\(\)"):
        process.peek("rows", timeout=0.05)
    found: list[Any] = []
    looker = threading.Thread(target=lambda: found.append(process.peek("rows")), name="looker")
    looker.start()
    go_on.set()
    looker.join(20)
    assert show(found[0])[-1] == (8, "a", 16)
    assert "looker" not in threads
    process.stop()


def test_late_and_rejected_rows_that_wait() -> None:
    """They are in the looks at their own streams, before a CTI lets them leave."""
    source = rxt.PushSource("s", schema={"v": int}, delay=0)
    app = rxt.Application("side streams")
    app.query("late", source.stream.late_events())
    app.query("rejected", source.rejects.stream)
    process = app.run(sinks={"late": rxt.Collect(), "rejected": rxt.Collect()})
    source.push([{"time": 10, "v": 1}, {"time": 20, "v": 2}, {"time": 3, "v": 1}])
    source.push({"time": 25, "v": "bad"})
    assert process.peek("late")["v"].to_list() == [1]
    assert len(process.peek("rejected")) == 1
    process.stop()


def test_replays_can_be_looked_at(tmp_path: Path) -> None:
    """Though their state cannot be saved."""
    source = make_source()
    with sum_tens(source.stream).run(rxt.Collect(), record=tmp_path / "recording"):
        push(source, (1, "a", 1), (8, "a", 4), (25, "b", 2))
        source.close()
    wrote, go_on = threading.Event(), threading.Event()

    def write(row: Any) -> None:
        wrote.set()
        go_on.wait(20)

    late = make_source(hand_off=rxt.HandOff(100))
    replayed = sum_tens(rxt.replay(tmp_path / "recording")["readings"])
    process = replayed.union(sum_tens(late.stream)).run(write)
    push(late, (7, "c", 1), (45, "d", 2))
    assert wrote.wait(20)
    looked: list[Any] = []
    looker = threading.Thread(target=lambda: looked.append(process.peek()))
    looker.start()
    go_on.set()
    looker.join(20)
    assert (40, "d", 2) in show(looked[0])
    process.stop()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keys": "room"}, r"keys are fields with their values, got 'room'. Hint: keys={'room'"),
        ({"keys": {"room": 3}}, "field 'room' is of type String, which has no values such as 3"),
        ({"keys": {3: 3}}, "no field 3; there are start_time, end_time, room"),
        ({"time": "foo"}, "time is 'ticks' or 'datetime', got 'foo'"),
    ],
)
def test_wrong_arguments(options: Any, message: str) -> None:
    """Each is named, with what to write."""
    source = make_source()
    process = sum_tens(source.stream).run(rxt.Collect())
    push(source, (1, "a", 1))
    with pytest.raises(rxt.ArgumentError, match=message):
        process.peek(**options)
    process.stop()


def test_rows_without_a_value_are_chosen() -> None:
    """None is a value of a field like others."""
    source = make_source()
    process = sum_tens(source.stream).run(rxt.Collect())
    source.push({"time": BEGIN, "room": None, "v": 1.0})
    push(source, (1, "a", 2))
    assert process.peek(keys={"room": None})["v"].to_list() == [1]
    assert process.peek(keys={"room": [None, "a"]}).height == 2
    process.stop()
