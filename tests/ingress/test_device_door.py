"""Door of a stream in which each device has its own time: its verdicts are the model's."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import device_door_model as model
import numpy as np
import polars as pl
from hypothesis import example, given
from hypothesis import settings as limits
from hypothesis import strategies as st

import rxtemporal as rxt
from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.clocks import RowClocks
from rxtemporal.core.payloads import PayloadReader
from rxtemporal.ingress.batch_verdicts import EventRun, LateRows
from rxtemporal.ingress.clock_settings import ClockSettings
from rxtemporal.ingress.device_clocks import DeviceClocks
from rxtemporal.ingress.device_packer import DevicePacker
from rxtemporal.ingress.packer import Packer

SCHEMA = pl.Schema({"device": pl.String, "n": pl.Int64})
SPANS = st.sampled_from([None, 3, 8, 15])
TIMES = st.integers(0, 24)
DEVICES = st.sampled_from(["a", "b", "c"])
ROWS = st.builds(
    lambda device, start, length, ahead: model.Row(device, start, start + length, ahead),
    DEVICES, TIMES, st.sampled_from([1, 1, 7]), st.sampled_from([False, False, False, True]),
)  # fmt: skip
CTIS = st.one_of(
    st.builds(model.Sent, TIMES, st.none() | DEVICES),
    st.builds(model.Advance, TIMES, st.none() | DEVICES),
)
SILENCES = st.builds(model.Silent, st.none() | DEVICES)
SETTINGS = st.builds(
    lambda delays, **given: model.ModelSettings(delay=delays[0], cti_delay=delays[1], **given),
    # of CTIs that are sent the delay of rows holds, or none
    st.sampled_from([(0, 0), (3, 0), (3, 3), (-1, 0)]),
    every=st.sampled_from([1, 1, 2, 0]), span=st.just(4), adjusts=st.booleans(),
    behind=SPANS, silent=SPANS, by_wall=st.booleans(), own_ahead=st.booleans(),
)  # fmt: skip


def make_door(settings: model.ModelSettings, min_rows: int = 1) -> DevicePacker:
    """Return the door with these settings."""
    frequency: Any = settings.every or settings.span
    if not settings.every:
        from datetime import timedelta

        frequency = timedelta(microseconds=settings.span)
    generation = rxt.AdvanceTimeGenerationSettings(frequency, settings.delay)
    policy = rxt.AdvanceTimePolicy.ADJUST if settings.adjusts else rxt.AdvanceTimePolicy.DROP
    given = rxt.AdvanceTimeSettings(
        generation, policy=policy, ahead=10 if settings.own_ahead else None
    )
    clock = ClockSettings(
        ("device",), settings.behind, settings.silent, None, by_wall=settings.by_wall,
        silent_by_wall=settings.silent_by_wall,
    )  # fmt: skip
    payloads = PayloadReader(SCHEMA)
    delays = bool(settings.cti_delay)
    return DevicePacker(clock, SCHEMA, given, "s", payloads, min_rows, delays_ctis=delays)


def to_event(item: Any, number: int) -> Any:
    """Return a row or a CTI as an event."""
    if isinstance(item, model.Sent):
        return rxt.Cti(item.time, item.device)
    return rxt.IntervalEvent(item.start, item.end, {"device": item.device, "n": number})


class Watched:
    """A door, and what it has said so far."""

    def __init__(self, settings: model.ModelSettings) -> None:
        self.door = make_door(settings)
        self.kept: dict[int, int] = {}
        self.late: dict[int, tuple[str, int]] = {}
        self.told: dict[str, int] = {}

    def note(self, batch: EventBatch | None) -> None:
        """Note what has come out."""
        for late in self.door.unreported:
            if isinstance(late, LateRows):
                numbers = late.rows.payload["n"].to_list()
                columns = zip(numbers, late.reasons, late.cti.tolist(), strict=True)
                self.late.update({n: (reason.value, cti) for n, reason, cti in columns})
            else:
                event, fate = late
                self.late[event.payload["n"]] = fate.reason.value, fate.cti
        self.door.unreported.clear()
        if batch is None:
            return
        numbers = batch.payload["n"].to_list()
        for n, start, device in zip(
            numbers, batch.start.tolist(), batch.payload["device"].to_list(), strict=True
        ):
            self.kept[n] = start
            assert start >= self.told.get(device, rxt.MIN_TIME)
            assert start >= self.told.get("", rxt.MIN_TIME)
        assert batch.clocks is not None
        # a device may be there several times: its highest CTI holds
        clocks = zip(batch.clocks.list_devices(), batch.clocks.ctis.tolist(), strict=True)
        for device, cti in dict(sorted(clocks, key=lambda each: each[1])).items():
            assert cti >= self.told.get(device, rxt.MIN_TIME)
            self.told[device] = cti
        assert batch.cti >= self.told.get("", rxt.MIN_TIME)
        self.told[""] = batch.cti

    def take_one(self, item: Any, number: int) -> None:
        """Take an item as an event."""
        if isinstance(item, model.Advance):
            self.door.advance(item.time, item.device)
            self.note(self.door.due())
            return
        if isinstance(item, model.Silent):
            self.door.note_silence(None if item.device is None else [item.device])
            self.note(self.door.pack())
            return
        event = to_event(item, number)
        ahead = isinstance(item, model.Row) and item.ahead
        self.note(self.door.take_ahead(event) if ahead else self.door.take(event))

    def take_rows(self, items: list[tuple[int, Any]]) -> None:
        """Take rows as a batch."""
        payload = pl.DataFrame(
            {"device": [item.device for _, item in items], "n": [n for n, _ in items]}, SCHEMA
        )
        start, end = (
            np.array([getattr(item, name) for _, item in items], np.int64)
            for name in ("start", "end")
        )
        ahead = np.array([item.ahead for _, item in items])
        self.note(self.door.pack())
        batch = EventBatch.of_rows(start, end, payload, rxt.MIN_TIME)
        self.note(self.door.take_batch(batch, ahead if ahead.any() else None))

    def take_run(self, items: list[tuple[int, Any]]) -> None:
        """Take events at once."""
        run = EventRun.from_items([to_event(item, number) for number, item in items])
        assert run is not None
        self.note(self.door.pack())
        judged = self.door.judge_run(run)
        assert judged is not None
        self.note(self.door.take_run(judged))


def is_row(item: Any) -> bool:
    """Return True for a row."""
    return isinstance(item, model.Row)


def can_take(way: str, item: Any) -> bool:
    """Return True if an item can be taken with others, in a batch of rows or in a run of events."""
    if way == "rows":
        return is_row(item)
    for_all = isinstance(item, model.Sent) and item.device is None
    return way == "run" and (for_all or (is_row(item) and not item.ahead))


@example(
    settings=model.ModelSettings(silent=8, by_wall=True),
    items=[model.Row(*row) for row in [("b", 20, 21), ("a", 5, 6), ("b", 28, 29), ("a", 9, 10)]],
    way="one",
    saves=False,
)
@example(  # in order and in time
    settings=model.ModelSettings(by_wall=True),
    items=[model.Row(*row) for row in [("b", 2, 3), ("a", 5, 6), ("b", 8, 9), ("a", 9, 10)]],
    way="rows",
    saves=False,
)
@example(  # lifted by others
    settings=model.ModelSettings(silent=8, by_wall=True),
    items=[model.Row(*row) for row in [("b", 20, 21), ("a", 5, 6), ("b", 28, 29), ("a", 9, 10)]],
    way="rows",
    saves=False,
)
@example(
    settings=model.ModelSettings(behind=8, by_wall=True),
    items=[model.Row(*row) for row in [("b", 20, 21), ("a", 5, 6), ("c", 12, 13), ("c", 11, 12)]],
    way="run",
    saves=True,
)
@example(  # the later row makes a lower CTI
    settings=model.ModelSettings(delay=3),
    items=[model.Row("a", 1, 2), model.Row("a", 0, 1)],
    way="rows",
    saves=False,
)
@given(
    settings=SETTINGS,
    items=st.lists(ROWS | ROWS | ROWS | CTIS, max_size=30),
    way=st.sampled_from(["one", "rows", "rows", "run", "run"]),
    saves=st.booleans(),
)
@limits(max_examples=max(150, limits().max_examples))
def test_the_verdicts_are_those_of_the_model(
    settings: model.ModelSettings, items: list[Any], way: str, saves: bool
) -> None:
    """By event, by batch, as a run and over saves: the same verdicts, and CTIs that are kept."""
    watched = Watched(settings)
    for fits, group in groupby(enumerate(items), lambda each: can_take(way, each[1])):
        part = [*group]
        if fits and way == "rows":
            watched.take_rows(part)
        elif fits and any(is_row(item) for _, item in part):
            watched.take_run(part)
        else:
            for number, item in part:
                watched.take_one(item, number)
        if saves:
            saved, watched.door = watched.door.save(), make_door(settings)
            watched.door.load(saved)
    watched.note(watched.door.pack())
    check_verdicts(settings, items, watched)


def check_verdicts(settings: model.ModelSettings, items: list[Any], watched: Watched) -> None:
    """Fail unless what a door has said is what the model says."""
    expected = model.judge(settings, items)
    late, kept = {}, {}
    for number, (item, verdict) in enumerate(zip(items, expected.verdicts, strict=True)):
        if not is_row(item):
            continue
        if verdict is not None:
            late[number] = verdict.reason, verdict.cti
        start = item.start if verdict is None else verdict.start
        if start is not None:
            kept[number] = start
    assert watched.late == late
    assert watched.kept == kept
    devices, ctis = watched.door.clocks.list_ctis()
    found = dict(zip(devices.frame["device"].to_list(), ctis.tolist(), strict=True))
    for device, cti in expected.ctis.items():
        # the door lifts a device as the others go on, the model when it sends something
        assert found[device] >= (rxt.MIN_TIME - 1 if cti is None else cti)
    if settings.silent is None:  # of silence it is told in steps
        for device, cti in found.items():
            assert max(watched.told[device], watched.told[""]) >= cti
    # what the query is told of a device is never beyond the time by which its next row is judged
    for device, told in watched.told.items():
        if device and told > rxt.MIN_TIME:
            late_row = model.Row(device, told - 1, told, ahead=True)
            said = model.judge(settings, [*items, late_row]).verdicts[-1]
            assert said is not None, (device, told)


@given(
    settings=SETTINGS,
    drawn=st.lists(ROWS | ROWS | ROWS | CTIS | SILENCES, max_size=30),
    way=st.sampled_from(["one", "rows", "run"]),
    saves=st.booleans(),
    moments=st.none() | st.lists(st.sampled_from([0, 1, 7, 50]), min_size=30, max_size=30),
)
@limits(max_examples=max(150, limits().max_examples))
def test_silence_by_the_wall_clock_is_as_the_owner_says(
    settings: model.ModelSettings, drawn: list[Any], way: str, saves: bool, moments: Any
) -> None:
    """Also of one with a clock: the moments at which rows come decide nothing here."""
    settings = settings._replace(silent_by_wall=True, silent=settings.silent or 8)
    seen: set[Any] = set()
    items: list[Any] = []
    for item in drawn:  # only devices that have come are said to be silent
        if isinstance(item, model.Silent):
            if item.device is None or item.device in seen:
                items.append(item)
            continue
        items.append(item)
        seen.add(item.device)
    watched, now = Watched(settings), 0
    for number, (fits, group) in enumerate(
        groupby(enumerate(items), lambda each: can_take(way, each[1]))
    ):
        if moments is not None:
            now += moments[number]
            watched.door.clocks.follow(lambda now=now: now)
        part = [*group]
        if fits and way == "rows":
            watched.take_rows(part)
        elif fits and any(is_row(item) for _, item in part):
            watched.take_run(part)
        else:
            for each in part:
                watched.take_one(each[1], each[0])
        if saves:
            saved, watched.door = watched.door.save(), make_door(settings)
            watched.door.load(saved)
    watched.note(watched.door.pack())
    check_verdicts(settings, items, watched)


@given(
    starts=st.lists(st.tuples(DEVICES, TIMES, st.integers(1, 9)), max_size=12),
    cut=st.integers(0, 24),
    delay=st.sampled_from([0, 3]),
)
def test_edges_in_batches_are_judged_by_their_device(
    starts: list[tuple[str, int, int]], cut: int, delay: int
) -> None:
    """As the edges of that device alone are by a door with one time."""
    edges: list[tuple[str, int, int, int]] = []
    for number, (device, start, length) in enumerate(starts, 1):
        edges.append((device, start, rxt.MAX_TIME, number))
        edges.append((device, start, start + length, number))
    edges.sort(key=lambda edge: edge[2] if edge[2] < rxt.MAX_TIME else edge[1])

    settings = model.ModelSettings(delay=delay)
    expected: list[Any] = []
    late: Counter[Any] = Counter()
    for device in "abc":
        mine = [edge for edge in edges if edge[0] == device]
        given_settings = rxt.AdvanceTimeSettings(
            rxt.AdvanceTimeGenerationSettings(1, delay), policy=rxt.AdvanceTimePolicy.DROP
        )
        # the cut is at the same edge
        before = sum(edge[0] == device for edge in edges[:cut])
        door = Packer(given_settings, "s", PayloadReader(SCHEMA))
        alone: list[Any] = []
        for part in (mine[:before], mine[before:]):
            alone += run_all(door, part)
        expected += alone
        late += door.late
    by_device = make_door(settings)
    found = [row for part in (edges[:cut], edges[cut:]) for row in run_all(by_device, part)]
    assert sorted(found) == sorted(expected)
    assert by_device.late == late


def run_all(door: Any, part: list[tuple[str, int, int, int]]) -> list[Any]:
    """Return the edges that pass a door as one batch."""
    device, start, end, edge = map(list, zip(*part, strict=True)) if part else 4 * ([],)
    payload = pl.DataFrame({"device": device, "n": edge}, SCHEMA)
    arrays = (np.array(each, np.int64) for each in (start, end, edge))
    made = door.take_batch(EventBatch(*arrays, payload, rxt.MIN_TIME))
    columns = made.start.tolist(), made.end.tolist(), made.edge.tolist()
    return [*zip(made.payload["device"].to_list(), *columns, strict=True)]


def test_moments_go_on_by_another_clock() -> None:
    """Those of rows that pass without being judged, too; never heard and silent ones have none."""
    settings = model.ModelSettings(silent=500, silent_by_wall=True, by_wall=True)
    door, now = make_door(settings), 7_000
    door.clocks.follow(lambda: now)
    for device, moment in (("a", 7_000), ("b", 7_040), ("c", 7_080)):
        now = moment
        door.take_batch(make_rows(device, [moment]))
    door.note_silence(["c"])
    door.clocks.find_device_of("new")
    assert [*map(list, door.clocks.find_silent(6_999)[:1])] == [[]]
    silent, first, last = door.clocks.find_silent(7_039)
    assert (silent.tolist(), first, last) == ([0], 7_040, 7_040)
    other = make_door(settings)
    other.load(door.save())
    other.clocks.follow(lambda: 100)
    other.clocks.shift_moments(90 - now)
    silent, first, last = other.clocks.find_silent(49)
    assert (silent.tolist(), first, last) == ([0], 50, 50)
    other.clocks.hear_all(95)
    assert other.clocks.find_silent(94)[1:] == (95, 95)
    assert other.get_clock_stats().silent == 1


def make_rows(devices: str, starts: list[int]) -> EventBatch:
    """Return points of these devices as a batch."""
    payload = pl.DataFrame({"device": list(devices), "n": starts}, SCHEMA)
    return EventBatch.of_rows(np.array(starts), None, payload, rxt.MIN_TIME)


def test_many_batches_advance_their_devices_in_the_order_in_which_they_came() -> None:
    """Also if some have been numbered before the others."""
    settings = model.ModelSettings(delay=3)
    many, alone = make_door(settings), make_door(settings)
    starts = [number // 7 - (number % 5 == 0) * 2 for number in range(21, 800)]
    devices = ["abc"[number * number % 3] for number in range(len(starts))]
    for number, (device, start) in enumerate(zip(devices, starts, strict=True)):
        batch = many.take_batch(make_rows(device, [start]))
        if number % 300 == 200:
            assert batch.clocks is not None
            assert batch.clocks.codes is not None
        alone.take(to_event(model.Row(device, start, start + 1, False), number))
    assert many.largest_lateness == alone.largest_lateness == 2
    assert many.clocks.list_ctis()[1].tolist() == alone.clocks.list_ctis()[1].tolist()
    assert many.get_clock_stats() == alone.get_clock_stats()


def test_large_batches_advance_their_devices_in_the_order_in_which_they_came() -> None:
    """Some devices are in the first ones alone."""
    settings = model.ModelSettings(delay=3)
    large, small = make_door(settings), make_door(settings)
    for number, devices in enumerate(("abc", "bcd", "cd")):
        times = [10_000 * number + row for row in range(6_000)]
        names = "".join(devices[time % 7 % len(devices)] for time in times)
        large.take_batch(make_rows(names, times))
        for first in range(0, 6_000, 300):
            part = slice(first, first + 300)
            small.take_batch(make_rows(names[part], times[part]))
            small.clocks.list_ctis()
    assert large.clocks.list_ctis()[1].tolist() == small.clocks.list_ctis()[1].tolist()
    assert large.clocks.list_ctis()[1].max() == 26_000 - 4
    assert large.get_clock_stats() == small.get_clock_stats()


class SlowClocks(DeviceClocks):
    """Clocks of which a reader takes its time while devices advance."""

    __slots__ = ()
    begun, judged = threading.Event(), threading.Event()

    def translate(self, passed: Sequence[RowClocks]) -> Int64s:
        """Return the numbers of devices, which takes a reader a while."""
        if threading.current_thread().name == "reader":
            self.begun.set()
            assert not self.judged.wait(0.3)
        return super().translate(passed)


def test_rows_are_judged_once_those_before_them_have_advanced_their_devices() -> None:
    """Although another thread, which asks for the clocks, does so and is not done."""
    door = make_door(model.ModelSettings())
    clocks: Any = door.clocks
    clocks.__class__ = SlowClocks
    reader = threading.Thread(target=door.get_clock_stats, name="reader")
    door.take(to_event(model.Row("a", 0, 1, False), 0))
    door.pack()
    assert len(door.take_batch(make_rows("bb", [10, 20]))) == 2
    assert len(door.take_batch(make_rows("ba", [30, 31]))) == 2
    reader.start()
    assert clocks.begun.wait(10)
    door.take(to_event(model.Row("a", 20, 21, False), 1))
    clocks.judged.set()
    reader.join()
    assert len(door.unreported) == 1
    assert door.largest_lateness == 11


def test_a_pushed_batch_does_not_advance_its_devices_at_once() -> None:
    """Its verdicts need not know them, so many advance together."""
    door = make_door(model.ModelSettings(delay=3))
    for start in (5, 6):
        batch = make_rows("ab", [start, start])
        door.take_verdicts(batch, door.judge_columns(batch))
    assert len(door._passed) == 2
    assert [each.tolist() for each in door.clocks.list_ctis()[1:]] == [[3, 3]]


def test_what_has_been_reached_is_known_after_a_stop() -> None:
    """A batch all of whose rows are before it is late, as it would have been without the stop."""
    settings = model.ModelSettings()
    first, second = make_door(settings), make_door(settings)
    first.take_batch(make_rows("aa", [5, 20]))
    second.load(first.save())
    for door in (first, second):
        assert door.take_batch(make_rows("aa", [7, 8])).start.tolist() == []
        assert door.late.total() == 2


def test_rows_that_wait_keep_their_devices_over_a_stop() -> None:
    """As those do that come behind them."""
    first = make_door(model.ModelSettings(), min_rows=10)
    first.take(to_event(model.Row("a", 10, 11, False), 0))
    second = make_door(model.ModelSettings(), min_rows=10)
    second.load(first.save())
    second.take(to_event(model.Row("b", 10, 11, False), 1))
    batch = second.pack()
    assert batch is not None
    assert batch.columns.coded is not None
    assert second.clocks.list_devices(batch.columns.coded.codes) == ("a", "b")
