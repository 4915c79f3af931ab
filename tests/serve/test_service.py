"""Service: its runs one after the other, its sources, and its sinks beside the feeds."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from served import Faulty, make_house, rows

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.core.events import EventShape
from rxtemporal.errors import ArgumentError, BindingError, ProcessEndedError
from rxtemporal.run.process import Process
from rxtemporal.serve import Service, Settings
from rxtemporal.serve.health import describe
from rxtemporal.serve.responses import RequestError
from rxtemporal.serve.service import ServiceState
from rxtemporal.sinks.sink import SinkAwayError

PATIENCE = 20.0
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def make_settings(path: Path, **state: object) -> Settings:
    """Settings with a folder, and a quick restart."""
    return Settings.parse({"state": {"folder": str(path), "restart_after": 0.01, **state}})


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for something that another thread brings about."""
    tick = threading.Event()
    for _ in range(int(PATIENCE / 0.01)):
        if holds():
            return
        tick.wait(0.01)
    raise AssertionError("it has not come about")


def wait_for(service: Service, state: ServiceState) -> None:
    """Wait until a service has a state."""
    wait_until(lambda: service.state is state)


def test_a_run_that_failed_is_started_again_and_goes_on(tmp_path: Path) -> None:
    """What was accepted before a sink failed is in the results of the next run, once."""
    app, source = make_house()
    sink = Faulty()
    service = Service(app, make_settings(tmp_path), {"totals": sink})
    began: list[int] = []
    service.on_restart = lambda: began.append(service.counts.restarts)
    service.start()
    assert source.push(rows(range(5))).accepted == 5
    sink.error = OSError("the table is away")
    # this closes the first window, whose row the sink refuses
    source.push(rows(range(10, 12)))
    wait_until(lambda: service.counts.restarts > 0)
    sink.error = None
    assert isinstance(service.error, OSError)
    wait_until(lambda: service.state is ServiceState.RUNNING and sink.rows != [])
    assert source.push(rows(range(10, 12))).duplicates == 2
    source.push(rows(range(20, 21)))
    service.stop()
    assert [(row["start_time"], row["count"]) for row in sink.rows] == [(0, 5), (10, 2)]
    assert sink.opened >= 2
    wait_until(lambda: began[-1:] == [service.counts.restarts])  # it may have failed twice


def test_a_configuration_names_sinks(tmp_path: Path) -> None:
    """The results of a query go into a table; services that follow each other add each row once."""
    path = tmp_path / "house.db"
    sink = {"kind": "sqlite", "path": str(path), "table": "totals"}
    settings = Settings.parse(
        {"state": {"folder": str(tmp_path / "state")}, "queries": {"totals": {"sink": sink}}}
    )
    for times in (range(12), range(12, 31)):
        app, source = make_house()
        service = Service(app, settings)
        service.start()
        source.push(rows(times))
        service.stop()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT start_time, count FROM totals").fetchall()
    assert found == [(0, 10), (10, 10), (20, 10)]
    app, _ = make_house()
    with pytest.raises(ArgumentError, match=r"'totals' has a sink in sinks= and another one.*Hint"):
        Service(app, settings, {"totals": rxt.Collect()})
    with pytest.raises(BindingError, match=r"has no query 'sums'.*Hint"):
        Service(app, Settings.parse({"queries": {"sums": {"sink": sink}}}))


def test_a_push_into_a_run_that_has_failed_is_told_to_come_again(tmp_path: Path) -> None:
    """While a failed run waits for its restart, work is refused with the time of that."""
    app, source = make_house()
    sink = Faulty()
    service = Service(app, make_settings(tmp_path, restart_after=30), {"totals": sink})
    service.start()
    sink.error = OSError("the table is away")
    source.push(rows(range(11)))
    wait_for(service, ServiceState.FAILED)
    with pytest.raises(RequestError) as caught:
        service.check_takes()
    assert (caught.value.status, caught.value.retry_after) == (503, 30)
    with pytest.raises(ProcessEndedError):
        source.push(rows(range(20, 21)))
    service.stop()
    assert service.state is ServiceState.STOPPED
    assert service.counts.restarts == 0


