"""The hand-off between ingest and query: bounds, blocking and spilling, errors, stopping."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from reactivex.subject import Subject
from runs import SOON, Log

import rxtemporal as rxt
from rxtemporal import Cti, EventBatch, PointEvent, WhenFull
from rxtemporal.errors import ArgumentError, BindingError, SpoolError
from rxtemporal.run.hand_off.buffer import SpillFiles

SCHEMA = {"payload": pl.Int64}
both = pytest.mark.parametrize("when_full", WhenFull)


class Steps(Log):
    """Sink that writes one batch for each step it is given, and says when it is at work."""

    def __init__(self) -> None:
        super().__init__(during={"write": self._wait})
        self.at_work = threading.Semaphore(0)
        self.step = threading.Semaphore(0)

    def _wait(self) -> None:
        self.at_work.release()
        assert self.step.acquire(timeout=SOON)

    def wait_until_writing(self) -> None:
        """Wait until it has begun to write another batch."""
        assert self.at_work.acquire(timeout=SOON)

    def go(self, steps: int = 1) -> None:
        """Let it write so many more batches."""
        self.step.release(steps)


def run_with_hand_off(
    sink: Any, max_rows: int, when_full: WhenFull, **options: Any
) -> tuple[Any, Any]:
    """Return a subject, and the process that runs its events into a sink."""
    subject: Subject[Any] = Subject()
    hand_off = rxt.HandOff(max_rows, when_full, **options)
    stream = rxt.from_observable(subject, schema=SCHEMA, name="readings", hand_off=hand_off)
    return subject, stream.run(sink)


def push(subject: Any, times: Any) -> None:
    """Push points, each committed at once."""
    for time in times:
        subject.on_next(PointEvent(time, time))
        subject.on_next(Cti(time + 1))


def counters(process: rxt.Process) -> Any:
    """Return the counters of the only hand-off."""
    return process.diagnostics().streams[0].hand_off


def wait_until_blocked(process: rxt.Process, times: int = 1) -> None:
    """Wait until a producer has been blocked so many times."""
    while counters(process).times_blocked < times:
        threading.Event().wait(0)


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    for thread in threading.enumerate():
        if thread.name.startswith("rxtemporal"):
            thread.join(SOON)
            assert not thread.is_alive(), thread.name


# Under load ---------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("load", [1, 10, 100, 1_000])
def test_under_load_batches_grow_and_rows_wait_no_longer(load: int, when_full: WhenFull) -> None:
    """However many rows come while the sink writes one batch, all leave with the next one.

    So rows per step rise with the load (throughput), a row waits for one step (latency), and the
    rows of one step are queued.
    """
    sink, steps = Steps(), 5
    subject, process = run_with_hand_off(sink, 4 * load, when_full)
    push(subject, [0])
    sink.wait_until_writing()
    for step in range(steps):
        push(subject, range(1 + step * load, 1 + (step + 1) * load))
        assert counters(process).rows_waiting == load
        sink.go()
        sink.wait_until_writing()
    subject.on_completed()
    sink.go(2)
    process.wait(SOON)
    assert [len(batch) for batch in sink.batches if len(batch)] == [1] + steps * [load]
    assert sink.rows == list(range(1 + steps * load))
    assert (counters(process).most_rows_waiting, counters(process).times_blocked) == (load, 0)


def test_a_producer_that_is_too_fast_is_held_at_the_bound() -> None:
    """With BLOCK a row waits behind no more than the bound: two steps later it has left."""
    sink = Steps()
    subject, process = run_with_hand_off(sink, 10, WhenFull.BLOCK)
    producer = threading.Thread(target=push, args=(subject, range(101)))
    producer.start()
    sink.wait_until_writing()
    for number in range(10):
        # ten rows wait, and the producer for them, or it has pushed its last one
        while producer.is_alive() and counters(process).times_blocked <= number:
            threading.Event().wait(0)
        sink.go()
        sink.wait_until_writing()
    producer.join(SOON)
    subject.on_completed()
    sink.go(3)
    process.wait(SOON)
    assert sink.rows == list(range(101))
    assert max(len(batch) for batch in sink.batches) <= 10
    assert counters(process).most_rows_waiting == 10
    assert counters(process).times_blocked >= 9
    assert counters(process).blocked.total_seconds() > 0


def test_rows_whose_cti_has_not_come_wait_too() -> None:
    """They are taken out with the others, and count among the most that have waited."""
    sink = Steps()
    subject, process = run_with_hand_off(sink, 10, WhenFull.BLOCK)
    push(subject, [0])
    sink.wait_until_writing()
    push(subject, [1])
    for time in (2, 3, 4):
        subject.on_next(PointEvent(time, time))
    sink.go()
    sink.wait_until_writing()
    subject.on_completed()
    sink.go(3)
    process.wait(SOON)
    assert sink.rows == [0, 1, 2, 3, 4]
    assert counters(process).most_rows_waiting == 4


def test_what_spills_is_more_than_memory_may_hold(tmp_path: Path) -> None:
    """With SPILL a producer never waits; rows come back in order and leave nothing on the disk."""
    sink = Steps()
    folder = tmp_path / "made" / "here"
    subject, process = run_with_hand_off(sink, 40, WhenFull.SPILL, path=folder)
    push(subject, [0])
    sink.wait_until_writing()
    push(subject, range(1, 1_000))
    assert counters(process).rows_waiting == 999
    assert counters(process).rows_spilled >= 999 - 40
    assert counters(process).times_blocked == 0
    assert list(folder.iterdir())
    subject.on_completed()
    sink.go(1_000)
    process.wait(SOON)
    assert sink.rows == list(range(1_000))
    assert counters(process).most_rows_waiting <= 40
    process.dispose()
    assert not list(folder.iterdir())


def test_every_type_of_field_and_any_name_comes_back_from_the_disk(tmp_path: Path) -> None:
    """A file gives back rows, edge ids, CTI and payload as they were, in their types."""
    frame = pl.DataFrame(
        {
            "start_time": [1, None],
            "_segment": [True, None],
            "edge": [b"x", None],
            ".edge": [b"y", None],
            "0": ["a", None],
            "f": [0.5, None],
            "n": [None, None],
        }
    ).with_columns(
        when=pl.Series([0, None], dtype=pl.Datetime("us", "UTC")),
        day=pl.Series([0, None], dtype=pl.Date),
        span=pl.Series([5, None], dtype=pl.Duration("us")),
        price=pl.Series(["1.25", None]).cast(pl.Decimal(10, 2)),
        small=pl.Series([1, None], dtype=pl.Int8),
    )
    bare = EventBatch.of_rows(*(pl.Series([n, n]).to_numpy() for n in (1, 9)), frame, 4)
    batch = bare.replace(edge=pl.Series([0, 7]).to_numpy())
    files = SpillFiles(tmp_path)
    for each in batch, batch.replace(cti=5):
        files.write(each)
    for cti in 4, 5:
        file = files.take()
        back = file.read()
        assert (file.rows, back.cti) == (2, cti)
        assert [each.tolist() for each in (back.start, back.end, back.edge)] == [
            [1, 1],
            [9, 9],
            [0, 7],
        ]
        assert back.payload.equals(frame)
        assert back.schema == frame.schema
    files.close()
    assert not list(tmp_path.iterdir())


def test_ctis_alone_take_no_room() -> None:
    """Of any number of queued CTIs only the last is kept, also in a full queue."""
    sink = Steps()
    subject, process = run_with_hand_off(sink, 1, WhenFull.BLOCK)
    push(subject, [0])
    sink.wait_until_writing()
    push(subject, [1])
    for time in range(5, 500):
        subject.on_next(Cti(time))
    sink.go()
    sink.wait_until_writing()
    subject.on_completed()
    sink.go(2)
    process.wait(SOON)
    assert [(len(batch), batch.cti) for batch in sink.batches][:2] == [(1, 1), (1, 499)]
    assert counters(process).times_blocked == 0


def test_several_sources_are_served_in_the_order_in_which_they_were_accepted() -> None:
    """The queued rows of each source are one batch; who has waited longest comes first."""
    subjects = {name: Subject[Any]() for name in "abc"}
    seen: list[int] = []
    begun, go = threading.Event(), threading.Event()

    def note(row: Any) -> bool:
        seen.append(row["payload"])
        begun.set()
        return go.wait(SOON)

    first, second, third = (
        rxt.from_observable(each, schema=SCHEMA, hand_off=rxt.HandOff()).where(note)
        for each in subjects.values()
    )
    process = first.union(second).union(third).run(Log())
    push(subjects["a"], [0])
    assert begun.wait(SOON)
    for name, number in ("c", 1), ("a", 2), ("c", 3), ("b", 4):
        push(subjects[name], [number])
    go.set()
    for subject in subjects.values():
        subject.on_completed()
    process.wait(SOON)
    assert seen == [0, 1, 3, 2, 4]


def test_a_source_without_one_keeps_its_place() -> None:
    """Beside a source with a hand-off, one without has its results when on_next returns."""
    one, two = Subject[Any](), Subject[Any]()
    first = rxt.from_observable(one, schema=SCHEMA, name="one", hand_off=rxt.HandOff())
    imports = rxt.AdvanceTimeImportSettings("one")
    second = rxt.from_observable(
        two,
        schema=SCHEMA,
        name="two",
        advance_time=rxt.AdvanceTimeSettings(imports=imports, policy=rxt.AdvanceTimePolicy.DROP),
    )
    sink = Log(rxt.EventShape.POINT)
    process = first.union(second).run(sink)
    for time in range(0, 100, 2):
        one.on_next(PointEvent(time, time))
        one.on_next(Cti(time))
        two.on_next(PointEvent(time + 1, time + 1))
        assert (time + 1) not in sink.rows  # no CTI has come behind it
        one.on_next(Cti(time + 2))
        two.on_next(PointEvent(time, -1))  # late by the import
    two.on_completed()
    one.on_completed()
    process.wait(SOON)
    assert sorted(sink.rows) == list(range(100))
    assert process.diagnostics().streams[1].late_by_import == 50


@both
def test_a_batch_in_parts_is_late_by_the_import_as_a_whole(when_full: WhenFull) -> None:
    """The CTI that is imported is not one of the source, with whatever part of the batch."""
    one, two = Subject[Any](), Subject[Any]()
    imports = rxt.AdvanceTimeImportSettings("one")
    first = rxt.from_observable(one, schema=SCHEMA, name="one")
    second = rxt.from_observable(
        two,
        schema=SCHEMA,
        name="two",
        hand_off=rxt.HandOff(2, when_full),
        advance_time=rxt.AdvanceTimeSettings(imports=imports, policy=rxt.AdvanceTimePolicy.DROP),
    )
    process = first.union(second).run(Log())
    one.on_next(Cti(100))
    rows = [{"start_time": time, "end_time": time + 1, "payload": time} for time in range(5)]
    two.on_next(EventBatch.from_dicts(rows, cti=5))
    for subject in one, two:
        subject.on_completed()
    process.wait(SOON)
    told = process.diagnostics().streams[1]
    assert (told.late, told.late_by_import) == ({rxt.LateReason.DROPPED: 5}, 5)


# Lingering ----------------------------------------------------------------------------------------

LONG = timedelta(hours=1)


def test_rows_linger_for_more_of_them_until_a_producer_waits() -> None:
    """With linger= a batch is as large as the queue, though the query has nothing else to do."""
    sink = Log()
    subject, process = run_with_hand_off(sink, 3, WhenFull.BLOCK, linger=LONG)
    push(subject, range(10))
    subject.on_completed()
    process.wait(SOON)
    assert [len(batch) for batch in sink.batches if len(batch)] == [3, 3, 3, 1]
    assert sink.rows == list(range(10))
    assert counters(process).most_rows_waiting == 3


def test_rows_linger_no_longer_than_asked() -> None:
    """After linger= the query has what there is, though nothing else comes."""
    written = threading.Event()
    sink = Log(during={"write": written.set})
    subject, process = run_with_hand_off(sink, 9, WhenFull.BLOCK, linger=timedelta(milliseconds=1))
    push(subject, [0])
    assert written.wait(SOON)
    assert counters(process).rows_waiting == 0
    process.dispose()


@pytest.mark.parametrize("end", ["complete", "fail", "stop", "pause"])
def test_nothing_lingers_behind_an_end(end: str) -> None:
    """The end of the source, its error, stop() and a checkpoint have what there is at once."""
    sink = Log()
    subject, process = run_with_hand_off(sink, 9, WhenFull.BLOCK, linger=LONG)
    push(subject, range(5))
    assert counters(process).rows_waiting == 5
    if end == "complete":
        subject.on_completed()
        process.wait(SOON)
    elif end == "fail":
        subject.on_error(ConnectionError("the line is dead"))
        with pytest.raises(ConnectionError):
            process.wait(SOON)
    elif end == "stop":
        process.stop()
    else:
        with process._execution.pause() as quiet:
            assert quiet
            assert sink.rows == list(range(5))
        process.dispose()
    assert sink.rows == list(range(5))


def test_lingering_rows_that_spill_go_on_at_once(tmp_path: Path) -> None:
    """No file is written for want of a query that has nothing to do."""
    sink, written = Log(), threading.Event()
    sink._during["write"] = written.set
    subject, process = run_with_hand_off(sink, 40, WhenFull.SPILL, path=tmp_path, linger=LONG)
    push(subject, range(100))
    assert written.wait(SOON)
    subject.on_completed()
    process.wait(SOON)
    assert sink.rows == list(range(100))


# Ends ---------------------------------------------------------------------------------------------


@both
def test_completion_drains(when_full: WhenFull) -> None:
    """on_completed returns at once; wait returns when everything accepted has been written."""
    sink = Steps()
    subject, process = run_with_hand_off(sink, 50, when_full)
    push(subject, range(40))
    subject.on_completed()
    assert process.wait(0) is False
    sink.go(100)
    process.wait(SOON)
    assert sink.rows == list(range(40))
    assert sink.ended_by is None


@both
def test_an_error_of_the_source_comes_after_what_it_has_sent(when_full: WhenFull) -> None:
    """Everything accepted before it is written, spilled or not; then it ends the process."""
    sink = Steps()
    subject, process = run_with_hand_off(sink, 50, when_full)
    push(subject, range(50))
    subject.on_error(ConnectionError("the line is dead"))
    sink.go(100)
    with pytest.raises(ConnectionError, match="the line is dead"):
        process.wait(SOON)
    assert sink.rows == list(range(50))


@both
def test_a_payload_that_does_not_fit_comes_after_what_does(when_full: WhenFull) -> None:
    """A bad row among those not yet packed ends the process, after the good rows before it."""
    sink = Steps()
    subject, process = run_with_hand_off(sink, 50, when_full)
    push(subject, range(10))
    subject.on_next(PointEvent(10, "no number"))
    subject.on_next(Cti(11))
    push(subject, range(11, 14))
    sink.go(100)
    with pytest.raises(rxt.SchemaError, match="no number"):
        process.wait(SOON)
    assert sink.rows == list(range(10))


def test_what_comes_after_the_error_is_not_taken_and_not_answered() -> None:
    """A failed source that goes on pushing into its full queue gets no error, and loses nothing."""
    sink = Steps()
    subject, process = run_with_hand_off(sink, 2, WhenFull.BLOCK)
    push(subject, [0])
    sink.wait_until_writing()
    push(subject, [1, 2])
    subject.on_next(Cti(1))  # goes back
    push(subject, range(3, 10))
    sink.go(10)
    with pytest.raises(rxt.CtiViolationError, match="before its last CTI"):
        process.wait(SOON)
    assert sink.rows == [0, 1, 2]


class Broken(Steps):
    """A sink whose second write fails."""

    def write(self, batch: EventBatch) -> None:
        """Write, or fail."""
        super().write(batch)
        if len(self.batches) == 2:
            raise OSError("the disk is full")


def test_an_error_of_the_query_ends_blocked_producers_at_once() -> None:
    """A producer that waits gets a clear error; wait raises the sink's own."""
    sink, raised = Broken(), []
    subject, process = run_with_hand_off(sink, 2, WhenFull.BLOCK)

    def produce() -> None:
        try:
            push(subject, range(1, 100))
        except BindingError as error:
            raised.append(error)

    push(subject, [0])
    sink.wait_until_writing()
    producer = threading.Thread(target=produce)
    producer.start()
    wait_until_blocked(process)
    sink.go()
    sink.wait_until_writing()
    wait_until_blocked(process, times=2)
    sink.go()
    producer.join(SOON)
    assert not producer.is_alive()
    [error] = raised
    assert "stream 'readings' was waiting for room" in str(error)
    assert "the disk is full" in str(error)
    assert isinstance(error.__cause__, OSError)
    with pytest.raises(OSError, match="the disk is full"):
        process.wait(SOON)


