"""Sources that programs push into: each row of a push has a verdict."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import sys
import threading
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from reactivex.testing import TestScheduler

import rxtemporal as rxt

SCHEMA = {"device": str, "temp": float}


def make_source(**options):
    """Return a source of readings."""
    return rxt.PushSource("readings", schema=SCHEMA, start="ts", **options)


def reading(time, device="a", temp=1.0):
    """Return a row."""
    return {"ts": time, "device": device, "temp": temp}


def starts(results):
    """Return the starts of the results, in order."""
    return sorted(results.to_polars().get_column("start_time").to_list())


@pytest.fixture
def results():
    """Return a sink."""
    return rxt.Collect()


def test_a_row_is_accepted_or_late(results):
    """A row in time is accepted; one before the CTI is late, with its reason and its distance."""
    source = make_source(delay=5)
    with source.stream.run(results):
        assert source.push(reading(100)) == rxt.Verdict(accepted=1, cti=95)
        verdict = source.push(reading(90))
        source.close()
    (late,) = verdict.late
    assert (late.event, late.reason, late.cti, late.by, late.index) == (
        rxt.PointEvent(90, {"device": "a", "temp": 1.0}),
        rxt.LateReason.DROPPED,
        95,
        5,
        0,
    )
    assert (verdict.accepted, verdict.rows, verdict.cti) == (0, 1, 95)
    assert starts(results) == [100]


def test_times_are_told_as_they_were_given(results):
    """The verdict's CTI and its late events have datetimes if the source gives datetimes."""
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    source = make_source(delay=timedelta(minutes=1))
    with source.stream.run(results):
        assert source.push(reading(noon)).cti == noon - timedelta(minutes=1)
        rows = [reading(noon + timedelta(seconds=n)) for n in range(40)]
        early = noon - timedelta(hours=1)
        verdict = source.push([*rows, reading(early)])
        assert verdict.cti == noon + timedelta(seconds=39 - 60)
        assert [(each.event.start_time, each.index) for each in verdict.late] == [(early, 40)]
        source.close()


@pytest.mark.parametrize("many", [2, 50])
def test_many_rows_have_one_verdict(results, many):
    """A list has one verdict, with the index of each row that is not accepted."""
    source = make_source()
    rows = [reading(100 + n) for n in range(many)]
    with source.stream.run(results):
        verdict = source.push([*rows, reading(7), {"ts": 8}, rxt.Cti(200)])
        source.close()
    assert (verdict.accepted, verdict.cti) == (many, 200)
    assert [each.index for each in verdict.late] == [many]
    assert [(each.index, each.row) for each in verdict.rejected] == [(many + 1, {"ts": 8})]
    assert verdict.rows == many + 2
    assert starts(results) == [100 + n for n in range(many)]


@pytest.mark.parametrize(
    "make",
    [
        lambda frame: frame,
        lambda frame: frame.to_arrow(),
        lambda frame: frame.to_dicts(),
        lambda frame: rxt.EventBatch.from_polars(frame, start="ts", end=None, cti=140),
        lambda frame: (rxt.PointEvent(row.pop("ts"), row) for row in frame.to_dicts()),
    ],
    ids=["frame", "arrow", "dicts", "batch", "events"],
)
def test_all_forms_of_rows_are_taken(results, make):
    """Frames, Arrow tables, dicts, batches and events give the same rows."""
    frame = pl.DataFrame([reading(100 + n, f"d{n % 3}", 0.5 * n) for n in range(40)])
    source = make_source(delay=10)
    with source.stream.run(results):
        assert source.push(reading(95)).accepted == 1
        verdict = source.push(make(frame))
        assert source.push(reading(130)).accepted == 1
        source.close()
    assert (verdict.accepted, verdict.late, verdict.rejected) == (40, (), ())
    assert starts(results) == sorted([95, *range(100, 140), 130])


def test_edges_and_batches_mix(results):
    """Open rows stay open while batches of complete rows pass; edges in a batch are edges."""
    source = make_source(end="until", shape=rxt.EventShape.EDGE, delay=10)
    edges = rxt.EventBatch.from_dicts(
        [{"start_time": 120, "end_time": None, "device": "b", "temp": 2.0}], schema=SCHEMA
    )
    edges = edges.replace(edge=edges.edge + 7)
    with source.stream.run(results):
        assert source.push({**reading(100), "until": None}).accepted == 1
        rows = rxt.EventBatch.from_dicts([{"start_time": 110, "device": "c", "temp": 3.0}])
        assert source.push(rows).accepted == 1
        assert source.push(edges).accepted == 1
        assert source.push({**reading(100), "until": 130}).accepted == 1
        assert source.push({**reading(120, "b", 2.0), "until": 140}).accepted == 1
        verdict = source.push({**reading(120, "b", 2.0), "until": 150})
        source.close()
    assert [each.reason for each in verdict.late] == [rxt.LateReason.NO_OPEN_ROW]
    lifetimes = results.to_polars().select("start_time", "end_time").sort("start_time").rows()
    assert lifetimes == [(100, 130), (110, 111), (120, 140)]


