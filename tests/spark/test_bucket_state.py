"""A bucket's state as a base and a log: what is written, and who continues from what."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable
from random import Random
from typing import Any

import polars as pl
import pytest
from products import draw_seeds

import rxtemporal as rxt
from rxtemporal import agg

pa = pytest.importorskip("pyarrow")

from bucket_store import Bucket, LostWorkerError, ShakyBucket  # noqa: E402

from rxtemporal.engine.codec import dump_frame  # noqa: E402
from rxtemporal.run.stepper import Stepwise  # noqa: E402
from rxtemporal.spark.query.bucket_keys import make_bucket_key  # noqa: E402
from rxtemporal.spark.query.bucket_state import KeptRuns, StatefulRun, StateLimits  # noqa: E402
from rxtemporal.spark.query.job import compose_plan  # noqa: E402
from rxtemporal.spark.query.reader import InputReader  # noqa: E402
from rxtemporal.spark.query.streaming import BucketWork, QueryFingerprint  # noqa: E402

SCHEMA = pl.Schema({"k": pl.Int64(), "x": pl.Float64()})
PACKED = {"_start": pl.Int64, "_end": pl.Int64, "c0_0": pl.Int64, "c0_1": pl.Float64}
WRITTEN = pa.schema([("s", pa.int64()), ("e", pa.int64()), ("f0", pa.int64()), ("f1", pa.int64())])
SMALL = StateLimits(part_bytes=2_000, log_bytes=3_000, removed=8, rows=100)
Query = Callable[[Any], rxt.Streamable]


def count(rows: Any) -> rxt.Streamable:
    """Count the rows of each key in long windows."""
    return rows.group_by("k").tumbling_window(10_000).aggregate(n=agg.count())


def by_hundreds(rows: Any) -> rxt.Streamable:
    """Count the rows of each key in windows as long as a micro-batch."""
    return rows.group_by("k").tumbling_window(100).aggregate(n=agg.count())


class Work(BucketWork):
    """Query over a bucket that counts how often it begins."""

    begun = 0

    def begin(self) -> StatefulRun:  # type: ignore[override]
        """Return a run at its beginning."""
        type(self).begun += 1
        return super().begin()


def make_work(query: Query = count, kind: type[BucketWork] = Work) -> BucketWork:
    """Return the work of a query over one bucket."""
    Work.begun = 0
    plan = compose_plan(lambda rows: query(rows), {"rows": SCHEMA})
    kept = QueryFingerprint(Stepwise(plan).fingerprints, {"rows": "k, x"}, 1)
    return kind(plan, (InputReader("rows", 0, SCHEMA),), WRITTEN, kept)


def micro_batch(number: int, rows: int = 20, keys: int = 1_000) -> list[tuple[int, int, bytes]]:
    """Return some rows, all of them after those of the micro-batch before."""
    random = Random(number)
    starts = [number * 100 + random.randrange(100) for _ in range(rows)]
    columns = {"_start": starts, "_end": [t + 1 for t in starts],
               "c0_0": [random.randrange(keys) for _ in starts], "c0_1": [1.0] * rows}  # fmt: skip
    return [(0, number * 100, dump_frame(pl.DataFrame(columns, schema=PACKED)))]


def counts(results: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the rows of results, sorted."""
    streams = [pa.ipc.open_stream(data) for each in results for data in each["data"] if data]
    return sorted(
        tuple(row.values()) for stream in streams for row in stream.read_all().to_pylist()
    )


def test_what_is_written_grows_with_the_rows() -> None:
    """Not with the keys that are alive; a base comes when the log has grown beyond it."""
    bucket = Bucket(make_work(), StateLimits(log_bytes=0))
    bucket.take(micro_batch(0, rows=20_000, keys=10**9))
    for number in range(1, 60):
        bucket.take(micro_batch(number))
    first, *rest = bucket.store.sizes
    assert first > 100_000
    assert max(rest) < first / 50
    assert Work.begun == 1


def test_a_worker_that_is_behind_catches_up() -> None:
    """By the log, without the base, also past a new base."""
    bucket, other = Bucket(make_work(), StateLimits(log_bytes=20_000)), KeptRuns()
    results = [bucket.take(micro_batch(0, rows=2_000))]
    for number in range(1, 200):
        worker = other if number % 7 == 0 else bucket.kept
        results.append(bucket.attempt(micro_batch(number), worker))
        bucket.store.commit()
    assert Work.begun == 2
    head = bucket.store.head
    assert head is not None
    assert head.base > 1
    whole = Bucket(make_work(kind=BucketWork))
    wanted = [whole.take(micro_batch(0, rows=2_000))]
    assert counts(results) == counts(wanted + [whole.take(micro_batch(n)) for n in range(1, 200)])


