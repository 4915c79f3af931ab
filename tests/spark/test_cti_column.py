"""The CTIs that a run inside Spark gives out: promises of all its buckets, which others read."""

from __future__ import annotations

from random import Random
from typing import Any

import oracle
import physical
import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from products import draw_cases

pa = pytest.importorskip("pyarrow")

from law_streams import CASES  # noqa: E402
from stages import TIMES, Stage  # noqa: E402

import rxtemporal as rxt  # noqa: E402
from rxtemporal import agg  # noqa: E402
from rxtemporal.core.payloads import PayloadReader  # noqa: E402
from rxtemporal.ingress.packer import Packer  # noqa: E402
from rxtemporal.spark.query.cti_column import LowestCti, make_cti_row  # noqa: E402
from rxtemporal.testing import history  # noqa: E402

# an example is several runs, saved and loaded in every bucket after each micro-batch: few of them,
# and none made smaller
examples = settings(
    max_examples=max(5, settings().max_examples // 16), phases=[Phase.explicit, Phase.generate]
)
BUCKETS = 3
RAW = pl.Schema({**TIMES, **physical.SCHEMA})

# first stages that hold back time and rows in every way, split or in one bucket
FIRST = [
    "where", "shift_event_time, back", "extend_lifetime, back, grouped", "stitch, grouped",
    "session_lifetimes, capped, grouped", "scan, grouped", "snapshot_window, running",
    "snapshot_window, listed", "hopping_window, listed", "session_window, listed",
    "count_window, listed", "to_signal, grouped", "distinct, grouped",
]  # fmt: skip


def alive(rows: rxt.Streamable) -> rxt.Streamable:
    """Count the rows that are alive: a second stage, which sees all rows together."""
    return rows.snapshot_window().aggregate(n=agg.count())


def plain(rows: rxt.Streamable) -> rxt.Streamable:
    """Return the output of a stage: groups end there."""
    return rows.ungroup() if rows._node.keys else rows


def micro_batches(rows: list[oracle.Row], random: Random) -> list[pl.DataFrame]:
    """Cut a history into micro-batches, most with a CTI: the highest that what follows allows."""
    ordered = sorted(rows, key=lambda row: row.start)
    cuts = sorted(random.randrange(len(ordered) + 1) for _ in range(random.randrange(6)))
    found = []
    for first, last in zip([0, *cuts], [*cuts, len(ordered)], strict=True):
        records: list[dict[str, Any]] = [
            {"start_time": r.start, "end_time": None if r.end == oracle.MAX_TIME else r.end,
             **r.payload} for r in ordered[first:last]
        ]  # fmt: skip
        reached = ordered[last].start if last < len(ordered) else oracle.MAX_TIME
        if last == len(ordered) or random.random() < 0.7:
            records.append({"cti": reached})
        random.shuffle(records)
        found.append(pl.DataFrame(records, schema=RAW))
    return found


def rows_of(frame: pl.DataFrame) -> list[oracle.Row]:
    """The rows of a result that are not CTIs."""
    found = []
    for record in frame.filter(pl.col("cti").is_null()).drop("cti").to_dicts():
        start, end = record.pop("start_time"), record.pop("end_time")
        found.append(oracle.Row(start, oracle.MAX_TIME if end is None else end, record))
    return found


def here(query: Any, rows: list[oracle.Row]) -> list[oracle.Row]:
    """Return the results of a query over a history in this process."""
    records = [{"start_time": r.start, "end_time": r.end, **r.payload} for r in rows]
    frame = pl.DataFrame(records, schema={name: RAW[name] for name in RAW if name != "cti"})
    ends = frame.with_columns(end_time=pl.col("end_time").replace(oracle.MAX_TIME, None))
    made = query(rxt.from_polars(ends, start="start_time", end="end_time"))
    return [oracle.Row(*row) for row in history(list(made.to_batches()))]


@pytest.mark.parametrize("name", draw_cases(FIRST, [*FIRST][::2]))
@examples
@given(data=st.data())
def test_one_stage_feeds_another(name: str, data: st.DataObject) -> None:
    """Two stages, chained by the CTIs of the first, are the two queries compose_plan.

    What the first gives out is promised: no row of a later micro-batch starts before it; and it is
    as much as one bucket would promise that has all rows.
    """
    case = CASES[name]
    items, number = data.draw(st.tuples(case.streams(), st.integers(0, 2**20)))
    rows, random = oracle.canonical(items[0]), Random(number)
    first = Stage(case.query, physical.SCHEMA, BUCKETS, random)
    whole = Stage(case.query, physical.SCHEMA, 1, random)
    second = Stage(alive, {n: t for n, t in first.out.items() if n != "cti"}, BUCKETS, random)
    promised, made, final = oracle.MIN_TIME, list[oracle.Row](), list[oracle.Row]()
    for some in micro_batches(rows, random):
        out = first.take(some)
        assert all(row.start >= promised for row in rows_of(out))
        ctis = out["cti"].drop_nulls().to_list()
        assert ctis == whole.take(some)["cti"].drop_nulls().to_list()
        assert all(cti > promised for cti in ctis)
        promised = max([promised, *ctis])
        made += rows_of(out)
        if out.height:
            final += rows_of(second.take(out))
    assert promised == oracle.MAX_TIME
    assert oracle.equal_up_to(here(case.query, rows), made, tolerance=case.tolerance(rows))
    expected = here(lambda s: alive(plain(case.query(s))), rows)
    assert oracle.history(final) == oracle.history(expected)


SCHEMA = {"k": pl.String, "x": pl.Int64}


def stage(buckets: int = BUCKETS) -> Stage:
    """Count the rows of each key that are alive."""
    return Stage(lambda rows: alive(rows.group_by("k")), SCHEMA, buckets, Random(1))


def given_out(of: Stage, *records: tuple[int | None, str | None, int | None]) -> list[Any]:
    """Return the results of a stage for start, key and CTI: starts of rows, and CTIs.

    Rows that go in live for twenty ticks.
    """
    columns = {"start_time": [r[0] for r in records], "k": [r[1] for r in records],
               "cti": [r[2] for r in records]}  # fmt: skip
    frame = pl.DataFrame(columns, schema={"start_time": pl.Int64, "k": pl.String, "cti": pl.Int64})
    ends = frame.with_columns(end_time=pl.col("start_time") + 20, x=pl.lit(1, pl.Int64))
    made = of.take(ends)
    return [sorted(made["start_time"].drop_nulls()), made["cti"].drop_nulls().to_list()]


def test_the_lowest_of_all_buckets() -> None:
    """A bucket whose window is open holds the promise of all; one without rows holds nothing."""
    one = stage()
    assert given_out(one, (12, "a", None)) == [[], []]
    assert given_out(one, (None, None, 25)) == [[], [12]]
    # the others have come further, and nothing is promised twice
    assert given_out(one, (27, "b", None), (None, None, 26)) == [[], []]
    assert given_out(one, (None, None, 33)) == [[12], [27]]
    assert given_out(one, (None, None, 60)) == [[27], [60]]
    assert given_out(one, (None, None, oracle.MAX_TIME)) == [[], [oracle.MAX_TIME]]


def test_a_part_of_the_buckets_promises_nothing() -> None:
    """Without the CTIs of all buckets the lowest is unknown."""
    one = stage()
    packed = pa.record_batch({"data": [b""] * 2, "before": [5, 5], "after": [9, 9]})
    assert not list(one.gathered(iter([packed])))


def test_the_lowest_of_bounded_buckets() -> None:
    """Rows go through, the lowest CTI comes after them, and one that says nothing does not."""
    schema = pa.schema([("s", pa.int64()), ("c", pa.int64())])
    row = pa.RecordBatch.from_arrays([pa.array([3]), pa.nulls(1, pa.int64())], schema=schema)
    batches = [make_cti_row(9, schema), row, make_cti_row(7, schema)]
    made = [r for batch in LowestCti(schema)(iter(batches)) for r in batch.to_pylist()]
    assert made == [{"s": 3, "c": None}, {"s": None, "c": 7}]
    batches[0] = make_cti_row(oracle.MIN_TIME, schema)
    made = [r for batch in LowestCti(schema)(iter(batches)) for r in batch.to_pylist()]
    assert made == [{"s": 3, "c": None}]


def test_a_stream_that_brings_its_ctis() -> None:
    """In this process: micro-batches without a CTI keep the last; what breaks it is an error.

    Where the rows end for now nothing is promised.
    """
    payloads = PayloadReader(pl.Schema({"x": pl.Int64}))
    packer = Packer(None, "hours", payloads, omits_ctis=True)

    def taken(batch: rxt.EventBatch) -> int:
        return packer.take_batch(packer.check_batch(batch)).cti

    def rows(*starts: int) -> rxt.EventBatch:
        return rxt.EventBatch.from_dicts(
            [{"start_time": start, "end_time": 99, "x": 1} for start in starts],
            schema={"x": pl.Int64},
        )

    batches = rows(5), rows().replace(cti=7), rows(7, 8)
    assert [taken(each) for each in batches] == [oracle.MIN_TIME, 7, 7]
    assert packer.pack() is None
    with pytest.raises(rxt.CtiViolationError, match="breaks CTI"):
        taken(rows(6))
    with pytest.raises(rxt.CtiViolationError, match="goes back"):
        taken(rows().replace(cti=6))
