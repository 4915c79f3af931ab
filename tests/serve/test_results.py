"""Feeds of results: each reader gets each row once, from its position, whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.errors import ArgumentError, ProcessEndedError
from rxtemporal.serve import ResultFeed
from rxtemporal.serve.results import EVENT_BYTES, FeedEvent, FeedReader, RestartedError

SCHEMA = pl.Schema({"x": pl.Int64})


def batch(starts: list[int], cti: int, first: int = 0) -> EventBatch:
    """Return points with these starts, numbered from ``first``, and a CTI."""
    times = np.array(starts, np.int64)
    numbers = pl.DataFrame({"x": range(first, first + len(starts))}, schema=SCHEMA)
    return EventBatch.of_rows(times, times + 1, numbers, cti)


def open_feed(rows: int = 100) -> ResultFeed:
    """Return a feed that is open, with times as ticks."""
    feed = ResultFeed(rows)
    feed.set_time_form(lambda: "ticks")
    feed.open("hot", SCHEMA)
    return feed


class Client:
    """Reader that keeps what it reads, and its position as a client of HTTP does."""

    def __init__(self, position: int = MIN_TIME) -> None:
        self.position = position
        self.rows: list[dict[str, Any]] = []
        self.kinds: list[str] = []
        # rows of events without a position, which come again after a break
        self._waiting: list[dict[str, Any]] = []
        self._feed: ResultFeed | None = None
        self._reader: FeedReader | None = None

    def leave(self) -> None:
        """Break the connection."""
        self._feed, self._waiting = None, []

    def read(self, feed: ResultFeed, events: int | None = None) -> Client:
        """Read all there is, or a number of events; come back where that is asked for."""
        if self._feed is not feed:
            self.leave()
            self._feed, self._reader = feed, feed.read_from(self.position)
        reader = self._reader
        assert reader is not None
        while events is None or events > 0:
            try:
                event = reader.read()
            except RestartedError:
                self.leave()
                return self.read(feed, events)
            if event is None:
                break
            self.kinds.append(event.kind)
            if event.kind == "rows":
                self._waiting += json.loads(event.data)
            if event.position is not None:
                self.rows += self._waiting
                self._waiting, self.position = [], event.position
            if event.kind == "end":
                break
            events = None if events is None else events - 1
        return self


def read(feed: ResultFeed, position: int) -> FeedEvent | None:
    """Return the first event from a position on."""
    return feed.read_from(position).read()


async def wait(feed: ResultFeed, position: int, left: asyncio.Future[None]) -> None:
    """Wait as a reader at a position does."""
    await FeedReader(feed, position).wait(60, left)


def starts(rows: list[dict[str, Any]]) -> list[int]:
    """Return the starts of rows."""
    return [row["start_time"] for row in rows]


def test_a_position_is_a_cti() -> None:
    """A reader at a CTI has the rows before it and gets those from it on."""
    feed = open_feed()
    feed.write(batch([1, 3], 5))
    client = Client().read(feed)
    assert (starts(client.rows), client.position) == ([1, 3], 5)
    assert read(feed, 5) is None
    feed.write(batch([5, 7], 8))
    assert starts(client.read(feed).rows) == [1, 3, 5, 7]
    assert starts(Client(3).read(feed).rows) == [3, 5, 7]
    assert starts(Client(4).read(feed).rows) == [5, 7]


def test_time_that_advances_without_rows_is_told() -> None:
    """A CTI without rows is an event, one for all since the reader's position."""
    feed = open_feed()
    feed.write(batch([1], 5))
    client = Client().read(feed)
    feed.write(batch([], 6))
    feed.write(batch([], 9))
    assert (client.read(feed).kinds, client.position) == (["rows", "cti"], 9)


def test_a_reader_ahead_of_the_feed_waits_for_its_position() -> None:
    """Rows before its position are not for it, and its position never goes back."""
    feed = open_feed()
    feed.write(batch([1], 5))
    client = Client(20).read(feed)
    feed.write(batch([6], 15))
    assert (client.read(feed).kinds, client.position) == ([], 20)
    feed.write(batch([19, 20, 21], 30))
    assert (starts(client.read(feed).rows), client.position) == ([20, 21], 30)