def test_ctrl_c_reaches_a_producer_that_waits_for_room() -> None:
    """The main thread notices it, though the query stands still; its event was not accepted."""
    sink = Steps()
    subject, process = run_with_hand_off(sink, 1, WhenFull.BLOCK)
    push(subject, [0])
    sink.wait_until_writing()
    push(subject, [1])

    def interrupt() -> None:
        wait_until_blocked(process)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        push(subject, [2])
    sink.go(9)
    process.dispose()
    assert sink.rows == [0, 1]


def test_dispose_lets_a_blocked_producer_go_and_drains() -> None:
    """Accepted rows are written, rows that waited for room are not accepted, nobody hangs."""
    sink = Steps()
    subject, process = run_with_hand_off(sink, 5, WhenFull.BLOCK)
    push(subject, [0])
    sink.wait_until_writing()
    producer = threading.Thread(target=push, args=(subject, range(1, 100)))
    producer.start()
    wait_until_blocked(process)
    stopper = threading.Thread(target=process.dispose)
    stopper.start()
    producer.join(SOON)
    assert not producer.is_alive()
    sink.go(10)
    stopper.join(SOON)
    assert not stopper.is_alive()
    assert process.wait(0)
    assert sink.rows == list(range(6))
    assert sink.told.count("close") == 1
    assert not subject.observers


