"""Live event-flow page of a service: what a looker gets, and what it costs when nobody looks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import numpy as np
import polars as pl
import pytest
from live_service import read_events, serve
from page_columns import read_column, read_flow, read_numbers, read_rows
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.serve import ServiceApp, Settings, app, settings
from rxtemporal.serve import live_page as module
from rxtemporal.serve.tokens import hash_token
from rxtemporal.view.debug.live import MOST_ROWS, LiveFlow, NewestRows
from rxtemporal.view.debug.live_causes import KeptBatch, keep_rows
from rxtemporal.view.lineage.capture import capture


def make_app(**results: Any) -> tuple[ServiceApp, rxt.PushSource]:
    """Return an application of readings counted by device, on a free port, and its source."""
    source = rxt.PushSource("readings", schema={"device": str, "x": int}, delay=5)
    house = rxt.Application("house")
    windows = source.stream.group_by("device").tumbling_window(10)
    house.query("counts", windows.aggregate(n=agg.count()))
    house.query("hot", source.stream.where(lambda row: row["x"] > 2))
    tokens = results.pop("tokens", {})
    made = Settings(
        server=settings.ServerSettings(port=0, drain_seconds=5.0),
        results=settings.ResultSettings(**results),
        limits=settings.Limits(ahead=None),
        tokens=tokens,
    )
    return app(house, made), source


def push(source: rxt.PushSource, *times: int) -> None:
    """Push a reading at each time, with the time as its value."""
    for time in times:
        source.push({"time": time, "device": "ab"[time % 2], "x": time})


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send events one after the other."""
    monkeypatch.setattr(module, "PERIOD", 0.01)


@contextlib.contextmanager
def look(url: str, **options: Any) -> Iterator[Iterator[tuple[str, Any]]]:
    """Yield the events of a looker, each with its kind."""
    with (
        httpx.Client(timeout=60) as client,
        client.stream("GET", f"{url}/debug/events", **options) as answer,
    ):
        assert answer.status_code == 200
        yield ((kind, data) for kind, _, data in read_events(answer))


def collect(events: Iterator[tuple[str, Any]], name: str, count: int) -> list[dict[str, Any]]:
    """Return the rows of a node, read from parts until there are so many."""
    rows: list[dict[str, Any]] = []
    fields: dict[str, Any] = {}
    for _, data in events:
        for node in data["nodes"]:
            fields[str(node["id"])] = {**fields.get(str(node["id"]), {}), **node}
            full = fields[str(node["id"])]
            if full["name"] == name:
                rows += read_rows(full)
        if len(rows) >= count:
            return rows
    raise AssertionError("the stream of events has ended")


def test_a_looker_gets_the_plan_and_then_what_is_new() -> None:
    """First all nodes of both queries, then the rows of each operator as they come."""
    made, source = make_app()
    with serve(made) as url, look(url) as events:
        kind, flow = next(events)
        assert kind == "flow"
        assert flow["live"] is True
        names = [each["name"] for each in flow["nodes"]]
        assert names == ["readings", "group_by", "tumbling_window().aggregate", "where"]
        assert [each["output"] for each in flow["nodes"]] == [False, False, True, True]
        assert flow["time"] in ("ticks", "datetime")
        push(source, 1, 2, 3, 31)
        counted = collect(iter([("flow", flow), *take(events, 40)]), names[2], 2)
        assert {(row["device"], row["n"]) for row in counted} == {("a", 1), ("b", 2)}
        kind, part = next(events)
        assert kind == "part"
        assert part["nodes"][0]["rowsIn"] == 4
        assert part["step"] >= 0


def take(events: Iterator[Any], count: int) -> list[Any]:
    """Return the next events."""
    return [next(events) for _ in range(count)]


def test_rows_of_before_are_not_there_and_those_of_another_looker_are() -> None:
    """What flows is kept from the first looker on, and a second one gets it at once."""
    made, source = make_app()
    with serve(made) as url:
        push(source, 1, 2, 31)
        with look(url) as first:
            _, flow = next(first)
            assert flow["nodes"][0]["rowsIn"] == 3
            assert flow["nodes"][0]["rows"]["start"]["n"] == 0
            assert read_column(flow["nodes"][0]["ctis"]["cti"]) == [26]
            push(source, 33, 51)
            collect(iter([("flow", flow), *take(first, 40)]), "readings", 2)
            with look(url) as second:
                _, whole = next(second)
                assert {row["start"] for row in read_rows(whole["nodes"][0])} == {33, 51}


