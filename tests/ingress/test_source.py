"""Sources that users write: cursors, their order, resuming, pushing, and what is refused."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex.disposable import Disposable
from runs import SOON

import rxtemporal as rxt
from rxtemporal import Cti, EventBatch, PointEvent
from rxtemporal.errors import ArgumentError, BindingError, SourceError


def points(*times: int) -> list[PointEvent]:
    """Points whose payload is their time."""
    return [PointEvent(time, {"x": time}) for time in times]


class Given(rxt.Source):
    """A source over a list, which can be opened anywhere."""

    schema = {"x": int}  # noqa: RUF012

    def __init__(self, items: Iterable[Any], bounded: bool = True) -> None:
        self.items = list(items)
        self.bounded = bounded
        self.opened: list[Any] = []

    def open(self, position: Any = None) -> rxt.Cursor:
        """Return a cursor over what is left."""
        self.opened.append(position)
        skip = position or 0
        return rxt.Cursor(self.items[skip:], skip, run_rows=1_000 if self.bounded else 1)


@given(
    starts=st.lists(st.integers(0, 20), max_size=12),
    limits=st.lists(st.integers(0, 22), max_size=20),
    run_rows=st.integers(1, 5),
)
def test_a_cursor_gives_every_item_once_in_order(
    starts: list[int], limits: list[int], run_rows: int
) -> None:
    """Whatever is asked for; nothing but the first lies beyond the limit, and no more at a time."""
    events = points(*starts)
    cursor = rxt.Cursor(iter(events), run_rows=run_rows)
    taken: list[Any] = []
    reached = rxt.MIN_TIME
    for limit in limits:
        place = cursor.peek()
        assert place == max([reached, *(e.start for e in events[len(taken) : len(taken) + 1])])
        items = cursor.take(limit)
        if items is None:
            break
        highest = reached
        for number, item in enumerate(items):
            highest = max(highest, item.start)
            assert number == 0 or highest <= limit
        reached = highest
        assert 0 < len(items) <= run_rows
        taken += items
        assert cursor.position == len(taken)
    assert taken + list(cursor) == events
    assert cursor.take() is None


def test_a_cursor_looks_past_batches() -> None:
    """A batch shows no time of its own; after it the events before it still count."""
    rows = [{"start_time": time, "end_time": time + 1} for time in (5, 9)]
    batch = EventBatch.from_dicts(rows)
    cursor = rxt.Cursor([*points(3), batch, *points(1)], run_rows=2)
    assert cursor.peek() == 3
    assert len(cursor.take() or ()) == 2
    assert cursor.peek() == 3


def test_an_error_comes_after_what_was_read_before_it() -> None:
    """Items that an iterator gave before it failed are taken; then the error is raised, always."""

    def failing() -> Any:
        yield from points(1, 2)
        raise OSError("gone")

    cursor = rxt.Cursor(failing(), run_rows=10)
    assert cursor.peek() == 1
    assert cursor.take() == points(1, 2)
    assert cursor.peek() == 2
    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            cursor.take()


@pytest.mark.parametrize("bounded", [True, False])
def test_a_stream_of_a_source_is_that_of_its_events(bounded: bool) -> None:
    """Events and batches, late ones included."""
    rows = [{"start_time": time, "end_time": time + 1, "x": time} for time in (1, 5, 3)]
    batches = [EventBatch.from_dicts([row], schema={"x": pl.Int64}) for row in rows]
    late = rxt.INCREASING_START_TIME
    for items in (points(1, 5, 3), batches):
        stream = rxt.from_source(Given(items, bounded), advance_time=late)
        expected = rxt.from_events(items, schema={"x": int}, advance_time=late)
        assert stream.to_polars().equals(expected.to_polars())
        assert stream.late_events().to_polars()["x"].to_list() == [3]


def test_sources_are_merged_by_time() -> None:
    """Where one imports the other's CTIs the one with the lowest time is read next."""
    imports = rxt.AdvanceTimeSettings(
        imports=rxt.AdvanceTimeImportSettings("a"), policy=rxt.AdvanceTimePolicy.DROP
    )
    generation = rxt.AdvanceTimeGenerationSettings(1, 0)
    own = rxt.AdvanceTimeSettings(generation, policy=rxt.AdvanceTimePolicy.DROP)
    a = rxt.from_source(Given(points(1, 4, 9)), advance_time=own, name="a")
    b = rxt.from_source(Given(points(1, 3, 2, 8, 10)), advance_time=imports, name="b")
    found = a.union(b).to_polars()["x"].to_list()
    assert sorted(found) == [1, 1, 2, 3, 4, 8, 9, 10]
    reverse = rxt.from_source(Given(points(5, 2, 8)), advance_time=imports, name="b")
    assert sorted(a.union(reverse).to_polars()["x"].to_list()) == [1, 4, 5, 8, 9]


def test_a_run_goes_on_at_the_position(tmp_path: Path) -> None:
    """The next run opens the source after what the first has taken, and neither writes a log."""
    source = Given([*points(1, 2, 3), "no event", *points(4)], bounded=False)

    def run() -> list[int]:
        sink = rxt.Collect()
        with rxt.from_source(source, name="s").run(sink, resume=tmp_path / "run"):
            pass
        return [row["x"] for row in sink.to_dicts(time="ticks")]

    with pytest.raises(Exception, match="a stream takes PointEvent"):
        run()
    source.items = points(1, 2, 3, 4)
    whole = run()
    assert source.opened[0] is None
    assert whole == [1, 2, 3, 4]
    source.items = points(1, 2, 3, 4, 5)
    assert run() == []  # it had completed


