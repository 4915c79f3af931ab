"""A time for each device: the results of a device are those of its rows alone."""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reactivex.testing import TestScheduler

import rxtemporal as rxt
from rxtemporal import agg

Query = Callable[[rxt.Streamable], rxt.Streamable]
FIELDS = {"k": str, "x": int}
# the span of silence after which the fleet moves a device
Silent = int | None
HAND_OFFS = (None, None, rxt.HandOff(), rxt.HandOff(8, rxt.WhenFull.SPILL))
ADJUST = rxt.AdvanceTimePolicy.ADJUST


def count_and_sum(windows: Any) -> rxt.Streamable:
    """Return the count and the sum over windows."""
    return windows.aggregate(n=agg.count(), x=agg.sum("x"))


def pair_up(stream: rxt.Streamable) -> rxt.Streamable:
    """Return the pairs of rows of a device that overlap."""
    return stream.join(stream.shift_event_time(2), on="k", suffix="_r")


QUERIES: dict[str, Query] = {
    "rows": lambda s: s,
    "where": lambda s: s.where(pl.col("x") > 1),
    "tumbling": lambda s: count_and_sum(s.group_by("k").tumbling_window(7)),
    "hopping": lambda s: count_and_sum(s.group_by("k").hopping_window(9, 3)),
    "snapshot": lambda s: count_and_sum(s.extend_lifetime(4).group_by("k").snapshot_window()),
    "session": lambda s: count_and_sum(s.group_by("k").session_window(6)),
    "count": lambda s: count_and_sum(s.group_by("k").count_window(3)),
    "top": lambda s: s.group_by("k").tumbling_window(7).top_k(1, by="x"),
    "signal": lambda s: s.group_by("k").to_signal(),
    "samples": lambda s: s.group_by("k").to_signal(max_gap=5).sample(2).ungroup(),
    "previous": lambda s: s.group_by("k").previous("x").ungroup().drop("time_before"),
    "deadband": lambda s: s.group_by("k").deadband("x", 1).ungroup(),
    "stitch": lambda s: s.chop(2).stitch(),
    "distinct": lambda s: s.extend_lifetime(5).distinct(),
    "sum of pairs": lambda s: s.extend_lifetime(3).join(s.shift_event_time(2), on="k", suffix="_r"),
    "anti": lambda s: s.left_anti_join(s.where(pl.col("x") > 2).extend_lifetime(5), on="k"),
    "outer": lambda s: s.left_outer_join(
        s.group_by("k").tumbling_window(7).aggregate(n=agg.count()), on="k"
    ),
    "windows of sessions": lambda s: (
        count_and_sum(s.group_by("k").session_window(6)).group_by("k").tumbling_window(15)
    ).aggregate(n=agg.sum("n"), most=agg.max("n")),
    "pairs of sessions": lambda s: pair_up(count_and_sum(s.group_by("k").session_window(6))),
    "sessions of pairs": lambda s: count_and_sum(
        pair_up(s.extend_lifetime(-1).extend_lifetime(3)).group_by("k").session_window(4)
    ),
    "windows of a line": lambda s: (
        s.group_by("k").to_signal(linear="x", max_gap=9).tumbling_window(10)
    ).aggregate(mean=agg.time_mean("x")),
    "union": lambda s: count_and_sum(
        s.union(s.shift_event_time(3)).group_by("k").tumbling_window(5)
    ),
}
# queries beside a stream with one time, whose rows are those of the devices, too
MIXED: dict[str, Callable[[rxt.Streamable, rxt.Streamable], rxt.Streamable]] = {
    "join": lambda s, o: s.extend_lifetime(3).join(o, on="k", suffix="_r"),
    "anti": lambda s, o: s.left_anti_join(o, on="k"),
    "outer": lambda s, o: s.left_outer_join(o.select(name="k", y="x"), on={"k": "name"}),
    "clip": lambda s, o: s.extend_lifetime(20).clip_event_duration(o, on="k"),
    "of windows": lambda s, o: s.join(
        o.group_by("k").tumbling_window(11).aggregate(m=agg.max("x")), on="k"
    ),
    "windows of": lambda s, o: count_and_sum(
        s.join(o.extend_lifetime(9).select("k", y="x"), on="k").group_by("k").tumbling_window(7)
    ),
}
# queries over all devices together
FLEET: dict[str, Query] = {
    "tumbling": lambda s: count_and_sum(s.tumbling_window(7)),
    "snapshot": lambda s: count_and_sum(s.extend_lifetime(4).snapshot_window()),
    "session": lambda s: count_and_sum(s.session_window(6)),
    "distinct": lambda s: s.extend_lifetime(5).distinct("x"),
    "of windows": lambda s: s.tumbling_window(20).aggregate(x=agg.max("x")),
    "join": lambda s: s.join(s.where(pl.col("x") > 2).extend_lifetime(9), on="x", suffix="_r"),
}
some_queries = pytest.mark.parametrize("name", QUERIES)