def test_late_events_are_arrivals() -> None:
    """A late event comes with its fate and how late it is, and the sentence counts it."""
    made, source = make_app()
    with serve(made) as url, look(url) as events:
        next(events)
        push(source, 31, 4)
        part = next(data for _, data in events if data["arrivals"])
        (late,) = part["arrivals"]
        assert (late["stream"], late["name"]) == (0, "readings")
        assert read_column(late["start"]) == [4]
        assert read_numbers(late["verdict"]) == [2]
        assert read_numbers(late["by"]) == [22]
        assert read_column(late["payload"][1]) == ["4"]
        assert "Of 2 events of 'readings', 1 came late." in part["sentence"]


def test_the_clocks_of_devices_are_told() -> None:
    """How many are behind, and which of them furthest."""
    source = rxt.PushSource("readings", schema={"device": str}, delay=5, clock="device")
    house = rxt.Application("house")
    house.query("all", source.stream)
    made = app(
        house,
        Settings(server=settings.ServerSettings(port=0), limits=settings.Limits(ahead=None)),
    )
    with serve(made) as url, look(url) as events:
        next(events)
        source.push([{"time": 500, "device": "a"}, {"time": 20, "device": "b"}])
        part = next(data for _, data in events if "Of 2 devices" in data["sentence"])
        assert part["sentence"].endswith(
            "Of 2 devices of 'readings', 1 is behind and 0 silent; "
            "furthest behind: 'b' by 480 ticks."
        )


def test_nothing_is_kept_when_nobody_looks() -> None:
    """Before the first looker and after the last one the run counts as it did."""
    made, source = make_app()
    lookers = find_lookers(made)
    with serve(made) as url:
        push(source, 1)
        wiring = made.service.process._execution.wiring
        (entry,) = wiring.sources.values()
        assert entry._tap is None
        assert lookers._live is None
        with look(url) as events:
            next(events)
            assert entry._tap is not None
            live = lookers._live
        wait_for(lambda: lookers._live is None)
        assert entry._tap is None
        assert not made.service.process._execution.late.has_listeners
        counts = [node.newest.count for node in live.nodes]
        push(source, 2, 31)
        assert [node.newest.count for node in live.nodes] == counts


def find_lookers(made: ServiceApp) -> module.Lookers:
    """Return the lookers of an application."""
    route, _ = made._routes.find("/debug/events", "GET")
    return route.handler.__self__._lookers


def wait_for(holds: Any) -> None:
    """Wait until a condition holds."""
    until = datetime.now(UTC).timestamp() + 60
    while not holds():
        assert datetime.now(UTC).timestamp() < until


def test_too_many_lookers_are_asked_to_come_back() -> None:
    """The limit is that of the settings; who leaves makes room."""
    made, _ = make_app(lookers=1)
    lookers = find_lookers(made)
    with serve(made) as url:
        with look(url) as events:
            next(events)
            answer = httpx.get(f"{url}/debug/events")
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) >= 1
            assert httpx.get(f"{url}/debug").status_code == 200
        wait_for(lambda: not lookers.count)
        with look(url) as events:
            assert next(events)[0] == "flow"


def test_the_page_can_be_turned_off() -> None:
    """With lookers = 0 there is nothing at these paths."""
    made, _ = make_app(lookers=0)
    with serve(made) as url:
        assert httpx.get(f"{url}/debug").status_code == 404
        assert httpx.get(f"{url}/debug/events").status_code == 404


def test_events_need_a_token_that_may_read() -> None:
    """The page itself has no data, so it needs none."""
    reader, writer = "r" * 43, "w" * 43
    tokens = {
        "desk": settings.TokenSettings(hash_token(reader), read=True),
        "gate": settings.TokenSettings(hash_token(writer), write=("*",)),
    }
    made, source = make_app(tokens=tokens)
    with serve(made) as url:
        push(source, 1)
        page = httpx.get(f"{url}/debug")
        assert page.status_code == 200
        shell = read_flow(page.text)
        assert (shell["nodes"], shell["arrivals"], shell["live"]) == ([], [], True)
        assert "readings" not in str(shell)
        assert httpx.get(f"{url}/debug/events").status_code == 401
        refused = httpx.get(f"{url}/debug/events", headers={"Authorization": f"Bearer {writer}"})
        assert refused.status_code == 403
        with look(url, headers={"Authorization": f"Bearer {reader}"}) as events:
            assert next(events)[0] == "flow"


def test_the_page_asks_its_own_service_alone() -> None:
    """The policy allows the page's own script and its own service, and no frame around it."""
    made, _ = make_app()
    with serve(made) as url:
        answer = httpx.get(f"{url}/debug")
        assert "connect-src 'self'" in answer.text
        assert answer.headers["content-security-policy"] == "frame-ancestors 'none'"
        assert read_flow(answer.text)["events"] == "debug/events"
        assert httpx.head(f"{url}/debug").status_code == 200
        assert (
            httpx.head(f"{url}/debug/events")
            .headers["content-type"]
            .startswith("text/event-stream")
        )
        assert httpx.post(f"{url}/debug").status_code == 405