def test_an_event_ends_between_two_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its position says which rows were read; more rows with one start are several events."""
    monkeypatch.setattr("rxtemporal.serve.results._PART", 4)
    feed = open_feed()
    feed.write(batch([1, 1, 2, 2, 2, 2, 2, 2, 3, 4], 9))
    reader, parts = feed.read_from(MIN_TIME), []
    while (event := reader.read()) is not None:
        parts.append((starts(json.loads(event.data)), event.position))
    assert parts == [([1, 1], 2), ([2] * 4, None), ([2, 2, 3, 4], 9)]
    feed.write(batch([11, 12, 13, 14, 15], 20))
    assert read(feed, 9) == read(feed, 10)
    event = read(feed, 9)
    assert event is not None
    assert (starts(json.loads(event.data)), event.position) == ([11, 12, 13, 14], 15)


def test_rows_with_one_start_that_are_too_large_for_an_event_are_several() -> None:
    """Each has less than a client takes, the last one alone has a position, and a break in between
    begins them again."""
    feed = open_feed(rows=100_000)
    text = pl.DataFrame({"x": ["device " * 20] * 10_000})
    times = np.full(10_000, 60, np.int64)
    feed.write(EventBatch.of_rows(times, times + 1, text, 120))
    reader, events = feed.read_from(MIN_TIME), []
    while (event := reader.read()) is not None:
        events.append(event)
    assert max(len(event.data) for event in events) <= EVENT_BYTES
    assert [event.position for event in events] == [None] * (len(events) - 1) + [120]
    assert sum(len(json.loads(event.data)) for event in events) == 10_000
    client = Client().read(feed, 3)
    assert (client.rows, client.position) == ([], MIN_TIME)
    client.leave()
    assert len(client.read(feed).rows) == 10_000


def test_a_row_that_is_larger_than_an_event_is_one() -> None:
    """It comes alone, so that its neighbours stay small."""
    feed = open_feed()
    times = np.array([1, 2, 3], np.int64)
    text = pl.DataFrame({"x": ["a", "b" * (2 * EVENT_BYTES), "c"]})
    feed.write(EventBatch.of_rows(times, times + 1, text, 9))
    reader, found = feed.read_from(MIN_TIME), []
    while (event := reader.read()) is not None:
        found.append((starts(json.loads(event.data)), event.position))
    assert found == [([1], 2), ([2], 3), ([3], 9)]


def test_a_reader_inside_of_one_start_comes_back_after_a_restart() -> None:
    """The next run may have the rows with that start in another order."""
    feed = open_feed()
    times = np.array([5, 5, 5], np.int64)
    texts = ["b" * EVENT_BYTES, "a", "c" * EVENT_BYTES]

    def write(order: list[int]) -> None:
        text = pl.DataFrame({"x": [texts[n] for n in order]})
        feed.write(EventBatch.of_rows(times, times + 1, text, 9))

    write([0, 1, 2])
    client = Client()
    client.read(feed, 1)
    feed.close(RuntimeError("failed"))
    feed.open("hot", pl.Schema({"x": pl.String}))
    write([1, 2, 0])
    assert sorted(row["x"] for row in client.read(feed).rows) == sorted(texts)


def test_the_end_of_the_stream_is_told_and_kept() -> None:
    """A query that completes ends at the end of time; one that fails has not ended."""
    feed = open_feed()
    feed.write(batch([1], MAX_TIME))
    feed.close(RuntimeError("stopped"))
    client = Client().read(feed)
    assert client.kinds == ["rows"]
    feed.close(None)
    assert client.read(feed).kinds == ["rows", "end"]
    again = ResultFeed()
    again.load(feed.save()())
    again.open("hot", SCHEMA)
    assert Client().read(again).kinds == ["rows", "end"]


def test_rows_that_never_end_and_windows_at_their_end() -> None:
    """Both are read once: an endless row has no end, a result at its window's end starts there."""
    endless, ends = ResultFeed(), ResultFeed()
    events = [rxt.EdgeEvent.create_start(2, {"x": 1}), rxt.Cti(50)]
    with rxt.from_events(events).run(endless):
        pass
    (row,) = Client().read(endless).rows
    assert (row["start_time"], row["end_time"]) == (2, None)
    points = [rxt.PointEvent(t, {"x": t}) for t in (1, 4, 12, 25)]
    source = rxt.from_events([*points[:3], rxt.Cti(20), points[3], rxt.Cti(30)])
    windows = source.tumbling_window(10).aggregate(n=agg.count())
    with windows.point_at_end().run(ends):
        pass
    assert starts(Client().read(ends).rows) == [10, 20, 30]