class Waiting(rxt.Source):
    """A source that waits for a while before its fourth event, each of which has its CTI."""

    name = "waiting"
    schema = {"x": int}  # noqa: RUF012

    def __init__(self) -> None:
        self.opened: list[Any] = []
        self.came, self.go = threading.Event(), threading.Event()

    def open(self, position: Any = None) -> rxt.Cursor:
        """Return a cursor over what is left."""
        self.opened.append(position)
        skip = position or 0
        return rxt.Cursor(islice(self._items(), skip, None), skip)

    def _items(self) -> Iterator[Any]:
        for number in range(6):
            if number == 3:
                self.came.set()
                self.go.wait(20)
            yield PointEvent(number, {"x": number})
            yield Cti(number + 1)


def test_a_run_that_was_stopped_goes_on_after_what_went_through(tmp_path: Path) -> None:
    """What two runs give their sinks is every event once: no event is skipped, none comes twice."""
    source, found = Waiting(), []
    for _ in range(2):
        sink = rxt.Collect()
        process = rxt.from_source(source).run(sink, resume=tmp_path)
        assert source.came.wait(20)
        threading.Timer(0.1, source.go.set).start()
        if len(source.opened) == 1:
            process.dispose()
        else:
            process.wait()
        found += [row["x"] for row in sink.to_dicts(time="ticks")]
    assert found == [0, 1, 2, 3, 4, 5]
    first, second = source.opened
    assert first is None
    assert second > 0


class Pushed(rxt.Cursor):
    """Pushes what it was given at once."""

    def __init__(self, items: Iterable[Any]) -> None:
        super().__init__()
        self._given = items

    def connect(self, observer: Any) -> Any:
        """Push everything."""
        for item in self._given:
            observer.on_next(item)
        observer.on_completed()
        return Disposable()


class Pusher(rxt.Source):
    """A source that pushes."""

    name = "pusher"
    pushes = True

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = items

    def open(self, position: Any = None) -> rxt.Cursor:
        """Return a cursor that pushes."""
        return Pushed(self._items)


def test_a_source_that_pushes(tmp_path: Path) -> None:
    """It is given an observer; behind a hand-off, and into an event log, too."""
    items = [*points(1, 2), Cti(3)]
    shape = rxt.EventShape.POINT
    assert rxt.from_source(Pusher(items)).to_events(shape) == points(1, 2)
    handed = rxt.from_source(Pusher(items), hand_off=rxt.HandOff(max_rows=1))
    assert handed.to_events(shape) == points(1, 2)
    sink = rxt.Collect()
    with rxt.from_source(Pusher(items)).run(sink, log=tmp_path / "log"):
        pass
    assert [row["x"] for row in sink.to_dicts(time="ticks")] == [1, 2]


class Wrong(rxt.Source):
    """A source whose cursor is none, or says nothing."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def open(self, position: Any = None) -> rxt.Cursor:
        """Return what was given."""
        return self._cursor  # type: ignore[no-any-return]


class Unreadable(rxt.Source):
    """A source that cannot be opened."""


class Silent(rxt.Cursor):
    """A cursor that returns neither items nor the end."""

    def take(self, until: int = rxt.MAX_TIME) -> Any:
        """Return nothing."""
        return []


class Counted(rxt.Cursor):
    """A cursor that counts how often it is closed."""

    closed = 0

    def close(self) -> None:
        """Count."""
        self.closed += 1


def test_a_cursor_is_closed_once_however_its_run_ends() -> None:
    """By the end of the source, or by an error of the sink."""

    def refuse(batch: Any) -> None:
        raise OSError("the disk is full")

    for sink in rxt.Collect(), refuse:
        cursor = Counted(points(1, 2))
        process = rxt.from_source(Wrong(cursor)).run(sink)
        with contextlib.suppress(OSError):
            process.wait(SOON)
        assert cursor.closed == 1


class Unfinished(Given):
    """A source that pushes and does not complete."""

    pushes = True

    def open(self, position: Any = None) -> rxt.Cursor:
        """Return a cursor that pushes everything."""
        self.opened.append(position)
        return Open(self.items)


class Open(rxt.Cursor):
    """Pushes its items at once, and stays open."""

    def connect(self, observer: Any) -> Any:
        """Push everything."""
        for item in self:
            observer.on_next(item)
        return Disposable()


def test_a_source_that_pushes_begins_at_no_position(tmp_path: Path) -> None:
    """A later run opens it after the items that have been logged."""
    source = Unfinished(points(1, 2))
    for _ in range(2):
        rxt.from_source(source).run(rxt.Collect(), log=tmp_path / "log").dispose()
    assert source.opened == [None, 2]


def test_what_is_wrong_is_refused(tmp_path: Path) -> None:
    """Each error says what to do."""
    with pytest.raises(ArgumentError, match="from_source takes an"):
        rxt.from_source([])  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="batch_rows must be positive"):
        rxt.from_source(Given([]), batch_rows=0)
    with pytest.raises(ArgumentError, match="for a source with pushes = True"):
        rxt.from_source(Given([]), hand_off=rxt.HandOff())
    with pytest.raises(ArgumentError, match="hand_off is a HandOff"):
        rxt.from_source(Pusher([]), hand_off=5)  # type: ignore[arg-type]
    with pytest.raises(SourceError, match=r"returned list, not an rxt\.Cursor"):
        rxt.from_source(Wrong(points(1, 2))).to_events()
    with pytest.raises(TypeError, match=r"abstract method '?open"):
        Unreadable()  # type: ignore[abstract]
    with pytest.raises(SourceError, match="returned no items"):
        rxt.from_source(Wrong(Silent())).to_events()
    with pytest.raises(BindingError, match="needs no event log"):
        rxt.from_source(Given([])).run(rxt.Collect(), log=tmp_path)