def test_an_end_edge_closes_a_row_of_its_own_input(results):
    """Two inputs may have the same row open; each ends its own."""
    source = make_source(end="until", shape=rxt.EventShape.EDGE)
    with source.stream.run(results), source.input("one") as one, source.input("two") as two:
        one.push({**reading(5), "until": None})
        two.push({**reading(5), "until": None})
        assert one.push({**reading(5), "until": 8}).accepted == 1
        assert len(one.push({**reading(5), "until": 9}).late) == 1
        assert two.push({**reading(5), "until": 7}).accepted == 1
        source.close()
    assert sorted(results.to_polars().get_column("end_time").to_list()) == [7, 8]


def test_a_count_numbers_as_many_rows_as_there_are(results):
    """A count numbers each item of a push, rejected ones too, and goes on behind them."""
    source = make_source(delay=100)
    with source.stream.run(results), source.input("one") as one:
        numbers = count(7)
        assert one.push([reading(5), {"ts": 5}, reading(6)], seq=numbers).accepted == 2
        assert one.push(reading(7), seq=numbers).accepted == 1
        assert next(numbers) == 11
        assert one.push([reading(5)] * 4, seq=range(7, 11)).duplicates == 3
        for numbers in (count(-1), count(2**63 - 1), count(5, -4), count(1.5)):
            with pytest.raises(rxt.errors.ArgumentError, match="seq is a number from 0 on"):
                one.push([reading(5)] * 3, seq=numbers)
        source.close()


def test_a_source_knows_its_room():
    """A push that would wait in front of a full hand-off can be avoided."""
    release = threading.Event()
    source = make_source(hand_off=rxt.HandOff(4))
    assert source.has_room(9)
    process = source.stream.run(lambda batch: release.wait(10))
    try:
        assert source.has_room(4)
        assert not source.has_room(5)
        assert not source.has_room(1, waiting=4)
        while source.has_room(1):
            source.push(reading(100 + source.stats().accepted))
    finally:
        release.set()
        process.stop()
    assert source.has_room(9)


def test_numbers_that_have_come_before_are_duplicates(results):
    """A repeat of a number is counted and left out, within its input."""
    source = make_source(delay=100)
    with source.stream.run(results), source.input("one") as one:
        assert one.push(reading(7), seq=7).accepted == 1
        assert one.push(reading(7), seq=7) == rxt.Verdict(duplicates=1, cti=-93)
        assert one.push([reading(n) for n in range(50)], seq=range(50)).duplicates == 1
        assert source.push(reading(7), seq=7).accepted == 1
        source.close()
    assert len(starts(results)) == 51


def test_counters_of_rows_in_no_log_outlive_a_stop(tmp_path):
    """Also if rejected rows and duplicates are all that came since the last checkpoint."""
    found = []
    for life in range(3):
        source = make_source(delay=100)
        with source.stream.run(rxt.Collect(), resume=tmp_path / "state") as process:
            stats = source.stats()
            found.append((stats.accepted, stats.rejected, stats.duplicates))
            source.push(reading(7), seq=7)
            if life == 1:
                source.push([reading(8, temp="hot")] * 3)
            process.stop()
    assert found == [(0, 0, 0), (1, 0, 0), (1, 3, 1)]


def test_a_run_to_which_nothing_has_come_is_not_saved_again(tmp_path):
    """Also if its checkpoint has counters of rows that are in no log."""
    saves = []

    class Counting(rxt.Collect):
        def save(self):
            saves[-1] += 1
            return super().save()

    for life in range(3):
        saves.append(0)
        source = make_source(delay=100)
        with source.stream.run(Counting(), resume=tmp_path / "state") as process:
            if life == 0:
                source.push([reading(7), reading(8, temp="hot")])
            process.stop()
    assert saves[1:] == [0, 0]


@pytest.mark.parametrize("in_batches", [False, True])
def test_a_device_may_begin_to_count_anew(results, tmp_path, in_batches):
    """A number that is there, on a row later than all before, is that of another row, and told.

    So it is after a restart from the log and from a checkpoint; repeats stay repeats.
    """
    fates = []
    lives = [range(100), range(100, 160), range(130, 150), range(160, 200)]
    for life, times in enumerate(lives):
        source = make_source(delay=100)
        rows = [reading(time) for time in times]
        numbers = [time % 100 for time in times]
        with source.stream.run(results, resume=tmp_path / "state") as process:
            if in_batches:
                found = [source.push(rows, seq=numbers, input="device")]
            else:
                found = [
                    source.push(row, seq=number, input="device")
                    for row, number in zip(rows, numbers, strict=True)
                ]
            fates.append(
                tuple(
                    sum(getattr(each, name) for each in found)
                    for name in ("accepted", "duplicates", "unsure")
                )
            )
            assert source.stats().unsure == source.stats().inputs["device"].unsure
            assert source.stats().unsure == (0 if life == 0 else 1)
            process.stop()
    assert fates == [(100, 0, 0), (60, 0, 1), (0, 20, 0), (40, 0, 0)]


def test_no_row_is_lost_in_many_gaps(results):
    """The numbers of rows that come late are new, in however many gaps they were missing."""
    source = make_source(delay=10**6)
    odd, even = range(1, 4_000, 2), range(0, 4_000, 2)
    with source.stream.run(results):
        assert source.push([reading(n) for n in odd], seq=odd).accepted == len(odd)
        verdict = source.push([reading(n) for n in even], seq=even)
        assert (verdict.accepted, verdict.duplicates, verdict.unsure) == (len(even), 0, 0)
        again = [n for pair in zip(even, odd, strict=True) for n in pair]
        assert source.push([reading(n) for n in again], seq=again).duplicates == 4_000
        source.close()
    assert len(starts(results)) == 4_000


