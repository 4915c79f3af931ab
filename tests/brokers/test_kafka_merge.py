"""The merge of partitions: each message once and in order, however appends and polls interleave."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from rxtemporal import EventBatch
from rxtemporal.brokers.kafka import PartitionMerge, PartitionRows
from rxtemporal.brokers.kafka_messages import Piece
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.ingress.verdict import Rejected

# (start, or None for a message that is not a row)
Message = int | None


def is_empty(offset: int, start: Message) -> bool:
    """Return True for a message without a value; others that are not rows do not fit."""
    return start is None and offset % 2 == 0


def count_all(log: list[Message]) -> list[int]:
    """Return how many messages are rows, do not fit, and have no value."""
    count = sum(start is not None for start in log)
    empty = sum(is_empty(*each) for each in enumerate(log))
    return [count, len(log) - count - empty, empty]


def make_piece(partition: int, offset: int, messages: list[Message]) -> Piece:
    """Consecutive messages of a partition; a row names its partition and its offset."""
    offsets = [offset + n for n, start in enumerate(messages) if start is not None]
    starts = np.array([start for start in messages if start is not None], np.int64)
    payload = pl.DataFrame(
        {"partition": [partition] * len(offsets), "offset": offsets},
        schema={"partition": pl.Int64, "offset": pl.Int64},
    )
    batch = EventBatch(starts, None, None, payload, 0)
    others = [n for n, start in enumerate(messages, offset) if start is None]
    empty = np.array([n for n in others if is_empty(n, None)], np.int64)
    rejected = tuple(Rejected(n, "", None) for n in others if not is_empty(n, None))
    return Piece(batch, np.array(offsets, np.int64), offset + len(messages), empty, rejected)


class Cluster:
    """Partitions that grow, and a merge that reads them."""

    def __init__(self, partitions: int) -> None:
        self.logs: list[list[Message]] = [[] for _ in range(partitions)]
        self.taken: list[list[int]] = [[] for _ in range(partitions)]
        self.begin([0] * partitions, [[0, 0, 0]] * partitions)

    def begin(self, offsets: list[int], counts: list[list[int]]) -> None:
        """Read from these offsets on, as a run does that starts or is resumed."""
        self.merge = PartitionMerge()
        self.positions = offsets
        for number, offset in enumerate(offsets):
            self.merge.partitions["topic", number] = PartitionRows(offset, counts[number])

    def poll(self, number: int, most: int) -> None:
        """Read the next messages of a partition, and see its end if there are fewer."""
        rows = self.merge.partitions["topic", number]
        messages = self.logs[number][rows.next : rows.next + most]
        if messages:
            rows.add(make_piece(number, rows.next, messages))
        if len(messages) < most:
            rows.at_end = True

    def take(self, until: int) -> None:
        """Take rows, and check that each offset comes once, in order, before the position."""
        batch = self.merge.take(until)
        for row in [] if batch is None else batch.payload.to_dicts():
            self.taken[row["partition"]].append(row["offset"])
        positions = [rows.position for rows in self.merge.partitions.values()]
        for number, log in enumerate(self.logs):
            assert self.positions[number] <= positions[number]
            rows = [n for n, start in enumerate(log[: positions[number]]) if start is not None]
            assert self.taken[number] == rows
        self.positions = positions
        assert self.count() == [
            count_all(log[:at]) for log, at in zip(self.logs, positions, strict=True)
        ]

    def count(self) -> list[list[int]]:
        """Return the counters of each partition at its position."""
        return [rows.count_taken() for rows in self.merge.partitions.values()]

    def finish(self) -> None:
        """Read all partitions to their ends."""
        for number, log in enumerate(self.logs):
            self.poll(number, len(log) + 1)
        self.take(MAX_TIME)
        assert self.positions == [len(log) for log in self.logs]
        for log, rows in zip(self.logs, self.merge.partitions.values(), strict=True):
            assert [rows.events, rows.rejected, rows.tombstones] == count_all(log)


def test_a_partition_that_goes_on_with_lower_times_gives_no_row_twice() -> None:
    """The limit falls below rows that are taken already; they are not taken again."""
    cluster = Cluster(3)
    cluster.logs = [[10, 20, 30], [25], []]
    for each in range(3):
        cluster.poll(each, len(cluster.logs[each]) or 1)
    cluster.take(MAX_TIME)  # partition 1 holds back what is after 25, partition 2 is at its end
    assert cluster.taken == [[0, 1], [0], []]
    cluster.logs[2] += [5]
    cluster.poll(2, 1)
    cluster.take(MAX_TIME)
    cluster.finish()
    assert cluster.taken == [[0, 1, 2], [0], [0]]


number = st.integers(0, 2)
time = st.integers(0, 20)
steps = st.one_of(
    st.tuples(st.just("append"), number, st.lists(st.none() | time, min_size=3, max_size=6)),
    st.tuples(st.just("poll"), number, st.integers(1, 9)),
    st.tuples(st.just("take"), time | st.just(MAX_TIME)),
    st.just(("restart",)),
)


@settings(max_examples=20 * settings().max_examples)
@given(st.lists(steps, min_size=12, max_size=40))
def test_each_offset_comes_once_in_order(steps: list[tuple[Any, ...]]) -> None:
    """In any interleaving of appends, polls, takes and restarts; the position never goes back, and
    the counters there are those of the messages before it."""
    cluster = Cluster(3)
    for step in [("restart",), *steps]:
        match step:
            case "append", where, messages:
                cluster.logs[where] += messages
            case "poll", where, most:
                cluster.poll(where, most)
            case "take", until:
                cluster.take(until)
            case _:
                cluster.begin(cluster.positions, cluster.count())
                for each in range(3):
                    cluster.poll(each, 1)
    cluster.finish()