def test_a_run_that_is_started_again_is_shown_from_its_plan_on() -> None:
    """After a failure a looker gets the flow of the next run, and taps nothing of the old one."""
    source = rxt.PushSource("readings", schema={"x": int}, delay=0)
    house = rxt.Application("house")
    failing = {"now": False}

    def check(row: dict[str, Any]) -> bool:
        if failing["now"]:
            failing["now"] = False
            raise ValueError("broken")
        return True

    house.query("all", source.stream.where(check))
    made = app(
        house,
        Settings(
            server=settings.ServerSettings(port=0, drain_seconds=5.0),
            state=settings.StateSettings(restart_after=0.01),
            limits=settings.Limits(ahead=None),
        ),
    )
    with serve(made) as url, look(url) as events:
        assert next(events)[0] == "flow"
        failing["now"] = True
        with contextlib.suppress(rxt.RxTemporalError):
            source.push([{"time": 1, "x": 1}, {"time": 2, "x": 2}])
        flow = next(data for kind, data in events if kind == "flow")
        assert flow["nodes"][0]["rowsIn"] == 0
        wait_for(lambda: made.service.state.value == "running")


def test_fields_that_become_known_bring_the_plan_again() -> None:
    """A stream whose fields come with its first event is described once more then."""
    subject: Subject[Any] = Subject()
    with rxt.from_observable(subject, name="readings").run(rxt.Collect()) as process:
        live = LiveFlow(process)
        live.open()
        flow, _ = live.read_all("query")
        assert (live.known, flow["nodes"][0]["fields"]) == (0, [])
        subject.on_next(rxt.PointEvent(1, {"x": 2**60}))
        subject.on_next(rxt.Cti(5))
        flow, _ = live.read_all("query")
        assert (live.known, flow["nodes"][0]["fields"]) == (1, [{"name": "x", "type": "Int64"}])
        # the type of the column does not depend on the values, so that more can follow
        assert flow["nodes"][0]["rows"]["payload"][0]["type"] == "f64"
        live.close()
        subject.on_completed()


def test_an_edge_closes_the_open_row_of_the_same_number() -> None:
    """A row that has begun comes as an open one, and again with its end."""
    subject: Subject[Any] = Subject()
    with rxt.from_observable(subject, name="doors").run(rxt.Collect()) as process:
        live = LiveFlow(process)
        live.open()
        subject.on_next(rxt.EdgeEvent.create_start(1, {"x": 1}))
        subject.on_next(rxt.Cti(2))
        flow, place = live.read_all("query")
        rows = flow["nodes"][0]["rows"]
        assert (read_column(rows["end"]), read_numbers(rows["closed"])) == ([float("inf")], [-1])
        subject.on_next(rxt.EdgeEvent.create_end(1, 7, {"x": 1}))
        subject.on_next(rxt.Cti(9))
        later = live.read(place)["nodes"][0]["rows"]
        assert read_numbers(later["edge"]) == read_numbers(rows["edge"]) != [0]
        assert read_column(later["end"]) == [7]
        assert read_numbers(later["closed"]) == read_numbers(later["known"])
        live.close()
        subject.on_completed()
        process.wait()
        assert live.read(place)["sentence"] == "The run has ended: everything is final."


def list_causes(nodes: list[dict[str, Any]], node: int, starts: dict[int, dict[int, int]]) -> Any:
    """Return the start times of a node's rows with those of their causes, sorted."""
    links = {name: read_numbers(column) for name, column in nodes[node]["links"].items()}
    inputs = nodes[node]["inputs"]
    pairs = zip(links["of"], links["side"], links["row"], strict=True)
    return sorted((starts[node][of], starts[inputs[side]][row]) for of, side, row in pairs)


def list_starts(nodes: list[dict[str, Any]]) -> dict[int, dict[int, int]]:
    """Return the start time of each row of each node, by its number."""
    return {
        each["id"]: dict(
            zip(
                read_numbers(each["rows"]["number"]),
                read_column(each["rows"]["start"]),
                strict=True,
            )
        )
        for each in nodes
    }


