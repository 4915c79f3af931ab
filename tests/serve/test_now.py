"""Results so far over HTTP: an array of rows, and events with their changes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import httpx
import pytest
import websockets.sync.client
from live_service import read_events, serve
from websockets.exceptions import InvalidStatus

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.serve import Settings, app, settings

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
