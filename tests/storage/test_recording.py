"""Record and replay: what came to the doors comes again, and gives the same to the row."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from physical import SCHEMA
from reactivex.subject import Subject
from runs import SOON, Log, nothing_left_running
from time_settings import ADJUST, settings

import rxtemporal as rxt
from rxtemporal import Cti, EdgeEvent, EventShape, IntervalEvent, PointEvent
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.errors import (
    ArgumentError,
    BindingError,
    CtiViolationError,
    SourceError,
    SpoolError,
)
from rxtemporal.ingress.built_in_sources import ObservableSource
from rxtemporal.storage.event_log import recorder
from rxtemporal.storage.event_log.reader import Recording
from rxtemporal.testing import assert_same_history, find_delays


@pytest.fixture
def folder() -> Iterator[Path]:
    """A place for a recording."""
    with tempfile.TemporaryDirectory() as place:
        yield Path(place) / "recording"


# By example --------------------------------------------------------------------------------------


def recorded(stream: rxt.Streamable, folder: Path) -> tuple[Log, Exception | None]:
    """Run a stream, recorded; what came out, and what it ended with."""
    sink = Log(EventShape.INTERVAL)
    try:
        with stream.run(sink, record=folder):
            pass
    except Exception as error:
        return sink, error
    return sink, None


def kinds(folder: Path) -> list[str]:
    """The kinds of the records of a recording's first stream, in order."""
    segments = Recording(folder).streams[0].segments()
    return [kind for frame in segments for kind in frame["kind"].to_list()]


def test_a_recording_is_plain_arrow(folder: Path) -> None:
    """A row for each record, CTIs and the end of the source among them, as they came."""
    events = [
        PointEvent(4, {"x": 1, "start_time": None}),
        Cti(3),
        EdgeEvent.create_start(5, {"x": 2, "start_time": None}),
        EdgeEvent.create_end(5, 7, {"x": 2, "start_time": None}),
        IntervalEvent(5, 9, {"x": None, "start_time": "noon"}),
    ]
    assert recorded(rxt.from_events(events), folder)[1] is None
    frame = pl.scan_ipc(folder / "0001" / "*.arrow").collect()
    assert frame["kind"].to_list() == ["point", "cti", "start", "end", "interval", "completed"]
    assert frame["start_time"].to_list() == [4, 3, 5, 5, 5, None]
    assert frame["end_time"].to_list() == [5, None, MAX_TIME, 7, 9, None]
    assert frame["payload"].struct.schema == {"x": pl.Int64, "start_time": pl.String}


def test_a_recording_has_a_folder_of_its_own(folder: Path) -> None:
    """Where something is, nothing is recorded and no sink opened; what is not a path is refused."""
    folder.mkdir()
    (folder / "notes.txt").write_text("mine", "utf-8")
    sink = Log()
    with pytest.raises(SpoolError, match=r"has other files, notes\.txt.*its own folder"):
        rxt.from_events([]).run(sink, record=folder)
    with pytest.raises(SpoolError, match=r"cannot record into.*Not a directory"):
        rxt.from_events([]).run(sink, record=folder / "notes.txt")
    with pytest.raises(ArgumentError, match="record= is the path of a folder, got 7"):
        rxt.from_events([]).run(sink, record=7)  # type: ignore[arg-type]
    assert sink.told == []
    assert os.listdir(folder) == ["notes.txt"]


def test_what_is_no_recording_is_refused(folder: Path) -> None:
    """A folder without a header, a damaged one, one of another version, records that are gone."""
    with pytest.raises(SpoolError, match=r"is not a recording: it has no recording\.json"):
        rxt.replay(folder)
    with pytest.raises(ArgumentError, match="a recording is the path of its folder, got None"):
        rxt.replay(None)  # type: ignore[arg-type]
    recorded(rxt.from_events([PointEvent(1, 1)]), folder)
    with pytest.raises(BindingError, match=r"no stream 'event' in the recording .*are 'events'"):
        rxt.replay(folder)["event"]
    header = folder / "recording.json"
    text = header.read_text("utf-8")
    newer = text.replace(": 1,", ": 9,", 1).replace('"time"', '"clock"')
    for bad, message in (text[:-9], "is damaged"), (newer, "format 9, but this version reads 1"):
        header.write_text(bad, "utf-8")
        with pytest.raises(SpoolError, match=message):
            rxt.replay(folder)
    header.write_text(text, "utf-8")
    stream = rxt.replay(folder)["events"]
    shutil.rmtree(folder / "0001")
    (folder / "0001").mkdir()
    with pytest.raises(SourceError, match="'events' has fewer records than its recording counts"):
        stream.to_events()