@both
def test_a_sink_may_stop_its_process_from_inside(when_full: WhenFull) -> None:
    """dispose from inside write returns; rows that are still queued are not written."""
    running: list[rxt.Process] = []
    sink = Log(during={"write": lambda: running[0].dispose()})
    started = threading.Event()
    subject: Subject[Any] = Subject()
    stream = rxt.from_observable(subject, schema=SCHEMA, hand_off=rxt.HandOff(9, when_full))
    running.append(stream.run(sink))
    started.set()
    push(subject, range(3))
    assert running[0].wait(SOON)
    assert sink.told == ["open", "write", "close"]


def test_what_the_query_pushes_back_is_never_held_up() -> None:
    """A full queue takes rows that its own query pushes: the consumer never waits for room."""
    subject: Subject[Any] = Subject()
    sink = Log()
    stream = rxt.from_observable(subject, schema=SCHEMA, hand_off=rxt.HandOff(1))

    def echo() -> None:
        last = sink.batches[-1].start.max() if len(sink.batches[-1]) else 99
        if last == 0:
            push(subject, range(1, 20))
            subject.on_completed()

    sink._during["write"] = echo
    process = stream.run(sink)
    push(subject, [0])
    process.wait(SOON)
    assert sink.rows == list(range(20))


def test_rows_that_cannot_be_spilled_are_not_lost(tmp_path: Path) -> None:
    """If the disk fails, everything accepted before is written; then the process ends."""
    sink = Steps()
    (tmp_path / "spill").touch()
    subject, process = run_with_hand_off(sink, 8, WhenFull.SPILL, path=tmp_path / "spill")
    push(subject, [0])
    sink.wait_until_writing()
    push(subject, range(1, 100))
    sink.go(100)
    with pytest.raises(SpoolError, match=r"cannot spill rows .* is a file"):
        process.wait(SOON)
    assert sink.rows == list(range(len(sink.rows)))
    assert 8 >= len(sink.rows) > 4


