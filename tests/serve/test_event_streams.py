"""Results over HTTP: server-sent events and WebSockets, from a position, and taps of streams."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import polars as pl
import pytest
import websockets.sync.client
from live_service import read_events, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.ingress.encoded_rows import JsonMessages
from rxtemporal.ingress.verdict import Rejected, Verdict
from rxtemporal.serve import Settings, app, settings
from rxtemporal.serve.event_streams import find_position
from rxtemporal.serve.responses import RequestError
from rxtemporal.serve.taps import StreamTap
from rxtemporal.serve.tokens import hash_token

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def make_house(delay: Any = 0, window: Any = 10) -> tuple[rxt.Application, rxt.PushSource]:
    """Return an application with one stream and two queries."""
    source = rxt.PushSource("readings", schema={"x": int}, delay=delay)
    house = rxt.Application("house")
    house.query("all", source.stream)
    house.query("counts", source.stream.tumbling_window(window).aggregate(n=agg.count()))
    return house, source


def make_settings(**results: Any) -> Settings:
    """Return settings for a test: a free port, and these of results."""
    return Settings(
        server=settings.ServerSettings(port=0, drain_seconds=5.0),
        results=settings.ResultSettings(**results),
        limits=settings.Limits(ahead=None),
    )


class Request:
    """One GET request to an application without a server, which ends when the test says so."""

    def __init__(self, path: str, *, headers: dict[str, str] | None = None, method: str = "GET"):
        path, _, query = path.partition("?")
        raw = [(k.lower().encode(), v.encode()) for k, v in (headers or {}).items()]
        self.scope: dict[str, Any] = {
            "type": "http", "method": method, "path": path, "headers": raw,
            "query_string": query.encode(), "root_path": "",
        }  # fmt: skip
        self.status = 0
        self.body = b""
        self.complete = False
        self.left = asyncio.Event()
        # waits while it is set
        self.stuck: asyncio.Future[None] | None = None

    async def receive(self) -> dict[str, Any]:
        """Tell that the client has gone, once it has."""
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        """Take a message of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        if self.stuck is not None:
            await self.stuck
        self.body += message["body"]
        self.complete = not message.get("more_body")

    @property
    def events(self) -> list[tuple[str, int | None, Any]]:
        """The events so far."""
        found = []
        for block in self.body.decode().split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.split("\n") if line[:1].isalpha())
            if "data" in lines:
                at = int(lines["id"]) if "id" in lines else None
                found.append((lines["event"], at, json.loads(lines["data"])))
        return found

    @property
    def starts(self) -> list[Any]:
        """The starts of all rows so far."""
        return [
            row["start_time"] for kind, _, rows in self.events if kind == "rows" for row in rows
        ]

    async def until(self, condition: Callable[[], object]) -> None:
        """Let the loop turn until a condition holds."""
        for _ in range(10_000):
            if condition():
                return
            await asyncio.sleep(0.001)
        raise AssertionError(f"not yet: {self.status} {self.body!r}")


def run(
    test: Callable[[Any, rxt.PushSource], Awaitable[None]], *, delay: Any = 0, **results: Any
) -> None:
    """Run a test with an application that has been started."""
    house, source = make_house(delay)
    served = app(house, make_settings(**results))

    async def main() -> None:
        async with served.lifespan():
            await test(served, source)

    asyncio.run(main())


def test_a_reader_gets_what_is_kept_and_what_comes() -> None:
    """Rows come with their position; time without rows is told; the end ends the answer."""

    async def test(served: Any, source: rxt.PushSource) -> None:
        source.push([{"time": 3, "x": 1}, {"time": 5, "x": 2}])
        request = Request("/queries/all/events")
        answer = asyncio.ensure_future(served(request.scope, request.receive, request.send))
        await request.until(lambda: request.events)
        kind, at, rows = request.events[0]
        assert (kind, at, request.status) == ("rows", 5, 200)
        assert rows == [{"start_time": 3, "end_time": 4, "x": 1}]
        source.push([rxt.Cti(9)])
        await request.until(lambda: len(request.events) > 1)
        assert request.starts == [3, 5]
        source.push([rxt.Cti(20)])
        await request.until(lambda: len(request.events) > 2)
        assert request.events[-1] == ("cti", 20, {"cti": 20})
        source.close()
        await answer
        assert (request.events[-1][0], request.complete) == ("end", True)
        again = Request("/queries/all/events", headers={"Last-Event-ID": str(rxt.MAX_TIME)})
        await served(again.scope, again.receive, again.send)
        assert (again.status, again.body) == (204, b"")

    run(test)


