"""Rejected rows as an observable, and as a stream of the same run."""

from __future__ import annotations

import asyncio
import json
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal import Cti, EdgeEvent, PointEvent, Rejected, agg
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.query.push_input import RejectFeed


class Readings:
    """A stream that is pushed into, and the feed of its rejected rows."""

    def __init__(self, **options: Any) -> None:
        self.subject: Subject[Any] = Subject()
        self.stream = rxt.from_observable(
            self.subject, schema={"temp": float}, name="readings", **options
        )
        self.feed = RejectFeed(self.stream._node.source)  # type: ignore[arg-type]

    def push(self, *items: Any) -> None:
        """Push events and CTIs; anything else is a rejected row."""
        for item in items:
            if isinstance(item, PointEvent | Cti):
                self.subject.on_next(item)
            else:
                self.feed.push([Rejected(0, "bad", item)], "device 7")

    def run(self, *queries: rxt.Streamable, **options: Any) -> tuple[rxt.Process, Any]:
        """Run queries into collecting sinks."""
        app, sinks = rxt.Application("service"), [rxt.Collect() for _ in queries]
        for number, query in enumerate(queries):
            app.query(f"query {number}", query)
        named = [f"query {number}" for number in range(len(queries))]
        return app.run(*named, sinks=sinks, **options), sinks


def reading(time: int) -> PointEvent:
    """Return an event."""
    return PointEvent(time, {"temp": 1.0})


def starts(sink: rxt.Collect) -> list[tuple[int, str]]:
    """Return the start and the row of each rejected row in a sink."""
    return [(row["start_time"], json.loads(row["row"])) for row in sink.to_dicts()]


@pytest.mark.parametrize("options", [{}, {"hand_off": rxt.HandOff()}], ids=["direct", "hand-off"])
def test_a_rejected_row_is_a_point_at_the_cti_that_the_stream_had(options):
    """The rows of the source and its rejected rows go into one run, each row once."""
    readings = Readings(**options)
    process, (rows, rejects) = readings.run(readings.stream, readings.feed.stream)
    readings.push("before", reading(4), Cti(5), "five", reading(7), "again", Cti(9), reading(9))
    readings.push("nine")
    readings.subject.on_completed()
    process.wait(10)
    found, places = starts(rejects), [MIN_TIME, 5, 5, 9]
    assert [row for _, row in found] == ["before", "five", "again", "nine"]
    if not options:  # a hand-off delivers several batches as one
        assert [start for start, _ in found] == places
    assert len(rows.to_dicts()) == 3


def test_fields_of_a_rejected_row():
    """Source, input, number, reason, row and arrival."""
    readings = Readings()
    process, (rejects,) = readings.run(readings.feed.stream)
    readings.push(Cti(1), {"temp": {"deep": object}})
    readings.feed.push([Rejected(3, "late", EdgeEvent.create_end(4, 6, {"x": 1}))])
    readings.subject.on_completed()
    process.wait(10)
    first, second = rejects.to_dicts()
    assert (first["source"], first["input"], first["index"]) == ("readings", "device 7", 0)
    assert json.loads(first["row"]) == {"temp": {"deep": "<class 'object'>"}}
    assert first["arrived"] is not None
    assert json.loads(second["row"]) == {
        "event": "EdgeEvent",
        "start_time": 4,
        "end_time": 6,
        "edge_type": "<EdgeType.END: 'end'>",
        "payload": {"x": 1},
    }


def test_rejected_rows_alone_reach_the_query_at_once():
    """No row of the source has to come before they are seen."""
    readings, seen = Readings(), []

    def see(row: dict[str, Any]) -> bool:
        seen.append(row["reason"])
        return True

    process, _ = readings.run(readings.feed.stream.where(see))
    readings.push("one")
    assert seen == ["bad"]
    process.dispose()


def test_rejected_rows_in_windows():
    """Their CTIs are those of the source, so windows over both close together."""
    readings = Readings()
    count = readings.feed.stream.tumbling_window(10).aggregate(n=agg.count())
    good = readings.stream.tumbling_window(10).aggregate(n=agg.count())
    process, (bad_counts, both) = readings.run(count, good)
    readings.push(Cti(1), "x", "y", reading(2), Cti(10))
    assert [(row["start_time"], row["n"]) for row in bad_counts.to_dicts()] == [(0, 2)]
    assert [(row["start_time"], row["n"]) for row in both.to_dicts()] == [(0, 1)]
    process.dispose()


