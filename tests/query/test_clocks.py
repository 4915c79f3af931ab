"""A clock for each device: the public names, what devices do to each other, and bad input."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from reactivex.subject import Subject
from reactivex.testing import TestScheduler

import rxtemporal as rxt
from rxtemporal import LateReason, agg
from rxtemporal.cli.top import Answer, make_board
from rxtemporal.spark import SparkSink

MINUTE, HOUR, DAY = 60, 3_600, 86_400
FIELDS = {"device": str, "x": int}


def make_source(**options: Any) -> rxt.PushSource:
    """Return a source of rows of devices, in ticks."""
    return rxt.PushSource("readings", schema=FIELDS, **{"clock": "device", **options})


def count(stream: rxt.Streamable, length: int | str = 10 * MINUTE) -> rxt.Streamable:
    """Return the rows of each device and window, counted."""
    return stream.group_by("device").tumbling_window(length).aggregate(n=agg.count())


def row(device: str, time: int, x: int = 0) -> dict[str, Any]:
    """Return a row as it is pushed."""
    return {"time": time, "device": device, "x": x}


def to_events(rows: list[dict[str, Any]]) -> list[rxt.PointEvent]:
    """Return rows as events."""
    return [rxt.PointEvent(r["time"], {"device": r["device"], "x": r["x"]}) for r in rows]


def rows_of(stream: rxt.Streamable) -> list[tuple[Any, ...]]:
    """Return the results, in an order of their own."""
    return sorted(stream.to_polars(time="ticks").rows(), key=repr)


class TestDevices:
    """What a device does, and what it does to others."""

    def test_one_that_is_an_hour_behind_holds_nobody_back(self) -> None:
        """A window of a device is there as soon as that device has passed it."""
        source, sink = make_source(), rxt.Collect()
        with count(source.stream).run(sink):
            for now in range(0, 3 * HOUR, MINUTE):
                verdicts = [source.push(row("ahead", now))]
                if now >= HOUR:
                    verdicts.append(source.push(row("behind", now - HOUR)))
                assert not any(each.late for each in verdicts)
                found = [each["device"] for each in sink.to_dicts()]
                assert found.count("ahead") == now // (10 * MINUTE)
                assert found.count("behind") == max(0, now - HOUR) // (10 * MINUTE)
            source.close()
        found = [each["device"] for each in sink.to_dicts()]
        assert (found.count("ahead"), found.count("behind")) == (18, 12)

    def test_random_delays_lose_nothing(self) -> None:
        """Half of a thousand devices are behind by up to half an hour; with one time they lose."""
        random, minutes = Random(1), 20
        late_by = {f"d{n}": random.randrange(30) * MINUTE if n % 2 else 0 for n in range(1_000)}
        rows = [
            (time + lag, row(device, time))
            for device, lag in late_by.items()
            for time in range(0, minutes * MINUTE, 5 * MINUTE)
        ]
        arrived = to_events([each for _, each in sorted(rows, key=lambda r: r[0])])
        in_order = to_events(sorted((each for _, each in rows), key=lambda r: r["time"]))
        by_device = rxt.from_events(arrived, advance_time=MINUTE, clock="device")
        assert rows_of(count(by_device)) == rows_of(
            count(rxt.from_events(in_order, advance_time=0))
        )
        assert by_device.late_events().to_polars().is_empty()
        one_time = rxt.from_events(arrived, advance_time=MINUTE)
        assert one_time.late_events().to_polars().height > len(rows) / 4
        together = by_device.synchronize(HOUR).tumbling_window(HOUR).aggregate(n=agg.count())
        assert together.to_polars()["n"].to_list() == [len(rows)]

    def test_a_history_sorted_by_device_is_as_good_as_one_sorted_by_time(self) -> None:
        """Each device is judged by its own time."""
        rows = [row(f"d{n:02}", time, n) for n in range(100) for time in range(0, HOUR, 7 * MINUTE)]
        frame = pl.DataFrame(rows)
        by_time = frame.sort("time", maintain_order=True)
        found = [
            rows_of(count(rxt.from_polars(each, start="time", advance_time=0, clock="device")))
            for each in (frame, by_time)
        ]
        assert found[0] == found[1]
        assert len(found[0]) == 600

    def test_one_that_comes_back_has_all_its_rows_counted(self) -> None:
        """Six hours at once of one device, while 99 others go on."""
        source, sink = make_source(), rxt.Collect()
        with count(source.stream, HOUR).run(sink):
            for now in range(0, 6 * HOUR, 10 * MINUTE):
                source.push([row(f"d{n}", now) for n in range(99)])
            before = len(sink.to_dicts())
            assert before == 99 * 5
            verdict = source.push([row("back", time) for time in range(6 * HOUR)])
            assert (verdict.accepted, verdict.late) == (6 * HOUR, ())
            source.close()
        back = [each["n"] for each in sink.to_dicts() if each["device"] == "back"]
        assert back == [HOUR] * 6

    @pytest.mark.parametrize("ahead", [None, "5s"])
    def test_a_row_a_day_ahead_moves_its_own_clock_alone(self, ahead: str | None) -> None:
        """The fleet's time, from which ``behind`` counts, is that of the others."""
        now = datetime.now(UTC)
        source = make_source(behind="1h", ahead=ahead)
        with source.stream.run(rxt.Collect()):
            assert source.push({**row("a", 0), "time": now}).accepted
            assert source.push({**row("wrong", 0), "time": now + timedelta(days=1)}).accepted
            assert source.push({**row("b", 0), "time": now - timedelta(minutes=50)}).accepted
            late = source.push({**row("b", 0), "time": now - timedelta(minutes=70)}).late
            # by its own time, if that is the delay of 0
            assert [each.reason for each in late] == [LateReason.DROPPED]
            late = source.push({**row("c", 0), "time": now - timedelta(minutes=70)}).late
            assert [each.reason for each in late] == [LateReason.BEHIND]
            source.close()

    def test_in_a_history_one_device_moves_no_other(self) -> None:
        """Without a clock the second-highest device time counts."""
        rows = [row("a", 100), row("wrong", DAY), row("b", 50), row("c", 60)]
        stream = rxt.from_events(to_events(rows), advance_time=0, clock="device", behind=60)
        assert stream.late_events().to_polars().is_empty()
        rows.append(row("d", 30))
        stream = rxt.from_events(to_events(rows), advance_time=0, clock="device", behind=60)
        assert stream.late_events().to_polars()["reason"].to_list() == ["behind"]

    def test_many_devices_that_are_far_apart_do_not_hold_each_other_back(self) -> None:
        """Also with a long delay, and with more of them than there are lanes."""
        source, sink = make_source(delay=10 * MINUTE), rxt.Collect()
        with count(source.stream, MINUTE).run(sink):
            for now in range(0, 100 * MINUTE, MINUTE):
                for n in range(20):
                    source.push(row(f"d{n}", 100_000 + now - n * 2_000))
            found = [each["device"] for each in sink.to_dicts()]
            assert min(found.count(f"d{n}") for n in range(20)) >= 75
            source.close()

    def test_one_device_with_a_long_delay_is_as_prompt_as_with_one_time(self) -> None:
        """The lowest time is looked for whenever it has moved."""
        counts = []
        for clock in ("device", None):
            source, sink = make_source(delay=6 * HOUR, clock=clock), rxt.Collect()
            found = []
            with count(source.stream).run(sink):
                for now in range(0, 20 * HOUR, 10 * MINUTE):
                    source.push(row("a", now))
                    found.append(len(sink.to_dicts()))
                source.close()
            counts.append(found)
        assert counts[0] == counts[1]

    @pytest.mark.parametrize("way", ["one", "list", "frame"])
    def test_a_row_that_is_dropped_for_being_ahead_is_no_sign_of_its_device(self, way: str) -> None:
        """Neither one by one nor in a frame."""
        source, clock = make_live(ahead="10s", when_ahead=rxt.WhenAhead.LATE), TestScheduler()
        with source.stream.run(rxt.Collect(), scheduler=clock) as process:
            source.push([row("a", 0), row("b", 0)])
            clock.advance_by(MINUTE)
            rows = [row("a", DAY), row("b", MINUTE)]
            pushes = {"one": rows, "list": [rows], "frame": [pl.DataFrame(rows)]}[way]
            late = [each for push in pushes for each in source.push(push).late]
            assert [each.reason for each in late] == [LateReason.AHEAD]
            clock.advance_by(MINUTE)
            assert count_silent(process) == 1
            source.close()

    @pytest.mark.parametrize("way", ["one", "list", "frame"])
    def test_a_row_ahead_has_the_cti_of_its_device(self, way: str) -> None:
        """A row that is dropped for being ahead of the wall clock is told with that CTI."""
        source, clock = make_live(ahead="10s", when_ahead=rxt.WhenAhead.LATE), TestScheduler()
        clock.advance_to(HOUR)
        with source.stream.run(rxt.Collect(), scheduler=clock):
            source.push([row("a", MINUTE), row("b", 2 * MINUTE)])
            ahead = row("a", DAY)
            verdict = source.push(
                {"one": ahead, "list": [ahead], "frame": pl.DataFrame([ahead])}[way]
            )
            assert [(each.reason, each.cti) for each in verdict.late] == [
                (LateReason.AHEAD, MINUTE * 10**6)
            ]
            source.close()


