"""A kept run of sources that push: what came since its state is in its log, and nothing else."""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from child_process import environment
from reactivex.subject import Subject
from resumed_runs import Table
from row_file import RowFile
from run_settings import save_at_once, save_often, skip_sync
from runs import SOON, Log
from statements import PowerError, Write, full_disk, is_checkpoint, watch_file

import rxtemporal as rxt
from rxtemporal import Cti, EdgeEvent, EventShape, PointEvent
from rxtemporal.errors import ArgumentError, CheckpointError, SpoolError
from rxtemporal.ingress.source import PositionedSource, Subscription
from rxtemporal.operators.plan import Node
from rxtemporal.query.streamable import Streamable
from rxtemporal.run.hand_off import Consumer
from rxtemporal.storage.event_log.store import recover
from rxtemporal.storage.event_log.stored_log import StoredLog
from rxtemporal.testing import assert_same_history


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save after each push."""
    save_at_once(monkeypatch)


class Run:
    """A kept run of one pushed stream, into a sink that is like a table."""

    def __init__(self, path: Path, batches: list[rxt.EventBatch], **options: Any) -> None:
        self.subject: Subject[Any] = Subject()
        self.sink = Table(EventShape.EDGE, batches, 10**6, "")
        stream = rxt.from_observable(self.subject, name="live", **options)
        self.process = stream.run(self.sink, resume=path)

    def push(self, *events: Any) -> Run:
        """Push events."""
        for event in events:
            self.subject.on_next(event)
        return self


FILES = ("run.sqlite", "run.sqlite-wal", "run.sqlite-records", "lock")


def logged(path: Path) -> list[Any]:
    """The kinds and times of the records in the log of a folder that no run has."""
    recover(path)
    frames = [frame.select("kind", "start_time") for frame in StoredLog(path).frames(0)]
    return [row for frame in frames for row in frame.rows()]


def parts(process: rxt.Process) -> int:
    """How many parts the log of a run has."""
    assert process._log is not None
    (count,) = process._log.store._connection.row("SELECT count(*) FROM parts")
    return int(count)


def whole(events: list[Any]) -> list[rxt.EventBatch]:
    """What a run gives that nothing happens to."""
    sink, subject = Log(EventShape.EDGE), Subject[Any]()
    process = rxt.from_observable(subject, name="live").run(sink)
    for event in events:
        subject.on_next(event)
    subject.on_completed()
    process.wait(SOON)
    return sink.batches


@pytest.mark.usefixtures("always")
def test_a_log_is_deleted_with_its_state(tmp_path: Path) -> None:
    """However much is pushed, the folder has what came since the last state, and that is little."""
    run = Run(tmp_path, [])
    for n in range(20):
        run.push(PointEvent(n, {"x": n}), Cti(n))
        assert parts(run.process) == 0
    run.process.dispose()
    assert logged(tmp_path) == []


def test_what_came_since_the_state_is_in_the_log(tmp_path: Path) -> None:
    """Nothing is saved for ten seconds, but when a run is stopped: then its log begins anew."""
    got: list[rxt.EventBatch] = []
    first = Run(tmp_path, got).push(PointEvent(1, {"x": 1}), Cti(2))
    assert parts(first.process) == 4
    assert StoredLog(tmp_path).fact("checkpoint") is None
    first.process.dispose()
    assert logged(tmp_path) == []
    assert StoredLog(tmp_path).fact("checkpoint") is not None
    Run(tmp_path, got).push(PointEvent(3, {"x": 3})).process.dispose(OSError("the line is dead"))
    assert logged(tmp_path) == []  # who stops it with an error stops it between two batches, too


def test_a_sink_that_breaks_leaves_the_log(tmp_path: Path) -> None:
    """What cannot be written any more comes again from the log of the state before."""
    got: list[rxt.EventBatch] = []
    run = Run(tmp_path, got).push(PointEvent(1, {"x": 1}), Cti(2))
    run.process.dispose()
    run = Run(tmp_path, got)
    run.sink._at, run.sink._how = 0, "breaks"
    run.push(PointEvent(3, {"x": 3}), Cti(4))
    with pytest.raises(OSError, match="the line is dead"):
        run.process.wait(SOON)
    assert [kind for kind, _ in logged(tmp_path)] == ["point", "cti"]
    run = Run(tmp_path, got).push(PointEvent(5, {"x": 5}))
    run.subject.on_completed()
    run.process.wait(SOON)
    events = [PointEvent(1, {"x": 1}), Cti(2), PointEvent(3, {"x": 3}), Cti(4)]
    assert_same_history(whole([*events, PointEvent(5, {"x": 5})]), got, tolerance=0)


def test_what_came_again_is_saved_when_the_run_is_stopped(tmp_path: Path) -> None:
    """A run that only replays the log has delivered: stopped, it saves, and nothing comes again."""
    got: list[rxt.EventBatch] = []
    run = Run(tmp_path, got)
    run.sink._at, run.sink._how = 0, "breaks"
    run.push(PointEvent(1, {"x": 1}), Cti(2))
    with pytest.raises(OSError, match="the line is dead"):
        run.process.wait(SOON)
    assert logged(tmp_path) != []
    Run(tmp_path, got).process.dispose()
    assert sum(map(len, got)) == 1
    assert logged(tmp_path) == []
    again: list[rxt.EventBatch] = []
    Run(tmp_path, again).process.dispose()
    assert again == []


def test_what_has_completed_leaves_no_log(tmp_path: Path) -> None:
    """All of it is in the state; another run is refused, since nobody would read its pushes."""
    got: list[rxt.EventBatch] = []
    run = Run(tmp_path, got).push(PointEvent(1, {"x": 1}))
    run.subject.on_completed()
    run.process.wait(SOON)
    assert logged(tmp_path) == []
    before = len(got)
    with pytest.raises(CheckpointError, match=r"'live' has completed .* process.stop\(\)"):
        Run(tmp_path, got)
    assert len(got) == before


@dataclasses.dataclass
class Stay:
    """A payload of a class of the user's."""

    room: str


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("hand_off", [None, rxt.HandOff(4)])
def test_an_open_row_of_a_dataclass_is_closed_in_the_next_run(
    tmp_path: Path, hand_off: Any
) -> None:
    """Of an open row its fields are kept, by which the end edge finds it."""
    got: list[rxt.EventBatch] = []
    run = Run(tmp_path, got, hand_off=hand_off)
    run.push(
        EdgeEvent.create_start(1, Stay("hall")), EdgeEvent.create_start(2, Stay("lab")), Cti(3)
    )
    run.process.dispose()
    run = Run(tmp_path, got, hand_off=hand_off)
    run.push(EdgeEvent.create_end(1, 7, Stay("hall")))
    run.subject.on_completed()
    run.process.wait(SOON)
    edges = [
        EdgeEvent.create_start(1, {"room": "hall"}), EdgeEvent.create_start(2, {"room": "lab"}),
        EdgeEvent.create_end(1, 7, {"room": "hall"}),
    ]  # fmt: skip
    assert_same_history(whole(edges), got, tolerance=0)


