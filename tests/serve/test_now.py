"""Results so far over HTTP: an array of rows, and events with their changes."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import httpx
import pytest
import websockets.sync.client
from live_service import read_events, serve
from websockets.exceptions import InvalidStatus

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.serve import Settings, app, now, settings

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def make_house() -> tuple[rxt.Application, rxt.PushSource]:
    """Return an application with the sums of ten seconds of each room."""
    source = rxt.PushSource("readings", schema={"room": str, "x": int}, delay="1s")
    house = rxt.Application("house")
    windows = source.stream.group_by("room").tumbling_window("10s")
    house.query("sums", windows.aggregate(x=agg.sum("x")))
    return house, source


def make_settings() -> Settings:
    """Return settings for a test: a free port."""
    server = settings.ServerSettings(port=0, drain_seconds=5.0)
    return Settings(server=server, limits=settings.Limits(ahead=None))


def push(source: rxt.PushSource, second: float, room: str, x: int) -> None:
    """Push a row of some seconds after noon."""
    source.push({"time": NOON + timedelta(seconds=second), "room": room, "x": x})


def test_an_array_of_rows() -> None:
    """Also of a query without results; the list of queries names the path."""
    house, source = make_house()
    with serve(app(house, make_settings())) as url:
        (query,) = httpx.get(f"{url}/queries").json()["queries"]
        assert httpx.get(url + query["now"]).json() == []
        push(source, 1, "lab", 5)
        push(source, 12, "lab", 7)
        assert httpx.get(url + query["now"]).json() == [
            {"start_time": "2026-05-01T12:00:10Z", "end_time": "2026-05-01T12:00:20Z",
             "room": "lab", "x": 7},
        ]  # fmt: skip
        assert httpx.get(f"{url}/queries/means/now").status_code == 404
        for every in ("soon", "0s", "-1s", "1ms"):
            refused = httpx.get(f"{url}/queries/sums/now", params={"every": every})
            assert (refused.status_code, "every" in refused.text) == (400, True)


def test_changes_come_as_events() -> None:
    """Rows that are new or changed, and those that have become final; a WebSocket has the same."""
    house, source = make_house()
    with serve(app(house, make_settings())) as url:
        push(source, 1, "lab", 5)
        push(source, 2, "hall", 6)
        path = "/queries/sums/now?every=100ms"
        socket_url = url.replace("http", "ws") + path
        with (
            httpx.stream("GET", url + path, timeout=60) as answer,
            websockets.sync.client.connect(socket_url) as socket,
        ):
            events = read_events(answer)
            kind, _, rows = next(events)
            assert (kind, sorted(row["x"] for row in rows)) == ("now", [5, 6])
            push(source, 3, "lab", 10)
            found = dict[str, list[int]]()
            while len(found) < 2:
                kind, _, rows = next(events)
                found[kind] = [row["x"] for row in rows]
            assert found == {"gone": [5], "now": [15]}
            push(source, 30, "lab", 1)
            while found.get("now") != [1]:
                kind, _, rows = next(events)
                found[kind] = sorted(row["x"] for row in rows)
            assert found["gone"] == [6, 15]
            source.close()
            kinds = [kind for kind, _, _ in events]
            assert kinds[-1] == "end"
            messages = [json.loads(text) for text in socket]
        assert messages[0]["event"] == "now"
        assert messages[-1] == {"event": "end", "position": None, "data": {}}


def test_a_websocket_sends_changes() -> None:
    """So it needs to know how often."""
    house, _ = make_house()
    with serve(app(house, make_settings())) as url:
        with pytest.raises(InvalidStatus) as refused:
            websockets.sync.client.connect(url.replace("http", "ws") + "/queries/sums/now")
        assert refused.value.response.status_code == 400


def test_a_query_that_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients get 503 after a time, the service answers others, and stops."""
    monkeypatch.setattr(now, "PATIENCE", 0.2)
    inside, go_on = threading.Event(), threading.Event()

    def write(row: object) -> None:
        inside.set()
        go_on.wait(30)

    source = rxt.PushSource("readings", schema={"x": int}, delay=0, hand_off=rxt.HandOff(100))
    house = rxt.Application("house")
    house.query("rows", source.stream)
    with serve(app(house, make_settings(), sinks={"rows": write})) as url:
        source.push([{"time": 1, "x": 1}, {"time": 2, "x": 2}])
        assert inside.wait(20)
        with ThreadPoolExecutor(8) as clients:
            answers = [*clients.map(httpx.get, [f"{url}/queries/rows/now"] * 8)]
        assert {answer.status_code for answer in answers} == {503}
        assert answers[0].headers["retry-after"] == "1"
        assert httpx.get(f"{url}/metrics").status_code == 200
        go_on.set()
        deadline = time.monotonic() + 20
        while (answer := httpx.get(f"{url}/queries/rows/now")).status_code == 503:
            assert time.monotonic() < deadline
        assert [row["x"] for row in answer.json()] == [2]


def test_a_query_that_cannot_be_looked_at(caplog: pytest.LogCaptureFixture) -> None:
    """The answer says why, each time; the log does once."""
    looked = threading.Event()

    def check(row: dict[str, int]) -> bool:
        if looked.is_set():
            raise ValueError("no second time")
        return True

    source = rxt.PushSource("readings", schema={"x": int}, delay=0)
    house = rxt.Application("house")
    sums = source.stream.tumbling_window(10).aggregate(x=agg.sum("x"))
    house.query("rows", sums.where(check))
    with serve(app(house, make_settings())) as url:
        source.push({"time": 1, "x": 1})
        looked.set()
        for path in ("/queries/rows/now", "/queries/rows/now?every=1s"):
            answer = httpx.get(url + path)
            assert (answer.status_code, "no second time" in answer.json()["error"]) == (409, True)
        assert caplog.text.count("now.failed") == 1
        looked.clear()
        assert [row["x"] for row in httpx.get(f"{url}/queries/rows/now").json()] == [1]


def test_equal_rows_are_two() -> None:
    """One of them may change alone."""
    source = rxt.PushSource("readings", schema={"x": int}, delay=100)
    house = rxt.Application("house")
    house.query("rows", source.stream)
    with serve(app(house, make_settings())) as url:
        source.push([{"time": 1, "x": 1}, {"time": 1, "x": 1}])
        with httpx.stream("GET", f"{url}/queries/rows/now?every=100ms", timeout=60) as answer:
            events = read_events(answer)
            assert len(next(events)[2]) == 2
            source.push({"time": 1, "x": 1})
            kind, _, rows = next(events)
            assert (kind, len(rows)) == ("now", 1)
