"""Every point of the crash matrix is one that a row passes: nobody waits there in vain."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import moments as at
import pytest
from moments import POINTS, Held, Moment, Moments, in_the_spool, put
from sink_input import SCHEMA, batches, expected_rows, feed, read_table, wait_until

from rxtemporal.spark import ParquetTable, SparkSink
from rxtemporal.spark.sink import runner
from rxtemporal.spark.targets import manifest
from rxtemporal.spark.targets import parquet as tables
from rxtemporal.storage import segments
from rxtemporal.storage.segments import Spool

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# in the order in which a row passes them
SPOOLING = (
    "an append begins", "its facts are named", "its rows are half written", "it is named",
    "an append returns",
)  # fmt: skip
PUBLISHING = (
    "the handler begins", "a task runs", "all files are staged", "one file is moved",
    "the ledger is half written", "the ledger is named", "the handler returns",
    "the micro-batch returns",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the points away again."""
    for owner, name in [
        (Spool, "append"), (segments, "publish"), (tables, "name_file"),
        (manifest, "publish"),
        (runner.Runner, "_on_batch"),
    ]:  # fmt: skip
        monkeypatch.setattr(owner, name, vars(owner)[name])


def passed(moments: Moments, work: Callable[[], object]) -> Iterator[tuple[str, int]]:
    """Do some work and yield each point while the work stands still there, and its segment."""
    doing = threading.Thread(target=work)
    doing.start()
    for index, moment in enumerate(moments.all):
        wait_until(lambda at=index: moments.reached(at) is not None)
        reached = moments.reached(index)
        assert reached is not None
        yield moment.point, reached["segment"]
        # in this order: the next one counts as soon as this one lets go
        moments.file("done", index).touch()
        moments.file("go", index).touch()
    doing.join()


def in_order(folder: Path, points: tuple[str, ...], segment: int) -> Moments:
    """Moments at these points, from a segment on."""
    return Moments(folder, tuple(Moment(point, segment) for point in points))


def test_the_points_are_those_of_the_matrix() -> None:
    """None is left out below."""
    assert {*SPOOLING, *PUBLISHING} == set(itertools.chain(*POINTS.values()))


def test_an_append_passes_the_points_of_the_spool(tmp_path: Path) -> None:
    """One segment passes all of them, and what its folder holds there is what they say."""
    moments = in_order(tmp_path, SPOOLING, 2)
    in_the_spool(moments)
    names = [".000000000002.arrow.part", "000000000002.arrow", "000000000002.json"]
    given = batches(3)
    with Spool.open(tmp_path / "spool", "q", SCHEMA) as it:
        seen = [
            (point, segment, [(it.path / name).exists() for name in names])
            for point, segment in passed(moments, lambda: [it.append(each) for each in given])
        ]
    assert seen == [
        ("an append begins", 2, [False, False, False]),
        ("its facts are named", 2, [False, False, True]),
        ("its rows are half written", 2, [True, False, True]),
        ("it is named", 2, [False, True, True]),
        ("an append returns", 2, [False, True, True]),
    ]


@pytest.mark.java
def test_a_micro_batch_passes_the_points_of_the_target(spark: SparkSession, tmp_path: Path) -> None:
    """One micro-batch passes all of them, in Spark's task and in the table's writer."""
    from pyspark import cloudpickle

    moments = in_order(tmp_path, PUBLISHING, 1)
    target = Held(ParquetTable(tmp_path / "table", partition_by="k"), moments)
    sink = SparkSink(target, path=tmp_path / "sink", session=spark, trigger="0 seconds")
    # the workers of this session do not find this folder
    cloudpickle.register_pickle_by_value(at)
    try:
        seen = [
            (point, len(list((tmp_path / "table").rglob("*.parquet"))))
            for point, _ in passed(moments, lambda: feed(sink, batches(1)))
        ]
    finally:
        cloudpickle.unregister_pickle_by_value(at)
    assert seen == list(zip(PUBLISHING, [0, 0, 0, 1, 3, 3, 3, 3], strict=True))
    assert read_table(tmp_path / "table") == expected_rows(1)


def test_a_point_is_put_only_where_somebody_passes() -> None:
    """A name that is not there any more is refused, and not waited for."""
    with pytest.raises(KeyError):
        put(tables, "gone", print)