@pytest.mark.usefixtures("always")
def test_a_list_is_skipped_as_far_as_state_and_log_have_it(tmp_path: Path) -> None:
    """It begins anew in each run; so does a frame beside it."""
    events = [each for n in range(5_000) for each in (PointEvent(n, {"x": n}), Cti(n))]
    whole, got = Log(EventShape.EDGE), list[rxt.EventBatch]()
    rxt.from_events(events, name="list").run(whole).wait(SOON)
    done, runs = False, 0
    while not done:
        runs += 1
        sink = Table(EventShape.EDGE, got, 2, "breaks")
        process = rxt.from_events(events, name="list").run(sink, resume=tmp_path)
        try:
            done = process.wait(SOON)
        except OSError:
            assert runs < 50
    assert runs > 1
    assert_same_history(whole.batches, got, tolerance=0)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("saves", range(1, 6))
def test_a_list_goes_on_from_any_of_its_states(tmp_path: Path, saves: int) -> None:
    """Also from that between its last event and its end, which is not an event of the list's."""
    events = [PointEvent(1, {"x": 1}), Cti(2), PointEvent(3, {"x": 3})]
    got, left = list[rxt.EventBatch](), [saves]

    def break_off(writes: Sequence[Write]) -> None:
        left[0] -= any(map(is_checkpoint, writes))
        if not left[0]:
            raise PowerError

    with watch_file(after=break_off), contextlib.suppress(PowerError):
        sink = Table(EventShape.EDGE, got, 99, "")
        rxt.from_events(events, name="list").run(sink, resume=tmp_path).wait(SOON)
    sink = Table(EventShape.EDGE, got, 99, "")
    rxt.from_events(events, name="list").run(sink, resume=tmp_path).wait(SOON)
    assert_same_history(whole(events), got, tolerance=0)