def test_the_wait_for_a_restart_doubles(tmp_path: Path) -> None:
    """After each failure in a row the wait is twice as long, up to a most."""
    app, _ = make_house()
    service = Service(app, make_settings(tmp_path, restart_after=1, restart_most=5))
    waits = []
    for failures in range(5):
        service.failures = failures
        waits.append(service.restart_delay())
    assert waits == [1, 2, 4, 5, 5]
    service.failures = 10_000
    assert service.restart_delay() == 5


def test_an_error_of_the_first_start_is_raised(tmp_path: Path) -> None:
    """A service whose first run cannot begin is not started, and can be tried again."""
    app, _ = make_house()
    (tmp_path / "file").write_text("no folder")
    service = Service(app, make_settings(tmp_path / "file"))
    with pytest.raises(Exception, match="file"):
        service.start()
    assert service.state is ServiceState.NEW


class AwaySink(Faulty):
    """Sink that gives up while it is opened, since it has results to deliver again."""

    def open(self, query: str, schema: Any) -> None:
        """Fail if the other side is away."""
        super().open(query, schema)
        if isinstance(self.error, SinkAwayError):
            raise self.error


def test_a_sink_that_is_away_at_a_restart_does_not_end_the_service(tmp_path: Path) -> None:
    """The results that it lacks come once it answers; until then work is refused for a while."""
    sink = AwaySink()
    for away in (True, False):
        app, source = make_house()
        service = Service(app, make_settings(tmp_path, restart_after=0.2), {"totals": sink})
        sink.error = SinkAwayError("the table has not answered") if not away else None
        service.start()
        if away:
            source.push(rows(range(5)))
            sink.error = OSError("the table is away")
            push_refused(source)
            service.stop()
    assert service.state is ServiceState.FAILED
    assert (
        describe(service)["service"]["last_error"] == "SinkAwayError('the table has not answered')"
    )
    with pytest.raises(RequestError) as caught:
        service.check_takes()
    assert caught.value.status == 503
    sink.error = None
    wait_for(service, ServiceState.RUNNING)
    source.push(rows(range(20, 21)))
    service.stop()
    assert [(row["start_time"], row["count"]) for row in sink.rows] == [(0, 5), (10, 2)]


def test_a_start_that_fails_behind_its_run_leaves_no_run(tmp_path: Path) -> None:
    """When the feed of a broker cannot begin, the run that has begun is stopped."""
    app, source = make_house()
    service = Service(app, make_settings(tmp_path))
    service.broker = SimpleNamespace(start=lambda: 1 / 0)  # type: ignore[assignment]
    with pytest.raises(ZeroDivisionError):
        service.start()
    with pytest.raises(ProcessEndedError):
        source.push(rows(range(1)))
    service.broker = None
    service.start()
    assert source.push(rows(range(1))).accepted == 1
    service.stop()


def test_a_history_without_a_folder_is_refused() -> None:
    """Before anything begins, so that --check tells it."""
    with pytest.raises(ArgumentError, match=r"keep_history keeps events in a folder, .* --state"):
        Service(make_house()[0], Settings.parse({"state": {"keep_history": "7d"}}))


def test_a_completed_source_ends_the_service() -> None:
    """A run that completes is not started again, and work is refused for good."""
    app, source = make_house()
    service = Service(app)
    service.start()
    process = service.process
    assert process is not None
    source.close()
    process.wait(PATIENCE)
    wait_for(service, ServiceState.ENDED)
    with pytest.raises(RequestError, match="has ended") as caught:
        service.check_takes()
    assert caught.value.retry_after is None


def push_refused(source: rxt.PushSource) -> None:
    """Push rows that close a window, whose row the sink refuses."""
    with contextlib.suppress(ProcessEndedError):
        source.push(rows(range(10, 12)))


class FailsAtTheEnd(Faulty):
    """Sink whose ``close`` fails."""

    def close(self, error: BaseException | None) -> None:
        """Fail."""
        raise OSError("the table is away")