def test_a_source_that_failed_fails_again(folder: Path) -> None:
    """What came before it comes; the error says what the source's was."""

    def broken() -> Iterator[Any]:
        yield from [PointEvent(1, 1), Cti(2)]
        raise OSError("the line is dead")

    sink, error = recorded(rxt.from_events(broken()), folder)
    assert isinstance(error, OSError)
    assert kinds(folder) == ["point", "cti", "failed"]
    again, error = recorded(rxt.replay(folder)["events"], folder / "again")
    assert again.rows == sink.rows == [1]
    assert isinstance(error, SourceError)
    assert "'events' had failed when it was recorded: OSError: the line is dead" in str(error)


def test_a_broken_promise_is_broken_again(folder: Path) -> None:
    """A violation without a policy is the same error in a replay."""
    events = [Cti(5), PointEvent(3, 3)]
    _, error = recorded(rxt.from_events(events), folder)
    assert isinstance(error, CtiViolationError)
    with pytest.raises(CtiViolationError) as again:
        rxt.replay(folder)["events"].to_events()
    assert str(again.value) == str(error)


@pytest.mark.parametrize("bad", ["a", [1], {"y": 1}])
def test_a_payload_that_does_not_fit_ends_the_recorded_stream(folder: Path, bad: Any) -> None:
    """What came before it is there, and the replay fails where the run failed."""
    events = [PointEvent(1, 1), Cti(2), PointEvent(3, bad), Cti(4), PointEvent(5, 5)]
    sink, error = recorded(rxt.from_events(iter(events)), folder)
    assert sink.rows == [1]
    again, failed = recorded(rxt.replay(folder)["events"], folder / "again")
    assert again.rows == [1]
    assert str(error) in str(failed)


def test_a_bad_payload_behind_a_batch_is_the_one_that_ends_the_stream(folder: Path) -> None:
    """Events and batches may take turns; the replay fails at the same event."""
    batch = rxt.EventBatch.from_dicts([{"start_time": 4, "payload": 4}], cti=5)
    events = [PointEvent(1, 1), Cti(2), batch, PointEvent(6, 6), Cti(7), PointEvent(8, "a")]
    sink, error = recorded(rxt.from_events(iter(events)), folder)
    assert sink.rows == [1, 4, 6]
    again, failed = recorded(rxt.replay(folder)["events"], folder / "again")
    assert again.rows == [1, 4, 6]
    assert kinds(folder)[-1] == "failed"
    assert str(error) in str(failed)


def test_time_that_advanced_from_outside_is_recorded(folder: Path) -> None:
    """A heartbeat's CTI makes late in the replay what it made late; it comes where it came."""
    late = recorder.RunRecorder(folder, "outside")
    schema = pl.Schema({"payload": pl.Int64})
    source = ObservableSource(Subject(), schema, settings(9), "beating", 1)
    source.time = "ticks"
    stream = late.add_stream("beating", source)
    late.begin()
    stream.note_event(PointEvent(3, 3))
    stream.note_advance(5)
    stream.note_event(PointEvent(4, 4))
    stream.note_end()
    late.close()
    sink = Log()
    with rxt.replay(folder)["beating"].run(sink) as process:
        pass
    assert sink.rows == [3]
    assert process.diagnostics().late == {rxt.LateReason.DROPPED: 1}


def test_streams_of_one_name_are_told_apart(folder: Path) -> None:
    """The second of a name has a number; a stream alone can be replayed, too."""
    one, two = rxt.from_events([PointEvent(1, 1)]), rxt.from_events([PointEvent(2, 2)])
    recorded(one.union(two), folder)
    streams = rxt.replay(folder)
    assert list(streams) == ["events", "events 2"]
    assert streams["events 2"].to_events() == [IntervalEvent(2, 3, 2)]
    assert len(streams["events"].union(streams["events 2"]).to_events()) == 2


