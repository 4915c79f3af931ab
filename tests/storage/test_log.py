"""The group commit of a log: who waits is let go when its records are durable, and not before."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from runs import SOON
from statements import Write, list_contents, watch_file

import rxtemporal as rxt
from rxtemporal import PointEvent
from rxtemporal.errors import SpoolError
from rxtemporal.storage.event_log.columns import Item, load_records
from rxtemporal.storage.event_log.layout import StreamFacts
from rxtemporal.storage.event_log.log import Log, StreamLog
from rxtemporal.storage.event_log.reader import Recording


class Disk(Log):
    """A log whose disk is a set of starts; ``before`` is called before each write."""

    def __init__(self, before: Callable[[set[int]], Any] = lambda starts: None) -> None:
        super().__init__()
        self.on_disk: set[int] = set()
        self.writes = self.at_once = 0
        self.before = before
        self.streams.append(StreamLog(self, 0, StreamFacts("live", False), None))

    @property
    def stream(self) -> StreamLog:
        """The log of the one stream."""
        return self.streams[0]

    def _write(self, runs: list[list[int]], items: Mapping[StreamLog, list[Item]]) -> None:
        self.at_once += 1
        assert self.at_once == 1
        starts = {item.start for noted in items.values() for item in noted}  # type: ignore[union-attr]
        try:
            self.before(starts)  # type: ignore[arg-type]
        finally:
            self.at_once -= 1
        self.on_disk |= starts  # type: ignore[arg-type]
        self.writes += 1


def point(start: int) -> PointEvent:
    """A point."""
    return PointEvent(start, start)


def in_threads(*works: Callable[[], Any]) -> list[threading.Thread]:
    """Start a thread for each."""
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    return threads


def test_a_cut_keeps_records_apart() -> None:
    """What was noted before it and after it is written apart, and durable together."""
    log = Disk()
    written = list[set[int]]()
    log.before = lambda starts: written.append(set(starts))
    assert log.cut() == 0
    log.stream.note_events([point(1), point(2)])
    assert log.cut() == 2
    assert log.cut() == 2
    log.stream.note_event(point(3))
    assert written == []
    log.flush()
    assert written == [{1, 2}, {3}]
    assert log.durable == log.noted == 3


def has_ended(threads: list[threading.Thread]) -> bool:
    """Return True if all of them end soon."""
    for thread in threads:
        thread.join(SOON)
    return not any(thread.is_alive() for thread in threads)


def test_threads_and_an_acceptance_thread_share_commits() -> None:
    """Sixteen that push one at a time, one that pushes many: nobody waits for ever or too short."""
    log, missing = Disk(), list[set[int]]()

    def push(first: int, count: int, size: int) -> None:
        for at in range(first, first + count, size):
            starts = range(at, at + size)
            log.stream.note_events([point(start) for start in starts])
            log.flush()
            if not log.on_disk.issuperset(starts):
                missing.append(set(starts) - log.on_disk)

    alone = [lambda n=n: push(n * 1_000, 150, 1) for n in range(16)]  # type: ignore[misc]
    assert has_ended(in_threads(*alone, lambda: push(100_000, 6_400, 64)))
    assert missing == []
    assert len(log.on_disk) == log.noted == 16 * 150 + 6_400


def test_those_that_come_while_one_writes_are_the_next_commit() -> None:
    """All of them in one."""
    writing, go_on = threading.Event(), threading.Event()

    def wait(starts: set[int]) -> None:
        writing.set()
        go_on.wait(SOON)

    log = Disk(wait)
    log.stream.note_event(point(0))
    leader = in_threads(log.flush)
    assert writing.wait(SOON)
    followers = []
    for start in range(1, 9):
        log.stream.note_event(point(start))
        followers += in_threads(log.flush)
    go_on.set()
    assert has_ended(leader + followers)
    assert (log.writes, log.on_disk) == (2, set(range(9)))


def test_a_write_that_fails_is_told_to_all_who_wait_for_it() -> None:
    """And to all who come later; who has been durable before stays so."""
    failing, go_on = threading.Event(), threading.Event()

    def fail(starts: set[int]) -> None:
        if 0 not in starts:
            failing.set()
            go_on.wait(SOON)
            raise SpoolError("the disk is full")

    log, raised = Disk(fail), list[BaseException]()

    def flush() -> None:
        try:
            log.flush()
        except SpoolError as error:
            raised.append(error)

    log.stream.note_event(point(0))
    log.flush()
    log.stream.note_event(point(1))
    threads = in_threads(flush)
    assert failing.wait(SOON)
    for start in range(2, 6):
        log.stream.note_event(point(start))
        threads += in_threads(flush)
    go_on.set()
    assert has_ended(threads)
    assert [str(error) for error in raised] == ["the disk is full"] * 5
    with pytest.raises(SpoolError, match="is full"):
        log.stream.note_event(point(9))
    assert not log._must_lead(1)
    with pytest.raises(SpoolError, match="is full"):
        log._must_lead(2)


def test_a_write_that_is_interrupted_lets_nobody_wait() -> None:
    """The one who wrote gets the interrupt, the others an error."""
    writing, go_on = threading.Event(), threading.Event()

    def interrupt(starts: set[int]) -> None:
        writing.set()
        go_on.wait(SOON)
        raise KeyboardInterrupt

    log, raised = Disk(interrupt), list[type[BaseException]]()

    def flush() -> None:
        try:
            log.flush()
        except BaseException as error:
            raised.append(type(error))

    log.stream.note_event(point(0))
    leader = in_threads(flush)
    assert writing.wait(SOON)
    log.stream.note_event(point(1))
    followers = in_threads(flush, flush)
    go_on.set()
    assert has_ended(leader + followers)
    assert sorted(map(str, raised)) == sorted(map(str, [KeyboardInterrupt, SpoolError, SpoolError]))
    assert log.on_disk == set()


def test_threads_and_event_loops_are_told_what_is_durable(tmp_path: Path) -> None:
    """Sixteen threads and two loops push at once: each verdict comes behind its own commit."""
    durable, missing = set[int](), list[int]()

    def note(writes: Sequence[Write]) -> None:
        contents = [content for write in writes for content in list_contents(write)]
        durable.update(seq for content in contents for seq in load_records([content])["seq"])

    source = rxt.PushSource("readings", schema={"x": int}, start="time", delay=10**6)
    with watch_file(after=note):
        process = source.stream.run(rxt.Collect(), log=tmp_path / "log")

    def check(seq: int, verdict: rxt.Verdict) -> None:
        if verdict.accepted != 1 or seq not in durable:
            missing.append(seq)

    def push(first: int) -> None:
        for seq in range(first, first + 25):
            check(seq, source.push({"time": seq, "x": seq}, seq=seq, input=str(first)))

    async def push_one(seq: int, name: str) -> None:
        check(seq, await source.push_async({"time": seq, "x": seq}, seq=seq, input=name))

    async def push_many(first: int) -> None:
        await asyncio.gather(*(push_one(first + n, f"{first + n}") for n in range(200)))

    threads = [lambda n=n: push(n * 1_000) for n in range(16)]  # type: ignore[misc]
    loops = [lambda n=n: asyncio.run(push_many(n)) for n in (50_000, 60_000)]  # type: ignore[misc]
    assert has_ended(in_threads(*threads, *loops))
    process.stop()
    assert missing == []
    assert len(durable) == Recording(tmp_path / "log").count() == 16 * 25 + 2 * 200


def test_nothing_is_gathered_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events that come later are noted, or raise it again: none waits unseen."""
    log = Disk()
    with monkeypatch.context() as patch:
        patch.setattr(log, "note", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError), log.stream.gather():
            log.stream.note_event(point(1))
    log.stream.note_event(point(2))
    assert log.noted == 1