class Arrival(NamedTuple):
    """A row of a device."""

    device: str
    start: int
    end: int
    x: int

    def to_event(self) -> rxt.IntervalEvent:
        """Return the row as an event."""
        return rxt.IntervalEvent(self.start, self.end, {"k": self.device, "x": self.x})

    def to_dict(self) -> dict[str, Any]:
        """Return the row as it is pushed."""
        return {"at": self.start, "until": self.end, "k": self.device, "x": self.x}


@st.composite
def arrivals(draw: st.DrawFn) -> list[Arrival]:
    """Draw rows of devices, each a little out of order, with any lags between devices."""
    rows: list[Arrival] = []
    for device in draw(st.sampled_from(["a", "ab", "abc"])):
        time = draw(st.integers(0, 60))
        for step, length, x in draw(
            st.lists(
                st.tuples(st.integers(-4, 9), st.sampled_from([1, 1, 4]), st.integers(0, 4)),
                max_size=12,
            )
        ):
            time = max(0, time + step)
            rows.append(Arrival(device, time, time + length, x))
    number = draw(st.integers(0, 2**20))
    return interleave(rows, Random(number))


def interleave(rows: list[Arrival], random: Random) -> list[Arrival]:
    """Return the rows in any order that keeps that of each device."""
    queues = {device: [row for row in rows if row.device == device] for device, *_ in rows}
    found: list[Arrival] = []
    while queues:
        device = random.choice(sorted(queues))
        for _ in range(min(len(queues[device]), random.choice((1, 1, 2, 6)))):
            found.append(queues[device].pop(0))
        queues = {device: left for device, left in queues.items() if left}
    return found


def make_settings(delay: int, *, adjusts: bool) -> rxt.AdvanceTimeSettings:
    """Return the settings of a stream in which each row makes a CTI."""
    generation = rxt.AdvanceTimeGenerationSettings(1, delay)
    policy = ADJUST if adjusts else rxt.AdvanceTimePolicy.DROP
    return rxt.AdvanceTimeSettings(generation, policy=policy)


def list_rows(stream: rxt.Streamable) -> list[tuple[Any, ...]]:
    """Return the results of a stream, in an order of their own."""
    return sorted(map(tuple, stream.to_polars(time="ticks").rows()), key=repr)


def compute_alone(query: Query, rows: list[Arrival], given: Any) -> list[tuple[Any, ...]]:
    """Return the results of each device's rows, computed without the others."""
    results: list[tuple[Any, ...]] = []
    for device in {row.device for row in rows}:
        events = [row.to_event() for row in rows if row.device == device]
        alone = rxt.from_events(events, schema=FIELDS, advance_time=given, unit="ticks")
        results += list_rows(query(alone))
    return sorted(results, key=repr)