def test_a_type_that_shows_later_is_the_streams(folder: Path, monkeypatch: Any) -> None:
    """A field that is null in the first segments has its type in the replay from the start."""
    monkeypatch.setattr(recorder, "MOST_RECORDS", 1)
    events = [PointEvent(t, {"x": None, "y": t}) for t in range(5)] + [
        PointEvent(9, {"x": 1.5, "y": 9})
    ]
    sink, _ = recorded(rxt.from_events(events, name="nulls"), folder)
    stream = rxt.replay(folder)["nulls"]
    assert stream.schema == {"x": pl.Float64, "y": pl.Int64}
    assert_same_history(sink.batches, stream)


def test_fields_are_known_where_no_event_came(folder: Path) -> None:
    """A stream with a schema and no event has its fields in the replay; one without has none."""
    subject = Subject[Any]()
    typed = rxt.from_observable(subject, schema=SCHEMA, name="typed")
    recorded_untyped = rxt.from_observable(subject, name="untyped")
    app = rxt.Application("empty")
    app.query("t", app.define_stream("typed", typed))
    app.query("u", app.define_stream("untyped", recorded_untyped))
    process = app.run("t", "u", sinks=[Log(), Log()], record=folder)
    subject.on_completed()
    process.wait(SOON)
    streams = rxt.replay(folder)
    assert streams["typed"].schema == SCHEMA
    assert streams["untyped"].schema is None
    assert streams["untyped"].union(streams["typed"]).to_events() == []


def test_an_import_is_found_in_the_recording(folder: Path) -> None:
    """A stream that is replayed alone brings along the one whose CTIs it imports, interleaved."""
    clock, data = Subject[Any](), Subject[Any]()
    app = rxt.Application("imports")
    app.define_stream("clock", rxt.from_observable(clock))
    made = settings(None, imports="clock")
    app.query("out", app.define_stream("data", rxt.from_observable(data, advance_time=made)))
    sink = Log()
    process = app.run("out", sink, record=folder)
    for time, late in (5, 4), (7, 9), (9, 8):
        clock.on_next(Cti(time))
        data.on_next(PointEvent(late, late))
    clock.on_completed()
    data.on_completed()
    process.wait(SOON)
    assert sink.rows == [9]
    assert [event.payload for event in rxt.replay(folder)["data"].to_events()] == [9]


def test_a_row_that_ends_time_is_replayed_behind_the_time_before_it(folder: Path) -> None:
    """A stream that imports has that time, as in the run; the end of time is not imported."""
    one, two = Subject[Any](), Subject[Any]()
    schema, imports = {"x": int}, settings(None, imports="one")
    first = rxt.from_observable(one, schema=schema, name="one", advance_time=settings(1, -3))
    second = rxt.from_observable(two, schema=schema, name="two", advance_time=imports)
    process = first.union(second).run(Log(), record=folder)
    for time in (5, MAX_TIME - 2):
        one.on_next(PointEvent(time, {"x": 1}))
    two.on_next(PointEvent(3, {"x": 2}))
    for subject in one, two:
        subject.on_completed()
    process.wait(SOON)
    again = rxt.replay(folder)
    replayed = again["one"].union(again["two"]).run(Log())
    replayed.wait(SOON)
    for each in process, replayed:
        assert [stream.late_by_import for stream in each.diagnostics().streams] == [0, 1]


