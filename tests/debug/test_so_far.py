"""Results so far on the live event-flow page: what it is sent of the rows that are not final."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from page_columns import read_column, read_rows
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.view.debug import live as module
from rxtemporal.view.debug.live import MOST_ROWS, LiveFlow, ResultsSoFar


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look each time when somebody asks."""
    monkeypatch.setattr(module, "PAUSE", 0.0)
    monkeypatch.setattr(module, "REST", 0)


def make_house() -> tuple[rxt.Application, rxt.PushSource]:
    """Return an application with the counts of ten ticks of each device, and all readings."""
    source = rxt.PushSource("readings", schema={"device": str, "x": int}, delay=5)
    house = rxt.Application("house")
    windows = source.stream.group_by("device").tumbling_window(10)
    house.query("counts", windows.aggregate(n=agg.count()))
    house.query("hot", source.stream.where(lambda row: row["x"] > 2))
    return house, source


def push(source: rxt.PushSource, *times: int) -> None:
    """Push a reading at each time, with the time as its value."""
    for at in times:
        source.push({"time": at, "device": "ab"[at % 2], "x": at})


def read_so_far(nodes: list[dict[str, Any]], name: str) -> list[tuple[Any, ...]]:
    """Return start, end and payload of a node's results so far, sorted."""
    node = next(each for each in nodes if each["name"] == name)
    rows = read_rows({**node, "rows": node["soFar"]["rows"]})
    assert node["soFar"]["count"] == len(rows)
    fields = ["start", "end", *(each["name"] for each in node["fields"])]
    return sorted(tuple(row[each] for each in fields) for row in rows)


COUNTS = "tumbling_window().aggregate"


def test_the_windows_that_are_open_are_sent() -> None:
    """Each look has their values so far, laid out by device; those that are final are gone."""
    house, source = make_house()
    process = house.run(sinks={"counts": rxt.Collect(), "hot": rxt.Collect()})
    live = LiveFlow(process)
    live.open()
    push(source, 1, 2, 3)
    flow, place = live.read_all("house")
    counts = flow["nodes"][2]
    assert read_so_far(flow["nodes"], COUNTS) == [(0, 10, "a", 1), (0, 10, "b", 2)]
    assert sorted(read_column(counts["soFar"]["rows"]["lane"])) == ["a", "b"]
    # which the operator has given, and its query holds until the CTI has passed it
    assert read_so_far(flow["nodes"], "where") == [(3, 4, "b", 3.0)]
    # of the others there are none
    assert [each["soFar"] for each in flow["nodes"][:2]] == [None, None]
    push(source, 31)
    part = live.read(place)["nodes"]
    assert [set(each) >= {"soFar"} for each in part] == [False, False, True, True]
    nodes = [{**a, **b} for a, b in zip(flow["nodes"], part, strict=True)]
    assert read_so_far(nodes, COUNTS) == [(30, 40, "b", 1)]
    assert sorted((row["start"], row["n"]) for row in read_rows(nodes[2])) == [(0, 1), (0, 2)]
    live.close()
    process.stop()
    nodes = [{**a, **b} for a, b in zip(flow["nodes"], live.read(place)["nodes"], strict=True)]
    assert read_so_far(nodes, COUNTS) == []