def test_a_late_row_shows_its_time_as_it_came(results):
    """An ISO text keeps its offset, in a dict and in a list of many."""
    source = rxt.PushSource("rows", schema={"x": int}, start="time", delay="0s")
    with source.stream.run(results):
        for time in ("12:00:00", "12:00:05"):
            source.push({"time": f"2026-05-01T{time}+02:00", "x": 1})
        row = {"time": "2026-05-01T12:00:01+02:00", "x": 2}
        verdicts = [source.push(row), source.push([row]), source.push([row, row])]
        source.close()
    shown = {repr(late.event) for verdict in verdicts for late in verdict.late}
    assert shown == {"PointEvent(2026-05-01T12:00:01+02:00, {'x': 2})"}


def test_a_late_row_that_may_be_a_repeat_is_told(results, monkeypatch):
    """With more gaps than are remembered, a row in a forgotten one is accepted, late or in time."""
    monkeypatch.setattr("rxtemporal.ingress.pushed_inputs.RANGES", 2)
    source = make_source(delay=5)
    with source.stream.run(results):
        for number in (1, 3, 5, 7):
            assert source.push(reading(number), seq=number).unsure == 0
        verdict = source.push(reading(2), seq=2)
        assert (verdict.accepted, verdict.unsure) == (1, 1)
        verdict = source.push([reading(0), reading(4)], seq=[0, 4])
        assert (verdict.accepted, len(verdict.late), verdict.unsure) == (1, 1, 1)
        verdict = source.push(reading(1), seq=1)
        assert (len(verdict.late), verdict.unsure) == (1, 1)
        assert source.stats().unsure == 3
        source.close()


def test_a_field_has_the_number(results):
    """With seq= the numbers are in the rows; a rejected row can come again, corrected."""
    source = rxt.PushSource("r", schema={"n": int}, start="ts", seq="n", delay=100)
    with source.stream.run(results):
        assert source.push({"ts": 1, "n": 1}).accepted == 1
        assert source.push([{"ts": 1, "n": 1}, {"ts": "no time", "n": 2}]).rows == 2
        verdict = source.push([{"ts": 1, "n": 2}, {"ts": 1, "n": 1}])
        source.close()
    assert (verdict.accepted, verdict.duplicates) == (1, 1)


@pytest.mark.parametrize("count", [1, 3, 40])
def test_rows_without_a_number_are_no_duplicates(results, tmp_path, count):
    """They are accepted again and again, also after a restart; those with a number are not."""
    rows = [{"ts": n, "temp": 1.0, "n": n if n % 2 else None} for n in range(count)]
    pushed = [(0, 0)]
    for _ in range(2):
        source = rxt.PushSource("r", schema={"temp": float}, start="ts", seq="n", delay=100)
        with source.stream.run(results, resume=tmp_path / "state") as process:
            for item in (rows, rows, {"ts": 0, "temp": 1.0}):
                verdict = source.push(item)
                pushed.append((verdict.accepted, verdict.duplicates))
            process.stop()
    even, odd = count - count // 2, count // 2
    assert pushed[1:] == [(count, 0), (even, odd), (1, 0), (even, odd), (even, odd), (1, 0)]


def test_one_bad_row_does_not_end_the_run(results):
    """A row that cannot be read is in the verdict, and the run takes the next one."""
    source = make_source()
    with source.stream.run(results) as process:
        verdict = source.push({**reading(5), "temp": "warm"})
        assert [each.index for each in verdict.rejected] == [0]
        assert source.push(reading(5)).accepted == 1
        assert not process.wait(0)
        source.close()
    assert starts(results) == [5]


def test_rejects_may_raise(results):
    """With RAISE a push with a row that cannot be read raises, and none of its rows is accepted."""
    source = make_source(rejects=rxt.Rejects.RAISE)
    with source.stream.run(results):
        with pytest.raises(rxt.SchemaError, match=r"row 1 of a push into 'readings'"):
            source.push([reading(5), {"ts": 6}])
        source.close()
    assert starts(results) == []


# Runs ---------------------------------------------------------------------------------------------


def test_a_push_needs_a_run(results):
    """Before the run, after its end and after close, a push raises and says why."""
    source = make_source()
    with pytest.raises(rxt.ProcessEndedError, match="none has begun"):
        source.push(reading(5))
    process = source.stream.run(results)
    process.stop()
    with pytest.raises(rxt.ProcessEndedError, match="stopped"):
        source.push(reading(5))
    again = source.stream.run(rxt.Collect())
    assert source.push(reading(5)).accepted == 1
    source.close()
    again.wait(5)
    with pytest.raises(rxt.ProcessEndedError, match="closed"):
        source.push(reading(5))


def test_a_source_has_one_run_at_a_time(results):
    """A second run is refused, and the first one goes on."""
    source = make_source()
    with source.stream.run(results):
        with pytest.raises(rxt.BindingError, match="one at a time"):
            source.stream.run(rxt.Collect())
        assert source.push(reading(5)).accepted == 1
        source.close()


