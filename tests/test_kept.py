"""What a bucket keeps between micro-batches: it goes on as if never stopped, or says why not."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.advance_time import Door
from rxtemporal.column_door import ColumnDoor

pa = pytest.importorskip("pyarrow")

from rxtemporal.spark.buckets import Reader  # noqa: E402
from rxtemporal.spark.chunks import as_bytes, unpacked  # noqa: E402
from rxtemporal.spark.doors import load_door, save_door  # noqa: E402
from rxtemporal.spark.kept import Kept, StreamRun  # noqa: E402
from rxtemporal.stepwise import Stepwise  # noqa: E402

SCHEMA = pl.Schema({"k": pl.String(), "x": pl.Int64()})
WRITTEN = pa.schema([("s", pa.int64()), ("e", pa.int64()), ("f0", pa.string()), ("f1", pa.int64())])


def alive(length: int = 0) -> Any:
    """A plan: how many rows of each key are alive, after their lifetimes have been extended."""
    rows = rxt.from_events([], schema=dict(SCHEMA), name="rows")
    longer = rows.extend_lifetime(length) if length else rows
    return longer.group_by("k").snapshot_window().aggregate(n=agg.count())._node


def run(plan: Any = None, buckets: int = 2, split: str = "k") -> StreamRun:
    """A run over one bucket."""
    plan = plan or alive()
    kept = Kept(Stepwise(plan).fingerprints, {"rows": f"k, x, split by {split}"}, buckets)
    return StreamRun(plan, (Reader("rows", 0, SCHEMA),), WRITTEN, kept)


def chunk(rows: list[tuple[int, int, str]], cti: int) -> tuple[int, int, bytes]:
    """Rows of start, end and key as a bucket gets them."""
    frame = pl.DataFrame(
        {"_start": [r[0] for r in rows], "_end": [r[1] for r in rows],
         "c0_0": [r[2] for r in rows], "c0_1": [0] * len(rows)},
        schema={"_start": pl.Int64, "_end": pl.Int64, "c0_0": pl.String, "c0_1": pl.Int64},
    )  # fmt: skip
    return 0, cti, as_bytes(frame)


def rows_of(made: list[bytes]) -> list[tuple[Any, ...]]:
    """The results as rows, sorted."""
    packed = pa.record_batch([pa.array(made, pa.binary())], ["data"])
    return sorted(tuple(r.values()) for b in unpacked(iter([packed])) for r in b.to_pylist())


def test_goes_on_as_if_never_stopped() -> None:
    """Saved and loaded after each micro-batch, a run gives what it gives without."""
    batches = [
        [chunk([(1, 9, "a"), (3, 5, "b")], 3), chunk([(2, 4, "a")], rxt.MIN_TIME)],
        [chunk([(3, 20, "a")], rxt.MIN_TIME)],
        [chunk([], 8)],
        [chunk([(9, 11, "b")], rxt.MAX_TIME)],
    ]
    straight, made, stopped, again = run(), [], [], run()
    for batch in batches:
        made.append(straight.take(batch))
        before, again = again, run()
        again.load(before.save())
        stopped.append(again.take(batch))
    assert rows_of(made) == rows_of(stopped)
    assert rows_of(made) == [
        (1, 2, "a", 1), (2, 3, "a", 2), (3, 4, "a", 3), (3, 5, "b", 1), (4, 9, "a", 2),
        (9, 11, "b", 1), (9, 20, "a", 1),
    ]  # fmt: skip
    assert again.rows == 0


def test_what_comes_with_a_cti_is_before_it() -> None:
    """Within a micro-batch order means nothing; what an earlier one has promised holds."""
    one = run()
    assert rows_of([one.take([chunk([], 5), chunk([(1, 3, "a")], rxt.MIN_TIME)])]) == [
        (1, 3, "a", 1)
    ]
    with pytest.raises(rxt.CtiViolationError, match=r"row 0 breaks CTI.*of rows"):
        one.take([chunk([(4, 9, "a")], rxt.MIN_TIME)])
    with pytest.raises(rxt.CtiViolationError, match="goes back"):
        one.take([chunk([], 4)])


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (lambda: run(buckets=3), r"of 2 buckets, and here there are 3\. Hint: buckets=2"),
        (lambda: run(alive(5)), "has changed since .*extend_lifetime"),
        (lambda: run(split="x"), "input 'rows' .*split by k.* and here is .*split by x"),
    ],
)
def test_what_does_not_fit_is_refused(other: Any, says: str) -> None:
    """The state of another query, or of another number of buckets, is refused and says why."""
    saved = run().save()
    with pytest.raises(rxt.CheckpointError, match=says) as refused:
        other().load(saved)
    assert "checkpointLocation" in str(refused.value)


def test_another_release() -> None:
    """The state of another version of this format is refused."""
    saved = run().save()
    with pytest.raises(rxt.CheckpointError, match="version 2"):
        run().load(saved[:4] + b"\x02\x00" + saved[6:])


def settings(delay: int = 2) -> rxt.AdvanceTimeSettings:
    """A CTI after every other event."""
    return rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(2, delay), policy=rxt.AdvanceTimePolicy.ADJUST
    )


def test_a_door_goes_on() -> None:
    """A door that is saved and loaded between batches judges as one that was not, and counts."""
    starts = [[5, 9, 4], [12, 3, 8], [20, 11, 30]]
    straight, stopped = ColumnDoor(Door(settings(), "a")), ColumnDoor(Door(settings(), "a"))
    for some in starts:
        records = [{"start_time": t, "end_time": t + 5, "x": 1} for t in some]
        batch = rxt.EventBatch.from_dicts(records)
        stopped = load_door(Door(settings(), "a"), save_door(stopped.door))
        found, wanted = stopped.admit(batch), straight.admit(batch)
        assert found.to_dicts() == wanted.to_dicts()
        assert found.cti == wanted.cti
    assert stopped.door.late == straight.door.late
    assert straight.door.late.total() > 1
    with pytest.raises(rxt.CheckpointError, match="advance_time= of 'a' has changed"):
        load_door(Door(settings(3), "a"), save_door(stopped.door))
