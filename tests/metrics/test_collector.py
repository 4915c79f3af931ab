"""The collector: several processes, and several lives of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runs import SOON

import rxtemporal as rxt
from rxtemporal.metrics.catalog import METRICS
from rxtemporal.metrics.collector import Collector, Histogram, Sample, Totals


def run(rows: int, **options: Any) -> tuple[rxt.PushSource, rxt.Process]:
    """Run a query over some rows, and return it."""
    source = rxt.PushSource("readings", schema={"temp": int})
    process = source.stream.run(rxt.Collect(), name="house", **options)
    for number in range(rows):
        source.push({"time": number, "temp": 20})
    return source, process


def read(collector: Collector) -> dict[str, Any]:
    """Return the values of metrics with one sample."""
    return {each.metric.name: each.value for each in collector.collect()}


def test_the_lives_of_a_process_are_added_up() -> None:
    """A run without a log begins at 0, and its counters go on, also those since the last scrape."""
    collector, totals = Collector(), []
    for rows in (3, 2, 4):
        source, process = run(rows)
        collector.add(process)
        totals.append(read(collector)["events"])
        source.push({"time": 9, "temp": 20})
        process.stop()
    assert totals == [3, 6, 11]


def test_a_run_that_continues_is_not_counted_twice(tmp_path: Path) -> None:
    """The counters of a run with resume= go on by themselves, and the collector leaves them."""
    collector, totals = Collector(), []
    for rows in (3, 0, 4):
        _, process = run(rows, resume=tmp_path / "run")
        collector.add(process)
        totals.append(read(collector)["events"])
        process.stop()
    assert totals == [3, 3, 7]


def test_a_counter_that_continues_lower_does_not_go_down() -> None:
    """Duplicates that no log has are missing in the next life; the total stays and grows on."""
    duplicates = METRICS["duplicates"]
    totals, found = Totals(), []
    for value, new in ((10, False), (8, True), (9, False)):
        sample = Sample(duplicates, ("house", "readings"), value)
        if new:
            totals.begin_life([sample])
        found.append(totals.add_up([sample])[0].value)
    assert found == [10, 10, 11]


class Fails(rxt.Sink):
    """Sink that fails when it is asked to."""

    fails = False

    def write(self, batch: rxt.EventBatch) -> None:
        """Fail, if it is time."""
        if self.fails:
            raise RuntimeError("the disk is full")


def test_what_a_run_counts_before_it_is_added_counts_too(tmp_path: Path) -> None:
    """Also duplicates, which a run that failed has counted and not saved."""
    source = rxt.PushSource("rows", schema={"n": int})
    collector, totals = Collector(), []
    for life in range(3):
        sink = Fails()
        process = source.stream.run(sink, name="house", resume=tmp_path)
        source.push([{"time": 2 * life, "n": 0}] * 2, seq=[2 * life] * 2)
        collector.add(process)
        sink.fails = True
        source.push([{"time": 2 * life + 1, "n": 0}] * 2, seq=[2 * life + 1] * 2)
        with pytest.raises(RuntimeError, match="the disk is full"):
            process.wait(SOON)
        totals.append([read(collector)[name] for name in ("events", "duplicates")])
    assert totals == [[2, 2], [4, 4], [6, 6]]


def test_the_inputs_of_a_subject_count_once_in_all_its_lives() -> None:
    """They outlive a run, so the next one begins with what they have counted."""
    subject = rxt.CtiSynchronizingSubject(rxt.EventShape.POINT, 1, rxt.AdvanceTimePolicy.DROP)
    collector, totals = Collector(), []
    with subject.input("hall") as hall:
        for life in range(3):
            process = rxt.from_observable(subject).run(rxt.Collect(), name="house")
            collector.add(process)
            for n in range(life + 1):
                hall.on_next(rxt.PointEvent(10 * life + n, n))
            process.stop()
            totals.append(read(collector)["events"])
    assert totals == [1, 3, 6]


def test_a_histogram_is_added_up() -> None:
    """Buckets and sum of a histogram go on in the next life."""
    totals, lateness = Totals(), METRICS["lateness"]
    totals.add_up([Sample(lateness, ("a", "b"), Histogram((1, 2), 5.0))])
    totals.begin_life([])
    (after,) = totals.add_up([Sample(lateness, ("a", "b"), Histogram((1, 0), 1.0))])
    assert after.value == Histogram((2, 2), 6.0)


def test_counters_of_a_life_without_a_stream_stay() -> None:
    """A counter that the next life does not have is there with its total; a gauge is not."""
    totals = Totals()
    totals.add_up(
        [Sample(METRICS["events"], ("a", "b"), 4), Sample(METRICS["idle"], ("a", "b"), 1)]
    )
    totals.begin_life([])
    assert [(each.metric.name, each.value) for each in totals.add_up([])] == [("events", 4)]


def test_two_running_processes_of_one_name_are_refused() -> None:
    """Their samples would have the same labels; each gets its own name."""
    _, first = run(0)
    _, second = run(0)
    collector = Collector(first)
    collector.add(first)
    with pytest.raises(rxt.BindingError, match="Hint: run\\(sink, name="):
        collector.add(second)
    first.stop()
    collector.add(second)
    collector.remove(second)
    assert collector.collect() == []
    second.stop()


def test_several_processes_have_labels_of_their_own() -> None:
    """The first label is the name of the process."""
    _, house = run(2)
    events = rxt.from_events([rxt.PointEvent(4, 2)], name="visits")
    office = events.run(rxt.Collect(), name="office")
    office.wait()
    found = {
        each.labels: each.value
        for each in Collector(house, office).collect()
        if each.metric.name == "events"
    }
    assert found == {("house", "readings"): 2, ("office", "visits"): 1}
    house.stop()