def test_a_reader_that_comes_back_continues_at_its_position() -> None:
    """The header of a browser counts more than the query string, which it sends again."""

    async def test(served: Any, source: rxt.PushSource) -> None:
        source.push([{"time": t, "x": t} for t in range(100)])
        wanted = {
            "/queries/all/events": list(range(99)),
            "/queries/all/events?from=90": list(range(90, 99)),
            "/queries/all/events?from=1970-01-01T00:00:00.000095%2B00:00": list(range(95, 99)),
            "/queries/all/events?from=1970-01-01T00:00:00.000098+00:00": [98],
            "/queries/all/events?from=oldest": list(range(99)),
        }
        for path, starts in wanted.items():
            request = Request(path)
            task = asyncio.ensure_future(served(request.scope, request.receive, request.send))
            await request.until(lambda request=request: request.starts)
            request.left.set()
            await task
            assert request.starts == starts
        request = Request("/queries/all/events?from=5", headers={"Last-Event-ID": "97"})
        task = asyncio.ensure_future(served(request.scope, request.receive, request.send))
        await request.until(lambda: request.starts)
        request.left.set()
        await task
        assert request.starts == [97, 98]
        request = Request("/queries/all/events?from=now")
        task = asyncio.ensure_future(served(request.scope, request.receive, request.send))
        await request.until(lambda: request.status)
        source.push({"time": 100, "x": 1})
        await request.until(lambda: request.starts)
        request.left.set()
        await task
        assert request.starts == [99]

    run(test)


def test_devices_with_times_of_their_own_have_numbered_results() -> None:
    """A position is the number of the next batch; a time is none."""
    source = rxt.PushSource("readings", schema={"device": str}, clock="device")
    house = rxt.Application("house")
    house.query("all", source.stream)
    served = app(house, make_settings())

    async def read(path: str, rows: int, **options: Any) -> Request:
        request = Request(path, **options)
        task = asyncio.ensure_future(served(request.scope, request.receive, request.send))
        await request.until(lambda: len(request.starts) >= rows)
        request.left.set()
        await task
        return request

    async def main() -> None:
        async with served.lifespan():
            for device, time in (("a", 100), ("a", 200), ("b", 3), ("b", 7), ("b", 9)):
                source.push({"time": time, "device": device})
            request = await read("/queries/all/events", 3)
            assert [at for _, at, _ in request.events] == [3]
            assert request.starts == [100, 3, 7]
            later = await read("/queries/all/events", 1, headers={"Last-Event-ID": "2"})
            assert later.starts == [7]
            listed = await read("/queries", 0)
            (query,) = json.loads(listed.body)["queries"]
            assert (query["cti"], query["position"], query["rows"]) == (None, 3, 3)
            refused = await read("/queries/all/events?from=2026-01-01T00:00:00Z", 0)
            assert refused.status == 400
            assert b"positions are numbers of batches" in refused.body
            # of a run before this one, whose numbers it has not had
            lost = await read("/queries/all/events", 3, headers={"Last-Event-ID": "40"})
            assert lost.events[0][0] == "gap"
            assert lost.starts == [100, 3, 7]

    asyncio.run(main())