def test_what_has_taken_a_lost_attempt_is_built_anew() -> None:
    """A worker is ahead; or it is as far as the head by number, and has taken other rows."""
    bucket, other = Bucket(make_work()), KeptRuns()
    bucket.take(micro_batch(0))
    bucket.attempt(micro_batch(1), bucket.kept)
    bucket.store.roll_back()
    bucket.attempt(micro_batch(2, rows=30), other)
    bucket.store.commit()
    expected = Bucket(make_work(kind=BucketWork))
    wanted = [expected.take(each) for each in (micro_batch(0), micro_batch(2, rows=30))]
    found = bucket.take(micro_batch(200))
    assert counts([found]) == counts([*wanted, expected.take(micro_batch(200))])


def test_a_planted_run_is_not_taken() -> None:
    """A run under a token that no micro-batch has had is replaced."""
    bucket = Bucket(make_work())
    for number in range(3):
        bucket.take(micro_batch(number))
    head = bucket.store.head
    assert head is not None
    (place,) = bucket.kept._runs
    kept = bucket.kept.pop(*place)
    assert kept is not None
    for number in range(4):
        kept.token, kept.number = bytes(16), number
        bucket.kept.keep(*place, kept)
        begun = Work.begun
        bucket.attempt(micro_batch(3), bucket.kept)
        bucket.store.roll_back()
        assert Work.begun == begun + 1


def test_entries_leave_and_none_is_missing() -> None:
    """What no worker needs is removed, a few in each micro-batch."""
    bucket = Bucket(make_work(), StateLimits(log_bytes=3_000, removed=2))
    for number in range(150):
        bucket.take(micro_batch(number))
        head = bucket.store.head
        assert head is not None
        numbers = bucket.store.list_numbers("log")
        assert numbers == [*range(head.first, head.number + 1)]
        assert head.first <= head.earlier + 1
        assert bucket.store.list_numbers("base") == [*range(head.parts)]
    assert numbers[0] > 50


class Sized:
    """Work and run whose state has the sizes of a list, one after the other."""

    repeatable, joins = False, True

    def __init__(self, *sizes: int) -> None:
        self.sizes = [*sizes]

    def begin(self) -> Sized:
        """Return itself."""
        return self

    def take(self, rows: Any) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def save(self) -> bytes:
        """Return bytes that cannot be compressed."""
        return Random(1).randbytes(self.sizes.pop(0))

    def load(self, data: bytes) -> None:
        """Check the bytes."""
        assert data == Random(1).randbytes(len(data))


def test_parts_of_a_larger_base_are_removed() -> None:
    """Once the state has become smaller, and also before it becomes larger again."""
    bucket = Bucket(Sized(9_000, 1_500, 5_000, 10), SMALL)
    for number, parts in enumerate((5, 1, 3, 1)):
        bucket.kept.clear()
        bucket.take(micro_batch(number))
        assert bucket.store.list_numbers("base") == [*range(parts)]


def test_a_users_function_takes_no_rows_again() -> None:
    """It may give something else: its state is written whole, and there is no log."""

    def query(rows: Any) -> rxt.Streamable:
        return count(rows.where(lambda row: row["x"] > 0))

    bucket = Bucket(make_work(query))
    for number in range(30):
        bucket.take(micro_batch(number))
    assert bucket.store.list_numbers("log") == []
    assert Work.begun == 1


def test_a_state_below_its_rows_is_written_whole() -> None:
    """There is nothing to take again for whoever has the bucket next."""
    bucket = Bucket(make_work(by_hundreds))
    for number in range(30):
        bucket.take(micro_batch(number, rows=2_000, keys=2))
    assert bucket.store.list_numbers("log") == []


def test_a_worker_forgets(caplog: pytest.LogCaptureFixture) -> None:
    """Of runs that do not fit the latest one, which is wanted last; it is told once."""
    kept = KeptRuns(100)
    with caplog.at_level(logging.WARNING):
        found = []
        for name in "abcabc":
            found.append(kept.pop(name, b"") is not None)
            kept.keep(name, b"", kept_run(40))
    # the oldest would be wanted next, and none would be found
    assert found == [False, False, False, True, False, True]
    assert caplog.text.count("spark.states_not_kept") == 1


