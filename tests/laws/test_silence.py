"""Silence by the wall clock: as a model says it, and the same in a replay and after a restart."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections import Counter
from datetime import date
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reactivex.testing import TestScheduler

import rxtemporal as rxt
from rxtemporal import LateReason, agg

# seconds: rows come at times that are this far apart, the clock begins there, and a device is
# silent after four such times: after its span, whenever a timer looks
STEP, BEGIN, SILENT = 40, 10_000, 140
LENGTH = 100
FILE = {"start_time": pl.Datetime("us", "UTC"), "device": pl.String, "n": pl.Int64}
HAND_OFFS = (None, None, rxt.HandOff(), rxt.HandOff(8, rxt.WhenFull.SPILL))


class Row(NamedTuple):
    """A row of a device, for a time in seconds."""

    device: str
    time: int


# rows that come together; or how many steps of the clock nothing comes
Act = list[Row] | int


@st.composite
def acts(draw: st.DrawFn) -> list[Act]:
    """Draw pushes and waits; devices are far behind, upload hours, or are silent."""
    made: list[Act] = []
    now = BEGIN
    for kind in draw(st.lists(st.sampled_from("prrrww"), max_size=25)):
        if kind == "w":
            steps = draw(st.sampled_from((1, 1, 1, 3, 4, 9)))
            made.append(steps)
            now += steps * STEP
            continue
        device = draw(st.sampled_from("aab" if kind == "r" else "abcd"))
        lag = draw(st.sampled_from((0, 0, 30, 150, 600)))
        times = [now - lag]
        if kind == "p":
            times = list(range(now - lag, now, 50)) or times
        made.append([Row(device, time) for time in times])
    return made


class Model:
    """The verdicts as the documents define them, at times at which they are not in doubt."""

    def __init__(self, delay: int) -> None:
        self.delay, self.now = delay, BEGIN
        self.cti: dict[str, int] = {}
        self.own: dict[str, int] = {}
        self.heard: dict[str, int] = {}
        self.silent: set[str] = set()
        self.fleet = 0
        self.is_down = False

    def push(self, row: Row) -> LateReason | None:
        """Return the reason if a row is late."""
        device = row.device
        if self.is_down:
            self.is_down = False
            self.heard = dict.fromkeys(self.heard, self.now)
        if device in self.silent:
            self.silent.remove(device)
            self.lift(device)
        self.heard[device] = self.now
        reason = None
        if row.time < self.cti.get(device, 0):
            by_own = row.time < self.own.get(device, 0)
            reason = LateReason.DROPPED if by_own else LateReason.SILENT
        self.fleet = max(self.fleet, row.time)
        self.own[device] = max(self.own.get(device, 0), row.time - self.delay)
        self.cti[device] = max(self.cti.get(device, 0), self.own[device])
        return reason

    def wait(self) -> None:
        """Let the clock move by a step, in which each device may become silent."""
        before, self.now = self.now, self.now + STEP
        if not self.heard:
            return
        last = max(self.heard.values())
        for device, heard in self.heard.items():
            if before < heard + SILENT < self.now and heard < last:
                self.silent.add(device)
        if before < last + SILENT < self.now and not self.is_down:
            self.is_down = True
            self.silent.clear()
            for device in self.heard:
                self.lift(device)

    def restart(self, *, has_moments: bool) -> None:
        """Go on in another run, which may know when devices were heard."""
        if not has_moments:
            self.heard = {
                device: heard if device in self.silent else self.now
                for device, heard in self.heard.items()
            }
            self.is_down = False

    def lift(self, device: str) -> None:
        """Lift a device to the time of the fleet less the span."""
        self.cti[device] = max(self.cti[device], self.fleet - SILENT)


def make_source(random: Random, **options: Any) -> rxt.PushSource:
    """Return a source of rows of devices."""
    drawn = {
        "batch_rows": random.choice((1, 1, 5)),
        "hand_off": random.choice(HAND_OFFS),
        "spread": random.choice((None, "0s", "1h")),
    }
    return rxt.PushSource(
        "rows", schema={"device": str}, unit="s", clock="device", silent_after=f"{SILENT}s",
        **drawn | {"delay": "0s"} | options,
    )  # fmt: skip


class Life:
    """A run of the source, and those before it."""

    def __init__(self, random: Random, delay: int, **options: Any) -> None:
        self.random, self.delay, self.options = random, delay, options
        self.clock = TestScheduler()
        self.clock.advance_to(BEGIN)
        self.model = Model(delay)
        self.accepted: list[Row] = []
        self.late: list[tuple[Any, ...]] = []
        self.results: Counter[Any] = Counter()
        self.begin()

    def begin(self) -> None:
        """Start a run."""
        self.sink, random = rxt.Collect(), self.random
        self.source = make_source(random, delay=f"{self.delay}s")
        stream = count(self.source.stream)
        self.process = stream.run(self.sink, scheduler=self.clock, warn_after=None, **self.options)

    def act(self, act: Act) -> None:
        """Wait, or push rows, whose verdicts are those of the model."""
        if isinstance(act, int):
            for _ in range(act):
                self.clock.advance_by(STEP)
                self.model.wait()
            return
        expected = [self.model.push(row) for row in act]
        rows = [{"device": row.device, "time": row.time} for row in act]
        pushed = pl.DataFrame(rows) if self.random.random() < 0.5 else rows
        late = {each.index: each for each in self.source.push(pushed).late}
        found = [each.reason if (each := late.get(n)) else None for n in range(len(act))]
        assert found == expected
        self.accepted += [row for row, reason in zip(act, expected, strict=True) if not reason]
        for number, each in late.items():
            self.late.append((*act[number], each.reason.value, each.by))

    def stop(self) -> None:
        """Stop the run, and take what it has given."""
        self.process.stop()
        self.results.update(list_results(self.sink.to_polars(time="datetime")))

    def end(self) -> None:
        """End the source."""
        self.source.close()
        self.process.wait()
        self.results.update(list_results(self.sink.to_polars(time="datetime")))


def count(stream: rxt.Streamable) -> rxt.Streamable:
    """Return the number of rows of each device in windows."""
    return stream.group_by("device").tumbling_window(f"{LENGTH}s").aggregate(n=agg.count())


def list_results(frame: pl.DataFrame) -> list[Any]:
    """Return results: the begin of the window in seconds, the device, and the number."""
    start = pl.col("start_time").dt.epoch("s")
    return frame.select(start, "device", "n").rows()


def count_accepted(rows: list[Row]) -> Counter[Any]:
    """Return the results over accepted rows."""
    numbers = Counter((row.time // LENGTH * LENGTH, row.device) for row in rows)
    return Counter((*window, number) for window, number in numbers.items())


def list_late(stream: rxt.Streamable) -> list[tuple[Any, ...]]:
    """Return the late rows of a replay: the device, the time in seconds, the reason, by how far."""
    frame = stream.late_events().to_polars(time="datetime")
    time, by = pl.col("start").dt.epoch("s"), pl.col("by").dt.total_microseconds()
    return sorted(frame.select("device", time, "reason", by).rows())


def count_fleet(stream: rxt.Streamable, within: int, idle: int | None) -> rxt.Streamable:
    """Return the number of rows of all devices in windows, once none of three is waited for."""
    idle_after = None if idle is None else f"{idle}s"
    together = stream.synchronize(f"{within}s", idle_after, devices=3)
    return together.tumbling_window(f"{LENGTH}s").aggregate(n=agg.count())


# one device comes back after it was silent, and after the line was down
BACK: list[Act] = [
    [Row("a", BEGIN), Row("b", BEGIN)], 1, [Row("b", BEGIN + 40)], 3, [Row("b", BEGIN + 160)], 2,
    [Row("b", BEGIN + 240)], 1, [Row("a", BEGIN + 90)], [Row("a", BEGIN + 110)], 9,
    [Row("b", BEGIN + 600)], 1, [Row("a", BEGIN + 280)],
]  # fmt: skip


@settings(max_examples=2 * settings().max_examples)
@example(made=BACK, delay=0, number=0)
@given(made=acts(), delay=st.sampled_from((0, 30)), number=st.integers(0, 2**20))
def test_a_replay_repeats_what_the_clock_has_said(made: list[Act], delay: int, number: int) -> None:
    """The same late rows and results, though it has no clock."""
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Random(number), delay, record=Path(folder, "run"))
        for act in made:
            life.act(act)
        life.end()
        assert life.results == count_accepted(life.accepted)
        replayed = rxt.replay(Path(folder, "run"))["rows"]
        assert list_late(replayed) == sorted(life.late)
        assert Counter(list_results(count(replayed).to_polars())) == life.results


@settings(max_examples=2 * settings().max_examples)
@example(made=BACK, delay=0, number=0)
@given(made=acts(), delay=st.sampled_from((0, 30)), number=st.integers(0, 2**20))
def test_a_run_that_is_stopped_and_resumed_goes_on_with_the_same_silences(
    made: list[Act], delay: int, number: int
) -> None:
    """With a checkpoint it also knows when each device was heard."""
    random = Random(number)
    cuts = random.choices(range(len(made) + 1), k=2)
    with tempfile.TemporaryDirectory() as folder:
        kind = random.choice(("log", "resume"))
        life = Life(random, delay, **{kind: Path(folder, "run")})
        for place, act in enumerate(made):
            for _ in range(cuts.count(place)):
                life.stop()
                if kind == "log":  # the log is computed again
                    life.results.clear()
                life.model.restart(has_moments=kind == "resume")
                life.begin()
            life.act(act)
        life.end()
        assert life.results == count_accepted(life.accepted)
        if kind == "log":
            replayed = rxt.replay(Path(folder, "run"))["rows"]
            assert list_late(replayed) == sorted(life.late)
            assert Counter(list_results(count(replayed).to_polars())) == life.results


@settings(max_examples=settings().max_examples)
@example(made=BACK, number=0)
@given(made=acts(), number=st.integers(0, 2**20))
def test_a_run_that_is_killed_at_any_point_counts_each_accepted_row_once(
    made: list[Act], number: int
) -> None:
    """The files are copied as they are; what is pushed afterwards goes to the copy."""
    random, cut = Random(number), Random(number).randrange(len(made) + 1)
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder, "first"), Path(folder, "second")
        first.mkdir()
        killed = Killed(random, first)
        for place, act in enumerate(made):
            if place == cut:
                killed.move(second)
            killed.act(act)
        killed.source.close()
        killed.process.wait()
        found = pl.read_ndjson(killed.folder / "n.jsonl", schema=FILE)
        assert Counter(list_results(found)) == count_accepted(killed.accepted)


class Killed:
    """A run with a file of results, which goes on with a copy of its files."""

    def __init__(self, random: Random, folder: Path) -> None:
        self.random, self.accepted = random, list[Row]()
        self.clock = TestScheduler()
        self.clock.advance_to(BEGIN)
        self.begin(folder)

    def begin(self, folder: Path) -> None:
        """Start a run in a folder."""
        self.folder = folder
        self.source = make_source(self.random)
        sink = rxt.AppendFile(folder / "n.jsonl")
        stream = count(self.source.stream)
        self.process = stream.run(
            sink, resume=folder / "run", scheduler=self.clock, warn_after=None
        )

    def move(self, folder: Path) -> None:
        """Go on with a copy of the files, as after a kill."""
        shutil.copytree(self.folder, folder)
        before = self.process
        self.clock.advance_by(self.random.choice((0, STEP, 9 * STEP)))
        before.stop()
        self.begin(folder)

    def act(self, act: Act) -> None:
        """Wait, or push rows."""
        if isinstance(act, int):
            self.clock.advance_by(act * STEP)
            return
        verdict = self.source.push([{"device": row.device, "time": row.time} for row in act])
        late = {each.index for each in verdict.late}
        self.accepted += [row for number, row in enumerate(act) if number not in late]


@settings(max_examples=2 * settings().max_examples)
@given(made=acts(), number=st.integers(0, 2**20))
def test_the_time_of_the_fleet_is_the_same_in_a_replay(made: list[Act], number: int) -> None:
    """It does not wait for silent devices; the late rows of ``synchronize`` are the same, too."""
    random = Random(number)
    within, idle = random.choice((200, 2_000)), random.choice((None, 300))
    with tempfile.TemporaryDirectory() as folder:
        clock, path = TestScheduler(), Path(folder, "run")
        clock.advance_to(BEGIN)
        source = make_source(random)
        stream, sink = count_fleet(source.stream, within, idle), rxt.Collect()
        kind = random.choice(("record", "log"))
        options: dict[str, Any] = {kind: path, "warn_after": None}
        process = stream.run(sink, scheduler=clock, **options)
        for act in made:
            if isinstance(act, int):
                clock.advance_by(act * STEP)
            else:
                source.push([{"device": row.device, "time": row.time} for row in act])
        source.close()
        process.wait()
        again = rxt.Collect()
        replay = count_fleet(rxt.replay(path)["rows"], within, idle).run(again)
        replay.wait()
        assert again.to_dicts(time="ticks") == sink.to_dicts(time="ticks")
        assert count_late(replay) == count_late(process)


def count_late(process: rxt.Process) -> list[Any]:
    """Return the late rows of the operators and of the stream."""
    found = process.diagnostics()
    return [found.streams[0].late, [each.late for each in found.operators]]


def test_many_threads_push_while_the_clock_moves() -> None:
    """The records are in the order in which rows and silences have come."""
    with tempfile.TemporaryDirectory() as folder:
        clock, path, sink = TestScheduler(), Path(folder, "run"), rxt.Collect()
        clock.advance_to(BEGIN)
        source, late = make_source(Random(0), hand_off=None), list[Any]()
        process = count(source.stream).run(sink, scheduler=clock, record=path, warn_after=None)

        def push(device: str) -> None:
            random = Random(device)
            for _ in range(150):
                now = int(clock.clock)
                lag = random.choice((0, 50, 500))
                late.extend(source.push({"device": device, "time": now - lag}).late)
                if random.random() < 0.1:
                    turn.wait()

        # they meet now and then, so that the clock moves far between the rows of some
        turn = threading.Event()
        threads = [threading.Thread(target=push, args=(device,)) for device in "abcd"]
        for each in threads:
            each.start()
        while any(each.is_alive() for each in threads):
            clock.advance_by(STEP)
            turn.set()
            turn.clear()
        source.close()
        process.wait()
        replayed = rxt.replay(path)["rows"]
        assert replayed.late_events().to_polars().height == len(late)
        assert Counter(list_results(count(replayed).to_polars())) == Counter(
            list_results(sink.to_polars(time="datetime"))
        )


@pytest.mark.parametrize("kind", ["record", "log"])
def test_a_device_of_several_fields_is_silent(kind: str, tmp_path: Path) -> None:
    """Its record names all of them."""
    clock, sink = TestScheduler(), rxt.Collect()
    clock.advance_to(BEGIN)
    source = rxt.PushSource(
        "rows", schema={"site": int, "day": date, "x": bytes}, unit="s", delay="0s",
        clock=["site", "day"], silent_after=f"{SILENT}s",
    )  # fmt: skip
    options: dict[str, Any] = {kind: tmp_path / "run", "warn_after": None}
    monday, tuesday = date(2024, 1, 1), date(2024, 1, 2)

    def query(stream: rxt.Streamable) -> rxt.Streamable:
        windows = stream.group_by("site", "day").tumbling_window(f"{LENGTH}s")
        return windows.aggregate(n=agg.count())

    with query(source.stream).run(sink, scheduler=clock, **options):
        for site, day, time in ((1, monday, 0), (1, tuesday, 0), (2, monday, BEGIN)):
            source.push({"site": site, "day": day, "time": time, "x": b"one"})
        for now in range(BEGIN, BEGIN + 5 * STEP, STEP):
            clock.advance_to(now)
            source.push({"site": 2, "day": monday, "time": now, "x": b""})
            source.push({"site": 1, "day": tuesday, "time": 0, "x": b""})
        late = source.push({"site": 1, "day": monday, "time": 0, "x": b"late"}).late
        assert [each.reason for each in late] == [LateReason.SILENT]
        source.close()
    replayed = rxt.replay(tmp_path / "run")["rows"]
    assert replayed.late_events().to_polars()["reason"].to_list() == ["silent"]
    found = query(replayed).to_polars(time="datetime")
    assert found.sort(pl.all()).equals(sink.to_polars(time="datetime").sort(pl.all()))