@pytest.mark.parametrize("seed", range(40))
def test_each_row_is_read_once_whatever_the_parts(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random batches, runs that fail, and readers that come, break and go on."""
    random_ = random.Random(seed)
    most = random_.choice([30, 200, 5_000])
    monkeypatch.setattr("rxtemporal.serve.results.EVENT_BYTES", most)
    monkeypatch.setattr("rxtemporal.serve.results._PART", random_.choice([1, 3, 50]))
    monkeypatch.setattr("rxtemporal.serve.results._ROWS", random_.choice([2, 20, 4_096]))
    monkeypatch.setattr("rxtemporal.serve.results._BATCHES", random_.choice([2, 5, 64]))
    feed, cti, rows = open_feed(10_000), 0, []
    clients = [Client() for _ in range(4)]
    for _ in range(80):
        end = cti + random_.randint(0, 6)
        new = sorted(random_.choices(range(cti, end), k=random_.randint(0, 8))) if end > cti else []
        feed.write(batch(new, end, len(rows)))
        cti, rows = end, [*rows, *new]
        client = random_.choice(clients)
        client.read(feed, random_.randint(1, 3))
        if random_.random() < 0.2:
            client.leave()
        if random_.random() < 0.05:
            fail_and_write_again(feed, rows, cti, random_)
    for client in clients:
        client.read(feed)
        assert starts(client.rows) == rows
        assert sorted(row["x"] for row in client.rows) == list(range(len(rows)))


def fail_and_write_again(
    feed: ResultFeed, rows: list[int], cti: int, random_: random.Random
) -> None:
    """Start the run again without a checkpoint: the rows of one start come in another order."""
    feed.close(RuntimeError("failed"))
    feed.open("hot", SCHEMA)
    order = sorted(range(len(rows)), key=lambda n: (rows[n], random_.random()))
    times = np.array(rows, np.int64)
    numbers = pl.DataFrame({"x": order}, schema=SCHEMA)
    feed.write(EventBatch.of_rows(times, times + 1, numbers, cti))


def test_the_oldest_rows_go_and_a_slow_reader_is_told() -> None:
    """At most ``rows`` and an eighth stay; a reader behind them gets a gap, then the rest."""
    feed = open_feed(rows=80)
    client = Client().read(feed)
    for number in range(500):
        feed.write(batch([number], number + 1, number))
        assert feed.count <= 90
    assert 410 <= feed.oldest <= 420
    client.read(feed)
    assert client.kinds[:2] == ["gap", "rows"]
    assert starts(client.rows) == list(range(feed.oldest, 500))
    event = read(feed, 100)
    assert event is not None
    assert json.loads(event.data) == {"from": 100, "oldest": feed.oldest}


def test_a_batch_with_more_rows_than_are_kept() -> None:
    """Its last rows stay, and those with one start stay or go together."""
    feed = open_feed(rows=8)
    feed.write(batch([*range(20), 30, 30, 30, 30, 30], 50))
    assert (feed.oldest, feed.count) == (17, 8)
    feed.write(batch([60] * 30, 70))
    assert (feed.oldest, feed.count) == (61, 0)
    client = Client(feed.oldest).read(feed)
    assert (client.kinds, client.position) == (["cti"], 70)


def test_the_kept_rows_have_a_limit_of_bytes() -> None:
    """Rows of 60 kB go long before there are as many as may be; the newest ones stay."""
    feed = ResultFeed(bytes=1_000_000)
    feed.set_time_form(lambda: "ticks")
    feed.open("hot", pl.Schema({"x": pl.String}))
    for number in range(200):
        text = pl.DataFrame({"x": ["x" * 60_000] * 2})
        times = np.array([2 * number, 2 * number + 1], np.int64)
        feed.write(EventBatch.of_rows(times, times + 1, text, 2 * number + 2))
        assert feed.count <= 19
    assert feed.count >= 14
    assert starts(Client(feed.oldest).read(feed).rows) == list(range(feed.oldest, 400))


def test_a_feed_is_saved_and_loaded() -> None:
    """What was kept is there again, with the first position from which nothing is missing."""
    feed = open_feed(rows=8)
    feed.write(batch(list(range(20)), 20))
    again = ResultFeed(rows=8)
    again.set_time_form(lambda: "ticks")
    again.load(feed.save()())
    again.open("hot", SCHEMA)
    assert (again.oldest, again.cti, again.count) == (feed.oldest, 20, feed.count)
    assert Client(feed.oldest).read(again).rows == Client(feed.oldest).read(feed).rows
    smaller = ResultFeed(rows=2)
    smaller.load(feed.save()())
    assert (smaller.oldest, smaller.count) == (18, 2)


def test_a_run_that_begins_anew_begins_without_rows() -> None:
    """Without a checkpoint the next run computes everything again."""
    feed = open_feed()
    feed.write(batch([1, 2], 5))
    feed.close(RuntimeError("failed"))
    feed.open("hot", SCHEMA)
    assert (feed.count, feed.cti, feed.oldest) == (0, MIN_TIME, MIN_TIME)
    client = Client(5)
    feed.write(batch([1, 2], 4))
    feed.write(batch([4, 5], 6))
    assert starts(client.read(feed).rows) == [5]


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_client_that_comes_back_after_a_restart_has_each_row_once(
    tmp_path: Path, checkpoint: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The results since the checkpoint come again in other batches; a position says the same."""
    monkeypatch.setattr("rxtemporal.serve.results._PART", 3)
    client, expected = Client(), []
    random_ = random.Random(1)
    for life in range(5):
        source = rxt.PushSource("readings", schema={"x": int}, delay=20, seq="n")
        feed = ResultFeed()
        query = source.stream.tumbling_window(10).aggregate(n=agg.count(), x=agg.max("x"))
        process = query.run(feed, resume=tmp_path / "state")
        client.read(feed)
        for step in range(25):
            time = life * 100 + step * 4 + random_.randint(0, 15)
            source.push({"time": time, "x": time, "n": life * 100 + step})
            expected.append(time // 10 * 10)
            if step == 12:
                # the client has read a part of what there is when the connection is cut
                client.read(feed, 2)
        client.read(feed, 1 if life % 2 else None)
        if checkpoint:
            process.stop()
        else:
            process.stop(RuntimeError("no checkpoint at the end"))
    source = rxt.PushSource("readings", schema={"x": int}, delay=20, seq="n")
    feed = ResultFeed()
    query = source.stream.tumbling_window(10).aggregate(n=agg.count(), x=agg.max("x"))
    process = query.run(feed, resume=tmp_path / "state")
    source.close()
    process.wait()
    client.read(feed)
    assert starts(client.rows) == sorted(set(expected))
    assert sum(row["n"] for row in client.rows) == len(expected)
    assert client.kinds[-1] == "end"


class Watched(ResultFeed):
    """Feed which a client reads before each batch, as while another sink takes its time."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.client, self.is_full = client, False

    def write(self, batch: EventBatch) -> None:
        """Let the client read, and keep the batch, or fail."""
        self.client.read(self)
        if self.is_full:
            raise OSError("disk is full")
        super().write(batch)


@pytest.mark.parametrize("is_new", [False, True])
def test_a_reader_ahead_of_a_run_that_resumes_waits_for_it(tmp_path: Path, is_new: bool) -> None:
    """Numbered batches come again one at a time; a number that none of them has is told at last."""
    client, feed = Client(), Watched(Client())
    for life in range(3):
        source = rxt.PushSource("readings", schema={"device": str}, clock="device", seq="n")
        if is_new or life == 0:
            feed = Watched(client)
        feed.is_full = False
        process = source.stream.run(feed, resume=tmp_path / "state")
        assert Client(40).read(feed).kinds[:1] == ["gap"]
        for n in range(6 * life, 6 * life + 5):
            source.push({"time": n, "device": "a", "n": n})
        client.read(feed)
        feed.is_full = True
        with contextlib.suppress(ProcessEndedError):
            source.push({"time": 6 * life + 5, "device": "a", "n": 6 * life + 5})
        with pytest.raises(OSError, match="disk is full"):
            process.wait()
    assert "gap" not in client.kinds
    assert starts(client.rows) == list(range(16))


def test_a_reader_that_waits_for_a_number_is_woken_when_it_cannot_come() -> None:
    """While batches come again there is no news for it, and no gap."""
    feed = open_feed()
    feed.numbered = True

    async def read() -> FeedEvent | None:
        feed.set_next_number(None)
        assert (read_first(), feed.has_news(40)) == (None, False)
        left = asyncio.get_running_loop().create_future()
        waiting = asyncio.ensure_future(wait(feed, 40, left))
        await asyncio.sleep(0)
        feed.set_next_number(8)
        await asyncio.wait_for(waiting, 30)
        return read_first()

    def read_first() -> FeedEvent | None:
        return feed.read_from(40).read()

    event = asyncio.run(read())
    assert event is not None
    assert event.kind == "gap"


def test_readers_are_woken_once_in_a_turn_of_their_loop() -> None:
    """A thread that writes a thousand batches calls into the loop a few times, and never waits."""
    feed = open_feed(rows=10_000)
    calls = 0

    async def read() -> list[int]:
        nonlocal calls
        loop = asyncio.get_running_loop()
        call_soon = loop.call_soon_threadsafe

        def count(*arguments: Any) -> Any:
            nonlocal calls
            calls += 1
            return call_soon(*arguments)

        loop.call_soon_threadsafe = count  # type: ignore[method-assign]
        client, left = Client(), loop.create_future()
        waiting = asyncio.ensure_future(wait(feed, client.position, left))
        await asyncio.sleep(0)
        for number in range(1_000):  # the loop takes no turn in here
            feed.write(batch([number], number + 1, number))
        await waiting
        return starts(client.read(feed).rows)

    assert asyncio.run(read()) == list(range(1_000))
    assert calls == 1


def test_a_reader_wakes_whatever_the_thread_that_writes() -> None:
    """News that come between the look and the wait are not missed."""
    feed = open_feed(rows=10_000)

    def write() -> None:
        for number in range(2_000):
            feed.write(batch([number], number + 1, number))
        feed.write(batch([], MAX_TIME))
        feed.close(None)

    async def read() -> Client:
        client, left = Client(), asyncio.get_running_loop().create_future()
        thread = threading.Thread(target=write)
        thread.start()
        while "end" not in client.read(feed).kinds:
            await wait(feed, client.position, left)
        thread.join()
        return client

    assert starts(asyncio.run(read()).rows) == list(range(2_000))


def test_a_reader_that_has_news_does_not_wait() -> None:
    """News that were there before it looked do not ring again."""
    feed = open_feed()
    feed.write(batch([1], 2))

    async def read() -> None:
        left = asyncio.get_running_loop().create_future()
        await asyncio.wait_for(wait(feed, 1, left), 30)

    asyncio.run(read())


def test_a_loop_that_has_been_closed_is_no_hindrance() -> None:
    """A reader that never comes back is not waited for."""
    feed = open_feed()

    loop = asyncio.new_event_loop()
    task = loop.create_task(wait(feed, MIN_TIME, loop.create_future()))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    feed.write(batch([1], 2))
    assert starts(Client().read(feed).rows) == [1]


def test_readers_at_one_place_share_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part is encoded once, and few parts are remembered."""
    monkeypatch.setattr("rxtemporal.serve.results._PART", 1)
    feed = open_feed()
    feed.write(batch(list(range(50)), 50))
    first, second = read(feed, 0), read(feed, 0)
    assert first is not None
    assert second is not None
    assert second.server_sent is first.server_sent
    assert second.message is first.message
    Client().read(feed)
    assert len(feed._encoded) <= 8


def test_wrong_arguments_are_refused() -> None:
    """The numbers of rows and of bytes are positive."""
    with pytest.raises(ArgumentError, match="number of results"):
        ResultFeed(0)
    with pytest.raises(ArgumentError, match="memory for the results"):
        ResultFeed(bytes=0)
