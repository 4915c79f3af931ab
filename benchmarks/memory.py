"""Peak memory over a stream of 50 million events, made as they are needed.

The number of keys and of rows alive stays the same from the beginning, so the peak should stay the
same, too; with ``keys`` and ``names`` keys come and go, two events each. Results are counted and
dropped.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

import measure
import numpy as np
import polars as pl
from algebra import LARGE, join, snapshots, tumbling
from reactivex.subject import Subject
from workloads import KEYS, PACE, SECOND

import rxtemporal as rxt
from rxtemporal import agg

MARKS = tuple(millions * 1_000_000 for millions in (1, 2, 5, 10, 20, 50))
# points per interval of validity
POINTS_EACH = 20
POINT_FIELDS = {"key": pl.Int32, "value": pl.Float64}
VALID_FIELDS = {"key": pl.Int32, "attr": pl.Float64}


class Feed:
    """Input of a query, made on the fly in batches, and the result that is expected."""

    fields: Mapping[str, Any] = POINT_FIELDS

    def __init__(self) -> None:
        self.entry: Subject[rxt.EventBatch] = Subject()
        self.stream = rxt.from_observable(self.entry, schema=self.fields)
        self.rng = np.random.default_rng(7)
        self.expected = 0

    def query(self) -> rxt.Streamable:
        """Return the query."""
        raise NotImplementedError

    def push(self, first: int, rows: int) -> None:
        """Push a number of events; ``first`` is the number of the first."""
        self.entry.on_next(self.points(first, rows))

    def count(self, batch: rxt.EventBatch) -> int:
        """Return the amount that complete results add to the figure to check."""
        raise NotImplementedError

    def end(self) -> None:
        """Complete the inputs."""
        self.entry.on_completed()

    def points(self, first: int, rows: int) -> rxt.EventBatch:
        """Return points, one a millisecond, at even ticks."""
        start = np.arange(first, first + rows, dtype=np.int64) * PACE
        return self.batch(start, start + 1, self.rng.integers(0, KEYS, rows))

    def batch(self, start: Any, end: Any, key: Any, field: str = "value") -> rxt.EventBatch:
        """Return rows, with a CTI at the last start."""
        values = self.rng.random(len(start))
        payload = pl.DataFrame({"key": key.astype(np.int32), field: values})
        return rxt.EventBatch.of_rows(start, end, payload, int(start[-1]))


class Tumbling(Feed):
    """W2: the counts of all windows add up to the points."""

    def query(self) -> rxt.Streamable:
        return tumbling(self.stream, SECOND)

    def push(self, first: int, rows: int) -> None:
        self.expected += rows
        super().push(first, rows)

    def count(self, batch: rxt.EventBatch) -> int:
        return int(batch.payload["n"].sum())


class ShortLived(Tumbling):
    """Each two points have a key of their own: a count by window and key, and no key comes back."""

    fields: Mapping[str, Any] = {"key": pl.Int64, "value": pl.Float64}

    def query(self) -> rxt.Streamable:
        return self.stream.group_by("key").tumbling_window(SECOND).aggregate(n=agg.count())

    def push(self, first: int, rows: int) -> None:
        self.expected += rows
        number = np.arange(first, first + rows, dtype=np.int64)
        payload = pl.DataFrame({"key": self.keys(number // 2), "value": self.rng.random(rows)})
        start = number * PACE
        self.entry.on_next(rxt.EventBatch.of_rows(start, start + 1, payload, int(start[-1])))

    def keys(self, number: Any) -> Any:
        """Return the keys of these numbers, far apart."""
        return number * 1_000_003


class ShortLivedNames(ShortLived):
    """The same with keys that are strings."""

    fields: Mapping[str, Any] = {"key": pl.String, "value": pl.Float64}

    def keys(self, number: Any) -> Any:
        """Return the keys of these numbers as strings."""
        return pl.Series(number).cast(pl.String) + " is the name of a key"


class Snapshots(Feed):
    """W6: counts times the snapshots' durations add up to the intervals' durations."""

    def query(self) -> rxt.Streamable:
        return snapshots(self.stream)

    def push(self, first: int, rows: int) -> None:
        start = np.arange(first, first + rows, dtype=np.int64) * PACE
        length = self.rng.exponential(5_000 * PACE, rows).astype(np.int64) + 1
        self.expected += int(length.sum())
        self.entry.on_next(self.batch(start, start + length, self.rng.integers(0, 100, rows)))

    def count(self, batch: rxt.EventBatch) -> int:
        return int(batch.payload["n"].to_numpy() @ (batch.end - batch.start))


class Joined(Feed):
    """W4: each key in turn has an interval, valid for four fifths of the time until its next."""

    def __init__(self) -> None:
        super().__init__()
        self.second: Subject[rxt.EventBatch] = Subject()
        self.validity = rxt.from_observable(self.second, schema=VALID_FIELDS)

    def query(self) -> rxt.Streamable:
        return join(self.stream, self.validity)

    def push(self, first: int, rows: int) -> None:
        points = self.points(first, rows)
        number = np.arange(-(-first // POINTS_EACH), -(-(first + rows) // POINTS_EACH))
        start = number * POINTS_EACH * PACE + 1
        if len(number):
            end = start + POINTS_EACH * PACE * KEYS * 4 // 5
            self.second.on_next(self.batch(start, end, number % KEYS, "attr"))
        # a point's key had its last interval so many intervals ago
        latest = (points.start - 1) // (POINTS_EACH * PACE)
        ago = (latest - points.payload["key"].to_numpy()) % KEYS
        begun = (latest - ago) * POINTS_EACH * PACE + 1
        valid = points.start < begun + POINTS_EACH * PACE * KEYS * 4 // 5
        self.expected += int((valid & (latest - ago >= 0)).sum())
        self.entry.on_next(points)

    def count(self, batch: rxt.EventBatch) -> int:
        return len(batch)

    def end(self) -> None:
        self.second.on_completed()
        super().end()


class Counting(rxt.Sink):
    """Sink that adds up the figure to check, and keeps nothing."""

    shape = rxt.EventShape.EDGE

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self.total = self.rows = 0

    def write(self, batch: rxt.EventBatch) -> None:
        whole = batch.take(batch.end != rxt.MAX_TIME)
        self.rows += len(whole)
        self.total += self._feed.count(whole)


FEEDS: dict[str, type[Feed]] = {
    "w2": Tumbling,
    "w4": Joined,
    "w6": Snapshots,
    "keys": ShortLived,
    "names": ShortLivedNames,
}


def parts(events: int, batch_rows: int) -> Iterator[tuple[int, int]]:
    """Yield number of the first event, and how many, of batches that stop at every mark."""
    first = 0
    for mark in [*(mark for mark in MARKS if mark < events), events]:
        while first < mark:
            rows = min(batch_rows, mark - first)
            yield first, rows
            first += rows


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", choices=[*FEEDS], required=True, help="one for each process")
    parser.add_argument("--events", type=int, default=50_000_000)
    parser.add_argument("--batch-rows", type=int, default=LARGE)
    options = parser.parse_args()
    feed = FEEDS[options.workload]()
    sink = Counting(feed)
    with feed.query().run(sink):
        for first, rows in parts(options.events, options.batch_rows):
            feed.push(first, rows)
            done, peak = first + rows, measure.peak_mebibytes()
            if done in MARKS or done == options.events:
                print(f"{done:>12,} events in, {sink.rows:>12,} results, peak {peak:8.1f} MiB")
        feed.end()
    assert sink.total == feed.expected, (sink.total, feed.expected)


if __name__ == "__main__":
    main()