def test_recorded_streams_stand_beside_others(folder: Path) -> None:
    """A recorded stream is joined with one from elsewhere, which may import its CTIs."""
    events = [PointEvent(t, {"k": t % 2}) for t in range(6)]
    recorded(rxt.from_events(events, name="fast", advance_time=settings(1)), folder)
    app = rxt.Application("beside")
    fast = app.define_stream("fast", rxt.replay(folder)["fast"])
    slow = rxt.from_events(
        [EdgeEvent.create_start(2, {"k": 0, "y": 1}), EdgeEvent.create_start(1, {"k": 1, "y": 2})],
        advance_time=settings(None, policy=ADJUST, imports="fast"),
    )
    app.query("both", fast.join(app.define_stream("slow", slow), on="k"))
    sink = Log(EventShape.INTERVAL)
    app.run("both", sink).wait(SOON)
    starts = [start for batch in sink.batches for start in batch.start.tolist()]
    # at 2 both rows of the slow stream come behind the fast one's 2, and start there
    assert starts == [2, 3, 4, 5]


def test_events_that_are_taken_many_at_a_time_are_recorded_each(folder: Path) -> None:
    """A long list passes its door in columns; each event and CTI of it is a record, in order."""
    events: list[Any] = [PointEvent(t - 40 * (t % 7 == 0), t) for t in range(3_000)]
    events[2_000:2_000] = [Cti(2_500), IntervalEvent(10, 2_600, -1)]
    advance = settings(1, 5, policy=ADJUST)
    sink, _ = recorded(rxt.from_events(events, advance_time=advance, name="long"), folder)
    assert kinds(folder)[1_999:2_003] == ["point", "cti", "interval", "point"]
    assert len(kinds(folder)) == len(events) + 1
    again, _ = recorded(rxt.replay(folder)["long"], folder / "again")
    assert_same_history(sink.batches, again.batches)


# What a crash leaves -----------------------------------------------------------------------------


def test_what_is_published_can_be_read_while_it_goes_on(folder: Path, monkeypatch: Any) -> None:
    """A full segment is there at once; the rest follows at the end; another writer is kept out."""
    monkeypatch.setattr(recorder, "MOST_RECORDS", 2)
    written, replace = threading.Event(), os.replace

    def note(aside: Path, path: Path) -> None:
        replace(aside, path)
        if path.parent.name == "order" and path.suffix == ".arrow":
            written.set()

    monkeypatch.setattr(os, "replace", note)
    subject = Subject[Any]()
    process = rxt.from_observable(subject, name="live").run(Log(), record=folder)
    for time in (1, 2):
        subject.on_next(PointEvent(time, time))
    assert written.wait(SOON)
    assert_same_history(rxt.replay(folder)["live"], [(1, 2, 1), (2, 3, 2)])
    with pytest.raises(SpoolError, match="has other files"):
        rxt.from_events([]).run(Log(), record=folder)
    subject.on_next(PointEvent(3, 3))
    subject.on_completed()
    process.wait(SOON)
    assert len(rxt.replay(folder)["live"].to_events()) == 3


def test_what_no_order_counts_was_not_recorded(folder: Path, monkeypatch: Any) -> None:
    """Cut off between a stream's segment and the order's, the recording ends before it."""
    monkeypatch.setattr(recorder, "MOST_RECORDS", 1)
    replace, copies = os.replace, list[Path]()

    def leave(aside: Path, path: Path) -> None:
        if path.parent.name == "order" and path.suffix == ".arrow":
            copies.append(shutil.copytree(folder, folder.parent / f"left {len(copies)}"))
        replace(aside, path)

    monkeypatch.setattr(os, "replace", leave)
    left, right = Subject[Any](), Subject[Any]()
    both = rxt.from_observable(left, name="left").union(rxt.from_observable(right, name="right"))
    process = both.run(Log(), record=folder)
    for time in range(9):
        (left, right)[time % 2].on_next(PointEvent(time, time))
    process.dispose()
    for cut in copies:
        order = sorted((cut / "order").glob("*.arrow"))
        counted = sum(pl.read_ipc(each)["records"].sum() for each in order)
        (cut / "0001" / ".000000000099.arrow.part").write_bytes(b"torn")
        streams = rxt.replay(cut)
        rows = list(streams["left"].union(streams["right"]).to_batches())
        assert sorted(t for batch in rows for t in batch.start.tolist()) == list(range(counted))