def test_the_error_of_a_run_reaches_who_pushes():
    """When the sink has failed, the push raises with the sink's error as its cause."""

    def fail(batch):
        raise ValueError("the sink is full")

    source = make_source()
    process = source.stream.run(fail)
    with pytest.raises(rxt.ProcessEndedError) as raised:
        source.push([reading(time) for time in range(3)])
    assert isinstance(raised.value.__cause__, ValueError)
    with pytest.raises(rxt.ProcessEndedError):
        source.push(reading(5))
    with pytest.raises(ValueError, match="full"):
        process.wait(5)


def test_a_closed_source_ends_the_next_run_at_once(results):
    """A source that was closed before its run completes it."""
    source = make_source()
    source.close()
    with source.stream.run(results) as process:
        assert process.wait(5)


@pytest.mark.parametrize("when_full", rxt.WhenFull)
def test_a_hand_off_bounds_pushes(results, when_full):
    """Pushes of any size pass a small hand-off, in order."""
    source = make_source(hand_off=rxt.HandOff(4, when_full))
    with source.stream.run(results):
        for begin in range(0, 60, 20):
            assert source.push([reading(begin + n) for n in range(20)]).accepted == 20
            frame = pl.DataFrame([reading(begin + 20) for n in range(50)])
            assert source.push(frame).accepted == 50
        source.close()
    assert len(starts(results)) == 210


# Restart ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["log", "resume"])
def test_a_restart_has_the_source_as_it_was(results, tmp_path, how):
    """After a restart the source has its CTI, its open rows and its inputs' numbers again."""
    place = {how: tmp_path / "run"}
    source = make_source(end="until", shape=rxt.EventShape.EDGE, delay=10)
    process = source.stream.run(results, **place)
    source.push({**reading(100), "until": None}, input="one", seq=1)
    source.push({**reading(105), "until": None}, input="two", seq=1)
    process.stop()

    source = make_source(end="until", shape=rxt.EventShape.EDGE, delay=10)
    with source.stream.run(results, **place):
        assert source.push({**reading(100), "until": None}, input="one", seq=1).duplicates == 1
        assert len(source.push({**reading(90), "until": None}, input="one", seq=2).late) == 1
        assert source.push({**reading(105), "until": 110}, input="two", seq=2).accepted == 1
        assert len(source.push({**reading(100), "until": 110}, input="two", seq=3).late) == 1
        assert source.push({**reading(100), "until": 111}, input="one", seq=3).accepted == 1
        source.close()


@pytest.mark.parametrize("how", ["log", "resume"])
@pytest.mark.parametrize("first", [datetime(2026, 1, 1, tzinfo=UTC), 1_000])
def test_a_restart_keeps_the_form_of_times(tmp_path, how, first):
    """If rows have come as columns, times are told after a restart as they were given."""
    place = {how: tmp_path / "run"}
    step = timedelta(seconds=1) if isinstance(first, datetime) else 1
    source = make_source()
    process = source.stream.run(rxt.Collect(), **place)
    source.push([reading(first + n * step) for n in range(40)])
    process.stop()
    source, again = make_source(), rxt.Collect()
    process = source.stream.run(again, **place)
    assert source.cti == first + 39 * step
    verdict = source.push([reading(first + n * step) for n in range(40)])
    assert [each.event.start_time for each in verdict.late] == [first + n * step for n in range(39)]
    process.stop()


def test_an_interrupt_loses_nothing(tmp_path):
    """Ctrl-C in the middle of a push ends the run, and the next one has what was accepted."""
    place, once, rows = {"resume": tmp_path / "run"}, [True], []

    def interrupt(row):
        if row["temp"] == 7.0 and once:
            once.clear()
            raise KeyboardInterrupt
        return True

    def run():
        source = make_source()
        sink = lambda batch: rows.extend(batch.payload["temp"].to_list())  # noqa: E731
        return source, source.stream.where(interrupt).run(sink, **place)

    source, process = run()
    for number in (5, 6):
        assert source.push(reading(number, temp=float(number))).accepted == 1
    with pytest.raises(KeyboardInterrupt):
        source.push(reading(7, temp=7.0))
    with pytest.raises(rxt.ProcessEndedError):
        source.push(reading(8))
    process.stop()
    source, process = run()
    source.close()
    process.wait(5)
    assert set(rows) == {5.0, 6.0, 7.0}


# Event loops --------------------------------------------------------------------------------------


def test_event_loops_and_threads_push_at_once(results):
    """Two event loops and a thread push into one source; each push has its own verdict."""
    source = make_source(delay=1_000)

    async def push_all(name):
        pushes = (source.push_async(reading(n % 90), input=name, seq=n % 90) for n in range(100))
        return await asyncio.gather(*pushes)

    verdicts = []
    with source.stream.run(results):
        threads = [
            threading.Thread(target=lambda name=name: verdicts.extend(asyncio.run(push_all(name))))
            for name in ("one", "two")
        ]
        for thread in threads:
            thread.start()
        verdicts += [source.push(reading(n)) for n in range(100)]
        for thread in threads:
            thread.join()
        source.close()
    assert sum(each.accepted for each in verdicts) == len(starts(results)) == 280
    assert sum(each.duplicates for each in verdicts) == 20


