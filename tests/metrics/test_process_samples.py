"""The samples of a process: what each metric says of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import rxtemporal as rxt
from rxtemporal.ingress.lateness import BOUNDS, LatenessCounts
from rxtemporal.metrics.collector import Histogram, list_samples

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
NOW = NOON.timestamp()


def at(seconds: float) -> datetime:
    """Return a time, in seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def read(process: rxt.Process, now: float = NOW) -> dict[tuple[str, ...], Any]:
    """Return the samples by name and labels, without the name of the process."""
    samples = list_samples(process.diagnostics(), now)
    assert all(len(each.labels) == len(each.metric.labels) for each in samples)
    return {(each.metric.name, *each.labels[1:]): each.value for each in samples}


def make_source(**options: Any) -> rxt.PushSource:
    """Return a source of readings with sequence numbers."""
    return rxt.PushSource("readings", schema={"temp": int}, seq="n", **options)


def row(second: float, n: int) -> dict[str, Any]:
    """Return a reading."""
    return {"time": at(second), "temp": 20, "n": n}


def test_a_push_source_is_counted() -> None:
    """Events, late ones by reason, duplicates, rejected rows and inputs are those of the pushes."""
    source = make_source(delay=timedelta(seconds=10))
    process = source.stream.run(rxt.Collect(), name="house")
    source.push([row(0, 0), row(60, 1), row(60, 1), {"time": "?"}], input="a")
    source.push(row(47, 0), input="b")
    found = read(process, NOW + 80)
    assert found["events", "readings"] == 3
    assert found["late.events", "readings", "dropped"] == 1
    assert found["late.events", "readings", "ahead"] == 0
    assert found["duplicates", "readings"] == 1
    assert found["rejected", "readings"] == 1
    assert found["inputs", "readings"] == 2
    assert found["cti.timestamp", "readings"] == NOW + 50
    assert found["cti.lag", "readings"] == 30
    assert found["largest_lateness", "readings"] == 13
    assert found["results", "house"] == 1
    assert found["query.cti.lag", "house"] == 30
    assert found["running",] == 1
    process.stop()
    assert read(process)["running",] == 0


@pytest.mark.parametrize("many", [False, True], ids=["one by one", "as columns"])
def test_the_histogram_has_each_late_event_in_its_bucket(many: bool) -> None:
    """Late rows are counted by how far they are behind the CTI, pushed singly or in columns."""
    source = make_source()
    process = source.stream.run(rxt.Collect())
    source.push(row(1_000, 0))
    behind = [0.05, 0.1, 0.2, 1, 299, 300, 301, 900]
    rows = [row(1_000 - late, n) for n, late in enumerate([0, *behind] * 5, 1)]
    for part in [rows] if many else rows:
        source.push(part)
    found = read(process)["lateness", "readings"]
    # up to 0.1 s, 1 s, 300 s, 900 s
    counts = {0.1: 10, 1: 10, 300: 10, 900: 10}
    assert found.buckets == tuple(counts.get(bound, 0) for bound in (*BOUNDS, None))
    assert found.sum == pytest.approx(5 * sum(behind))
    process.stop()


def test_the_histogram_continues_after_a_restart(tmp_path: Path) -> None:
    """As the counter of late events does."""
    for number in range(2):
        source = make_source()
        process = source.stream.run(rxt.Collect(), resume=tmp_path)
        source.push(row(1_000, 2 * number))
        source.push(row(999, 2 * number + 1))
        found = read(process)
        assert found["lateness", "readings"].sum == number + 1
        process.stop()


def test_counting_many_is_counting_each() -> None:
    """Both ways of counting give the same buckets; what is not late is in none."""
    import numpy as np

    late = [0, 1, 100_000, 100_001, 1_000_000, 86_400_000_000, 86_400_000_001]
    single, many = LatenessCounts(), LatenessCounts()
    for each in late:
        single.add(each)
    many.add_all(np.array(late))
    assert single.counts == many.counts == [2, 2, *[0] * 7, 1, 1]
    assert single.total == many.total == sum(late)


def test_times_that_are_numbers_have_no_time_gauges() -> None:
    """Of a stream in ticks there are counts, and no gauge of application time."""
    process = rxt.from_events([rxt.PointEvent(4, 2), rxt.Cti(9)]).run(rxt.Collect())
    process.wait()
    names = {name for name, *_ in read(process)}
    assert {"events", "results", "cti.age", "waiting.events"} <= names
    assert not names & {"cti.timestamp", "cti.lag", "query.cti.lag", "lateness", "largest_lateness"}