def test_rows_that_are_gone_are_told() -> None:
    """A position before what is kept is answered with the oldest; a slow reader gets a gap."""

    async def test(served: Any, source: rxt.PushSource) -> None:
        slow = Request("/queries/all/events")
        slow.stuck = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(served(slow.scope, slow.receive, slow.send))
        await slow.until(lambda: slow.status)
        for t in range(200):  # pushed on the event loop: a reader that is stuck holds up nothing
            source.push({"time": t, "x": t})
        feed = served.service.feeds["all"]
        assert feed.count <= 56
        request = Request("/queries/all/events?from=20")
        await served(request.scope, request.receive, request.send)
        assert request.status == 410
        assert json.loads(request.body)["oldest"] == feed.oldest
        slow.stuck.set_result(None)
        await slow.until(lambda: len(slow.starts) == feed.count)
        slow.left.set()
        await task
        assert slow.events[0][0] == "gap"
        assert slow.events[0][2]["oldest"] == slow.events[0][1] == feed.oldest
        assert slow.starts == list(range(feed.oldest, 199))

    run(test, rows=50)


@pytest.mark.parametrize(
    "text", ["x", "1e9", "2026-05-01", "2026-05-01T12:00:00", "9" * 18 + "9", "9" * 5_000, "٣"]
)
def test_a_position_that_is_none_is_refused(text: str) -> None:
    """Only whole ticks and instants are positions."""

    async def test(served: Any, source: rxt.PushSource) -> None:
        feed = served.service.feeds["all"]
        scope = {"headers": [(b"last-event-id", text.encode())], "query_string": b""}
        with pytest.raises(RequestError) as caught:
            find_position(scope, feed)
        assert caught.value.status == 400

    run(test)


def test_what_is_there_is_listed() -> None:
    """Queries and streams have names, schemas and positions; what is not there is 404."""

    async def test(served: Any, source: rxt.PushSource) -> None:
        source.push([{"time": 3, "x": 1}, {"time": 15, "x": 2}])
        transport = httpx.ASGITransport(served)
        async with httpx.AsyncClient(transport=transport, base_url="http://house") as client:
            queries = (await client.get("/queries")).json()["queries"]
            streams = (await client.get("/streams")).json()["streams"]
            assert [each["name"] for each in queries] == ["all", "counts"]
            assert queries[0] == {
                "name": "all", "schema": {"x": "Int64"}, "cti": 15, "position": 15,
                "oldest": rxt.MIN_TIME, "rows": 1, "ended": False, "events": "/queries/all/events",
                "now": "/queries/all/now",
            }  # fmt: skip
            assert streams == [
                {"name": "readings", "schema": {"x": "Int64"}, "cti": 15,
                 "events": "/streams/readings/events"},
            ]  # fmt: skip
            for path in ("/queries/none/events", "/streams/none/events", "/queries/../events"):
                answer = await client.get(path)
                assert answer.status_code == 404
            assert (await client.head("/queries/all/events")).status_code == 200

    run(test)


def test_a_silent_stream_is_kept_alive() -> None:
    """A comment comes at each interval, also to a reader whose position lies in the future."""

    async def test(served: Any, source: rxt.PushSource) -> None:
        request = Request("/queries/all/events?from=1000000")
        task = asyncio.ensure_future(served(request.scope, request.receive, request.send))
        for t in range(10_000):
            if b": keep-alive" in request.body:
                break
            source.push({"time": t, "x": t})
            await asyncio.sleep(0.001)
        assert b": keep-alive" in request.body
        request.left.set()
        await task
        assert request.events == []

    run(test, keep_alive=0.1)


def test_readers_are_bounded_and_leave_nothing() -> None:
    """One more than allowed is asked to come later; one that leaves makes room."""

    async def test(served: Any, source: rxt.PushSource) -> None:
        first = Request("/queries/all/events")
        task = asyncio.ensure_future(served(first.scope, first.receive, first.send))
        await first.until(lambda: first.status)
        second = Request("/streams/readings/events")
        await served(second.scope, second.receive, second.send)
        assert second.status == 503
        first.left.set()
        await task
        assert served.service._drain_callbacks == []
        third = Request("/streams/readings/events")
        task = asyncio.ensure_future(served(third.scope, third.receive, third.send))
        await third.until(lambda: third.status)
        assert third.status == 200
        third.left.set()
        await task
        assert not served.service.taps["readings"].readers

    run(test, readers=1)