@pytest.mark.parametrize("way", ["while it drains", "when it is stopped", "at the end", "before"])
def test_a_run_that_fails_at_the_end_is_told(way: str, caplog: pytest.LogCaptureFixture) -> None:
    """The service has its error, and logs it once; there is no other run that could mend it."""
    app, source = make_house(
        delay=0, hand_off=rxt.HandOff() if way == "when it is stopped" else None
    )
    sink = FailsAtTheEnd() if way == "at the end" else Faulty()
    service = Service(app, Settings.parse({"state": {"restart_after": 1_000}}), {"totals": sink})
    service.start()
    source.push(rows(range(5)))
    process = service.process
    assert process is not None
    if way != "at the end":
        sink.error = OSError("the table is away")
    if way == "before":
        push_refused(source)
        wait_for(service, ServiceState.FAILED)
        wait_until(lambda: bool(caplog.records))
    service.drain()
    if way != "before":
        push_refused(source)
    if way == "while it drains":
        wait_until(lambda: process.ended)
    service.stop()
    assert isinstance(service.error, OSError)
    (record,) = [each for each in caplog.records if "service.failed" in each.getMessage()]
    assert "the table is away" in record.getMessage()


def test_clocks_are_guarded_unless_a_source_says_otherwise() -> None:
    """A source without ``ahead=`` gets that of the settings, one with it keeps its own.

    Without a setting it follows the delay: a row that is further ahead makes punctual ones late.
    """
    second = 1_000_000  # in ticks, as the times of the house are
    for own, delay, limits, expected in [
        (None, second, {"ahead": 60}, 60_000_000),
        (5 * second, second, {"ahead": 60}, 5_000_000),
        (None, second, {"ahead": "off"}, None),
        (None, 5 * second, {}, 5_000_000),
        (None, 0 * second, {}, 1_000_000),
        (None, 600 * second, {"ahead": "delay"}, 60_000_000),
        (2 * second, 600 * second, {}, 2_000_000),
    ]:
        app, source = make_house(ahead=own, delay=delay)
        service = Service(app, Settings.parse({"limits": limits}))
        service.start()
        settings = source.stream._node.source.settings  # type: ignore[union-attr]
        assert settings is not None
        assert settings.ahead_ticks == expected
        service.stop()


def test_a_process_of_its_owner_is_served_and_left_running(tmp_path: Path) -> None:
    """A service of a process has its sources and feeds, and does not stop it."""
    app, source = make_house()
    with pytest.raises(ArgumentError, match="Application or a Process"):
        Service(source)  # type: ignore[arg-type]
    process = app.run(sinks={"totals": rxt.Collect()})
    with pytest.raises(ArgumentError, match="a process has its own"):
        Service(process, sinks={"totals": rxt.Collect()})
    service = Service(process)
    service.start()
    assert service.sources == {"readings": source}
    service.check_takes()
    assert not service.is_durable
    service.stop()
    assert process.running
    process.stop()
    process = app.run(sinks={"totals": rxt.Collect()}, resume=tmp_path)
    assert Service(process).is_durable
    process.stop()


def test_names_are_those_of_the_application() -> None:
    """A source has the name that the application gives its stream; two with one are refused."""
    one, two = (rxt.PushSource("readings", schema={"x": int}) for _ in range(2))
    app = rxt.Application("house")
    app.define_stream("first", one.stream)
    app.query("a", one.stream)
    app.query("b", two.rejects.stream)
    assert Service(app).sources == {"first": one, "readings": two}
    app.query("c", rxt.PushSource("readings", schema={"x": int}).stream)
    with pytest.raises(BindingError, match="two sources are called 'readings'"):
        Service(app)


def test_sinks_are_those_of_queries() -> None:
    """A sink of no query, and one of another shape, are refused when the service is made."""
    app, _ = make_house()
    with pytest.raises(BindingError, match="no query 'sums'; it has 'totals'"):
        Service(app, sinks={"sums": rxt.Collect()})
    with pytest.raises(BindingError, match="gets intervals, got one of edges"):
        Service(app, sinks={"totals": rxt.Collect(EventShape.EDGE)})
    with pytest.raises(BindingError, match="no query at all"):
        Service(rxt.Application("empty"))


def test_draining_tells_whoever_waits_once() -> None:
    """The callbacks are called when draining begins; one that was removed is not."""
    app, _ = make_house()
    service = Service(app)
    calls: list[str] = []
    gone = lambda: calls.append("gone")  # noqa: E731
    service.add_drain_callback(lambda: calls.append("reader"))
    service.add_drain_callback(gone)
    service.remove_drain_callback(gone)
    service.start()
    service.drain()
    service.drain()
    assert calls == ["reader"]
    with pytest.raises(RequestError) as caught:
        service.check_takes()
    assert (caught.value.status, caught.value.close) == (503, True)
    service.stop()
    with pytest.raises(BindingError, match="has been stopped"):
        service.start()