def test_a_spilled_file_that_has_changed_ends_the_process(tmp_path: Path) -> None:
    """A flipped bit is no other row; the error names the file."""
    files = SpillFiles(tmp_path)
    batch = EventBatch.from_dicts([{"start_time": t, "x": t} for t in range(40)], cti=50)
    files.write(batch)
    (path,) = tmp_path.glob("*/*.arrow")
    content = path.read_bytes()
    for changed in content[:-9], content.replace(b"\x07", b"\x08"), bytes(len(content)):
        path.write_bytes(changed)
        with pytest.raises(SpoolError, match=r"1\.arrow is damaged: .* 40 rows were spilled.*Hint"):
            files._files[0].read()
    path.write_bytes(content)
    assert files.take().read().to_dicts() == batch.to_dicts()


FORKED_SPILL = """
import os, sys
from rxtemporal import EventBatch
from rxtemporal.run.hand_off.buffer import SpillFiles

files = SpillFiles(sys.argv[1])
files.write(EventBatch.from_dicts([{"start_time": 1, "x": 1}], cti=2))
child = os.fork()
if not child:
    files.close()
    sys.exit()
os.waitpid(child, 0)
print(len(files.take().read()))
"""


def test_a_forked_process_leaves_spilled_rows_to_its_parent(tmp_path: Path) -> None:
    """Neither its end nor closing them deletes the files; the parent's end does."""
    command = [sys.executable, "-P", "-c", FORKED_SPILL, str(tmp_path)]
    ran = subprocess.run(command, timeout=SOON, check=True, stdout=subprocess.PIPE, text=True)
    assert ran.stdout == "1\n"
    assert not list(tmp_path.iterdir())