def test_a_stream_that_had_completed_beside_a_hand_off(tmp_path: Path) -> None:
    """It completes again where the run goes on, in whatever way its rows go into the query."""
    got: list[rxt.EventBatch] = []

    def begun() -> tuple[list[Subject[Any]], rxt.Process]:
        subjects, schema = [Subject[Any](), Subject[Any]()], {"x": pl.Int64}
        one = rxt.from_observable(subjects[0], schema=schema, name="one")
        two = rxt.from_observable(subjects[1], schema=schema, name="two", hand_off=rxt.HandOff(2))
        sink = Table(EventShape.EDGE, got, 99, "")
        return subjects, one.union(two).run(sink, resume=tmp_path)

    (one, two), process = begun()
    one.on_next(PointEvent(1, {"x": 1}))
    one.on_completed()
    two.on_next(PointEvent(2, {"x": 2}))
    process.dispose()
    (one, two), process = begun()
    two.on_completed()
    process.wait(SOON)
    assert sorted(start for batch in got for start in batch.start.tolist()) == [1, 2]


def test_producers_go_on_while_it_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several push at once, each save is whole: no event twice, none lost, whoever saves."""
    save_often(monkeypatch, 0.01)
    skip_sync(monkeypatch)
    saved = list[Write]()

    def note(writes: Sequence[Write]) -> None:
        saved.extend(filter(is_checkpoint, writes))

    subjects = [Subject[Any]() for _ in range(3)]
    got: list[rxt.EventBatch] = []

    def begun() -> rxt.Process:
        streams = [
            rxt.from_observable(each, name=f"s{n}", batch_rows=1) for n, each in enumerate(subjects)
        ]
        merged = streams[0].union(streams[1]).union(streams[2])
        return merged.run(Table(EventShape.EDGE, got, 10**6, ""), resume=tmp_path)

    for part in range(3):
        with watch_file(after=note):
            process = begun()
        threads = [
            threading.Thread(target=pushed, args=(each, range(part * 40, part * 40 + 40)))
            for each in subjects
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        process.dispose()
        assert len(saved) > part + 1
    starts = sorted(start for batch in got for start in batch.start.tolist())
    assert starts == sorted(3 * [*range(120)])


def pushed(subject: Subject[Any], numbers: range) -> None:
    """Push an event and a CTI for each number."""
    for n in numbers:
        subject.on_next(PointEvent(n, {"x": n}))
        subject.on_next(Cti(n))


def test_a_sink_that_pushes_back_does_not_save_from_inside(tmp_path: Path, always: None) -> None:
    """In the midst of a batch nothing is saved: half of it would be in the state."""
    subject, echo = Subject[Any](), Subject[Any]()
    got: list[rxt.EventBatch] = []

    class Echo(Table):
        """Pushes what it is given into the other stream."""

        def write(self, batch: rxt.EventBatch) -> None:
            """Keep the batch, and answer."""
            super().write(batch)
            if len(batch) and batch.start.max() < 5:
                echo.on_next(PointEvent(int(batch.start.max()) + 5, {"x": -1}))

    def begun() -> rxt.Process:
        app = rxt.Application("echo")
        app.query("out", app.define_stream("in", rxt.from_observable(subject, batch_rows=1)))
        app.query("back", app.define_stream("echo", rxt.from_observable(echo, batch_rows=1)))
        sinks = {"out": Echo(EventShape.EDGE, got, 99, ""), "back": Log(EventShape.EDGE)}
        return app.run(sinks=sinks, resume=tmp_path)

    process = begun()
    for n in range(4):
        subject.on_next(PointEvent(n, {"x": n}))
        subject.on_next(Cti(n + 1))
    process.dispose()
    assert sorted(start for batch in got for start in batch.start.tolist()) == [0, 1, 2, 3]
    told = {each.name: each.events_in for each in process.diagnostics().streams}
    assert told["echo"] == 4
    again = begun()
    assert {each.name: each.events_in for each in again.diagnostics().streams} == told
    again.dispose()


class Pieces(PositionedSource):
    """Pushes numbered batches when it is told to."""

    def __init__(self, name: str) -> None:
        self.name, self.schema = name, pl.Schema({"x": pl.Int64})
        self.observer: Any = None

    def open(self, position: Any = None) -> rxt.Cursor:
        """Remember the position."""
        self.position = position
        return PieceCursor(self)

    def bring(self, number: int, then: Callable[[], object] = lambda: None) -> None:
        """Bring a piece; ``then`` is what happens before it is saved."""
        with self.position.accept(number):
            self.observer.on_next(PointEvent(number, {"x": number}))
            self.observer.on_next(Cti(number + 1))
            then()


class PieceCursor(rxt.Cursor):
    """Remembers who listens."""

    def __init__(self, pieces: Pieces) -> None:
        super().__init__()
        self._pieces = pieces

    def connect(self, observer: Any) -> Subscription:
        """Remember the observer."""
        self._pieces.observer = observer
        return Nobody()


class Nobody(Subscription):
    """A subscription that has nothing to end."""

    def dispose(self) -> None:
        """Do nothing."""

    def join(self) -> None:
        """Wait for nobody."""


def test_positions_and_a_log_in_one_run(tmp_path: Path) -> None:
    """Each piece that is taken saves what has been pushed as well, and its log begins anew."""
    got: list[rxt.EventBatch] = []

    def begun() -> tuple[Pieces, Subject[Any], rxt.Process]:
        pieces, subject = Pieces("pieces"), Subject[Any]()
        schema = {"x": pl.Int64}
        live = rxt.from_observable(subject, schema=schema, name="live", batch_rows=1)
        both = Streamable(Node(pieces.schema, (), source=pieces)).union(live)
        return pieces, subject, both.run(Table(EventShape.EDGE, got, 99, ""), resume=tmp_path)

    pieces, subject, process = begun()
    subject.on_next(PointEvent(0, {"x": 0}))
    pieces.bring(1)
    assert parts(process) == 0
    subject.on_next(PointEvent(3, {"x": 3}))
    process.dispose()
    pieces, subject, process = begun()
    assert pieces.position.reached == 1
    pieces.bring(4)
    subject.on_next(Cti(9))
    pieces.bring(9)
    process.dispose()
    assert sorted(start for batch in got for start in batch.start.tolist()) == [0, 1, 3, 4, 9]


def test_a_piece_beside_a_source_that_has_failed_is_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error is on the way, and nothing is still any more: the piece comes again."""
    got: list[rxt.EventBatch] = []

    def begun() -> tuple[Pieces, Subject[Any], rxt.Process]:
        pieces, subject = Pieces("pieces"), Subject[Any]()
        handed = rxt.from_observable(
            subject, schema={"x": pl.Int64}, name="live", hand_off=rxt.HandOff()
        )
        both = Streamable(Node(pieces.schema, (), source=pieces)).union(handed)
        return pieces, subject, both.run(Table(EventShape.EDGE, got, 99, ""), resume=tmp_path)

    with monkeypatch.context() as patch:
        # nobody brings the query the error in between
        patch.setattr(Consumer, "start", lambda consumer, on_error: None)
        pieces, subject, process = begun()
        pieces.bring(0)
        with pytest.raises(CheckpointError, match="has been stopped before this was saved"):
            pieces.bring(3, lambda: subject.on_error(OSError("the line is dead")))
        assert pieces.position.reached == 0
        process.dispose()
    pieces, subject, process = begun()
    assert pieces.position.reached == 0
    pieces.bring(3)
    subject.on_next(Cti(4))
    process.dispose()
    assert sorted(start for batch in got for start in batch.start.tolist()) == [0, 3]