def test_the_causes_of_rows_are_those_of_a_run_that_is_taken_apart() -> None:
    """While somebody looks, each row comes with the rows from which it was computed."""

    def query(readings: rxt.Streamable) -> rxt.Streamable:
        warm = readings.where(pl.col("x") > 2).group_by("device")
        return warm.hopping_window(10, 5).aggregate(n=agg.count())

    events = [rxt.PointEvent(time, {"device": "ab"[time % 2], "x": time}) for time in range(1, 40)]
    subject: Subject[Any] = Subject()
    with query(rxt.from_observable(subject, name="readings")).run(rxt.Collect()) as process:
        live = LiveFlow(process)
        live.open()
        flow, place = live.read_all("query")
        for number, event in enumerate(events):
            subject.on_next(event)
            if number % 5 == 4:
                subject.on_next(rxt.Cti(event.start))
        part = live.read(place)
        live.close()
        subject.on_completed()
    nodes = [{**a, **b} for a, b in zip(flow["nodes"], part["nodes"], strict=True)]
    starts = list_starts(nodes)
    timed = [each for number, event in enumerate(events) for each in (
        [event, rxt.Cti(event.start)] if number % 5 == 4 else [event])]  # fmt: skip
    taken = capture(query(rxt.from_events(timed, name="readings"))._node)
    for history in taken.histories[1:]:
        # rows that came only with the end of the stream were not there yet
        rows = np.arange(min(len(history), len(starts[history.number])))
        causes = taken.causes(history.number, rows)
        assert len(rows) > 5
        expected = sorted(
            (int(history.start[of]), int(taken.histories[history.inputs[0]].start[row]))
            for of, row in zip(causes.of, causes.row, strict=True)
        )
        assert list_causes(nodes, history.number, starts) == expected


def test_the_end_of_a_row_has_the_number_of_its_beginning() -> None:
    """An open row keeps its number and its cause when its end comes in a later part."""
    subject: Subject[Any] = Subject()
    doors = rxt.from_observable(subject, name="doors").where(pl.col("x") > 0)
    with doors.run(rxt.Collect()) as process:
        live = LiveFlow(process)
        live.open()
        subject.on_next(rxt.EdgeEvent.create_start(1, {"x": 1}))
        subject.on_next(rxt.Cti(2))
        flow, place = live.read_all("query")
        subject.on_next(rxt.EdgeEvent.create_end(1, 7, {"x": 1}))
        subject.on_next(rxt.Cti(9))
        part = live.read(place)
        live.close()
        subject.on_completed()
    for nodes in (flow["nodes"], part["nodes"]):
        assert [read_numbers(each["rows"]["number"]) for each in nodes] == [[0], [0]]
        assert (
            read_numbers(nodes[1]["links"]["of"]) == read_numbers(nodes[1]["links"]["row"]) == [0]
        )


def test_an_end_whose_beginning_is_forgotten_has_no_causes() -> None:
    """The end comes all the same, with a number of its own."""
    point = EventBatch.from_dicts([{"start_time": 1, "x": 1}], cti=2)
    begin = point.replace(end=np.array([MAX_TIME]), edge=np.array([5]))
    end = begin.replace(end=np.array([7]), cti=9)
    node = rxt.from_events([rxt.PointEvent(1, {"x": 1})])._node
    both = keep_rows(0, node, [], [KeptBatch(1, 0, begin), KeptBatch(2, 1, end)])
    assert (both.numbers.tolist(), both.entered.tolist()) == ([0], [0, 0])
    assert both.history.end.tolist() == [7]
    later = keep_rows(0, node, [], [KeptBatch(2, 1, end)])
    assert (later.numbers.tolist(), later.entered.tolist()) == ([], [1])


def test_kept_rows_are_bounded_in_bytes() -> None:
    """However many and however large the batches are, they take no more than they may."""
    kept = NewestRows(most_bytes=50_000)
    for step in range(200):
        kept.put(step, make_batch(1, step))
    assert len(kept.list_kept()) < 50
    kept.put(200, make_batch(100_000, 200))
    (last,) = kept.list_kept()
    assert last.until == 100_200
    assert last.batch.estimate_bytes() <= 50_000


def test_only_the_newest_rows_are_sent() -> None:
    """Two thousand rows of a node are sent, whatever the size of its batches; all are counted."""
    kept = NewestRows()
    for step in range(100):
        kept.put(step, make_batch(50, step))
    assert kept.count == 5_000
    assert sum(len(batch) for _, batch in kept.read(0)) == MOST_ROWS
    assert sum(len(each.batch) for each in kept.list_kept()) == 5_000
    assert [step for step, _ in kept.read(4_900)] == [98, 99]
    kept.put(100, make_batch(100_000, 100))
    ((_, last),) = kept.read(0)
    assert len(last) == MOST_ROWS
    assert last.start[-1] == 99_999
    assert kept.read(kept.count) == []


def make_batch(count: int, cti: int) -> EventBatch:
    """Return points with their places as times."""
    rows = [{"start_time": time, "x": time} for time in range(min(count, 2))]
    batch = EventBatch.from_dicts(rows, cti=cti)
    starts = np.arange(count)
    return EventBatch.of_rows(starts, starts + 1, batch.columns.take(starts % 2), cti)
