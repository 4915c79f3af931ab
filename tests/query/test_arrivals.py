"""Rows that start when they arrive: ``start=rxt.ARRIVAL``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import abc
from reactivex.disposable import Disposable
from reactivex.subject import Subject
from reactivex.testing import TestScheduler

import rxtemporal as rxt
from rxtemporal.brokers.mqtt import from_mqtt
from rxtemporal.serve.openapi import _describe_row

FIELDS = {"x": int}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SetClock(TestScheduler):
    """A wall clock that is set by hand, also back."""

    second = 0

    @property
    def now(self) -> datetime:
        """Return the time."""
        return EPOCH + timedelta(seconds=self.second)


def make_source(**options: Any) -> rxt.PushSource:
    """Return a source whose rows start when they arrive."""
    return rxt.PushSource("rows", schema=FIELDS, start=rxt.ARRIVAL, **options)


def list_starts(results: rxt.Collect) -> list[tuple[float, int]]:
    """Return the start of each row, in seconds, and its field."""
    return [
        ((each.start_time - EPOCH).total_seconds(), each.payload["x"])
        for each in results.to_events()
    ]


def push_many(source: rxt.PushSource, *numbers: int) -> list[Any]:
    """Push a row for each number in each form that there is; return the verdicts."""
    rows: list[Any] = [{"x": number} for number in numbers]
    frame = pl.DataFrame({"x": numbers}, schema={"x": pl.Int64})
    return [source.push(rows[0]), source.push(rows), source.push(rows * 20), source.push(frame)]


def test_rows_start_when_they_arrive() -> None:
    """In each form a row starts at the wall clock, as a point, and none is late."""
    clock, results, source = SetClock(), rxt.Collect(), make_source()
    with source.stream.run(results, scheduler=clock):
        for clock.second in (10, 11, 15):
            verdicts = push_many(source, 1, 2)
            assert not any(each.late or each.rejected for each in verdicts)
            assert source.cti == clock.now
        source.close()
    assert [start for start, _ in list_starts(results)] == [10] * 45 + [11] * 45 + [15] * 45
    assert {each.end - each.start for each in results.to_events()} == {rxt.TICK}


@given(
    seconds=st.lists(st.integers(0, 9), min_size=1),
    delay=st.sampled_from(["0s", "2s"]),
    advances=st.sets(st.integers(0, 9)),
)
def test_starts_never_decrease(seconds: list[int], delay: str, advances: set[int]) -> None:
    """While the clock is behind an earlier start or the CTI, the later of the two is the start."""
    clock, results, source = SetClock(), rxt.Collect(), make_source(delay=delay)
    expected, last = [], 0
    with source.stream.run(results, scheduler=clock):
        for number, clock.second in enumerate(seconds):
            if number in advances:
                source.advance(EPOCH + timedelta(seconds=number))
                last = max(last, number)
            assert source.push({"x": number}).accepted == 1
            last = max(last, clock.second)
            expected.append((last, number))
        source.close()
    assert sorted(list_starts(results)) == sorted(expected)


def test_rows_of_several_threads_are_not_late() -> None:
    """A row is stamped under the lock under which it is judged."""
    results, source = rxt.Collect(), make_source(heartbeat=rxt.Heartbeat("1ms", delay=0))
    with source.stream.run(results):
        threads = [
            threading.Thread(target=lambda: [source.push({"x": n}) for n in range(300)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (source.stats().accepted, source.stats().late) == (1_200, 0)
        source.close()
    starts = [start for start, _ in list_starts(results)]
    assert len(starts) == 1_200


@pytest.mark.parametrize("kind", ["log", "resume", "record"])
def test_starts_are_repeated(kind: str, tmp_path: Path) -> None:
    """A run that continues, and a replay, have the same starts, and no lower ones after them."""
    clock, source = SetClock(), make_source(seq="n")
    clock.second = 30
    place = tmp_path / kind
    first: Any = rxt.Collect()
    process = source.stream.run(first, scheduler=clock, **{kind: place})
    source.push([{"x": n, "n": n} for n in range(40)])
    clock.second = 31
    source.push({"x": 40, "n": 40})
    if kind == "record":
        source.close()
    process.stop()
    expected = [(30.0, n) for n in range(40)] + [(31.0, 40)]
    clock.second = 7  # the clock of the next life is behind
    if kind == "record":
        results = rxt.Collect()
        rxt.replay(place)["rows"].run(results).wait()
        assert list_starts(results) == expected
        return
    again, results = make_source(seq="n"), rxt.Collect()
    with again.stream.run(results, scheduler=clock, **{kind: place}):
        assert again.push({"x": 40, "n": 40}).duplicates == 1
        again.push({"x": 41, "n": 41})
        again.close()
    found = list_starts(results)
    whole = expected if kind == "log" else expected[-len(found) + 1 :]
    assert found == [*whole, (31.0, 41)]


def test_starts_do_not_decrease_with_a_delay_when_a_run_is_resumed(tmp_path: Path) -> None:
    """The last start counts, and not the CTI, which is behind it by the delay."""
    clock, source = SetClock(), make_source(delay="20s")
    clock.second = 30
    process = source.stream.run(rxt.Collect(), scheduler=clock, resume=tmp_path)
    source.push({"x": 1})
    process.stop()
    clock.second = 17
    results, again = rxt.Collect(), make_source(delay="20s")
    with again.stream.run(results, scheduler=clock, resume=tmp_path):
        again.push({"x": 2})
        again.close()
    assert list_starts(results) == [(30.0, 1), (30.0, 2)]


def play(items: list[Any], **options: Any) -> list[tuple[float, int]]:
    """Return the starts of the rows of an observable, pushed a second apart."""
    subject: Subject[Any] = Subject()
    clock, results = SetClock(), rxt.Collect()
    stream = rxt.from_observable(subject, schema=FIELDS, start=rxt.ARRIVAL, **options)
    with stream.run(results, scheduler=clock) as process:
        for clock.second, item in enumerate(items):
            subject.on_next(item)
        subject.on_completed()
        process.wait()
    return list_starts(results)


@pytest.mark.parametrize("options", [{}, {"hand_off": rxt.HandOff()}, {"advance_time": "2s"}])
def test_an_observable_of_rows(options: dict[str, Any]) -> None:
    """Rows one by one and in lists start when they come, with a hand-off too."""
    items = [{"x": 1}, [{"x": 2}, {"x": 3}], [], pl.DataFrame({"x": [4]})]
    assert play(items, **options) == [(0, 1), (1, 2), (1, 3), (3, 4)]


def test_rows_of_an_observable_make_ctis() -> None:
    """Without settings each row makes a CTI, so that results come at once."""
    subject: Subject[Any] = Subject()
    clock, results = SetClock(), rxt.Collect()
    stream = rxt.from_observable(subject, schema=FIELDS, start=rxt.ARRIVAL)
    counts = stream.tumbling_window("10s").aggregate(n=rxt.agg.count())
    with counts.run(results, scheduler=clock):
        for clock.second in (1, 2, 11):
            subject.on_next({"x": 1})
        assert [each.payload for each in results.to_events()] == [{"n": 2}]
        subject.on_completed()


@pytest.mark.parametrize(
    "event", [rxt.PointEvent(EPOCH, {"x": 1}), rxt.EventBatch.from_polars(
        pl.DataFrame({"at": [EPOCH], "x": [1]}), start="at", end=None
    )],
)  # fmt: skip
def test_events_name_their_own_start(event: Any) -> None:
    """They are refused, since it would be lost."""
    with pytest.raises(rxt.SchemaError, match=r"names its own start.*Hint: push the payload"):
        play([event])
    source = make_source()
    with source.stream.run(rxt.Collect()):
        rejected = source.push(event).rejected
        assert "names its own start" in rejected[0].reason
        source.close()


class Feed(rxt.Source):
    """A source that pushes rows."""

    name, schema, pushes = "feed", FIELDS, True

    def open(self, position: Any = None) -> rxt.Cursor:
        """Return a cursor."""

        class Rows(rxt.Cursor):
            def connect(self, observer: abc.ObserverBase[Any]) -> abc.DisposableBase:
                observer.on_next({"x": 1})
                observer.on_next([{"x": 2}, {"x": 3}])
                observer.on_completed()
                return Disposable()

        return Rows()


def test_a_source_that_pushes_rows() -> None:
    """Its rows are stamped, too."""
    clock, results = SetClock(), rxt.Collect()
    clock.second = 4
    rxt.from_source(Feed(), start=rxt.ARRIVAL).run(results, scheduler=clock).wait()
    assert list_starts(results) == [(4, 1), (4, 2), (4, 3)]


def read_in_spark(_: Path) -> Any:
    """Describe a DataFrame as a stream."""
    inputs = pytest.importorskip("rxtemporal.spark.query.inputs")
    return inputs.stream(SimpleNamespace(isStreaming=True, columns=["x"]), start=rxt.ARRIVAL)


class Table(rxt.Source):
    """A source that is read."""

    name, schema = "table", FIELDS

    def open(self, position: Any = None) -> rxt.Cursor:
        """Return a cursor."""
        return rxt.Cursor([])


def read_file(read: Callable[..., Any], text: str) -> Callable[[Path], Any]:
    """Return a call that reads a file."""

    def call(folder: Path) -> Any:
        path = folder / "rows"
        path.write_text(text)
        return read(path, start=rxt.ARRIVAL)

    return call


FRAME = pl.DataFrame({"x": [1]})
REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "polars": (lambda _: rxt.from_polars(FRAME, start=rxt.ARRIVAL), "there already.*Hint"),  # type: ignore[arg-type]
    "arrow": (lambda _: rxt.from_arrow(FRAME.to_arrow(), start=rxt.ARRIVAL), "already.*Hint"),  # type: ignore[arg-type]
    "csv": (read_file(rxt.read_csv, "x\n1\n"), "there already.*Hint"),
    "json": (read_file(rxt.read_json, '{"x": 1}\n'), "there already.*Hint"),
    "kafka": (
        lambda _: rxt.from_kafka("localhost:9092", "t", schema=FIELDS, start=rxt.ARRIVAL),  # type: ignore[arg-type]
        "there already.*Hint: start=None",
    ),
    "spark": (read_in_spark, r"Spark reads rows.*Hint: current_timestamp\(\)"),
    "a source that is read": (
        lambda _: rxt.from_source(Table(), start=rxt.ARRIVAL),
        "source 'table' reads.*Hint",
    ),
    "an end": (lambda _: make_source(end="until"), "end= cannot be combined.*Hint"),
    "edges": (lambda _: make_source(shape=rxt.EventShape.EDGE), "shape= cannot be .*Hint"),
    "a guard": (lambda _: make_source(ahead="1m"), "ahead= cannot be combined.*Hint"),
    "clocks": (lambda _: make_source(clock="x"), "clock= cannot be combined.*Hint"),
    "clocks of settings": (lambda _: make_source().use_clock("x"), "clock= cannot be .*Hint"),
    "clocks of an observable": (lambda _: play([], clock="x"), "clock= cannot be .*Hint"),
    "no schema": (
        lambda _: rxt.from_observable(Subject(), start=rxt.ARRIVAL),
        "read by the schema. Hint",
    ),
}


@pytest.mark.parametrize(("compose", "message"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_meaning_is_refused(
    compose: Callable[[Path], Any], message: str, tmp_path: Path
) -> None:
    """When composed, with a reason and a remedy."""
    with pytest.raises(rxt.ArgumentError, match=message):
        compose(tmp_path)


def test_other_inputs() -> None:
    """A broker's messages may start when they arrive; a service describes rows without a time."""
    stream = from_mqtt("mqtt://localhost", "t", schema=FIELDS, start=rxt.ARRIVAL)
    assert stream.schema.names() == ["x"]
    assert make_source().layout.start is None
    row = _describe_row(make_source(seq="n"))
    assert (row["required"], [*row["properties"]]) == ([], ["x", "n"])
    assert repr(rxt.ARRIVAL) == "rxt.ARRIVAL"