def test_a_full_disk_ends_the_run_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the state cannot be saved the run ends; the state before and the log are there."""
    got: list[rxt.EventBatch] = []

    def fill(write: Write) -> None:
        if is_checkpoint(write, piece=True):
            raise full_disk()

    with watch_file(before=fill):
        run = Run(tmp_path, got).push(PointEvent(1, {"x": 1}), Cti(2))
    save_at_once(monkeypatch)
    with pytest.raises(SpoolError, match=r"No space left on device.*Hint: free some space"):
        run.push(PointEvent(3, {"x": 3}))
    with pytest.raises(SpoolError, match="No space left"):
        run.process.wait(SOON)
    run = Run(tmp_path, got).push(PointEvent(5, {"x": 5}))
    run.subject.on_completed()
    run.process.wait(SOON)
    # who pushed 3 was told an error, and it was in the log already
    events = [PointEvent(n, {"x": n}) for n in (1, 3, 5)]
    assert_same_history(whole(events), got, tolerance=0)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"log": "other"}, ArgumentError, "log= and resume= cannot be combined.*Hint: leave log="),
        ({"record": "other"}, ArgumentError, "record= and resume= cannot be combined"),
    ],
)
def test_wrong_arguments_are_refused(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], says: str
) -> None:
    """One folder has all that a kept run needs."""
    with pytest.raises(error, match=says):
        rxt.from_observable(Subject()).run(Log(), resume=tmp_path / "kept", **options)


def test_a_changed_query_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    """The state says what it was; the log stays."""
    got: list[rxt.EventBatch] = []
    Run(tmp_path, got).push(PointEvent(1, {"x": 1}), Cti(2)).process.dispose()
    other = rxt.from_observable(Subject(), name="live").snapshot_window()
    counted = other.aggregate(n=rxt.agg.count())
    with pytest.raises(CheckpointError, match="has changed since"):
        counted.run(Table(EventShape.EDGE, [], 9, ""), resume=tmp_path)
    Run(tmp_path, got).push(PointEvent(3, {"x": 3})).process.dispose()


def test_a_source_that_does_not_answer_is_left_alone(tmp_path: Path) -> None:
    """To stop a run takes no longer for an iterator that waits for ever."""
    asked, go = threading.Event(), threading.Event()

    def events() -> Iterator[Any]:
        yield PointEvent(1, {"x": 1})
        asked.set()
        go.wait(SOON)

    process = rxt.from_events(events(), name="slow").run(Log(EventShape.EDGE), resume=tmp_path)
    assert asked.wait(SOON)
    process.dispose()
    assert process.wait(0)
    assert [kind for kind, _ in logged(tmp_path)] == ["point"]
    go.set()


CHILD = """
import sys
from reactivex.subject import Subject
import rxtemporal as rxt
from rxtemporal.run import checkpoint as resuming
from row_file import RowFile
resuming.SECONDS, resuming.SHARE = 0.02, 1e9
subject = Subject()
sink = RowFile(sys.argv[1] + "/rows")
process = rxt.from_observable(subject, name="live", batch_rows=1).run(sink, resume=sys.argv[1])
number = process.diagnostics().streams[0].events_in
print(number, flush=True)
while True:
    subject.on_next(rxt.PointEvent(number, {"x": number}))
    subject.on_next(rxt.Cti(number))
    number += 1
    print(number, flush=True)
