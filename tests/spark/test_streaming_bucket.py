"""A bucket's state between micro-batches: it continues as if never stopped, or is refused."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal import agg

pa = pytest.importorskip("pyarrow")

from rxtemporal.engine.codec import VERSION, dump_frame  # noqa: E402
from rxtemporal.run.stepper import Stepwise  # noqa: E402
from rxtemporal.spark.query.bucket_state import read_rows  # noqa: E402
from rxtemporal.spark.query.job import compose_plan  # noqa: E402
from rxtemporal.spark.query.packing import unpack  # noqa: E402
from rxtemporal.spark.query.reader import InputReader  # noqa: E402
from rxtemporal.spark.query.stream_door import DoorRun, DoorWork  # noqa: E402
from rxtemporal.spark.query.streaming import QueryFingerprint, StreamRun  # noqa: E402

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
    kept = QueryFingerprint(
        Stepwise(plan).fingerprints, {"rows": f"k, x, split by {split}"}, buckets
    )
    return StreamRun(plan, (InputReader("rows", 0, SCHEMA),), WRITTEN, kept)


def chunk(rows: list[tuple[int, int, str]], cti: int) -> tuple[int, int, bytes]:
    """Rows of start, end and key as a bucket gets them."""
    frame = pl.DataFrame(
        {"_start": [r[0] for r in rows], "_end": [r[1] for r in rows],
         "c0_0": [r[2] for r in rows], "c0_1": [0] * len(rows)},
        schema={"_start": pl.Int64, "_end": pl.Int64, "c0_0": pl.String, "c0_1": pl.Int64},
    )  # fmt: skip
    return 0, cti, dump_frame(frame)


def take(one: StreamRun, received: list[tuple[int, int, bytes]]) -> bytes:
    """What a run gives for a micro-batch."""
    data: bytes = one.take(read_rows(received))["data"][0]
    return data


def rows_of(made: list[bytes]) -> list[tuple[Any, ...]]:
    """The results as rows, sorted."""
    packed = pa.record_batch([pa.array(made, pa.binary())], ["data"])
    return sorted(tuple(r.values()) for b in unpack(iter([packed])) for r in b.to_pylist())


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
        made.append(take(straight, batch))
        before, again = again, run()
        again.load(before.save())
        stopped.append(take(again, batch))
    assert rows_of(made) == rows_of(stopped)
    assert rows_of(made) == [
        (1, 2, "a", 1), (2, 3, "a", 2), (3, 4, "a", 3), (3, 5, "b", 1), (4, 9, "a", 2),
        (9, 11, "b", 1), (9, 20, "a", 1),
    ]  # fmt: skip
    assert again.rows == 0


def test_what_comes_with_a_cti_is_before_it() -> None:
    """Within a micro-batch order means nothing; what an earlier one has promised holds."""
    one = run()
    assert rows_of([take(one, [chunk([], 5), chunk([(1, 3, "a")], rxt.MIN_TIME)])]) == [
        (1, 3, "a", 1)
    ]
    with pytest.raises(rxt.CtiViolationError, match=r"row 0 breaks CTI.*of rows"):
        take(one, [chunk([(4, 9, "a")], rxt.MIN_TIME)])
    with pytest.raises(rxt.CtiViolationError, match="goes back"):
        take(one, [chunk([], 4)])


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (lambda: run(buckets=3), r"has 2 buckets, and this query has 3\. Hint: buckets=2"),
        (lambda: run(alive(5)), "has changed since .*extend_lifetime"),
        (lambda: run(split="x"), "input 'rows' .*split by k.* Now: .*split by x"),
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
    told = rf"saved in version {VERSION} .*checkpointLocation"
    with pytest.raises(rxt.CheckpointError, match=told):
        run().load(saved[:4] + b"\x01\x00" + saved[6:])


def settings(delay: int = 2) -> rxt.AdvanceTimeSettings:
    """A CTI after every other event."""
    return rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(2, delay), policy=rxt.AdvanceTimePolicy.ADJUST
    )


def door(delay: int = 2) -> DoorRun:
    """A door of an input with one field, whose rows come in order of start."""
    reader = InputReader("a", 0, pl.Schema({"x": pl.Int64()}))
    return DoorWork(reader, settings(delay), (), 1).begin()


def test_a_door_goes_on() -> None:
    """A door that is saved and loaded between batches judges as one that was not, and counts."""
    starts = [[5, 9, 4], [12, 1, 8], [20, 2, 30]]
    straight, stopped = door(), door()
    for some in starts:
        frame = pl.DataFrame(
            {"_bucket": [0] * 3, "_start": some, "_end": [t + 5 for t in some], "c0_0": [1] * 3},
            schema_overrides={"_bucket": pl.Int32},
        )
        again, stopped = stopped, door()
        stopped.load(again.save())
        rows = read_rows([(0, rxt.MIN_TIME, dump_frame(frame))])
        found = stopped.take(rows)
        assert found == straight.take(rows)
    assert found["dropped"][0] + found["adjusted"][0] > 1
    with pytest.raises(rxt.CheckpointError, match=r"advance_time=.* of 'a' has changed"):
        door(3).load(stopped.save())


PAIR = pl.Schema({"k": pl.Int64})


def joined(names: list[str]) -> tuple[StreamRun, dict[str, int]]:
    """A join of two inputs that are given in some order, and their numbers."""
    plan = compose_plan(lambda left, right: left.join(right, on="k"), dict.fromkeys(names, PAIR))
    numbers = {name: number for number, name in enumerate(names)}
    sources = [node.source.name for node in plan.list_nodes() if node.source is not None]
    readers = tuple(InputReader(name, numbers[name], PAIR) for name in sources)
    kept = QueryFingerprint(Stepwise(plan).fingerprints, dict.fromkeys(names, "k"), 2)
    written = pa.schema(dict.fromkeys(("s", "e", "f0"), pa.int64()))
    return StreamRun(plan, readers, written, kept), numbers


def keys(number: int, rows: list[tuple[int, int, int]], cti: int) -> tuple[int, int, bytes]:
    """Rows of start, end and key of an input as a bucket gets them."""
    names = ("_start", "_end", f"c{number}_0")
    frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64), orient="row")
    return number, cti, dump_frame(frame)


@pytest.mark.parametrize("order", [["left", "right"], ["right", "left"]])
def test_inputs_are_known_by_name(order: list[str]) -> None:
    """In which order the inputs are given is not part of a query: each goes on from its own CTI."""
    before, numbers = joined(["left", "right"])
    taken = [keys(numbers["left"], [(1, 300, 7)], 100), keys(numbers["right"], [], 50)]
    assert take(before, taken) == b""
    again, numbers = joined(order)
    again.load(before.save())
    ends = [keys(numbers[name], [], 400) for name in order]
    made = take(again, [keys(numbers["right"], [(60, 90, 7)], rxt.MIN_TIME), *ends])
    assert rows_of([made]) == [(60, 90, 7)]
    with pytest.raises(rxt.CtiViolationError, match="of left"):
        take(again, [keys(numbers["left"], [(60, 90, 7)], rxt.MIN_TIME)])


class Column:
    """Stand-in for a Spark column: its field and its name."""

    def __init__(self, field: str, name: str = "") -> None:
        self.field, self.name = field.strip("`"), name

    def alias(self, name: str) -> Column:
        """The same under another name."""
        return Column(self.field, name)

    def __gt__(self, other: Column) -> Column:
        return self

    def isNotNull(self) -> Column:  # noqa: N802
        """Stands for a predicate."""
        return self

    def __or__(self, other: Column) -> Column:
        return self


class Frame:
    """Stand-in for a DataFrame of integers, whose rows nobody reads."""

    def __init__(self, *columns: str) -> None:
        self.columns = [*columns]

    def where(self, wanted: Column) -> Frame:
        """Stands for a filter."""
        return self

    def select(self, *columns: Column) -> Frame:
        """The columns under their new names."""
        return Frame(*(each.name or each.field for each in columns))


@pytest.fixture
def standing_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the functions of Spark that need a JVM."""
    functions = pytest.importorskip("pyspark.sql.functions")
    monkeypatch.setattr(functions, "col", Column)
    monkeypatch.setattr(functions, "lit", lambda value: Column("constant"))
    from rxtemporal.spark.query import inputs

    payload = lambda frame, fields: pl.Schema(dict.fromkeys(fields, pl.Int64))  # noqa: E731
    monkeypatch.setattr(inputs, "payload_fields", payload)