def make_live(**options: Any) -> rxt.PushSource:
    """Return a source of rows of devices, with times in seconds, and two minutes to be silent."""
    return make_source(**{"unit": "s", "delay": "0s", "silent_after": "2m", **options})


def count_silent(process: rxt.Process) -> int:
    """Return how many devices are silent."""
    clocks = process.diagnostics().streams[0].clocks
    assert clocks is not None
    return clocks.silent


def list_devices(sink: rxt.Collect) -> list[str]:
    """Return the device of each result."""
    return [each["device"] for each in sink.to_dicts()]


class TestSilence:
    """Devices that send nothing, by the wall clock."""

    def test_an_alert_of_silence_comes_while_the_device_is_silent(self) -> None:
        """Its session becomes final when the wall clock has moved on far enough."""
        source, sink, clock = make_live(), rxt.Collect(), TestScheduler()
        sessions = source.stream.group_by("device").session_window("1m")
        with sessions.aggregate(n=agg.count()).run(sink, scheduler=clock):
            source.push([row("quiet", 0), row("steady", 0)])
            for now in range(10, 10 * MINUTE, 10):
                clock.advance_to(now)
                source.push(row("steady", now))
                # by then the fleet is far enough
                assert list_devices(sink) == ["quiet"] * (now >= 3 * MINUTE)
            late = source.push(row("quiet", MINUTE)).late
            assert [each.reason for each in late] == [LateReason.SILENT]
            assert source.push(row("quiet", 9 * MINUTE)).accepted
            source.close()

    def test_it_is_silent_as_soon_as_its_span_has_passed(self) -> None:
        """Also if no row comes then, and the fleet has long been there."""
        source, sink, clock = make_live(), rxt.Collect(), TestScheduler()
        clock.advance_to(HOUR)
        with count(source.stream, "10m").run(sink, scheduler=clock) as process:
            source.push([row("quiet", 0), row("steady", HOUR)])
            clock.advance_by(MINUTE)
            source.push(row("steady", HOUR))
            clock.advance_by(MINUTE - 1)
            assert (list_devices(sink), count_silent(process)) == ([], 0)
            clock.advance_by(1)
            assert (list_devices(sink), count_silent(process)) == (["quiet"], 1)
            # it is lifted to the time of the fleet less the span
            late = source.push([row("quiet", HOUR - 2 * MINUTE + n) for n in (-1, 0)]).late
            assert [each.event.start for each in late] == [(HOUR - 2 * MINUTE - 1) * 10**6]
            assert count_silent(process) == 0
            source.close()

    def test_hours_of_one_device_after_the_other_make_nobody_silent(self) -> None:
        """A gateway uploads what it has, and each device has just been heard."""
        names, source, sink = ["a", "b", "c"], make_live(), rxt.Collect()
        clock = TestScheduler()
        clock.advance_to(6 * HOUR)
        with count(source.stream, "10m").run(sink, scheduler=clock):
            source.push([row(name, 0) for name in names])
            for name in [*names, "new"]:
                clock.advance_by(10)
                verdict = source.push([row(name, time) for time in range(0, 6 * HOUR, MINUTE)])
                assert (verdict.accepted, verdict.late) == (360, ())
            source.close()
        found = list_devices(sink)
        assert [found.count(name) for name in [*names, "new"]] == [36] * 4

    @pytest.mark.parametrize("away", [MINUTE, 6 * HOUR])
    def test_after_an_outage_of_all_no_burst_makes_another_device_silent(self, away: int) -> None:
        """The line was down. A device that stays away is silent a span after the first row."""
        source, clock = make_live(), TestScheduler()
        with source.stream.run(rxt.Collect(), scheduler=clock) as process:
            source.push([row("a", 0), row("gone", 0)])
            clock.advance_to(80)
            source.push([row("b", 80)])
            clock.advance_by(away)
            back = list(range(80, 80 + away, 10))
            assert not source.push([row("b", time) for time in back]).late
            clock.advance_by(30)
            assert not source.push([row("a", time) for time in back]).late
            for _ in range(16):
                clock.advance_by(10)
                source.push([row("a", back[-1]), row("b", back[-1])])
            source.close()
        clock.advance_by(HOUR)
        assert count_silent(process) == 1

    @pytest.mark.parametrize(("away", "silent"), [(30, 1), (HOUR, 0)])
    def test_a_run_that_is_resumed_knows_when_a_device_was_heard(
        self, tmp_path: Path, away: int, silent: int
    ) -> None:
        """The time between the runs counts; if it is the whole span, each device has that again."""
        clock = TestScheduler()
        source = make_live()
        process = source.stream.run(rxt.Collect(), resume=tmp_path, scheduler=clock)
        source.push(row("a", 0))
        clock.advance_by(MINUTE)
        source.push(row("b", MINUTE))
        process.stop()
        clock.advance_by(away)
        source = make_live()
        process = source.stream.run(rxt.Collect(), resume=tmp_path, scheduler=clock)
        source.push(row("b", MINUTE))
        clock.advance_by(MINUTE)
        assert count_silent(process) == silent
        clock.advance_by(30)
        source.push(row("b", MINUTE))
        clock.advance_by(30)
        assert count_silent(process) == 1
        source.close()
        process.wait()

    @pytest.mark.parametrize("hand_off", [None, rxt.HandOff()])
    @pytest.mark.parametrize("kind", ["log", "resume"])
    def test_a_run_that_is_killed_with_the_first_result_has_the_record(
        self, tmp_path: Path, kind: str, hand_off: rxt.HandOff | None
    ) -> None:
        """A silence is on disk before anything leaves that follows from it."""
        source, clock = make_live(hand_off=hand_off), TestScheduler()
        clock.advance_to(HOUR)
        options: Any = {kind: tmp_path / "run", "warn_after": None}
        found = threading.Event()

        def copy(batch: rxt.EventBatch) -> None:
            if len(batch) and not found.is_set():
                shutil.copytree(tmp_path / "run", tmp_path / "copy")
                found.set()

        with count(source.stream, "10m").run(copy, scheduler=clock, **options) as process:
            source.push([row("quiet", 0), row("steady", HOUR)])
            clock.advance_by(MINUTE)
            source.push(row("steady", HOUR))
            clock.advance_by(MINUTE)
            assert found.wait(60)
            process.stop()
        source, sink, clock = make_live(hand_off=hand_off), rxt.Collect(), TestScheduler()
        options[kind] = tmp_path / "copy"
        with count(source.stream, "10m").run(sink, scheduler=clock, **options) as process:
            assert count_silent(process) == 1
            late = source.push(row("quiet", 600)).late
            assert [each.reason for each in late] == [LateReason.SILENT]
            source.close()
        assert list_devices(sink) == ["quiet", "steady"]

    @pytest.mark.parametrize("devices", [2, ["quiet", "steady"]])
    def test_the_fleet_does_not_wait_for_a_device_that_is_silent(self, devices: Any) -> None:
        """It waits for one that is behind and heard; and again for all after an outage."""
        source, sink, clock = make_live(), rxt.Collect(), TestScheduler()
        clock.advance_to(HOUR)
        together = source.stream.synchronize("1d", devices=devices).tumbling_window("1m")
        stream = together.aggregate(n=agg.count())

        def list_ends() -> list[int]:
            return [each["end_time"] // 10**6 for each in sink.to_dicts(time="ticks")]

        with stream.run(sink, scheduler=clock) as process:
            source.push([row("quiet", 0), row("steady", HOUR - 600)])
            clock.advance_by(MINUTE)
            source.push(row("steady", HOUR))
            assert list_ends() == []
            clock.advance_by(MINUTE)
            assert list_ends() == [MINUTE, HOUR - 540]
            clock.advance_by(MINUTE)  # all are silent: each was moved once
            source.push(row("steady", HOUR + 180))
            source.push(row("quiet", HOUR - 60))
            source.push(row("steady", HOUR + 200))
            assert list_ends() == [MINUTE, HOUR - 540]
            source.push(row("quiet", HOUR + 60))
            assert list_ends()[2:] == [HOUR, HOUR + 60]
            assert not any(each.late for each in process.diagnostics().streams)
            source.close()

    @pytest.mark.parametrize("way", ["one", "list", "frame"])
    def test_what_is_no_sign_of_a_device_does_not_end_an_outage(self, way: str) -> None:
        """A row that is dropped for being ahead, however it comes, and a CTI for all."""
        source, clock = make_live(ahead="10s", when_ahead=rxt.WhenAhead.LATE), TestScheduler()
        with source.stream.run(rxt.Collect(), scheduler=clock) as process:
            source.push([row("a", 0), row("b", 0)])
            clock.advance_by(HOUR)
            ahead = row("b", DAY)
            source.push({"one": ahead, "list": [ahead], "frame": pl.DataFrame([ahead])}[way])
            source.push(rxt.Cti(datetime.fromtimestamp(0, UTC)))
            clock.advance_by(30)
            assert count_silent(process) == 2
            source.push(row("b", 0))
            assert count_silent(process) == 0
            source.close()

    def test_a_time_for_a_device_is_a_sign_of_it(self) -> None:
        """``advance`` for one device, or a CTI."""
        source, clock = make_live(), TestScheduler()
        with source.stream.run(rxt.Collect(), scheduler=clock) as process:
            source.push([row("a", 0), row("b", 0), row("c", 0)])
            clock.advance_by(MINUTE)
            source.advance(datetime.fromtimestamp(60, UTC), device="a")
            source.push(rxt.Cti(datetime.fromtimestamp(60, UTC), "b"))
            clock.advance_by(MINUTE)
            assert count_silent(process) == 1
            clock.advance_by(MINUTE)
            assert count_silent(process) == 3
            source.close()

    def test_a_forgotten_device_is_a_silent_one(self) -> None:
        """It follows at the distance of ``forget_after``; a new one may begin anywhere."""
        source = make_live(silent_after=None, forget_after="1h")
        clock = TestScheduler()
        with source.stream.run(rxt.Collect(), scheduler=clock):
            source.push([row("a", 0), row("b", 0)])
            for now in range(0, 2 * HOUR + 1, 10 * MINUTE):
                clock.advance_to(now)
                source.push(row("b", now))
            late = source.push([row("a", HOUR - 1), row("new", HOUR - 1)]).late
            assert [each.reason for each in late] == [LateReason.SILENT]
            assert source.push([row("a", HOUR), row("newer", 0)]).accepted == 2
            source.close()

    def test_the_plan_says_by_which_clock(self) -> None:
        """Only where there is a span."""
        options: Any = {"advance_time": 0, "clock": "device", "silent_after": 5, "schema": FIELDS}
        assert (
            "silent_after 5 ticks, silence by the wall clock"
            in make_source(silent_after=5).stream.explain()
        )
        assert "wall clock" not in make_source().stream.explain()
        assert "wall clock" not in rxt.from_events([], unit="ticks", **options).explain()

    def test_in_a_list_the_fleet_says_who_is_silent(self) -> None:
        """Also of a device that begins: no lower than the time of the fleet less the span."""
        rows = [row("a", 0), row("b", 0), row("c", 2 * HOUR), row("b", 2 * HOUR)]
        rows += [row("a", HOUR - 1), row("new", HOUR - 1), row("a", HOUR), row("newer", HOUR)]
        stream = rxt.from_events(
            to_events(rows), advance_time=0, clock="device", forget_after=HOUR, unit="ticks"
        )
        late = stream.late_events().to_polars()
        assert late["reason"].to_list() == ["silent"] * 2

    def test_a_subject_has_devices_that_are_silent(self) -> None:
        """As a source does that is pushed into."""
        subject, clock, sink = Subject[Any](), TestScheduler(), rxt.Collect()
        stream = rxt.from_observable(
            subject, schema=FIELDS, advance_time="0s", clock="device", silent_after="2m", unit="s"
        )
        with count(stream, "1m").run(sink, scheduler=clock):
            for each in (row("a", 0), row("b", 0)):
                subject.on_next(rxt.PointEvent(each["time"], {"device": each["device"], "x": 0}))
            for now in range(MINUTE, 5 * MINUTE, MINUTE):
                clock.advance_to(now)
                subject.on_next(rxt.PointEvent(now, {"device": "b", "x": 0}))
            assert list_devices(sink).count("a") == 1
            subject.on_completed()

    def test_an_async_iterable_has_devices_that_are_silent(self) -> None:
        """Their results leave while the next event is waited for."""
        clock, sink = TestScheduler(), rxt.Collect()
        clock.advance_to(HOUR)
        go_on, waits, seen = threading.Event(), threading.Event(), list[Any]()

        def note(payload: Any) -> bool:
            seen.append(payload)
            if len(seen) == 2:
                waits.set()
            return True

        async def produce() -> AsyncIterator[rxt.PointEvent]:
            for each in to_events([row("a", 0), row("b", HOUR)]):
                yield each
            await asyncio.to_thread(go_on.wait)

        stream = rxt.from_async(
            produce(), schema=FIELDS, advance_time="0s", clock="device", silent_after="2m", unit="s"
        )
        with count(stream.where(note), "1m").run(sink, scheduler=clock):
            waits.wait()
            clock.advance_by(2 * MINUTE - 1)
            assert list_devices(sink) == []
            clock.advance_by(1)
            assert list_devices(sink) == ["a"]
            go_on.set()
        assert list_devices(sink) == ["a", "b"]

    def test_times_that_no_wall_clock_has_do_no_harm(self) -> None:
        """A span of a few ticks is over at once; it is not looked for all the time."""
        source, clock = make_source(silent_after=5), CountingScheduler()
        with source.stream.run(rxt.Collect(), scheduler=clock):
            source.push([row("a", 0), row("b", 10)])
            clock.advance_by(MINUTE)
            assert clock.scheduled < 30 * MINUTE
            source.close()


class CountingScheduler(TestScheduler):
    """Clock that counts what is scheduled."""

    scheduled = 0

    def schedule_absolute(self, *args: Any, **options: Any) -> Any:
        """Count."""
        self.scheduled += 1
        return super().schedule_absolute(*args, **options)


class SlowScheduler(TestScheduler):
    """Clock on which each reading takes time, so that the split of a lane takes long."""

    slowness = 0.0

    @property
    def now(self) -> datetime:
        """The time, which goes on."""
        self._clock += self.slowness
        return super().now


class TestWaiting:
    """What may wait for the next rows: after a second it comes without any."""

    @pytest.mark.parametrize("beside", [False, True], ids=["alone", "rejected rows, too"])
    def test_a_device_that_could_not_be_split_off(self, beside: bool) -> None:
        """Lanes are not split again and again; what waits for that comes within a second."""
        source, sink, clock = make_source(spread=0), rxt.Collect(), SlowScheduler()
        names = [f"d{n}" for n in range(12)]
        app = rxt.Application("house")
        app.query("counts", count(source.stream))
        if beside:
            app.query("rejected", source.rejects.stream)
        process = app.run(
            sinks={"counts": sink} | ({"rejected": rxt.Collect()} if beside else {}),
            scheduler=clock,
        )
        source.push([row(name, 0) for name in names])
        clock.slowness = 0.02
        for place, name in enumerate(names[:8]):
            source.push(row(name, HOUR * (1 + place)))
        clock.slowness = 0.0
        at_once = {each["device"] for each in sink.to_dicts()}
        assert 0 < len(at_once) < 8
        clock.advance_by(8.0)
        assert {each["device"] for each in sink.to_dicts()} == {*names[:8]}
        process.stop()

    def test_a_device_that_could_not_be_split_off_before_a_stop(self, tmp_path: Path) -> None:
        """What has waited comes within a second of the next run."""
        names, found = [f"d{n}" for n in range(12)], set[str]()
        for begins in (True, False):
            source, sink, clock = make_source(spread=0), rxt.Collect(), SlowScheduler()
            process = count(source.stream).run(sink, scheduler=clock, resume=tmp_path / "state")
            if begins:
                source.push([row(name, 0) for name in names])
                clock.slowness = 0.02
                for place, name in enumerate(names[:8]):
                    source.push(row(name, HOUR * (1 + place)))
                clock.slowness = 0.0
            else:
                clock.advance_by(8.0)
            process.stop()
            found |= {each["device"] for each in sink.to_dicts()}
            assert len(found) == 8 or begins

    @pytest.mark.parametrize("shape", [rxt.EventShape.EDGE, rxt.EventShape.POINT])
    def test_results_that_leave_at_once(self, shape: rxt.EventShape, tmp_path: Path) -> None:
        """Of results as edges, or points, no row is kept, also beside windows that wait."""
        given = list[int]()
        for begin in (0, 4):
            source = make_source(delay=MINUTE)
            beside = source.stream.group_by("device").tumbling_window(1_000)
            query = source.stream.union(beside.aggregate(x=agg.count()))
            process = query.run(
                lambda batch: given.extend(batch.start.tolist()),
                shape=shape,
                resume=tmp_path / "state",
            )
            for time in range(begin, begin + 4):
                source.push(pl.DataFrame([row("a", time)]))
                assert given[-1] == time
            process.stop()
        assert given == [*range(8)]

    def test_the_time_of_results(self) -> None:
        """As long as nothing leaves, it is told after a second."""
        source, clock = make_source(delay=MINUTE, spread=0), TestScheduler()
        batches = list[rxt.EventBatch]()
        process = source.stream.run(batches.append, scheduler=clock)
        for time in (0, 50):
            source.push(pl.DataFrame([row("a", time), row("b", time)]))
            assert batches[-1].cti == -MINUTE
        clock.advance_by(2)
        assert batches[-1].cti == -10
        process.stop()

    def test_an_error_of_an_operator(self) -> None:
        """Rows that let nothing leave go through the query together, within a second."""
        source, clock = make_source(delay=MINUTE, spread=0), TestScheduler()
        parsed = source.stream.with_columns(y=pl.col("device").cast(pl.Int64))
        process = count(parsed).run(rxt.Collect(), scheduler=clock)
        for device in "777a":
            assert source.push(pl.DataFrame([row(device, 0)])).accepted == 1
        assert process.running
        clock.advance_by(2)
        with pytest.raises(rxt.SchemaError, match="conversion from"):
            process.wait()

    def test_rows_over_a_stop(self, tmp_path: Path) -> None:
        """They are saved with the run, and its next checkpoint needs no row twice."""
        found = list[dict[str, Any]]()
        for begin in (0, 3):
            source, sink = make_source(delay=HOUR, spread=0), rxt.Collect()
            process = count(source.stream).run(sink, resume=tmp_path / "state")
            for time in range(begin, begin + 3):
                source.push(pl.DataFrame([row("a", time), row("b", time)]))
            if begin:
                source.close()
            process.stop()
            found += sink.to_dicts()
        assert [(each["device"], each["n"]) for each in found] == [("a", 6), ("b", 6)]

    def test_rows_at_the_end_of_a_stream_whose_time_does_not_end(self) -> None:
        """They go through the query before it ends."""
        frames = [pl.DataFrame([row("a", time), row("b", time)]) for time in range(0, 90, 9)]
        batches = [
            rxt.EventBatch.of_rows(each["time"].to_numpy(), None, each.drop("time"), rxt.MIN_TIME)
            for each in frames
        ]
        given = rxt.AdvanceTimeGenerationSettings(1, 20, advance_to_infinity_on_shutdown=False)
        stream = rxt.from_events(
            iter(batches), schema=FIELDS, clock="device", spread=0,
            advance_time=rxt.AdvanceTimeSettings(given, policy=rxt.AdvanceTimePolicy.DROP),
        )  # fmt: skip
        alone = {time for time in range(0, 90, 9) if time < 81 - 20}
        rows = stream.to_polars(time="ticks").select("device", "start_time").rows()
        assert sorted(rows) == [(device, time) for device in "ab" for time in sorted(alone)]


class TestTime:
    """Time from elsewhere."""

    def test_advance_moves_one_clock(self) -> None:
        """It is not reduced by the delay; a CTI that is pushed is, and moves all below."""
        source, sink = make_source(delay=100, spread=0), rxt.Collect()
        with count(source.stream, 10).run(sink):
            source.push([row("a", 5), row("b", 5)])
            source.advance(10, device="a")
            assert [each["device"] for each in sink.to_dicts()] == ["a"]
            source.push(rxt.Cti(109))
            assert len(sink.to_dicts()) == 1
            source.push(rxt.Cti(110, device="b"))
            assert [each["device"] for each in sink.to_dicts()] == ["a", "b"]
            assert len(source.push([row("a", 9), row("new", 8), row("new", 9)]).late) == 2
            source.advance(20)
            assert len(source.push([row("c", 19)]).late) == 1
            source.close()

    def test_several_fields_name_a_device(self) -> None:
        """Then it is a tuple."""
        source = rxt.PushSource("r", schema={"site": str, "n": int}, clock=["site", "n"])
        seen: list[rxt.EventBatch] = []
        with source.stream.run(seen.append):
            source.push([{"time": 5, "site": "x", "n": 1}, {"time": 1, "site": "x", "n": 2}])
            source.advance(9, device=("x", 1))
            with pytest.raises(rxt.EventError, match="a tuple of site, n, got 'x'"):
                source.advance(9, device="x")
            source.close()
        assert ("x", 1) in (seen[0].devices or ())

    def test_ctis_of_results_name_their_device(self) -> None:
        """Each advances its own device, and never goes back."""
        rows = [row("a", 5), row("b", 1), row("a", 20), row("b", 9)]
        events = (each for each in to_events(rows))
        stream = rxt.from_events(events, schema=FIELDS, advance_time=0, clock="device", spread=0)
        found = stream.to_events(ctis=True)
        ctis: dict[str, list[int]] = {"a": [], "b": []}
        for each in found:
            if isinstance(each, rxt.Cti) and each.device is not None:
                ctis[each.device].append(each.start)
        assert ctis == {"a": [5, 20, rxt.MAX_TIME], "b": [1, 9, rxt.MAX_TIME]}

    def test_imported_time_is_a_floor_for_all(self) -> None:
        """A stream with one time advances all devices of another one."""
        rows, clock = Subject[Any](), Subject[Any]()
        settings = rxt.AdvanceTimeSettings(
            rxt.AdvanceTimeGenerationSettings(1, 0),
            rxt.AdvanceTimeImportSettings("clock"),
            policy=rxt.AdvanceTimePolicy.DROP,
        )
        stream = rxt.from_observable(
            rows, schema=FIELDS, advance_time=settings, clock="device", name="rows"
        )
        ticks = rxt.from_observable(clock, schema=FIELDS, name="clock")
        seen: list[Any] = []
        # both streams are in one run, and only the rows of the one are counted
        counted = count(stream, 10).synchronize(0)
        counted.left_anti_join(ticks, on="device").subscribe(seen.append)
        rows.on_next(to_events([row("a", 5)])[0])
        clock.on_next(rxt.Cti(50))
        assert [each.payload for each in seen] == [{"device": "a", "n": 1}]


class TestSynchronize:
    """One time out of many."""

    def test_rows_that_are_too_far_behind_are_late_events(self) -> None:
        """With reason and operator, in ``late`` and in the diagnostics."""
        source, sink = make_source(), rxt.Collect()
        late: list[rxt.LateEvent] = []
        process = source.stream.synchronize(100).run(sink)
        process.late.subscribe(late.append)
        source.push([row("a", 500)])
        source.push([row("b", 399), row("b", 400)])
        diagnostics = process.diagnostics()
        source.close()
        process.wait()
        (each,) = late
        assert (each.reason, each.cti, each.by) == (LateReason.DROPPED, 400, 1)
        assert each.source.startswith("synchronize")
        assert diagnostics.operators[-1].late == {LateReason.DROPPED: 1}
        assert "synchronize" in str(diagnostics)
        assert sorted(each["start_time"] for each in sink.to_dicts()) == [400, 500]

    @pytest.mark.parametrize("devices", [2, ["a", "b"]])
    def test_known_devices_are_waited_for_no_longer_than_needed(self, devices: Any) -> None:
        """Once all have come the CTI is the lowest one; of those that are not idle."""
        source, sink = make_source(), rxt.Collect()
        stream = source.stream.synchronize(1_000, 300, devices=devices)
        with count(stream, 10).run(sink):
            source.push([row("a", 5), row("a", 30)])
            assert sink.to_dicts() == []
            source.push(row("b", 12))
            assert [each["device"] for each in sink.to_dicts()] == ["a"]
            source.push(row("a", 400))
            assert len(sink.to_dicts()) == 3  # b is idle
            source.close()

    def test_late_rows_can_be_adjusted(self) -> None:
        """As at the door of a stream."""
        events = [
            rxt.IntervalEvent(50, 60, {"device": "a"}),
            rxt.IntervalEvent(5, 80, {"device": "b"}),
        ]
        stream = rxt.from_events(
            (each for each in events), schema={"device": str}, advance_time=0, clock="device"
        )
        adjusted = stream.synchronize(10, policy=rxt.AdvanceTimePolicy.ADJUST)
        assert rows_of(adjusted) == [(40, 80, "b"), (50, 60, "a")]

    def test_it_goes_on_after_a_restart(self, tmp_path: Path) -> None:
        """The CTI and the devices that have come are kept."""
        found: list[Any] = []
        for part in ([row("a", 500)], [row("b", 399), row("b", 450), row("a", 700)]):
            source, sink = make_source(), rxt.Collect()
            process = source.stream.synchronize(100).run(sink, resume=tmp_path / "state")
            source.push(part)
            process.stop()
            found += [(each["device"], each["start_time"]) for each in sink.to_dicts()]
        assert sorted(found) == [("a", 500), ("b", 450)]

    def test_its_late_rows_are_counted_across_a_restart(self, tmp_path: Path) -> None:
        """As those of the stream are."""
        found = []
        for part in (row("a", 100), row("b", 10), row("a", 90), row("b", 20)):
            source = make_source(delay=0)
            process = source.stream.synchronize(5).run(rxt.Collect(), resume=tmp_path)
            source.push(part)
            described = process.diagnostics()
            process.stop()
            found.append((described.late, described.streams[0].late, described.operators[0].late))
        one, two, three = ({LateReason.DROPPED: n} for n in (1, 2, 3))
        # a's second row is late for its own clock, those of b for that of the fleet
        assert found == [({}, {}, {}), (one, {}, one), (two, one, one), (three, one, two)]


class TestBadInput:
    """What is refused, and what it says."""

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"clock": "name"}, "there is no field 'name'; the fields are device, x"),
            ({"clock": []}, r"clock is the name of a field, .* got \[\]. Hint: clock=\"device\""),
            ({"clock": None, "behind": 5}, 'Hint: clock="device" names the field'),
            ({"behind": 3, "delay": 10}, "behind is shorter than the delay"),
            ({"silent_after": 20, "forget_after": 15}, "forget_after is at least silent_after"),
            ({"behind": "5m", "delay": 5}, "all numbers of ticks, or all have units"),
        ],
    )
    def test_a_clock_that_cannot_be(self, options: dict[str, Any], message: str) -> None:
        """The error says which argument is wrong, and what helps."""
        with pytest.raises((rxt.ArgumentError, rxt.SchemaError), match=message):
            make_source(**options)

    def test_a_clock_needs_settings_and_fields(self) -> None:
        """How late rows may be, and which fields there are."""
        with pytest.raises(rxt.AdvanceTimeError, match="advance_time='5m'"):
            rxt.from_events([], schema=FIELDS, clock="device")
        with pytest.raises(rxt.ArgumentError, match="schema= says which there are"):
            rxt.from_events(iter([]), advance_time=0, clock="device")

    @pytest.mark.parametrize(
        ("compose", "message"),
        [
            (lambda s: s.tumbling_window(5).aggregate(n=agg.count()), "differ in device"),
            (lambda s: s.group_by("x").snapshot_window().aggregate(n=agg.count()), "differ in"),
            (lambda s: s.select("x").distinct(), "no longer have device: distinct"),
            (lambda s: s.distinct("x"), "needs rows together that differ in device: distinct"),
            (lambda s: s.join(s, on="x", suffix="_2"), "needs rows together that differ in"),
        ],
    )
    def test_what_crosses_devices_is_refused(
        self, compose: Callable[[rxt.Streamable], Any], message: str
    ) -> None:
        """When it is composed, with the operator, its line and the remedy."""
        with pytest.raises(rxt.ArgumentError, match=message) as caught:
            compose(make_source().stream)
        assert "test_clocks.py:" in str(caught.value)
        assert "Hint: .synchronize('1h')" in str(caught.value)

    @pytest.mark.parametrize("devices", [[1, 2], [b"a"], [("a", 1)]])
    def test_devices_that_no_row_can_name(self, devices: list[Any]) -> None:
        """They would be waited for in vain."""
        with pytest.raises(rxt.ArgumentError, match="which no row can name"):
            make_source().stream.synchronize(5, devices=devices)
        with pytest.raises(rxt.ArgumentError, match="devices is a list of the devices"):
            make_source().stream.synchronize(5, devices=[["a"]])

    def test_rows_that_no_longer_name_their_device(self) -> None:
        """They have one time, but none for each device."""
        stream = make_source().stream.select("x")
        assert stream.synchronize(5).schema == {"x": pl.Int64}
        with pytest.raises(rxt.ArgumentError, match=r"do not have the field device. Hint: keep"):
            stream.run(rxt.Collect())

    def test_time_is_not_imported_from_devices(self) -> None:
        """There is none for all."""
        one = rxt.from_observable(
            Subject[Any](), schema=FIELDS, name="one", advance_time=rxt.AdvanceTimeSettings(
                imports=rxt.AdvanceTimeImportSettings("readings"),
                policy=rxt.AdvanceTimePolicy.DROP,
            ),
        )  # fmt: skip
        both = make_source().stream.synchronize(5).union(one)
        with pytest.raises(rxt.AdvanceTimeError, match="each device has its own time"):
            both.run(rxt.Collect())

    def test_streams_of_two_kinds_do_not_meet(self) -> None:
        """One of them is synchronized first."""
        one = rxt.from_events([], schema=FIELDS)
        with pytest.raises(rxt.ArgumentError, match=r"Hint: .synchronize\('1h'\) before it"):
            make_source().stream.union(one)
        assert make_source().stream.synchronize(5).union(one).schema == one.schema
        with pytest.raises(rxt.ArgumentError, match="Hint: behind='6h' where"):
            make_source().stream.left_anti_join(one, on="device")
        assert make_source(behind=5).stream.left_anti_join(one, on="device").schema == one.schema
        with pytest.raises(rxt.ArgumentError, match="join on the fields that name the device"):
            make_source(behind=5).stream.left_anti_join(one, on="x")
        with pytest.raises(rxt.ArgumentError, match="this stream has one time already"):
            one.synchronize(5)

    def test_a_renamed_field_is_followed(self) -> None:
        """The clock goes by the value, whatever its name."""
        stream = make_source().stream.select(name="device", x="x")
        counts = stream.group_by("name").tumbling_window(5).aggregate(n=agg.count())
        assert counts.schema == {"name": pl.String, "n": pl.Int64}

    def test_rows_without_a_device(self) -> None:
        """A row that names none is rejected; in an iterable it is an error."""
        source = make_source()
        with source.stream.run(rxt.Collect()):
            verdict = source.push([row("a", 5), {"time": 6, "device": None, "x": 0}])
            assert (verdict.accepted, verdict.rejected[0].index) == (1, 1)
            assert "names the device" in verdict.rejected[0].reason
            source.close()
        events = to_events([{"time": 5, "device": None, "x": 1}])
        stream = rxt.from_events(events, schema=FIELDS, advance_time=0, clock="device")
        with pytest.raises(rxt.EventError, match="null for 'device'"):
            stream.to_events()

    def test_a_cti_of_a_device_in_a_stream_with_one_time(self) -> None:
        """It would move all others."""
        stream = rxt.from_events([rxt.Cti(5, device="a")], schema=FIELDS, advance_time=0)
        with pytest.raises(rxt.EventError, match="one time for all"):
            stream.to_events()
        source = make_source(clock=None)
        with source.stream.run(rxt.Collect()):
            assert "one time for all" in source.push(rxt.Cti(5, "a")).rejected[0].reason
            with pytest.raises(rxt.EventError, match="one time for all"):
                source.advance(5, device="a")
            source.advance(5)
            assert source.cti == 5
            source.close()

    def test_edges_in_spark_need_one_time(self, tmp_path: Path) -> None:
        """They are numbered by their starts."""
        sink = SparkSink(print, path=tmp_path / "spark", shape=rxt.EventShape.EDGE)
        with pytest.raises(rxt.ArgumentError, match=r"\.synchronize\('1h'\) at the end"):
            make_source().stream.run(sink)