def test_subscribers_iterators_and_event_loops_have_it_too() -> None:
    """The hand-off belongs to the run, whatever asks for its results."""
    cold = rxt.from_observable(Pushed(50), schema=SCHEMA, hand_off=rxt.HandOff(3))
    wanted = list(range(50))
    assert cold.to_polars()["payload"].to_list() == wanted
    assert [event.payload for event in cold.to_events()] == wanted
    over, seen = threading.Event(), []
    cold.subscribe(lambda event: seen.append(event.payload), on_completed=over.set)
    assert over.wait(SOON)
    assert seen == wanted


class Pushed(Subject[Any]):
    """A source that pushes as soon as somebody listens."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count

    def subscribe(self, *arguments: Any, **options: Any) -> Any:
        """Subscribe, then push everything."""
        subscription = super().subscribe(*arguments, **options)
        for observer in list(self.observers):
            for time in range(self._count):
                observer.on_next(PointEvent(time, time))
                observer.on_next(Cti(time + 1))
            observer.on_completed()
        self.observers.clear()
        return subscription


BAD: list[tuple[dict[str, Any], str]] = [
    ({"max_rows": 0}, "max_rows must be positive, got 0"),
    ({"max_rows": 2.5}, "max_rows is a number of rows"),
    ({"max_rows": True}, "max_rows is a number of rows"),
    ({"when_full": "block"}, "when_full is WhenFull.BLOCK or SPILL"),
    ({"path": "here"}, "a hand-off that blocks spills none. Hint"),
    ({"path": 5}, "path is a folder"),
    ({"linger": timedelta(-1)}, "linger must not be negative"),
    ({"linger": 0.5}, "linger is a timedelta"),
]


@pytest.mark.parametrize(("given", "message"), BAD)
def test_what_is_no_hand_off_is_refused(given: dict[str, Any], message: str) -> None:
    """Each wrong setting is named where it is given."""
    with pytest.raises(ArgumentError, match=message):
        rxt.HandOff(**given)


def test_only_a_hand_off_is_one() -> None:
    """A number, or the class itself, is refused with a hint."""
    for bad in 5, rxt.HandOff:
        with pytest.raises(ArgumentError, match="hand_off is a HandOff"):
            rxt.from_observable(Subject(), hand_off=bad)  # type: ignore[arg-type]