def test_a_reader_that_takes_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """It can come back to its position; its place is free."""
    monkeypatch.setattr("rxtemporal.serve.event_streams.PATIENCE", 0.05)

    async def test(served: Any, source: rxt.PushSource) -> None:
        request = Request("/queries/all/events")
        request.stuck = asyncio.get_running_loop().create_future()
        await served(request.scope, request.receive, request.send)
        assert not request.complete
        assert served.service._drain_callbacks == []

    run(test)


def test_a_reader_that_takes_nothing_does_not_hold_up_a_stop() -> None:
    """It is cut off, long before its patience is over."""

    async def test(served: Any, source: rxt.PushSource) -> None:
        request = Request("/queries/all/events")
        request.stuck = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(served(request.scope, request.receive, request.send))
        await request.until(lambda: request.status)
        served.service.drain()
        await asyncio.wait_for(task, 30)
        assert not request.complete

    run(test)


def test_readers_leave_when_the_service_drains() -> None:
    """Their answers end, so that they come back to the next life; new ones are asked to wait."""

    async def test(served: Any, source: rxt.PushSource) -> None:
        request = Request("/queries/all/events")
        task = asyncio.ensure_future(served(request.scope, request.receive, request.send))
        await request.until(lambda: request.status)
        served.service.drain()
        await task
        assert request.complete
        assert request.events == []
        late = Request("/queries/all/events")
        await served(late.scope, late.receive, late.send)
        assert late.status == 503

    run(test)


def test_a_reader_waits_for_the_next_life_of_a_run_that_failed(tmp_path: Path) -> None:
    """It stays connected, and gets each row once."""
    source = rxt.PushSource("readings", schema={"x": int}, seq="n")
    house = rxt.Application("house")
    bad = {9}

    def fail(row: Any) -> bool:
        if row["x"] in bad:
            bad.clear()
            raise ValueError("once")
        return True

    house.query("all", source.stream.where(fail))
    state = settings.StateSettings(folder=tmp_path / "state", restart_after=0.01)
    served = app(house, Settings(state=state, limits=settings.Limits(ahead=None)))

    async def main() -> None:
        async with served.lifespan():
            request = Request("/queries/all/events")
            task = asyncio.ensure_future(served(request.scope, request.receive, request.send))
            for t in range(30):
                for _ in range(2_000):
                    try:
                        await source.push_async({"time": t, "x": t, "n": t})
                        break
                    except rxt.ProcessEndedError:
                        await asyncio.sleep(0.005)
            await request.until(lambda: len(request.starts) >= 29)
            request.left.set()
            await task
            assert served.service.counts.restarts == 1
            assert request.starts == list(range(29))

    asyncio.run(main())


# Behind a server ----------------------------------------------------------------------------------


def test_a_browser_and_a_websocket_read_the_same() -> None:
    """Over a real server: times are ISO if the sources' are, and each client has each row once."""
    house, source = make_house(timedelta(0), timedelta(seconds=10))
    with serve(app(house, make_settings())) as url:
        rows = [{"time": NOON + timedelta(seconds=s), "x": s} for s in range(4)]
        assert source.push(rows).accepted == 4
        with httpx.stream("GET", f"{url}/queries/all/events", timeout=60) as answer:
            kind, position, rows = next(read_events(answer))
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert kind == "rows"
        assert [row["x"] for row in rows] == [0, 1, 2]
        assert rows[0]["start_time"] == "2026-05-01T12:00:00Z"
        with websockets.sync.client.connect(
            f"{url.replace('http', 'ws')}/queries/all/events?from={position}"
        ) as socket:
            source.push({"time": NOON + timedelta(seconds=9), "x": 9})
            message = json.loads(socket.recv(timeout=30))
            assert [row["x"] for row in message["data"]] == [3]
            with httpx.stream(
                "GET", f"{url}/queries/all/events", headers={"Last-Event-ID": position}, timeout=60
            ) as answer:
                events = read_events(answer)
                assert next(events)[2] == message["data"]
                source.close()
                assert [kind for kind, _, _ in events] == ["rows", "end"]
            kinds = [json.loads(socket.recv(timeout=30))["event"] for _ in range(2)]
            with pytest.raises(ConnectionClosed) as closed:
                socket.recv(timeout=30)
        assert kinds == ["rows", "end"]
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1000