# of which none is payload, whatever else it is
EVERY = ("start_time", "end_time", "other", "cti", "cti2")


def what_is_kept(query: Any, **changes: Any) -> QueryFingerprint:
    """Return the fingerprint of a query over one input."""
    from rxtemporal.operators.partition import find_partition
    from rxtemporal.spark.query.inputs import DataFrameInput
    from rxtemporal.spark.query.job import Job, push_down
    from rxtemporal.spark.query.streaming import fingerprint_job

    frame: Any = Frame(*EVERY, "a", "b")
    columns = {"start": "start_time", "end": "end_time", "cti": "cti"}
    order = {"advance_time": None, "order_by": EVERY}
    given = DataFrameInput(frame, **{**columns, **order, **changes})
    plan, inputs, handed = push_down(compose_plan(query, {"rows": given.schema}), {"rows": given})
    assert bool(handed["rows"]) == (query is not plain)
    return fingerprint_job(Job(plan, inputs, find_partition(plan), 2, handed))


def plain(rows: rxt.Streamable) -> rxt.Streamable:
    """A query of which Spark does nothing."""
    return rows.snapshot_window().aggregate(n=agg.count())


def filtered(least: int) -> Any:
    """A query whose filter Spark does."""
    return lambda rows: plain(rows.where(pl.col("a") > least))