def test_a_second_run_takes_the_stream_over():
    """Rejected rows go into the latest run; one that has ended holds none of them."""
    readings = Readings()
    first, (old,) = readings.run(readings.feed.stream)
    readings.push("one", Cti(1))
    first.dispose()
    readings.push("lost")
    listener = readings.feed._source.listener
    assert listener is not None
    assert listener._waiting == []  # type: ignore[attr-defined]
    second, (new,) = readings.run(readings.feed.stream)
    readings.push("two", Cti(1))
    second.dispose()
    assert [[row for _, row in starts(sink)] for sink in (old, new)] == [["one"], ["two"]]


def test_a_resumed_run_has_the_rejected_rows_of_its_checkpoint(tmp_path: Path):
    """The stream goes on where it was: with the rows that its time has not passed yet."""
    state, collected = tmp_path / "state", []
    for rows in ((Cti(5), "old"), ("new", Cti(9))):
        readings = Readings()
        process, (sink,) = readings.run(readings.feed.stream, resume=state)
        readings.push(*rows)
        process.stop()
        collected.append(starts(sink))
    assert collected == [[], [(5, "old"), (5, "new")]]


def test_plans_name_the_stream():
    """``explain`` and the query's fingerprint call it by its origin."""
    readings = Readings()
    text = readings.feed.stream.select("row").explain()
    assert "rejected rows of readings" in text
    assert "the CTIs of 'readings'" in text


def test_a_source_that_is_pushed_into_has_the_feed(tmp_path: Path):
    """Rejected rows of push and of push_async, with the names of their inputs."""
    source = rxt.PushSource("readings", schema={"temp": float})
    rows, rejects, seen = rxt.Collect(), rxt.Collect(), []
    app = rxt.Application("service")
    app.query("rows", source.stream)
    app.query("rejects", source.rejects.stream)
    source.rejects.subscribe(seen.append)
    process = app.run("rows", "rejects", sinks=[rows, rejects], resume=tmp_path / "state")
    source.push({"time": 5, "temp": 1})
    source.push([{"time": 6, "temp": 1}, {"time": 7}], input="a")
    asyncio.run(source.push_async({"temp": 2}, input="b"))
    source.close()
    process.wait(10)
    assert [(each.input, each.index) for each in seen] == [("a", 1), ("b", 0)]
    assert starts(rejects) == [(6, {"time": 7}), (6, {"temp": 2})]
    assert len(rows.to_dicts()) == 2


def test_the_observable_has_source_input_and_arrival():
    """Subscribers get each row as it was pushed; one that raises stops nobody."""
    readings, seen, done = Readings(), [], []

    def fail(_: Rejected) -> None:
        raise RuntimeError

    readings.feed.subscribe(fail)
    readings.feed.subscribe(seen.append, on_completed=lambda: done.append(True))
    row = {"temp": "hot"}
    readings.push(row, {"temp": "cold"})
    readings.feed.end()
    assert [(each.source, each.input) for each in seen] == [("readings", "device 7")] * 2
    assert seen[0].row is row
    assert seen[1].arrived - seen[0].arrived < timedelta(minutes=1)
    assert done == [True]


def test_threads():
    """Rows rejected by several threads while others push all reach the stream once."""
    readings = Readings(hand_off=rxt.HandOff())
    process, (rejects,) = readings.run(readings.feed.stream)

    def reject(thread: int) -> None:
        for n in range(50):
            readings.push(f"{thread} {n}")

    threads = [threading.Thread(target=reject, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for n in range(100):
        readings.push(Cti(n))
    for thread in threads:
        thread.join()
    readings.subject.on_completed()
    process.wait(10)
    assert sorted(row for _, row in starts(rejects)) == sorted(
        f"{thread} {n}" for thread in range(4) for n in range(50)
    )


def test_a_rejected_row_of_which_nobody_hears_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whoever ignores verdicts sees the first reason; a subscriber hears of each, without a log."""
    for heard in (False, True):
        caplog.clear()
        source = rxt.PushSource("readings", schema={"temp": float})
        reasons: list[str] = []
        if heard:
            source.rejects.subscribe(lambda each: reasons.append(each.reason))  # noqa: B023
        process = source.stream.run(rxt.Collect())
        for _ in range(2):
            source.push({"time": 1, "temp": "warm"}, input="device 7")
            source.push([{"time": 1, "temp": "hot"}])
        process.stop()
        lines = [each.getMessage() for each in caplog.records if "rejected" in each.getMessage()]
        assert len(reasons) == (4 if heard else 0)
        assert len(lines) == (0 if heard else 1)
        if lines:
            assert "'warm'" in lines[0]
            assert "input='device 7'" in lines[0]
            assert "verdict.rejected" in lines[0]