def test_no_timestamp_before_the_first_cti_and_after_the_end() -> None:
    """A CTI that does not exist is absent, not a date in the year 1."""
    source = make_source()
    process = source.stream.run(rxt.Collect())
    assert ("cti.timestamp", "readings") not in read(process)
    source.push(row(0, 0))
    assert ("cti.timestamp", "readings") in read(process)
    source.close()
    process.wait()
    assert ("cti.timestamp", "readings") not in read(process)


def test_what_a_subject_has_dropped_is_counted() -> None:
    """The late events of a subject in front of the run are in the metrics of its stream."""
    devices = rxt.CtiSynchronizingSubjectAlternate.create_point(delay=0)
    stream = rxt.from_observable(devices, schema={"temp": int}, name="temps")
    process = stream.run(rxt.Collect())
    with devices.input("hall") as hall:
        hall.on_next(rxt.PointEvent(at(20), {"temp": 1}))
        hall.on_next(rxt.Cti(at(20)))
        hall.on_next(rxt.PointEvent(at(15), {"temp": 1}))
    found = read(process)
    assert (found["events", "temps"], found["late.events", "temps", "dropped"]) == (2, 1)
    process.stop()


def test_who_holds_back() -> None:
    """A query that waits names the stream, and what is held by which operator."""
    left, right = make_source(), rxt.PushSource("rooms", schema={"floor": int})
    process = left.stream.cross_join(right.stream).run(rxt.Collect(), name="placed")
    left.push([row(0, 0), row(1, 1)])
    found = read(process)
    assert found["held_back.rows", "placed", "rooms"] == 2
    assert found["held_back.age", "placed", "rooms"] >= 0
    held = {name[1]: rows for name, rows in found.items() if name[0] == "operator.rows"}
    assert sum(held.values()) >= 1
    process.stop()
    assert not [name for name, *_ in read(process) if name.startswith("held_back")]


def test_a_hand_off_is_measured() -> None:
    """A stream with a hand-off has its figures, another has none."""
    source = make_source(hand_off=rxt.HandOff())
    process = source.stream.run(rxt.Collect())
    source.push(row(0, 0))
    names = {name for name, *_ in read(process)}
    hand_off = {"hand_off.events", "hand_off.spilled", "hand_off.blocks", "hand_off.blocked"}
    assert hand_off <= names
    process.stop()


def test_log_and_checkpoint_are_measured(tmp_path: Path) -> None:
    """A run with resume= has the size of its folder, and the records since its checkpoint."""
    source = make_source()
    process = source.stream.run(rxt.Collect(), resume=tmp_path / "run")
    source.push([row(0, 0), row(1, 1)])
    found = read(process)
    assert (found["checkpoints",], found["checkpoint.size",], found["log.records",]) == (0, 0, 2)
    assert found["storage.size",] > 0
    assert found["checkpoint.age",] >= 0
    process.stop()
    stopped = read(process)
    assert (stopped["checkpoints",], stopped["log.records",]) == (1, 0)
    assert stopped["checkpoint.size",] > 0
    again = make_source()
    process = again.stream.run(rxt.Collect(), resume=tmp_path / "run")
    assert read(process)["checkpoint.size",] == stopped["checkpoint.size",]
    assert read(process)["log.records",] == 0
    process.stop()


def test_an_event_log_has_no_checkpoint(tmp_path: Path) -> None:
    """With log= all records are read again, and there is no figure of a checkpoint."""
    source = make_source()
    process = source.stream.run(rxt.Collect(), log=tmp_path / "log")
    source.push([row(0, 0), row(1, 1)])
    found = read(process)
    assert found["log.records",] == 2
    assert not [name for name, *_ in found if name.startswith("checkpoint")]
    process.stop()


def test_a_sink_tells_its_restarts() -> None:
    """A sink's ``restarts`` is a metric of its query."""
    sink = rxt.Collect()
    process = make_source().stream.run(sink, name="house")
    assert read(process)["sink.restarts", "house"] == 0
    sink.restarts = 3
    assert read(process)["sink.restarts", "house"] == 3
    process.stop()


def test_operators_on_one_line_are_added_up() -> None:
    """Labels are unique, though two operators have one name and one line."""
    source = make_source()
    stream = source.stream.where(lambda row: True).where(lambda row: True)
    process = stream.run(rxt.Collect())
    samples = list_samples(process.diagnostics(), NOW)
    keys = [(each.metric.name, each.labels) for each in samples]
    assert len(keys) == len(set(keys))
    process.stop()


def test_an_empty_histogram_is_there() -> None:
    """A stream without late events has a histogram of zeros."""
    process = make_source().stream.run(rxt.Collect())
    assert read(process)["lateness", "readings"] == Histogram((0,) * (len(BOUNDS) + 1), 0.0)
    process.stop()