def test_beside_its_rejected_rows_a_device_advances() -> None:
    """Time alone, of a device, passes the place where rejected rows enter the query."""
    source, application = make_source(), rxt.Application("house")
    application.query("counts", count(source.stream, 10))
    application.query("rejects", source.rejects.stream)
    sinks = {"counts": rxt.Collect(), "rejects": rxt.Collect()}
    process = application.run(sinks=sinks)
    source.push([row("a", 5), {"time": 5, "device": None, "x": 0}])
    source.advance(10, device="a")
    assert [each["n"] for each in sinks["counts"].to_dicts()] == [1]
    source.close()
    process.wait()
    assert len(sinks["rejects"].to_dicts()) == 1


def test_many_threads_push_for_their_devices() -> None:
    """Nothing is lost and nothing late."""
    source, sink = make_source(batch_rows=16), rxt.Collect()
    process = count(source.stream, 10).run(sink)

    def push(device: str) -> None:
        for time in range(0, 200, 2):
            assert source.push(row(device, time)).accepted == 1

    threads = [threading.Thread(target=push, args=(f"d{n}",)) for n in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    source.close()
    process.wait()
    assert [each["n"] for each in sink.to_dicts()] == [5] * 80


@pytest.mark.parametrize("behind", [None, 100])
def test_rows_beside_a_stream_wait_without_a_time_for_all(
    behind: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    """No CTI holds for all devices: the log and the diagnostics say that, and what would help."""
    source = make_source(delay=10, behind=behind)
    application, late = rxt.Application("house"), rxt.Collect()
    application.query("late", source.stream.late_events())
    process = application.run(sinks={"late": late})
    source.push([row("a", 50), row("b", 50), row("a", 5), row("a", 500), row("b", 500)])
    stalls = process.diagnostics().holding_back()
    is_told = "late events and rejected rows wait for the end of their stream" in caplog.text
    assert is_told is (behind is None)
    assert len(late.to_dicts()) == (behind is not None)
    if behind is None:
        assert str(stalls[0]) == (
            "query 'late' waits for the end of stream 'readings', in which each device has its own "
            "time and no CTI holds for all of them; 1 row waits"
        )
        assert stalls[0].remedies == (
            "behind= where 'readings' is made: how far a device may be behind",
        )
    else:
        assert all("waits for the end" not in str(each) for each in stalls)
    source.close()
    process.wait()
    assert len(late.to_dicts()) == 1


def test_a_device_as_far_behind_as_the_delay_is_not_behind() -> None:
    """The delay is there for it; one that is a tick further back than that counts."""
    source = make_source(delay=10)
    process = count(source.stream).run(rxt.Collect())
    source.push([row("a", 100), row("b", 100), row("c", 90), row("d", 89)])
    clocks = process.diagnostics().streams[0].clocks
    assert clocks is not None
    assert (clocks.devices, clocks.behind) == (4, 1)
    source.close()
    process.wait()


def test_the_diagnostics_show_the_clocks() -> None:
    """How many devices there are, and who is furthest behind."""
    source, clock = make_source(delay=10, silent_after=2 * MINUTE * 10**6), TestScheduler()
    process = count(source.stream).run(rxt.Collect(), scheduler=clock)
    source.push([row("a", 1_000), row("b", 900), row("c", 995), row("d", 100), row("a", 1_100)])
    clocks = process.diagnostics().streams[0].clocks
    assert clocks is not None
    assert (clocks.devices, clocks.live, clocks.behind, clocks.silent) == (4, 4, 3, 0)
    assert [each.device for each in clocks.furthest] == ["d", "b", "c", "a"]
    assert clocks.furthest[1].distance == 200
    assert clocks.distances == (105, 1_000, 1_000, 1_000)
    text = str(process.diagnostics())
    assert "readings: b" in text
    json.dumps(process.diagnostics().to_dict())
    clock.advance_by(MINUTE)
    source.push(row("a", 1_100))
    clock.advance_by(MINUTE)
    clocks = process.diagnostics().streams[0].clocks
    assert clocks is not None
    assert (clocks.silent, [each.device for each in clocks.furthest]) == (3, ["a"])
    process.stop()


def test_the_diagnostics_show_the_time_to_which_others_have_moved_a_device() -> None:
    """It is the one that the query was told, not that of the device's own rows."""
    source, batches = make_source(behind=100), list[rxt.EventBatch]()
    process = source.stream.run(batches.append)
    source.push([row("a", 1_000), row("b", 950)])
    source.push(row("a", 2_000))
    clocks = process.diagnostics().streams[0].clocks
    assert clocks is not None
    assert [(each.device, each.cti) for each in clocks.furthest] == [("b", 1_900), ("a", 2_000)]
    assert batches[-1].cti >= 1_900
    assert len(source.push(row("b", 1_899)).late) == 1
    process.stop()


def test_a_recording_tells_what_clocks_would_have_lost(tmp_path: Path) -> None:
    """Side by side: one time, clocks, ``behind`` and ``synchronize``; each as a replay loses."""
    random = Random(3)
    rows = [
        row(device, max(0, 10 * n + lag + random.randrange(-15, 15)))
        for n in range(60)
        for device, lag in (("a", 0), ("b", -100), ("c", -300))
    ]
    stream = rxt.from_events(to_events(rows), advance_time=5, name="readings")
    with stream.run(rxt.Collect(), record=tmp_path / "one"):
        pass
    losses = rxt.testing.find_clock_losses(tmp_path / "one", clock="device", spans=[50, 200])
    found = dict(losses.select("setting", "lost").rows())
    assert found["one time"] == stream.late_events().to_polars().height

    def count_late(**options: Any) -> int:
        source = make_source(delay=5, **options)
        with source.stream.run(rxt.Collect()):
            verdicts = [source.push(each) for each in rows]
            source.close()
        return sum(len(each.late) for each in verdicts)

    assert found["clock"] == count_late()
    assert found["behind 50 ticks"] == count_late(behind=50)
    assert found["behind 200 ticks"] == count_late(behind=200)
    assert found["one time"] > found["behind 50 ticks"] > found["clock"]
    with pytest.raises(rxt.SchemaError, match="has no field 'name'"):
        rxt.testing.find_clock_losses(tmp_path / "one", clock="name")
    source = make_source(delay=5)
    with source.stream.run(rxt.Collect(), record=tmp_path / "each"):
        source.push(rows)
        source.close()
    delays = rxt.testing.find_delays(tmp_path / "each")["readings"]
    assert delays.count_lost(5) == found["clock"]


def test_why_not_names_the_clock() -> None:
    """A row is late for the time of its device, or since others have moved that."""
    rows = [row("a", 70), row("b", 80), row("b", 20), row("c", 75), row("d", 5)]
    stream = rxt.from_events(to_events(rows), advance_time=0, clock="device", behind=60)
    told = str(rxt.why_not(count(stream, 30), {"device": "b"}, at=20))
    assert "late by 60 ticks: the CTI of device 'b' was 80; a delay of 60 ticks" in told
    told = str(rxt.why_not(count(stream, 30), {"device": "d"}, at=5))
    assert "the CTI of device 'd' was 15, since behind= allows it to be no further" in told


def test_a_device_that_is_a_date_is_told_as_text() -> None:
    """The diagnostics are JSON, whatever names a device."""
    source = rxt.PushSource("r", schema={"day": date}, clock="day")
    process = source.stream.run(rxt.Collect())
    source.push({"time": 5, "day": date(2026, 5, 1)})
    told = json.loads(json.dumps(process.diagnostics().to_dict()))
    assert told["streams"][0]["clocks"]["furthest"][0]["device"] == "2026-05-01"
    process.stop()


def test_top_shows_the_clocks() -> None:
    """The counts, and the devices that are furthest behind."""
    source = make_source()
    process = source.stream.run(rxt.Collect())
    source.push([row("a", 1_000), row("b", 900)])
    service = {
        "name": "s", "state": "running", "durable": False, "last_error": None,
        "counts": {"requests": {}, "restarts": 0},
    }  # fmt: skip
    content = {"service": service, "run": process.diagnostics().to_dict(), "inputs": {}}
    board = make_board(Answer(content, 0.0, datetime(2026, 5, 1, tzinfo=UTC)))
    grid = next(each for each in board.grids if each.header[0] == "clocks of devices")
    assert grid.rows[0][:4] == ("readings", "2", "1", "0")
    assert grid.rows[1] == ("readings: b", "", "", "", "900", "100")
    process.stop()


def test_what_stands_before_synchronize_has_one_time() -> None:
    """The device keeps its late rows, the fleet does not; each is told in its place."""
    source, late = make_source(), list[rxt.LateEvent]()
    each = count(source.stream, 10)
    application = rxt.Application("house")
    application.query("each", each)
    application.query("all", each.synchronize(100))
    sinks = {"each": rxt.Collect(), "all": rxt.Collect()}
    process = application.run(sinks=sinks)
    process.late.subscribe(late.append)
    source.push([row("b", 395), row("a", 500), row("b", 399), row("b", 400)])
    source.close()
    process.wait()
    (one,) = late
    assert (one.event.payload["device"], one.event.start_time, one.cti) == ("b", 399, 400)
    found = {
        name: sorted((each["device"], each["start_time"], each["n"]) for each in sink.to_dicts())
        for name, sink in sinks.items()
    }
    assert found["each"] == [("a", 500, 1), ("b", 390, 2), ("b", 400, 1)]
    assert found["all"] == [("a", 500, 1), ("b", 390, 1), ("b", 400, 1)]


def test_an_end_edge_of_a_row_that_was_late_for_the_fleet_is_dropped() -> None:
    """Of a dropped start the end is dropped; a late end edge moves to the CTI."""
    events = [
        rxt.EdgeEvent.create_start(390, {"device": "b"}),
        rxt.PointEvent(500, {"device": "a"}),
        rxt.EdgeEvent.create_start(395, {"device": "c"}),
        rxt.EdgeEvent.create_end(395, 410, {"device": "c"}),
        rxt.EdgeEvent.create_end(390, 396, {"device": "b"}),
    ]
    stream = rxt.from_events(
        (each for each in events), schema={"device": str}, advance_time=0, clock="device"
    )
    assert rows_of(stream.synchronize(100)) == [(390, 400, "b"), (500, 501, "a")]


def test_a_checkpoint_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    """Rows that are over are kept for nobody: no operator begins in the middle."""
    sizes = []
    for rows in (100, 20_000):
        source, folder = make_source(), tmp_path / str(rows)
        each = count(source.stream, 10)
        fleet = source.stream.synchronize(100).tumbling_window(50).aggregate(n=agg.count())
        application = rxt.Application("house")
        application.query("each", each)
        application.query("fleet", fleet)
        sinks = {"each": rxt.Collect(), "fleet": rxt.Collect()}
        process = application.run(sinks=sinks, resume=folder)
        source.push([row("ab"[n % 2], n) for n in range(rows)])
        process.stop()
        with sqlite3.connect(folder / "run.sqlite") as file:
            (size,) = file.execute(
                "SELECT sum(length(content)) FROM facts WHERE name LIKE 'checkpoint %'"
            ).fetchone()
        sizes.append(size)
    assert sizes[1] < 2 * sizes[0]


def test_results_that_have_left_belong_to_their_query(tmp_path: Path) -> None:
    """Before there is a checkpoint a changed query may begin anew, but not go on with these."""

    class Failing(rxt.Sink):
        by_position = True

        def write(self, batch: rxt.EventBatch) -> None:
            if len(batch):
                raise OSError("away")

    for length in (5, 10):
        source = make_source(spread=0)
        query = count(source.stream, length)
        if length == 5:
            process = query.run(Failing(), resume=tmp_path)
            source.push([row("a", n) for n in range(12)])
            with pytest.raises(OSError, match="away"):
                process.wait()
        else:
            with pytest.raises(rxt.CheckpointError, match="has changed since its last results"):
                query.run(Failing(), resume=tmp_path)


def test_a_run_is_told_that_clocks_have_come_or_gone(tmp_path: Path) -> None:
    """By an error that says what to do."""
    for clock, message in ((None, ""), ("device", "Saved: input 'readings'")):
        folder = tmp_path / "added"
        source = rxt.PushSource("readings", schema=FIELDS, clock=clock)
        if message:
            with pytest.raises(rxt.CheckpointError, match=message):
                count(source.stream, 10).run(rxt.Collect(), resume=folder)
            continue
        process = count(source.stream, 10).run(rxt.Collect(), resume=folder)
        source.push([row("a", 5)])
        process.stop()
    for clock in ("device", None):
        folder = tmp_path / "gone"
        source = rxt.PushSource("readings", schema=FIELDS, clock=clock)
        if clock is None:
            with pytest.raises(rxt.CheckpointError, match=r"each device had its own time"):
                count(source.stream, 10).run(rxt.Collect(), resume=folder, evolve=True)
            continue
        process = count(source.stream, 10).run(rxt.Collect(), resume=folder)
        source.push([row("a", 5)])
        process.stop()


def test_devices_of_several_sources_are_waited_for_one_by_one() -> None:
    """None of them sees the devices of the other."""
    one, other = make_source(), rxt.PushSource("others", schema=FIELDS, clock="device")
    both = one.stream.union(other.stream)
    assert both.synchronize(5).schema == one.stream.schema
    with pytest.raises(rxt.ArgumentError, match=r"Hint: .synchronize\(…, devices=…\) of each"):
        both.synchronize(5, devices=["a"])
    parts = [each.stream.synchronize(5, devices=1) for each in (one, other)]
    assert parts[0].union(parts[1]).schema == one.stream.schema


def test_nan_names_no_device() -> None:
    """It would never arrive."""
    source = rxt.PushSource("r", schema={"device": float}, clock="device")
    with pytest.raises(rxt.ArgumentError, match="NaN is equal to no other value"):
        source.stream.synchronize(5, devices=[1.0, float("nan")])


def test_devices_are_not_joined_with_what_was_synchronized() -> None:
    """The error names that, and not a remedy that has been followed."""
    stream = make_source(behind=50).stream
    fleet = stream.synchronize(5).select("device", y="x")
    with pytest.raises(rxt.ArgumentError, match="one that comes out of synchronize"):
        stream.join(fleet, on="device")


@pytest.mark.parametrize("form", ["a frame", "a list", "one by one"])
def test_a_cti_for_all_makes_rows_of_new_devices_late(form: str) -> None:
    """Whatever the way in: their own times are far behind it."""
    source = rxt.PushSource(
        "a", schema={"k": str, "i": int}, start="t", delay=0, unit="ticks", clock="k"
    )
    results = rxt.Collect()
    with source.stream.run(results):
        source.push({"t": 1, "k": "x", "i": 0})
        source.advance(10)
        rows = [{"t": t, "k": k, "i": i} for t, k, i in [(5, "a", 1), (9, "b", 2), (10, "a", 3)]]
        if form == "one by one":
            late = [source.push(row).late for row in rows]
        else:
            late = [source.push(pl.DataFrame(rows) if form == "a frame" else rows).late]
        source.close()
    assert sum(map(len, late)) == 2
    assert results.batch.to_polars()["i"].to_list() == [0, 3]


@pytest.mark.parametrize("rows", [500, 3_000])
def test_rows_before_one_without_a_device_are_accepted(rows: int) -> None:
    """However many events come together: the error is about that row alone."""
    made = [row("a", n) for n in range(rows)]
    made[rows - 100]["device"] = None
    events = to_events(made)
    sink = rxt.Collect()
    stream = rxt.from_events(events, schema=FIELDS, advance_time=0, clock="device")
    process = stream.run(sink)
    with pytest.raises(rxt.EventError, match="device"):
        process.wait()
    # the last of those before it would leave once the CTI has passed its start
    assert sink.batch.start.tolist() == list(range(rows - 101))


def test_clocks_are_told_as_a_cti_of_all_has_moved_them() -> None:
    """Also while rows wait for more of them."""
    source = make_source(batch_rows=100)
    process = source.stream.run(rxt.Collect())
    source.push([row("a", 5), row("b", 7)])
    source.push(rxt.Cti(100))
    (stream,) = process.diagnostics().streams
    assert [each.cti for each in stream.clocks.furthest] == [100, 100]
    process.stop()


def test_the_age_of_an_operator_in_lanes_is_that_of_its_cti() -> None:
    """And not the time since the machine was started."""
    source = make_source(delay=0)
    process = count(source.stream, 3).run(rxt.Collect())
    source.push([row("a", 5), row("b", 7)])
    operators = process.diagnostics().operators
    assert len(operators) == 2
    ages = [each.cti_age for each in operators]
    ages += [side.cti_age for each in operators for side in each.inputs]
    assert max(ages) < 60
    process.stop()
