"""peek by example: windows that are open, applications, keys, devices, and when it is refused."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

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