def test_a_stop_ends_all_readers_at_once() -> None:
    """The server does not wait for readers; they are told to come back."""
    house, _ = make_house()
    with serve(app(house, make_settings())) as url:
        socket_url = url.replace("http", "ws") + "/queries/all/events"
        stack = contextlib.ExitStack()
        socket = stack.enter_context(websockets.sync.client.connect(socket_url))
        answer = stack.enter_context(httpx.stream("GET", f"{url}/queries/all/events"))
    with stack:
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=30)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012
        assert list(read_events(answer)) == []


def test_readers_need_the_right_to_read() -> None:
    """Without a token 401, with one that may only write 403, over both protocols."""
    house, _ = make_house()
    tokens = {
        "reader": settings.TokenSettings(hash_token("r"), read=True),
        "writer": settings.TokenSettings(hash_token("w"), write=("readings",)),
    }
    base = make_settings()
    with serve(app(house, Settings(base.server, limits=base.limits, tokens=tokens))) as url:
        socket_url = url.replace("http", "ws") + "/queries/all/events"
        for token, status in {"x": 401, "w": 403}.items():
            headers = {"Authorization": f"Bearer {token}"}
            for path in ("/queries", "/streams", "/queries/all/events", "/streams/readings/events"):
                assert httpx.get(url + path, headers=headers).status_code == status
            with pytest.raises(InvalidStatus) as refused:
                websockets.sync.client.connect(socket_url, additional_headers=headers)
            assert refused.value.response.status_code == status
        headers = {"Authorization": "Bearer r"}
        assert httpx.get(url + "/queries", headers=headers).status_code == 200
        with websockets.sync.client.connect(socket_url, additional_headers=headers):
            pass
        with pytest.raises(InvalidStatus) as refused:
            websockets.sync.client.connect(
                socket_url.replace("all", "none"), additional_headers=headers
            )
        assert refused.value.response.status_code == 404


# Taps ---------------------------------------------------------------------------------------------


def test_a_tap_shows_what_was_accepted() -> None:
    """Rows that were late or refused are left out, and there are not too many."""
    tap = StreamTap()
    reader = tap.open()
    late = rxt.LateEvent(rxt.PointEvent(1, {}), "readings", rxt.LateReason.DROPPED, 5, 4, 0)
    moved = rxt.LateEvent(rxt.PointEvent(1, {}), "readings", rxt.LateReason.ADJUSTED, 5, 4, 1)
    verdict = Verdict(2, 1, (late, moved), (Rejected(2, "bad", {}),))
    tap.offer([{"n": n} for n in range(6)], verdict, "a")
    tap.offer({"n": 7}, Verdict(1))
    tap.offer({"n": 8}, Verdict(duplicates=1))
    tap.offer(pl.DataFrame({"n": range(500)}), Verdict(500))
    found = [json.loads(event.data) for event in iter(reader.read, None)]
    assert found[:2] == [
        {"source": "a", "rows": [{"n": n} for n in (1, 3, 4, 5)], "duplicates": 1},
        {"source": None, "rows": [{"n": 7}]},
    ]
    assert (len(found), len(found[2]["rows"]), found[2]["more"]) == (3, 200, 300)


def test_a_tap_shows_messages_of_a_broker() -> None:
    """Objects, arrays and lines; what cannot be read is rejected, and not shown."""
    tap = StreamTap()
    messages = JsonMessages([b'{"n": 1}', b"?", b'[{"n": 2}]', b'{"n": 3}\n{"n": 4}'])
    verdict = Verdict(4, rejected=(Rejected(1, "bad", b"?"),))
    tap.offer_all([("a", messages)], [verdict])
    reader = tap.open()
    tap.offer_all([("a", messages), (None, {"n": 5})], [verdict, Verdict(1)])
    assert [json.loads(event.data) for event in iter(reader.read, None)] == [
        {"source": "a", "rows": [{"n": n} for n in (1, 2, 3, 4)]},
        {"source": None, "rows": [{"n": 5}]},
    ]