def test_an_async_push_needs_a_run(results):
    """A push from an event loop raises as any other does, and its thread ends with the run."""
    source = make_source()

    async def push():
        return await source.push_async(reading(5))

    with pytest.raises(rxt.ProcessEndedError):
        asyncio.run(push())
    before = {*threading.enumerate()}  # those of other tests may still end
    process = source.stream.run(results)
    assert asyncio.run(push()).accepted == 1
    (thread,) = (each for each in {*threading.enumerate()} - before if "pushes" in each.name)
    process.stop()
    thread.join(5)
    assert not thread.is_alive()
    with pytest.raises(rxt.ProcessEndedError):
        asyncio.run(push())


def test_a_push_that_fails_tells_its_event_loop():
    """When a run fails under an async push, its awaiter gets the error."""

    def fail(batch):
        raise ValueError("the sink is full")

    source = make_source()
    source.stream.run(fail)

    async def push():
        for time in range(3):
            await source.push_async(reading(time))

    with pytest.raises(rxt.ProcessEndedError) as raised:
        asyncio.run(push())
    assert isinstance(raised.value.__cause__, ValueError)


class SlowRow(Mapping):
    """Row that can be read once something is there."""

    def __init__(self, fields, there):
        self._fields, self._there = fields, there

    def __getitem__(self, name):
        """Wait."""
        assert self._there.wait(60)
        return self._fields[name]

    def __iter__(self):
        return iter(self._fields)

    def __len__(self):
        return len(self._fields)


@pytest.mark.parametrize("row", [{"ts": 5}, reading(5)], ids=["refused", "accepted"])
def test_a_long_push_lets_others_have_their_turn(results, row):
    """Rows that are read one by one do not hold up other inputs, and their own keeps its order."""
    source, queued, there = make_source(), threading.Event(), threading.Event()
    rows = [SlowRow(reading(5), queued), *[row] * 3_000, SlowRow(reading(6), there)]

    async def push():
        order = []

        async def note(name, item, input):
            verdict = await source.push_async(item, input=input)
            order.append(name)
            there.set()
            return verdict

        verdicts = await asyncio.gather(
            note("long", rows, "a"),
            note("behind it", reading(7), "a"),
            note("another", reading(8), "b"),
            note("many", [reading(9)] * 5, "b"),
            asyncio.to_thread(queued.set),
        )
        return order, verdicts[:4]

    with source.stream.run(results):
        order, verdicts = asyncio.run(push())
        source.close()
    assert order.index("another") < order.index("many")
    assert order.index("another") < order.index("long") < order.index("behind it")
    assert [each.rows for each in verdicts] == [3_002, 1, 1, 5]


def test_a_long_push_that_is_cancelled_holds_nothing_up(results):
    """Nobody waits for it, so its rows are not judged, and the pushes behind it are."""
    source, queued, there = make_source(), threading.Event(), threading.Event()

    async def push():
        slow = SlowRow(reading(5), queued), SlowRow(reading(6), there)
        rows = [slow[0], *[{"ts": 5}] * 3_000, slow[1]]
        long = asyncio.ensure_future(source.push_async(rows, input="a"))
        behind = asyncio.ensure_future(source.push_async(reading(7), input="a"))
        other = asyncio.ensure_future(source.push_async(reading(5), input="b"))
        await asyncio.sleep(0)  # now all three are queued
        await asyncio.to_thread(queued.set)
        assert (await other).accepted == 1
        long.cancel()
        # the thread has taken note of that before it goes on
        await asyncio.sleep(0)
        there.set()
        return await behind

    with source.stream.run(results):
        assert asyncio.run(push()).accepted == 1
        source.close()
    assert 7 in starts(results)


def test_a_subscriber_cannot_end_the_thread_of_async_pushes(results):
    """A subscriber that asks for the end of its thread is logged, and later pushes are answered."""
    source = make_source()
    source.rejects.subscribe(lambda each: sys.exit())

    async def push():
        return [await source.push_async(row) for row in ({"ts": "?"}, reading(5))]

    with source.stream.run(results):
        bad, good = asyncio.run(push())
        source.close()
    assert (len(bad.rejected), good.accepted) == (1, 1)


# Arguments ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delay": -1}, "delay must not be negative"),
        ({"hand_off": 5}, "hand_off is a HandOff"),
        ({"batch_rows": 0}, "batch_rows must be positive"),
        ({"rejects": 5}, "rejects is one of"),
        ({"extra": "all"}, "extra is one of"),
        ({"policy": 5}, "policy is"),
        ({"idle_after": 0}, "idle_after must be positive"),
    ],
)
def test_arguments_are_checked(options, message):
    """An argument that cannot be is refused when the source is made."""
    with pytest.raises(ValueError, match=message):
        make_source(**options)


@pytest.mark.parametrize("seq", [-1, True, "a", 2**63])
def test_numbers_are_checked(results, seq):
    """A number is an int from 0 on."""
    source = make_source()
    with source.stream.run(results):
        with pytest.raises(rxt.ArgumentError, match="seq is a number"):
            source.push(reading(1), seq=seq)
        with pytest.raises(rxt.ArgumentError, match="one number for each of the 2"):
            source.push([reading(1), reading(2)], seq=[1])
        source.close()


# Inputs, clocks and counters ------------------------------------------------------------