def test_a_look_is_shared_and_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks before it is time gets what the last look has found, and no reader gets it twice."""
    monkeypatch.setattr(module, "PAUSE", 1_000.0)
    house, source = make_house()
    process = house.run(sinks={"counts": rxt.Collect(), "hot": rxt.Collect()})
    live = LiveFlow(process)
    push(source, 1)
    _, first = live.read_all("house")
    push(source, 3)
    flow, second = live.read_all("house")
    assert read_so_far(flow["nodes"], COUNTS) == [(0, 10, "b", 1)]
    assert all(a is b for a, b in zip(first.so_far, second.so_far, strict=True))
    assert not any("soFar" in each for each in live.read(first)["nodes"])
    process.stop()


def test_a_look_at_a_busy_query_keeps_what_the_last_one_found() -> None:
    """The page does not wait for a slow sink."""
    inside, go_on = threading.Event(), threading.Event()

    def write(rows: rxt.EventBatch) -> None:
        if 9 in rows.payload["x"]:
            inside.set()
            go_on.wait(60)

    source = rxt.PushSource("readings", schema={"x": int}, delay=5, hand_off=rxt.HandOff(100))
    house = rxt.Application("house")
    house.query("sums", source.stream.tumbling_window(100).aggregate(x=agg.sum("x")))
    house.query("rows", source.stream)
    process = house.run(sinks={"sums": rxt.Collect(), "rows": write})
    looks = ResultsSoFar(process)
    source.push({"time": 4, "x": 4})
    look_until(looks, 4)
    source.push([{"time": 9, "x": 9}, {"time": 30, "x": 30}])
    assert inside.wait(60)
    assert read_sum(looks) == 4
    go_on.set()
    look_until(looks, 43)
    process.stop()


def read_sum(looks: ResultsSoFar) -> int | None:
    """Return the only sum so far; None if there is none."""
    rows = looks.read()[0].rows.to_dicts()
    return rows[0]["x"] if rows else None


def look_until(looks: ResultsSoFar, expected: int) -> None:
    """Look until the sum so far is this one."""
    until = time.monotonic() + 60
    while read_sum(looks) != expected:
        assert time.monotonic() < until


def test_the_page_says_why_there_are_none() -> None:
    """An error of a user's function in a look ends nothing; once it is over there are rows."""
    fails = {"now": False}

    def mark(row: dict[str, Any]) -> dict[str, Any]:
        if fails["now"]:
            raise ValueError("broken")
        return row

    source = rxt.PushSource("readings", schema={"x": int}, delay=5)
    sums = source.stream.tumbling_window(10).aggregate(x=agg.sum("x"))
    process = sums.select(mark, schema={"x": int}).run(rxt.Collect(), name="sums")
    live = LiveFlow(process)
    source.push({"time": 4, "x": 4})
    fails["now"] = True
    flow, place = live.read_all("house")
    assert "Results so far of 'sums' cannot be shown:" in flow["sentence"]
    assert "broken" in flow["sentence"]
    assert read_so_far(flow["nodes"], "select") == []
    fails["now"] = False
    part = live.read(place)
    assert "cannot be shown" not in part["sentence"]
    nodes = [{**a, **b} for a, b in zip(flow["nodes"], part["nodes"], strict=True)]
    assert read_so_far(nodes, "select") == [(0, 10, 4)]
    process.stop()


def test_only_the_newest_of_very_many_are_sent() -> None:
    """All are counted."""
    source = rxt.PushSource("readings", schema={"x": int}, delay=100_000)
    ones = source.stream.tumbling_window(10).aggregate(x=agg.sum("x"))
    process = ones.run(rxt.Collect())
    source.push([{"time": 10 * each, "x": each} for each in range(MOST_ROWS + 500)])
    (found,) = ResultsSoFar(process).read()
    assert (found.total, len(found.rows)) == (MOST_ROWS + 500, MOST_ROWS)
    assert found.rows.start.min() == 5_000
    process.stop()


def test_fields_are_known_from_the_first_result_so_far() -> None:
    """A stream whose fields come with its events is described again before a result is final."""
    subject: Subject[Any] = Subject()
    readings = rxt.from_observable(subject, name="readings")
    sums = readings.tumbling_window(10).aggregate(x=agg.sum("x"))
    with sums.run(rxt.Collect()) as process:
        live = LiveFlow(process)
        live.open()
        flow, _ = live.read_all("query")
        assert [each["fields"] for each in flow["nodes"]] == [[], []]
        subject.on_next(rxt.PointEvent(1, {"x": 2}))
        subject.on_next(rxt.Cti(5))
        live.read_all("query")
        assert live.known == 2
        flow, _ = live.read_all("query")
        assert read_so_far(flow["nodes"], COUNTS) == [(0, 10, 2)]
        live.close()
        subject.on_completed()
