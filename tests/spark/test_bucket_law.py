"""A bucket's state under failures: every case of the laws gives what a run without them gives."""

from __future__ import annotations

from random import Random
from typing import Any

import oracle
import physical
import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from law_seven import CASES, query_of
from products import draw_cases

pa = pytest.importorskip("pyarrow")

from bucket_store import ShakyBucket  # noqa: E402

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME  # noqa: E402
from rxtemporal.engine.codec import dump_frame  # noqa: E402
from rxtemporal.run.stepper import Stepwise  # noqa: E402
from rxtemporal.spark.query.bucket_state import read_rows  # noqa: E402
from rxtemporal.spark.query.columns import ENDS, STARTS, field  # noqa: E402
from rxtemporal.spark.query.job import compose_plan  # noqa: E402
from rxtemporal.spark.query.reader import InputReader  # noqa: E402
from rxtemporal.spark.query.streaming import BucketWork, QueryFingerprint  # noqa: E402

Packed = tuple[int, int, bytes]
examples = settings(
    max_examples=max(3, settings().max_examples // 20), phases=[Phase.explicit, Phase.generate]
)
# whole streams, up to the end of time
WHOLE = [name for name, case in CASES.items() if case.last == MAX_TIME]
# the first case of each operator, and all joins
SOME = {*{name.partition(",")[0]: name for name in reversed(WHOLE)}.values()}
SOME |= {name for name in WHOLE if CASES[name].inputs == 2}
LATEST = 6


def make_work(name: str) -> BucketWork:
    """Return a case's query over one bucket."""
    sides = physical.SIDES[: CASES[name].inputs]
    plan = compose_plan(query_of(name), dict.fromkeys(sides, pl.Schema(physical.SCHEMA)))
    readers = tuple(
        InputReader(side, number, pl.Schema(physical.SCHEMA)) for number, side in enumerate(sides)
    )
    names = {node.source.name for node in plan.list_nodes() if node.source is not None}
    fields = {f"f{i}": dtype for i, dtype in enumerate((plan.schema or {}).values())}
    empty = pl.DataFrame(schema={"s": pl.Int64, "e": pl.Int64, **fields})
    written = empty.to_arrow(compat_level=pl.CompatLevel.oldest()).schema
    kept = QueryFingerprint(Stepwise(plan).fingerprints, dict.fromkeys(names, "all"), 1)
    return BucketWork(plan, tuple(r for r in readers if r.name in names), written, kept)


def pack(number: int, rows: list[oracle.Row], cti: int) -> Packed:
    """Return rows of an input as a bucket gets them."""
    schema = {STARTS: pl.Int64, ENDS: pl.Int64}
    schema |= {field(number, i): dtype for i, dtype in enumerate(physical.SCHEMA.values())}
    records = [
        (r.start, None if r.end == MAX_TIME else r.end, *(r.payload[n] for n in physical.SCHEMA))
        for r in rows
    ]
    return number, cti, dump_frame(pl.DataFrame(records, schema=schema, orient="row"))


def cut(sides: list[list[oracle.Row]], random: Random) -> list[list[Packed]]:
    """Cut the histories of all inputs into micro-batches, each with the CTIs that it allows."""
    found: list[list[Packed]] = [[] for _ in range(LATEST)]
    for number, rows in enumerate(sides):
        ordered = sorted(rows, key=lambda row: row.start)
        cuts = sorted(random.randrange(len(ordered) + 1) for _ in range(LATEST - 1))
        for place, (first, last) in enumerate(zip([0, *cuts], [*cuts, len(ordered)], strict=True)):
            reached = ordered[last].start if last < len(ordered) else MAX_TIME
            told = reached if place == LATEST - 1 or random.random() < 0.7 else MIN_TIME
            mine = ordered[first:last]
            half = random.randrange(len(mine) + 1)  # two tasks read it
            found[place] += [pack(number, mine[:half], told), pack(number, mine[half:], MIN_TIME)]
    return found


def list_rows(work: BucketWork, results: list[dict[str, Any]]) -> list[oracle.Row]:
    """Return the rows of results."""
    names = [*(work.plan.schema or {})]
    streams = [pa.ipc.open_stream(data) for each in results for data in each["data"] if data]
    found = []
    for stream in streams:
        for start, end, *values in pl.DataFrame(pl.from_arrow(stream.read_all())).rows():
            payload = dict(zip(names, values, strict=True))
            found.append(oracle.Row(start, MAX_TIME if end is None else end, payload))
    return found


@pytest.mark.parametrize("name", draw_cases(WHOLE, SOME))
@examples
@given(data=st.data())
def test_failures_change_nothing(name: str, data: st.DataObject) -> None:
    """Workers that fail, are behind and forget; rows of several micro-batches taken at once."""
    case = CASES[name]
    items, number = data.draw(st.tuples(case.streams(), st.integers(0, 2**20)))
    sides, random = [oracle.canonical(side) for side in items], Random(number)
    work = make_work(name)
    straight, shaky = work.begin(), ShakyBucket(work, random)
    expected, found = [], []
    for received in cut(sides, random):
        expected.append(straight.take(read_rows(received)))
        found.append(shaky.take(received))
        assert found[-1]["after"] == expected[-1]["after"]
    wanted, made = list_rows(work, expected), list_rows(work, found)
    assert oracle.equal_up_to(wanted, made, MAX_TIME, tolerance=case.tolerance(sides[0]))