"""


def test_a_killed_process_goes_on_with_all_that_it_has_acknowledged(tmp_path: Path) -> None:
    """SIGKILL at any moment, also while it saves: each row is there once, and none is missing."""
    acknowledged = 0
    for pushes in (20, 45, 30, 55):
        with subprocess.Popen(
            [sys.executable, "-P", "-c", CHILD, str(tmp_path)],
            stdout=subprocess.PIPE, text=True, env=environment(),
        ) as child:  # fmt: skip
            assert child.stdout is not None
            # one event may be in the log that nobody was told of
            begun = int(child.stdout.readline())
            assert acknowledged <= begun <= acknowledged + 1
            for _ in range(pushes):
                assert child.stdout.readline()
            child.kill()
            acknowledged = begun + pushes + child.stdout.read().count("\n")
    assert {each.name for each in tmp_path.iterdir()} <= {*FILES, "rows"}
    sink = RowFile(str(tmp_path / "rows"))
    subject: Subject[Any] = Subject()
    process = rxt.from_observable(subject, name="live", batch_rows=1).run(sink, resume=tmp_path)
    number = process.diagnostics().streams[0].events_in
    subject.on_completed()
    process.wait(SOON)
    rows = (tmp_path / "rows").read_text(encoding="utf-8").split()
    assert rows == [str(n) for n in range(number)]
    assert number >= acknowledged