def test_a_clock_that_runs_ahead_advances_no_time(results):
    """What is ahead of the wall clock is kept, late or rejected, as said, and counted by input."""
    clock = TestScheduler()
    fates = {}
    for when_ahead in rxt.WhenAhead:
        source = make_source(ahead=timedelta(minutes=1), when_ahead=when_ahead)
        with source.stream.run(rxt.Collect(), scheduler=clock):
            source.push(reading(0))
            one = source.push(reading(100_000_000), input="fast")
            many = [reading(100_000_000 + n) for n in range(50)]
            rest = source.push([reading(1), *many], input="fast")
            fates[when_ahead] = [
                (each.accepted, len(each.late), len(each.rejected), each.cti)
                for each in (one, rest)
            ]
            assert source.stats().inputs["fast"].ahead == 51
            source.close()
    assert fates == {
        rxt.WhenAhead.KEEP: [(1, 0, 0, 0), (51, 0, 0, 1)],
        rxt.WhenAhead.LATE: [(0, 1, 0, 0), (1, 50, 0, 1)],
        rxt.WhenAhead.REJECT: [(0, 0, 1, 0), (1, 0, 50, 1)],
    }


def test_a_replay_does_not_ask_the_clock_again(results, tmp_path):
    """After a restart, a row that was ahead when it came still makes no CTI."""
    clock = TestScheduler()
    source = make_source(ahead=timedelta(minutes=1))
    process = source.stream.run(results, log=tmp_path / "log", scheduler=clock)
    source.push([reading(5), reading(100_000_000)])
    process.stop()
    source = make_source(ahead=timedelta(minutes=1))
    with source.stream.run(results, log=tmp_path / "log"):
        assert source.cti == 5
        assert source.stats().inputs["source"].ahead == 1
        source.close()


def test_a_row_that_was_ahead_is_no_measure_for_a_count_that_begins_anew(results, tmp_path):
    """A number on a row later than the other rows is of another row, also after a replay."""
    clock = TestScheduler()
    for restarts in (False, True):
        given = {"log": tmp_path / f"log {restarts}", "scheduler": clock}
        source = make_source(ahead=timedelta(minutes=1))
        process = source.stream.run(results, **given)
        source.push(reading(10), seq=0)
        source.push(reading(100_000_000), seq=1)
        if restarts:
            process.stop()
            source = make_source(ahead=timedelta(minutes=1))
            process = source.stream.run(results, **given)
        verdict = source.push(reading(20), seq=0)
        assert (verdict.accepted, verdict.unsure, verdict.duplicates) == (1, 1, 0)
        process.stop()


def test_a_handle_ends_the_rows_of_its_input(results):
    """Closing with an end ends the open rows of this input alone; a closed handle takes nothing."""
    source = make_source(end="until", shape=rxt.EventShape.EDGE, delay=10)
    with source.stream.run(results):
        one, two = source.input("one"), source.input("two")
        one.push([{**reading(5), "until": None}, {**reading(7), "until": None}])
        two.push({**reading(5), "until": None})
        verdict = one.close(end=6)
        assert verdict == rxt.Verdict(accepted=2, cti=-3)
        assert one.close(end=9) is None
        with pytest.raises(rxt.BindingError, match="is closed"):
            one.push(reading(9))
        stats = source.stats()
        assert (stats.open_rows, stats.inputs["two"].open_rows) == (1, 1)
        assert (stats.inputs["one"].open, stats.inputs["two"].open) == (False, True)
        two.close(end=20)
        source.close()
    assert sorted(results.to_polars().get_column("end_time").to_list()) == [6, 8, 20]


def test_the_counters_tell_what_came(results):
    """The counters of the source are the sums of its inputs', and diagnostics show them."""
    source = make_source(delay=10)
    with source.stream.run(results) as process:
        source.push([reading(100), reading(95), reading(80)], input="one", seq=[1, 2, 3])
        source.push(
            [reading(100), {**reading(90), "new": 1}, {"ts": 7}], input="two", seq=[1, 2, 2]
        )
        source.push(reading(100), input="one", seq=1)
        stats = source.stats()
        (stream,) = process.diagnostics().streams
        source.close()
    assert (stats.accepted, stats.duplicates, stats.late, stats.rejected) == (4, 1, 1, 1)
    assert (stats.cti, stats.largest_lateness, stats.ignored) == (90, 20, {"new": 1})
    one, two = stats.inputs["one"], stats.inputs["two"]
    assert (one.events, one.late, one.duplicates, one.largest_lateness) == (3, 1, 1, 20)
    assert (two.events, two.rejected, two.largest_lateness, two.lag) == (2, 1, 10, 0)
    assert set(stream.inputs) == {"one", "two"}


def test_late_and_rejected_rows_are_observables(results):
    """Subscribers of the source see the late and the rejected rows of all pushes."""
    source = make_source()
    late, rejected = [], []
    source.late.subscribe(late.append)
    source.rejects.subscribe(rejected.append)
    with source.stream.run(results):
        source.push([reading(9), reading(5), {"ts": 3}], input="one")
        source.push(reading(6))
        source.push("no row")
        source.close()
    assert [each.event.start for each in late] == [5, 6]
    assert [(each.index, each.input) for each in rejected] == [(2, "one"), (0, "source")]


@pytest.mark.parametrize("how", ["log", "resume"])
def test_a_source_that_was_closed_says_so_after_a_restart(results, tmp_path, how):
    """A run of a closed source cannot be continued, and no push is taken in silence."""
    place = {how: tmp_path / "run"}
    source = make_source()
    with source.stream.run(results, **place):
        source.push(reading(5))
        source.close()
    source = make_source()
    if how == "resume":
        with pytest.raises(rxt.CheckpointError, match="completed"):
            source.stream.run(rxt.Collect(), **place)
    else:
        source.stream.run(rxt.Collect(), **place).wait(5)
    with pytest.raises(rxt.ProcessEndedError):
        source.push(reading(6))