def test_a_tap_counts_the_rows_of_messages_as_the_verdict_does() -> None:
    """A line that is torn is one row that is rejected, and those behind it keep their places."""
    source, tap = rxt.PushSource("rows", schema={"n": int}, start=rxt.ARRIVAL), StreamTap()
    process, reader = source.stream.run(rxt.Collect()), tap.open()
    texts = [b'{"n": 1}\n{"n', b'{"n": 2}', b'{"n": "x"}', b'[{"n": 3}, {"n": 1e999}]', b'{"n": 4}']
    messages = JsonMessages(texts)
    tap.offer_all([(None, messages)], [source.push(messages)])
    process.stop()
    assert [json.loads(event.data) for event in iter(reader.read, None)] == [
        {"source": None, "rows": [{"n": n} for n in (1, 2, 3, 4)]}
    ]


def test_the_feed_of_a_broker_tells_the_tap() -> None:
    """What comes over MQTT shows like what is posted."""
    house, _ = make_house()
    mqtt = settings.MqttSection(url="mqtt://127.0.0.1:1", topics=("x/#",), client_id="c")
    service = app(house, Settings(mqtt=mqtt)).service
    reader = service.taps["readings"].open()
    process = house.run(sinks={name: rxt.Collect() for name in house.queries})
    assert service.broker is not None
    message: Any = SimpleNamespace(attributes=(), topic="x/a", payload=b'{"time": 1, "x": 1}')
    service.broker._push([message])
    process.stop()
    event = reader.read()
    assert event is not None
    assert json.loads(event.data)["rows"] == [{"time": 1, "x": 1}]


def test_a_tap_never_raises_and_forgets_what_nobody_takes() -> None:
    """A row that cannot be shown is not; a slow reader is told how much it has missed."""
    tap = StreamTap()
    reader = tap.open()
    tap.offer([{"n": "\ud800"}], Verdict(1))
    for n in range(300):
        tap.offer({"n": n}, Verdict(1))
    events = list(iter(reader.read, None))
    assert (events[0].kind, json.loads(events[0].data)) == ("gap", {"missed": 44})
    assert len(events) == 257
    reader.close()
    assert not tap.readers


def test_what_waits_for_a_reader_of_a_tap_has_a_bound() -> None:
    """Pushes of many bytes are dropped, and told, though they are few."""
    tap = StreamTap()
    reader = tap.open()
    for number in range(120):
        tap.offer({"time": number, "text": "x" * 200_000}, Verdict(accepted=1))
    event = reader.read()
    assert event is not None
    assert event.kind == "gap"
    missed = json.loads(event.data)["missed"]
    kept = [json.loads(each.data)["rows"][0]["time"] for each in iter(reader.read, None) if each]
    assert missed >= 36
    assert kept == list(range(missed, 120))


def test_a_tap_shows_as_many_rows_as_an_event_may_have() -> None:
    """The first rows that have 256 kB are shown, and the others are counted."""
    tap = StreamTap()
    reader = tap.open()
    tap.offer([{"text": "x" * 60_000}] * 10, Verdict(accepted=10))
    tap.offer({"text": "x" * 600_000}, Verdict(accepted=1))
    found = [json.loads(each.data) for each in iter(reader.read, None) if each]
    assert [(len(each["rows"]), each["more"]) for each in found] == [(4, 6), (0, 1)]


def test_a_stream_is_tapped_over_http() -> None:
    """Events have no id: a reader that comes back sees what comes then."""

    async def test(served: Any, source: rxt.PushSource) -> None:
        request = Request("/streams/readings/events")
        task = asyncio.ensure_future(served(request.scope, request.receive, request.send))
        tap = served.service.taps["readings"]
        await request.until(lambda: tap.readers)
        transport = httpx.ASGITransport(served)
        async with httpx.AsyncClient(transport=transport, base_url="http://house") as client:
            rows = [{"time": 9, "x": 1}, {"time": 1, "x": 2}, {"time": 10, "x": "?"}]
            answer = await client.post("/streams/readings", json=rows, headers={"Source": "a"})
        assert answer.json()["accepted"] == 1
        await request.until(lambda: request.events)
        assert request.events == [("rows", None, {"source": "a", "rows": [{"time": 9, "x": 1}]})]
        request.left.set()
        await task

    run(test)