def read_list(
    query: Query, rows: list[Arrival], given: Any, random: Random, silent: Silent = None
) -> Any:
    """Read the rows as a list of events."""
    events = [row.to_event() for row in rows]
    return list_rows(query(_from_events(events, given, random, silent)))


def read_iterator(
    query: Query, rows: list[Arrival], given: Any, random: Random, silent: Silent = None
) -> Any:
    """Read the rows one by one."""
    events = (row.to_event() for row in rows)
    return list_rows(query(_from_events(events, given, random, silent)))


def _from_events(events: Any, given: Any, random: Random, silent: Silent) -> rxt.Streamable:
    return rxt.from_events(
        events, schema=FIELDS, advance_time=given, clock="k", silent_after=silent,
        spread=random.choice((None, 0, 9)), unit="ticks",
    )  # fmt: skip


def read_frame(
    query: Query, rows: list[Arrival], given: Any, random: Random, silent: Silent = None
) -> Any:
    """Read the rows as a frame, in batches of a few rows."""
    columns = {"at": int, "until": int, **FIELDS}
    frame = pl.DataFrame([row.to_dict() for row in rows], columns)
    stream = rxt.from_polars(
        frame, start="at", end="until", advance_time=given, clock="k", silent_after=silent,
        batch_rows=random.choice((1, 3, 100)), spread=random.choice((None, 0, 9)),
    )  # fmt: skip
    return list_rows(query(stream))


def push_rows(
    query: Query, rows: list[Arrival], given: Any, random: Random, silent: Silent = None
) -> Any:
    """Push the rows, one by one and several at once."""
    sink = rxt.Collect()
    source = make_source(given, random, silent)
    with query(source.stream).run(sink, scheduler=choose_clock(silent)):
        push_some(source, rows, random)
        source.close()
    return read_sink(sink)


def choose_clock(silent: Silent) -> TestScheduler | None:
    """Return a clock that stands still, where a clock may say that a device is silent."""
    return None if silent is None else TestScheduler()


def make_source(
    given: rxt.AdvanceTimeSettings, random: Random, silent: Silent = None
) -> rxt.PushSource:
    """Return a source of such rows."""
    assert given.generation is not None
    return rxt.PushSource(
        "rows", schema=FIELDS, unit="ticks", start="at", end="until",
        delay=given.generation.delay, policy=given.policy, clock="k", silent_after=silent,
        spread=random.choice((None, 0, 9)), batch_rows=random.choice((1, 1, 5)),
        hand_off=random.choice(HAND_OFFS),
    )  # fmt: skip


def push_some(source: rxt.PushSource, rows: list[Arrival], random: Random) -> None:
    """Push rows, one by one and several at once."""
    left = [row.to_dict() for row in rows]
    while left:
        count = random.choice((1, 1, 2, 7))
        part, left = left[:count], left[count:]
        if random.random() < 0.3:
            source.push(pl.DataFrame(part, {"at": int, "until": int, **FIELDS}))
        else:
            source.push(part[0] if len(part) == 1 else part)


def read_sink(sink: rxt.Collect) -> list[tuple[Any, ...]]:
    """Return the rows that a sink has, in an order of their own."""
    return sorted(map(tuple, sink.to_polars(time="ticks").rows()), key=repr)