@pytest.mark.parametrize("how", ["log", "resume"])
def test_a_bad_payload_costs_its_row_alone(results, tmp_path, how):
    """Rows that no stream can hold are rejected; those before and after them are durable."""
    place = {how: tmp_path / "run"}
    nested: list = []
    for _ in range(2_000):
        nested = [nested]
    bad = [{"temp": Decimal("1e40")}, {"temp": nested}, {"temp": 10**5_000}, {"device": object()}]
    source = make_source()
    process = source.stream.run(results, **place)
    for number, each in enumerate(bad):
        assert source.push(reading(number)).accepted == 1
        assert len(source.push({**reading(number), **each}).rejected) == 1
    process.stop()
    again = rxt.Collect()
    source = make_source()
    with source.stream.run(again, **place):
        assert source.push(reading(9)).accepted == 1
        source.close()
    assert {*starts(results), *starts(again)} == {0, 1, 2, 3, 9}


def test_a_sink_may_push():
    """What a sink pushes from inside a write is accepted."""
    source = make_source()
    seen, verdicts = [], []

    def echo(batch):
        seen.extend(batch.start.tolist())
        if seen == [5]:
            verdicts.append(source.push(reading(20)))

    process = source.stream.run(echo)
    verdicts += [source.push(reading(5)), source.push(reading(9))]
    source.close()
    assert process.wait(5)
    assert [each.accepted for each in verdicts] == [1, 1, 1]
    assert sorted(seen) == [5, 9, 20]


def test_rows_that_come_after_a_stop_are_not_accepted():
    """A list in whose middle the run is stopped is not accepted, since nobody has its rest."""
    source = make_source()
    process = source.stream.run(lambda batch: process.stop() if len(batch) else None)
    with pytest.raises(rxt.ProcessEndedError, match="stopped"):
        source.push([reading(n) for n in range(10)])


@pytest.mark.parametrize("durable", [False, True])
def test_rows_may_wait_for_more(tmp_path, durable):
    """With batch_rows= rows go on when so many wait, and at the end."""
    source, sizes = make_source(batch_rows=4), []
    place = {"resume": tmp_path / "run"} if durable else {}
    with source.stream.run(lambda batch: sizes.append(len(batch)), **place):
        for time in range(1, 11):
            source.push(reading(time))
        source.close()
    assert sum(sizes) == 10
    assert len([each for each in sizes if each]) == 3


@pytest.mark.parametrize("durable", [False, True])
def test_a_heartbeat_gives_on_what_waits(results, tmp_path, durable):
    """Time from the wall clock sends rows on that wait for it, in a run with a log, too."""
    clock = TestScheduler()
    beat = rxt.Heartbeat(every=timedelta(seconds=10), delay=0)
    source = make_source(heartbeat=beat, delay=10**9)
    place = {"resume": tmp_path / "run"} if durable else {}
    process = source.stream.run(results, scheduler=clock, **place)
    assert source.push(reading(5)).cti == 5 - 10**9
    assert source.push(reading(3)).accepted == 1
    clock.advance_to(25)
    assert source.cti == 20_000_000
    assert starts(results) == [3, 5]
    process.stop()


def test_a_push_ends_idleness(results):
    """A source that was declared idle is no longer so with its next row."""
    source, other = make_source(delay=5), rxt.PushSource("other", schema=SCHEMA, start="ts")
    with source.stream.union(other.stream).run(results) as process:
        source.push(reading(10))
        process.declare_idle("readings")
        other.push(reading(20))
        assert source.push(reading(25)).accepted == 1
        other.push(reading(100))
        assert source.push(reading(24)).accepted == 1
        source.close()
        other.close()


@dataclasses.dataclass
class Reading:
    """A row that is not a dict."""

    ts: int
    device: str = "a"
    temp: float = 1.0


def test_one_row_of_any_kind_has_one_number(results):
    """A number may be given with a dataclass or a dict of another class, too."""
    source = make_source()
    with source.stream.run(results):
        assert source.push(Reading(5), seq=1).accepted == 1
        assert source.push(OrderedDict(reading(5)), seq=1).duplicates == 1
        assert source.push([reading(5)], seq=2).accepted == 1
        assert source.push(reading(5), seq=np.int64(3)).accepted == 1
        assert source.push([reading(5)] * 2, seq=np.array([3, 4])).accepted == 1
        assert source.push([reading(5)] * 2, seq=iter([4, 5])).accepted == 1
        source.close()


@pytest.mark.parametrize("name", [5, "", "\ud800", ("a",)])
def test_a_name_that_a_log_cannot_hold_is_refused(name, tmp_path):
    """The push raises, and the run goes on; an input of that name cannot be opened either."""
    source = rxt.PushSource("readings", schema={"n": int})
    process = source.stream.run(rxt.Collect(), resume=tmp_path / "state")
    for refused in (
        lambda: source.push({"time": 1, "n": 1}, input=name),
        lambda: source.input(name),
        lambda: rxt.CtiSynchronizingSubjectAlternate.create_point(0).input(name),
    ):
        with pytest.raises(rxt.errors.ArgumentError, match="a non-empty str of valid Unicode"):
            refused()
    assert source.push({"time": 1, "n": 1}).accepted == 1
    process.stop()