KILLED = """
import os, sys, threading
import rxtemporal as rxt
from rxtemporal.storage.event_log import recorder
from reactivex.subject import Subject

recorder.MOST_RECORDS = recorder.MOST_WAITING = 50
subject = Subject()
rxt.from_observable(subject, name="live").run(rxt.Collect(), record=sys.argv[1])
for time in range(100_000):
    subject.on_next(rxt.PointEvent(time, time))
    if time == 1_000:
        print("on its way", flush=True)
"""


def test_a_killed_run_leaves_a_recording(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What has been published is a prefix of what came, without a gap; the log says so."""
    command = [sys.executable, "-P", "-c", KILLED, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"on its way\n"
        running.kill()
    batches = list(rxt.replay(folder)["live"].to_batches())
    starts = [time for batch in batches for time in batch.start.tolist()]
    # who brings more than may wait is held up until it is written
    assert 1_000 - 150 < len(starts) < 100_000
    assert starts == list(range(len(starts)))
    assert "recording has no end (its run was killed or is still running)" in caplog.text
    assert f"records={len(starts)}" in caplog.text


def test_a_run_that_was_stopped_or_failed_has_ended_its_recording(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is torn there: what was accepted until then is there, and the log is silent."""
    subject = Subject[Any]()
    process = rxt.from_observable(subject, name="stopped").run(Log(), record=folder / "stopped")
    subject.on_next(PointEvent(1, 1))
    process.dispose()
    recorded(rxt.from_events([PointEvent(1, "a"), PointEvent(2, 2)]), folder / "failed")
    caplog.clear()
    assert sum(map(len, rxt.replay(folder / "stopped")["stopped"].to_batches())) == 1
    rxt.replay(folder / "failed")
    assert caplog.text == ""


def test_a_recording_that_cannot_be_written_ends_the_run(folder: Path, monkeypatch: Any) -> None:
    """The process fails by the store's error, its sink is told, and nothing is left running."""

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with nothing_left_running():
        subject = Subject[Any]()
        sink = Log()
        process = rxt.from_observable(subject).run(sink, record=folder)
        monkeypatch.setattr(os, "fsync", full)
        subject.on_next(PointEvent(1, 1))
        subject.on_completed()
        with pytest.raises(SpoolError, match=r"No space left.*Hint: free some space there"):
            process.wait(SOON)
        assert isinstance(sink.ended_by, SpoolError)


def test_sources_that_push_from_many_threads_are_recorded_whole(folder: Path) -> None:
    """Each on its own thread: every event is there, in its stream's order, and once."""
    app = rxt.Application("threads")
    subjects = {f"s{n}": Subject[Any]() for n in range(8)}
    sinks = {}
    for name, subject in subjects.items():
        made = rxt.from_observable(subject, advance_time=settings(1, 5))
        app.query("out " + name, app.define_stream(name, made))
        sinks["out " + name] = Log()
    process = app.run(sinks=sinks, record=folder)

    def push(subject: Any) -> None:
        for time in range(500):
            subject.on_next(PointEvent(time, time))
        subject.on_completed()

    threads = [threading.Thread(target=push, args=(each,)) for each in subjects.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    process.wait(SOON)
    for name, stream in rxt.replay(folder).items():
        assert [event.payload for event in stream.to_events()] == list(range(500)), name


def test_a_header_says_the_settings(folder: Path) -> None:
    """Every setting comes back as it was given, and readable."""
    from datetime import timedelta

    generation = rxt.AdvanceTimeGenerationSettings(timedelta(seconds=2), -3, False)
    made = rxt.AdvanceTimeSettings(generation, policy=ADJUST)
    recorded(rxt.from_events([PointEvent(1, 1)], advance_time=made, name="in"), folder)
    (stream,) = json.loads((folder / "recording.json").read_text("utf-8"))["streams"]
    assert (stream["name"], stream["time"], stream["settings"]["policy"]) == (
        "in",
        "ticks",
        "adjust",
    )
    assert Recording(folder).streams[0].facts.settings == made


def test_a_file_is_no_recording(tmp_path: Path) -> None:
    """A path of a file is refused by name, whoever reads it."""
    path = tmp_path / "rows.csv"
    path.write_text("a")
    for read in (rxt.replay, find_delays):
        with pytest.raises(rxt.SpoolError, match="is a file, not the folder of a recording"):
            read(path)