def test_a_run_that_is_too_large_drives_none_out() -> None:
    """It is not kept itself."""
    kept = KeptRuns(100)
    for name, size in (("a", 40), ("b", 150), ("c", 40)):
        kept.keep(name, b"", kept_run(size))
    assert [kept.pop(name, b"") is not None for name in "abc"] == [True, False, True]


def test_a_run_of_an_ended_query_leaves_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has not been used for long."""
    kept, now = KeptRuns(100), 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for name in "abc":
        kept.keep(name, b"", kept_run(40))
        now += 400
    assert [kept.pop(name, b"") is not None for name in "abc"] == [False, True, True]


def kept_run(size: int) -> Any:
    """Return a run of some size."""
    from rxtemporal.spark.query.bucket_state import Kept

    return Kept(make_work().begin(), repeatable=True, joins=True, size=size)


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: b"x" * len(data)])
def test_a_damaged_base_is_told(damage: Callable[[bytes], bytes]) -> None:
    """With what to do."""
    bucket = Bucket(make_work())
    bucket.take(micro_batch(0))
    bucket.store.write("base", 0, damage(bucket.store.read("base", 0) or b""))
    bucket.kept.clear()
    with pytest.raises(rxt.CheckpointError, match=r"damaged.*Hint: restore the checkpoint"):
        bucket.take(micro_batch(1))


@pytest.mark.parametrize(
    ("kind", "number", "given", "says"),
    [
        ("log", 5, None, "5 of its log is missing"),
        ("base", 0, None, "0 of its base is missing"),
        ("log", 5, ("log", 4), "entry 5 of its log is from another attempt"),
        ("log", 9, ("log", 8), "entry 9 of its log is from another attempt"),
        ("log", 2, ("log", 3), "its log does not begin at its base"),
        ("base", 0, ("log", 3), "parts of its base are from another micro-batch"),
    ],
)
def test_a_mixed_state_is_told(kind: str, number: int, given: Any, says: str) -> None:
    """Parts and entries that are missing, or of another attempt."""
    bucket = Bucket(make_work())
    for each in range(9):
        bucket.take(micro_batch(each, rows=2_000 if each == 0 else 20))
    bucket.kept.clear()
    if given is None:
        bucket.store.remove(kind, number)
    else:
        bucket.store.write(kind, number, bucket.store.read(*given) or b"")
    with pytest.raises(rxt.CheckpointError, match=rf"damaged: {says}.*Hint: restore"):
        bucket.take(micro_batch(20))


def test_a_last_entry_of_other_rows_is_told() -> None:
    """It follows the same micro-batches as the one that the head tells of."""
    bucket, other = Bucket(make_work()), Bucket(make_work())
    for each in range(8):
        for one in bucket, other:
            one.take(micro_batch(each, rows=2_000 if each == 0 else 20))
    bucket.take(micro_batch(8))
    other.take(micro_batch(9))
    bucket.kept.clear()
    bucket.store.write("log", 9, other.store.read("log", 9) or b"")
    with pytest.raises(rxt.CheckpointError, match="entry 9 of its log is from another attempt"):
        bucket.take(micro_batch(20))


@pytest.mark.parametrize("number", draw_seeds(20, 8))
def test_any_failure_changes_nothing(number: int) -> None:
    """Attempts that fail at any step, workers with little memory: the same results."""
    random = Random(number)
    bucket, whole = ShakyBucket(make_work(), random), Bucket(make_work(kind=BucketWork))
    batches = [micro_batch(n, rows=random.choice((0, 1, 50)), keys=300) for n in range(120)]
    found = [bucket.take(each) for each in batches]
    assert counts(found) == counts([whole.take(each) for each in batches])
    assert counts(found)


def test_a_lost_worker_leaves_what_was_there() -> None:
    """At each of its calls of the storage."""
    for calls in itertools.count():
        bucket = Bucket(make_work(), SMALL)
        for number in range(20):
            bucket.take(micro_batch(number))
        before = bucket.store.head
        bucket.store.calls_left = calls
        try:
            bucket.take(micro_batch(20))
        except LostWorkerError:
            bucket.store.roll_back()
            assert bucket.store.head == before
            continue
        break
    assert calls > 1


def test_keys_spread_evenly() -> None:
    """No two buckets have the same key, and all are 64-bit integers."""
    keys = [make_bucket_key(bucket) for bucket in range(1_000)]
    assert len({*keys}) == 1_000
    assert all(-(2**63) <= key < 2**63 for key in keys)