def test_a_verdict_need_not_wait_for_the_disk(tmp_path, results):
    """With durable=False the verdict comes before the rows are in the log, which have them then."""

    async def push(source):
        process = source.stream.run(results, log=tmp_path)
        log = next(iter(process._execution.readers)).event_log
        flush, release = log.flush, threading.Event()
        log.flush = lambda: release.wait(10) and flush()
        try:
            safe = asyncio.ensure_future(source.push_async(reading(6)))
            hasty = await source.push_async(reading(5), durable=False)
            assert not safe.done()
        finally:
            release.set()
        assert (await safe).accepted == hasty.accepted == 1
        process.stop()

    asyncio.run(push(make_source()))
    source = make_source()
    source.stream.run(results, log=tmp_path).stop()
    assert source.stats().accepted == 2


def test_no_input_is_called_as_the_rows_of_none(results):
    """Its sequence numbers would be those of rows that are pushed without an input."""
    source = make_source()
    with source.stream.run(results):
        for push in (
            lambda: source.push(reading(5), input="source"),
            lambda: source.push_all([("source", reading(5))]),
            lambda: source.input("source"),
            lambda: asyncio.run(source.push_async(reading(5), input="source")),
        ):
            with pytest.raises(rxt.ArgumentError, match="no input can be called 'source'"):
                push()
        source.close()


class Named(enum.StrEnum):
    """Names of fields that are members."""

    ROOM = "room"
    TEMP = "temp"


class Loud(str):
    """A text whose own form is not that of a literal."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "exit()"


@pytest.mark.parametrize("make", [np.str_, Named, Loud])
def test_names_of_fields_may_be_of_a_class_of_their_own(make):
    """They are the texts that they hold, one by one and in lists, and so are those of events."""
    schema = {make("room"): str, make("temp"): float}
    source, sink = rxt.PushSource("rows", schema=schema, start="t", unit="ticks"), rxt.Collect()
    process = source.stream.run(sink)
    assert source.push({"t": 1, "room": "hall", "temp": 20}).accepted == 1
    assert source.push([{"t": 2, make("room"): "hall", make("temp"): 21.5}] * 2).accepted == 2
    source.close()
    process.wait()
    assert sink.batch.payload.rows() == [("hall", 20.0), ("hall", 21.5), ("hall", 21.5)]
    events = [rxt.PointEvent(n, {make("room"): "hall", make("temp"): n / 2}) for n in range(3)]
    found = rxt.from_events(events).to_events()
    assert [event.payload["temp"] for event in found] == [0.0, 0.5, 1.0]


def test_a_list_of_one_row_is_the_row(results):
    """Also one whose time is a text; what cannot be read is explained as that of a longer list."""
    source = rxt.PushSource("rows", schema={"temp": float}, start="t", delay="5s")
    process = source.stream.run(results)
    assert source.push([{"t": "2026-05-01T12:00:00Z", "temp": 20}]).accepted == 1
    late = source.push([{"t": "2026-05-01T11:00:00Z", "temp": 20}]).late
    assert [(each.index, each.by) for each in late] == [(0, 3_595_000_000)]
    (bad,) = source.push([{"t": "2026-05-01T12:00:00Z", "temp": "hot"}]).rejected
    assert (bad.index, "cannot hold 'hot'" in bad.reason) == (0, True)
    assert source.stats().accepted == 1
    source.close()
    process.wait()


def test_rows_before_a_refused_one_of_several_inputs_are_durable(tmp_path: Path) -> None:
    """They are passed on, late ones are told, and time from outside reaches the query."""
    source = rxt.PushSource("rows", schema={"x": int}, rejects="raise", delay=0)
    late: list[rxt.LateEvent] = []
    source.late.subscribe(late.append)
    process = source.stream.run(sink := rxt.Collect(), log=tmp_path)
    rows = [{"time": 5, "x": 1}, {"time": 3, "x": 2}, {"time": 7, "x": "three"}]
    with pytest.raises(rxt.SchemaError):
        source.push_all([("a", row) for row in rows])
    log = next(iter(process._execution.readers)).event_log
    assert log.durable == log.noted == 2
    assert [each.event.payload["x"] for each in late] == [2]
    source.advance(50)
    assert sink.batch.start.tolist() == [5]
    process.stop()


def test_a_push_out_of_a_callback_is_durable(tmp_path: Path) -> None:
    """Though it comes in the middle of rows that are noted together: with those before it."""
    source = rxt.PushSource("rows", schema={"n": int}, delay=0, unit="ticks", batch_rows=1)
    process = source.stream.run(rxt.Collect(), log=tmp_path)
    log = next(iter(process._execution.readers)).event_log
    durable: list[int] = []

    def push_again(late: rxt.LateEvent) -> None:
        source.push({"time": 1_000, "n": 99})
        durable.append(log.durable)

    process.late.subscribe(push_again)

    async def push_all() -> None:
        await asyncio.gather(*(source.push_async({"time": t, "n": t}) for t in (5, 9, 3, 11)))

    asyncio.run(push_all())
    # those before, the late one, and the one that its callback has pushed
    assert durable == [4, 6]
    process.stop()