def chosen(field: str) -> Any:
    """A query whose choice of fields Spark does."""
    return lambda rows: plain(rows.select(k=field))


@pytest.mark.usefixtures("standing_in")
@pytest.mark.parametrize(
    ("one", "other", "says"),
    [
        ((filtered(5),), (filtered(-1000),), r"where.*5.*of 'rows'.*Now: .*where.*-1000"),
        ((filtered(5),), (plain,), r"Spark does where.*Now: input 'rows' "),
        ((chosen("a"),), (chosen("b"),), r'select.*col\("a"\).*Now: .*col\("b"\)'),
        (
            (plain,),
            (plain, {"end": None, "order_by": EVERY}),
            "end='end_time'.*Now: .*time'; cti=",
        ),
        ((plain,), (plain, {"cti": "cti2", "order_by": EVERY}), "cti='cti'.*Now: .*cti='cti2'"),
        (
            (plain,),
            (plain, {"start": "other", "order_by": EVERY}),
            "start='start_time'.*Now: .*start='other'",
        ),
        (
            (plain,),
            (plain, {"order_by": EVERY[::-1]}),
            "order_by=.'start_time', 'end_time'.*Now: .*'end_time', 'start_time'",
        ),
        (
            (plain,),
            (plain, {"advance_time": rxt.INCREASING_START_TIME}),
            "Now: .*; advance_time=AdvanceTimeSettings",
        ),
    ],
)
def test_what_spark_does_is_part_of_the_query(one: Any, other: Any, says: str) -> None:
    """Filters, choices of fields, columns: others are refused, and the same ones are not."""
    kept = [what_is_kept(query, **dict(*changes)) for query, *changes in (one, one, other)]
    kept[1].expect(kept[0].to_dict())
    with pytest.raises(rxt.CheckpointError, match=f"(?s){says}.*Hint"):
        kept[2].expect(kept[0].to_dict())