def resume_twice(
    query: Query, rows: list[Arrival], given: Any, random: Random, silent: Silent = None
) -> Any:
    """Push the rows into runs that are stopped and resumed."""
    results: list[tuple[Any, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        cuts = sorted(random.choices(range(len(rows) + 1), k=2))
        for number, (begin, end) in enumerate(pairwise([0, *cuts, len(rows)])):
            sink, source = rxt.Collect(), make_source(given, random, silent)
            process = query(source.stream).run(
                sink, resume=Path(folder, "state"), scheduler=choose_clock(silent)
            )
            push_some(source, rows[begin:end], random)
            if number == len(cuts):
                source.close()
            process.stop()
            results += read_sink(sink)
    return sorted(results, key=repr)


def replay(
    query: Query, rows: list[Arrival], given: Any, random: Random, silent: Silent = None
) -> Any:
    """Record a run, and replay the recording."""
    with tempfile.TemporaryDirectory() as folder:
        source, path = make_source(given, random, silent), Path(folder, "recording")
        clock = choose_clock(silent)
        with query(source.stream).run(rxt.Collect(), record=path, scheduler=clock):
            push_some(source, rows, random)
            source.close()
        return list_rows(query(rxt.replay(path)["rows"]))


WAYS = [read_list, read_iterator, read_frame, push_rows, resume_twice, replay]


@some_queries
@settings(max_examples=max(10, settings().max_examples // 8))
@given(rows=arrivals(), number=st.integers(0, 2**20))
def test_results_of_a_device_are_those_of_its_rows_alone(
    name: str, rows: list[Arrival], number: int
) -> None:
    """By every way in, with any lags between the devices, over stops, and replayed."""
    random = Random(number)
    given = make_settings(random.choice((0, 2, 6)), adjusts=random.random() < 0.5)
    expected = compute_alone(QUERIES[name], rows, given)
    way = WAYS[number % len(WAYS)]
    assert way(QUERIES[name], rows, given, random) == expected, way.__name__


@some_queries
@settings(max_examples=max(10, settings().max_examples // 8))
@given(rows=arrivals(), number=st.integers(0, 2**20))
def test_what_is_final_for_a_device_leaves_at_the_end(
    name: str, rows: list[Arrival], number: int
) -> None:
    """Also in a stream whose time does not end with it, whatever others hold open.

    With one time a complete row waits for open ones that began before it; here it does not.
    """
    random = Random(number)
    generation = rxt.AdvanceTimeGenerationSettings(
        1, random.choice((0, 2, 6)), advance_to_infinity_on_shutdown=False
    )
    given = rxt.AdvanceTimeSettings(generation, policy=rxt.AdvanceTimePolicy.DROP)
    query, devices = QUERIES[name], {row.device for row in rows}
    alone = [[row for row in rows if row.device == device] for device in devices]
    found = [read_list(query, own, given, random) for own in alone]
    expected = sorted(chain.from_iterable(found), key=repr)
    assert not Counter(compute_alone(query, rows, given)) - Counter(expected)
    way = random.choice((read_list, read_iterator, read_frame))
    assert way(query, rows, given, random) == expected, way.__name__


@pytest.mark.parametrize("name", MIXED)
@settings(max_examples=max(10, settings().max_examples // 8))
@given(rows=arrivals(), others=arrivals(), number=st.integers(0, 2**20))
def test_a_stream_with_one_time_is_there_for_each_device(
    name: str, rows: list[Arrival], others: list[Arrival], number: int
) -> None:
    """Joined on the device: the result of a device is that of its rows in both streams."""
    random = Random(number)
    given, query = make_settings(6, adjusts=False), MIXED[name]
    in_order = sorted(others, key=lambda each: each.start)
    expected: list[tuple[Any, ...]] = []
    for device in {row.device for row in rows} | {row.device for row in others}:
        one, other = (
            rxt.from_events(
                [row.to_event() for row in each if row.device == device],
                schema=FIELDS, advance_time=given, name=label,
            )
            for each, label in ((rows, "rows"), (in_order, "others"))
        )  # fmt: skip
        expected += list_rows(query(one, other))
    events = [row.to_event() for row in rows]
    devices = rxt.from_events(
        events if random.random() < 0.5 else iter(events), schema=FIELDS, advance_time=given,
        clock="k", behind=10**6, spread=random.choice((None, 0, 9)), name="rows",
    )  # fmt: skip
    fixed = rxt.from_events(
        [row.to_event() for row in in_order], schema=FIELDS, advance_time=given, name="others"
    )
    assert list_rows(query(devices, fixed)) == sorted(expected, key=repr)


@pytest.mark.parametrize("name", FLEET)
@settings(max_examples=max(10, settings().max_examples // 8))
@given(rows=arrivals(), number=st.integers(0, 2**20))
def test_synchronized_devices_are_one_stream(name: str, rows: list[Arrival], number: int) -> None:
    """By every way in: what the fleet gives is what its rows give, sorted by time."""
    random, devices = Random(number), {row.device for row in rows}
    # none is late, for its own device or for the fleet
    given = make_settings(60, adjusts=False)
    within, known = 10**4, random.choice((None, len(devices) or None))
    events = [row.to_event() for row in sorted(rows, key=lambda row: row.start)]
    in_order = rxt.from_events(events, schema=FIELDS, advance_time=0)

    def query(stream: rxt.Streamable) -> rxt.Streamable:
        return FLEET[name](stream.synchronize(within, devices=known))

    way = WAYS[number % len(WAYS)]
    expected = list_rows(FLEET[name](in_order))
    assert way(query, rows, given, random) == expected, way.__name__


class Limits(NamedTuple):
    """How one time is made of the times of devices."""

    delay: int
    within: int
    idle_after: int | None
    silent_after: int | None
    devices: int | tuple[str, ...] | None
    adjusts: bool


class FleetModel:
    """The time of a fleet, event by event, as the documents define it.

    ``by_wall``: a clock that stands still says who is silent.
    """

    def __init__(self, limits: Limits, *, trusts_all: bool, by_wall: bool) -> None:
        self.limits, self.trusts_all, self.by_wall = limits, trusts_all, by_wall
        self.own: dict[str, int] = {}
        self.highest: dict[str, int] = {}
        # the fleet's time when a device was last seen
        self.seen: dict[str, int] = {}
        self.alone: dict[str, bool] = {}
        self.cti = rxt.MIN_TIME
        self.fleet: int | None = None

    def take(self, row: Arrival) -> tuple[bool, int]:
        """Return True if the row is in time for its device, and the CTI of the fleet before it."""
        of, device, before = self.limits, row.device, self.cti
        cti = self.own.get(device, rxt.MIN_TIME)
        if self.fleet is not None and of.silent_after is not None and not self.by_wall:
            seen = self.seen.get(device)
            if seen is None or self.fleet - seen >= of.silent_after:
                cti = max(cti, self.fleet - of.silent_after)
        in_time = row.start >= cti
        self.own[device] = max(cti, row.start - of.delay)
        self.highest[device] = max(row.start, self.highest.get(device, rxt.MIN_TIME))
        ranked = sorted(self.highest.values(), reverse=True)
        if self.trusts_all or len(ranked) > 1:
            self.fleet = max(ranked[0 if self.trusts_all else 1], self.fleet or rxt.MIN_TIME)
        self.seen[device] = row.start if self.fleet is None else self.fleet
        self.alone[device] = self.fleet is None
        self.advance()
        return in_time, before

    def advance(self) -> None:
        """Advance the CTI of the fleet as far as the devices allow."""
        of = self.limits
        if self.fleet is not None:
            self.cti = max(self.cti, self.fleet - of.delay - of.within)
        awaited = of.devices
        if awaited is None or (isinstance(awaited, int) and len(self.own) < awaited):
            return
        if isinstance(awaited, tuple) and not {*awaited} <= {*self.own}:
            return
        allowed = [self.find_limit(device) for device in self.own]
        self.cti = max([self.cti, min([each for each in allowed if each is not None], default=0)])

    def find_limit(self, device: str) -> int | None:
        """Return the CTI that a device allows at most; None if it is not waited for."""
        of, own, fleet = self.limits, self.own[device], self.fleet
        if fleet is None:
            return own
        seen, reached = self.seen[device], fleet - of.delay
        # a device that was there before the fleet had a time was seen at its CTI
        since = reached - own if self.alone[device] else fleet - seen
        is_silent = (
            of.silent_after is not None
            and not self.by_wall
            and since >= of.silent_after
            and own < reached - of.silent_after
        )
        is_idle = of.idle_after is not None and own <= reached - of.idle_after
        if not is_silent and not is_idle:
            return own
        if of.silent_after is None or (of.idle_after or 10**9) <= of.silent_after:
            return None
        return reached - of.silent_after


def find_in_time(
    rows: list[Arrival], limits: Limits, *, trusts_all: bool, by_wall: bool
) -> list[tuple[Any, ...]]:
    """Return the rows that are in time for the fleet, adjusted if they may be."""
    model = FleetModel(limits, trusts_all=trusts_all, by_wall=by_wall)
    found: list[tuple[Any, ...]] = []
    for row in rows:
        in_time, cti = model.take(row)
        if not in_time:
            continue
        start = max(row.start, cti) if limits.adjusts else row.start
        if cti <= start < row.end:
            found.append((start, row.end, row.device, row.x))
    return sorted(found, key=repr)


@settings(max_examples=4 * settings().max_examples)
@given(rows=arrivals(), number=st.integers(0, 2**20))
def test_rows_are_judged_by_the_time_of_the_fleet_one_by_one(
    rows: list[Arrival], number: int
) -> None:
    """However they come: in any batches, over stops, and in a replay."""
    random, devices = Random(number), sorted({row.device for row in rows})
    limits = Limits(
        random.choice((0, 2, 6)), random.choice((0, 5, 20)), random.choice((None, 7, 30)),
        random.choice((None, None, 12)),
        random.choice((None, len(devices) or 1, len(devices) + 1, tuple(devices) or 1, ("a",))),
        random.random() < 0.5,
    )  # fmt: skip
    way = WAYS[number % len(WAYS)]
    # lists and frames are not compared with the wall clock
    trusts_all = way not in {read_list, read_frame}
    by_wall = way in {push_rows, resume_twice, replay}
    expected = find_in_time(rows, limits, trusts_all=trusts_all, by_wall=by_wall)

    def query(stream: rxt.Streamable) -> rxt.Streamable:
        policy = ADJUST if limits.adjusts else rxt.AdvanceTimePolicy.DROP
        return stream.synchronize(
            limits.within, limits.idle_after, devices=limits.devices, policy=policy
        )

    given = make_settings(limits.delay, adjusts=False)
    assert way(query, rows, given, random, limits.silent_after) == expected, way.__name__


@st.composite
def abreast(draw: st.DrawFn) -> tuple[list[list[Arrival]], int]:
    """Draw rows of devices at about the same time, as they come together, and the delay."""
    in_order, time = draw(st.booleans()), draw(st.integers(0, 20))
    rows = []
    for device, step, x in draw(
        st.lists(
            st.tuples(st.sampled_from("abc"), st.sampled_from((0, 1, 3, 12)), st.integers(0, 4)),
            max_size=20,
        )
    ):
        time += step
        start = time if in_order else max(0, time - draw(st.integers(0, 22)))
        rows.append(Arrival(device, start, start + 1, x))
    parts = []
    while rows:
        count = draw(st.sampled_from((1, 1, 3, 20)))
        parts.append(rows[:count])
        del rows[:count]
    return parts, draw(st.sampled_from((0, 3, 8, 20)))


class WindowModel:
    """Windows of seven ticks by device, of rows that are judged one by one."""

    def __init__(self, delay: int) -> None:
        self.delay = delay
        self.ctis: dict[str, int] = {}
        self.windows: dict[tuple[int, str], list[int]] = {}
        self.late = self.largest_lateness = 0

    def add(self, row: Arrival) -> None:
        """Take a row."""
        cti = self.ctis.get(row.device, rxt.MIN_TIME)
        if row.start < cti:
            self.late += 1
        else:
            self.windows.setdefault((row.start // 7 * 7, row.device), []).append(row.x)
        if cti > rxt.MIN_TIME:
            self.largest_lateness = max(self.largest_lateness, cti + self.delay - row.start)
        self.ctis[row.device] = max(cti, row.start - self.delay)

    def list_results(self, until: int) -> list[tuple[Any, ...]]:
        """Return the results of the windows that end by a time."""
        return sorted(
            (start, start + 7, device, len(values), sum(values))
            for (start, device), values in self.windows.items()
            if start + 7 <= until
        )


# the fourth row is in a window before that of the first one
EARLIER_WINDOW = [("b", 40), ("a", 40), ("b", 41), ("a", 22), ("b", 48), ("a", 48), ("b", 49)]


@pytest.mark.parametrize("way", ["rows", "frames", "batches"])
@settings(max_examples=100)
@example(drawn=([[Arrival(k, at, at + 1, 1)] for k, at in EARLIER_WINDOW], 20))
@given(drawn=abreast())
def test_results_leave_with_the_rows_that_make_them_final(
    way: str, drawn: tuple[list[list[Arrival]], int]
) -> None:
    """However many rows advance their devices together, which are computed together here."""
    parts, delay = drawn
    model, sink = WindowModel(delay), rxt.Collect()
    options: dict[str, Any] = {"schema": FIELDS, "clock": "k", "spread": 10_000}

    def list_found() -> list[tuple[Any, ...]]:
        return sorted(sink.to_polars(time="ticks").rows())

    def feed() -> Iterator[list[Arrival]]:
        for part in parts:
            for row in part:
                model.add(row)
            yield part
            started.wait()
            check_counters(process, model)
            until = min(model.ctis.values())
            found = list_found()
            assert [row for row in found if row[1] <= until] == model.list_results(until)

    started = threading.Event()
    pushed = rxt.PushSource("r", delay=delay, **options)
    batches = rxt.from_events(map(make_batch, feed()), advance_time=delay, unit=None, **options)
    stream = batches if way == "batches" else pushed.stream
    process = count_and_sum(stream.group_by("k").tumbling_window(7)).run(sink)
    started.set()
    if way != "batches":
        for part in feed():
            rows = [{"time": row.start, "k": row.device, "x": row.x} for row in part]
            pushed.push(rows if way == "rows" else pl.DataFrame(rows))
            clocks = process.diagnostics().streams[0].clocks
            assert clocks is not None
            assert sorted(each.cti for each in clocks.furthest) == sorted(model.ctis.values())
        pushed.close()
    process.wait()
    check_counters(process, model)
    assert list_found() == model.list_results(rxt.MAX_TIME)


def make_batch(rows: list[Arrival]) -> rxt.EventBatch:
    """Return rows as a batch of points."""
    payload = pl.DataFrame({"k": [row.device for row in rows], "x": [row.x for row in rows]})
    return rxt.EventBatch.of_rows(
        np.array([row.start for row in rows]), None, payload, rxt.MIN_TIME
    )


def check_counters(process: rxt.Process, model: WindowModel) -> None:
    """Fail unless the counters of a stream are those of the model."""
    stream = process.diagnostics().streams[0]
    assert sum(stream.late.values()) == model.late
    assert stream.largest_lateness == model.largest_lateness


def test_a_session_does_not_wait_for_that_of_another_device() -> None:
    """Although the output CTI of both waits at the start of the open one."""
    options: dict[str, Any] = {"schema": FIELDS, "delay": 0, "clock": "k", "spread": 1_000}
    source, sink = rxt.PushSource("r", **options), rxt.Collect()
    sessions = source.stream.group_by("k").session_window(10).aggregate(n=agg.count())
    with sessions.run(sink) as process:
        for time in range(40):
            source.push({"time": time, "k": "b", "x": 1})
            if time < 3:
                source.push({"time": time, "k": "a", "x": 1})
            else:
                source.advance(time, device="a")
            assert [row["k"] for row in sink.to_dicts()] == ["a"] * (time >= 12)
        process.stop()