def test_a_service_that_drains_while_it_starts_takes_no_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A signal during a long start is not forgotten when the run begins."""
    app, _ = make_house()
    service = Service(app)
    run = app.run

    def run_slowly(*queries: Any, **options: Any) -> Process:
        service.drain()
        return run(*queries, **options)

    monkeypatch.setattr(app, "run", run_slowly)
    service.start()
    assert service.state is ServiceState.DRAINING
    service.stop()
    assert service.process is not None
    assert service.process.ended


class TestClocks:
    """Devices whose times the configuration sets apart."""

    @staticmethod
    def make_house() -> tuple[rxt.Application, rxt.PushSource]:
        """Return an application that knows nothing of clocks."""
        source = rxt.PushSource("readings", schema={"device": str, "x": int}, delay="1s")
        house = rxt.Application("house")
        windows = source.stream.group_by("device").tumbling_window("10s")
        house.query("counts", windows.aggregate(n=agg.count()))
        return house, source

    def test_each_device_has_its_own_time(self) -> None:
        """As with ``clock=``; a row without a device is rejected."""
        house, source = self.make_house()
        settings = Settings.parse({"ingest": {"clock": "device", "behind": "1h"}})
        service = Service(house, settings)
        service.start()
        verdicts = [
            source.push({"time": NOON + timedelta(seconds=at), "device": device, "x": 1})
            for device, at in (("a", 600), ("a", 700), ("b", 0), ("b", 20), (None, 700))
        ]
        assert [each.accepted for each in verdicts] == [1, 1, 1, 1, 0]
        assert service.feeds["counts"].count == 2
        (stream,) = service.process.diagnostics().streams
        assert (stream.clocks.devices, stream.clocks.behind) == (2, 1)
        service.stop()

    @pytest.mark.parametrize(
        ("table", "message"),
        [
            ({"clock": "gone"}, r"clock names gone, and no source has such a field"),
            ({"behind": "1h"}, r"behind is about the clocks of devices, and there are none"),
            ({"clock": "device", "behind": "soon"}, r"\[ingest\] behind"),
            ({"clock": "device", "behind": "0s"}, "behind"),
            ({"clock": "x"}, "device"),
        ],
    )
    def test_what_does_not_fit_is_told(self, table: dict[str, Any], message: str) -> None:
        """Before anything runs."""
        house, _ = self.make_house()
        with pytest.raises(ArgumentError, match=message):
            Service(house, Settings.parse({"ingest": table}))

    def test_a_clock_that_is_refused_changes_nothing(self) -> None:
        """The application may be served with one time afterwards."""
        house, source = self.make_house()
        house.query("all", source.stream.tumbling_window("10s").aggregate(n=agg.count()))
        with pytest.raises(ArgumentError, match="needs rows together that differ in device"):
            Service(house, Settings.parse({"ingest": {"clock": "device"}}))
        assert source.clock is None
        service = Service(house, Settings())
        service.start()
        for seconds in (0, 20, 40):
            moment = NOON + timedelta(seconds=seconds)
            assert source.push({"time": moment, "device": None, "x": 1}).accepted == 1
        assert [service.feeds[name].count for name in ("all", "counts")] == [2, 2]
        service.stop()

    def test_a_field_that_no_source_has_is_told(self) -> None:
        """Also if one source has clocks of its own."""
        house, _ = self.make_house()
        other = rxt.PushSource("others", schema={"device": str}, clock="device")
        house.query("others", other.stream)
        with pytest.raises(ArgumentError, match="clock names devcie, and no source"):
            Service(house, Settings.parse({"ingest": {"clock": "devcie"}}))

    def test_a_process_has_its_clocks(self) -> None:
        """Its queries are composed."""
        house, source = self.make_house()
        with house.run("counts", rxt.Collect()) as process:
            with pytest.raises(ArgumentError, match="clock= where its sources are made"):
                Service(process, Settings.parse({"ingest": {"clock": ["device"]}}))
            source.close()
