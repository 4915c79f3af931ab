"""Errors of a query inside Spark: the sentence of this process, wherever they come up."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from file_streams import FileStream
from products import draw_cases

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.errors import CheckpointError, CtiViolationError, RxTemporalError, SchemaError
from rxtemporal.spark import SparkSink, from_dataframe, run, stream
from rxtemporal.spark.tasks import Task, read_task_error, report_task_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pl.Schema({"start_time": pl.Int64(), "x": pl.Int64(), "cti": pl.Int64()})
HEADER = "[PYTHON_EXCEPTION] An exception was thrown from the Python worker:"
PLACE = r"test_task_errors\.py:\d+"


def divide(stream: rxt.Streamable) -> rxt.Streamable:
    """A query whose function fails at a row."""
    return stream.select(lambda row: {"y": 1 // row["x"]}, schema={"y": int})


def convert(stream: rxt.Streamable) -> rxt.Streamable:
    """A query with an error of this package."""
    return stream.select(y=pl.col("x").cast(pl.String).replace("0", "no").cast(pl.Int64))


def fail(wrong: BaseException) -> Callable[[], None]:
    """Return a function that raises."""

    def raising() -> None:
        raise wrong

    return raising


def refused(call: Callable[[], Any]) -> str:
    """Return the text of the error that Spark raises."""
    with pytest.raises(Exception, match="Python worker") as raised:
        call()
    return str(raised.value)


@pytest.mark.parametrize(
    ("text", "kind", "message", "notes"),
    [
        (f"{HEADER} ValueError: no\n SQLSTATE: 38000", ValueError, "no", []),
        (f"{HEADER}\nValueError: no\nin select\nraised at q.py:3", ValueError, "no",
         ["in select", "raised at q.py:3"]),
        (f"{HEADER} rxtemporal.errors.SchemaError: a b. Hint: c. (q.py:3)\n\tat org.apache",
         SchemaError, "a b. Hint: c. (q.py:3)", []),
        ("Failed in latestOffset: Traceback (most recent call last):\n  File x\n"
         "rxtemporal.errors.CheckpointError: first\n\nDuring handling …\n"
         "rxtemporal.errors.SchemaError: second\n SQLSTATE: 38000", SchemaError, "second", []),
        (f"{HEADER} shop.OutOfStock: none left", RxTemporalError, "shop.OutOfStock: none left", []),
        (f"{HEADER} UnicodeDecodeError: a byte", RxTemporalError, "UnicodeDecodeError: a byte", []),
    ],
)  # fmt: skip
def test_an_error_is_read_from_sparks_text(
    text: str, kind: type[Exception], message: str, notes: list[str]
) -> None:
    """Types of this package and of Python are kept; Spark's error is the cause."""
    given = Exception(text)
    found = read_task_error(given)
    assert type(found) is kind
    assert str(found) == message
    assert getattr(found, "__notes__", []) == notes
    assert found.__cause__ is given


@pytest.mark.parametrize(
    "text",
    [
        f"{HEADER} Traceback (most recent call last):\n  File x\nValueError: no",
        "Job aborted: ValueError: no",
        "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Existing StructField(user,StringType) new key",
    ],
)
def test_other_errors_are_left_to_spark(text: str) -> None:
    """A function of the user's own outside a query, Spark itself, and another one's state."""
    assert read_task_error(Exception(text)) is None
    assert read_task_error(None) is None


def test_outside_a_task_an_error_is_itself() -> None:
    """Nothing is set in a process that goes on."""
    cause = KeyError("a")
    wrong = ValueError("no")
    wrong.__cause__ = cause
    with pytest.raises(ValueError, match="no") as raised, report_task_errors():
        fail(wrong)()
    assert raised.value.__cause__ is cause
    assert not hasattr(wrong, "__notes__")
    assert "SPARK_HIDE_TRACEBACK" not in os.environ


def test_a_task_is_named_like_its_work() -> None:
    """Spark's plans show the name of the work."""

    class Work:
        def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
            yield from batches

    assert Task(Work()).__name__ == "Work"
    assert list(Task(Work())(iter([1]))) == [1]


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    """Two rows, the second of which fails."""
    return spark.createDataFrame([(1, 1), (2, 0)], "start_time long, x long")


@pytest.fixture
def clicks(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """A stream of three micro-batches: a row that passes, one that fails, and a late one."""
    files = FileStream(tmp_path / "in", SCHEMA)
    for start, x, cti in ((1, 1, 5), (6, 0, 9), (2, 1, 12)):
        frame = {"start_time": [start, None], "x": [x, None], "cti": [None, cti]}
        files.add(pl.DataFrame(frame, schema=SCHEMA))
    return files.frame(spark)


def written(frame: DataFrame, folder: Path) -> Any:
    """Return the streaming query that has read all there is."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(folder))
    return writer.trigger(availableNow=True).start()


@pytest.mark.java
def test_bounded_results(rows: DataFrame, tmp_path: Path) -> None:
    """Collected, fetched as Arrow or written, they fail with a few lines, and no traceback."""
    result = run(divide, stream=rows, buckets=2)
    for call in (result.collect, result.toArrow):
        said = refused(call).splitlines()
        assert said[1] == "ZeroDivisionError: integer division or modulo by zero"
        assert len(said) == 4
        assert "in select, composed at" in said[2]
        assert said[3].startswith("raised at")
    said = refused(lambda: result.write.parquet(str(tmp_path / "out"))).splitlines()
    assert "ZeroDivisionError: integer division" in " ".join(said[:3])
    assert not any("Traceback" in line or "stepper" in line for line in said)


@pytest.mark.java
def test_errors_of_the_package(rows: DataFrame) -> None:
    """The sentence is the one of this process, with operator and line."""
    local = rxt.from_polars(pl.DataFrame({"start_time": [2], "x": [0]}), start="start_time")
    with pytest.raises(SchemaError) as here:
        convert(local).to_polars()
    said = refused(run(convert, stream=rows, buckets=2).collect).splitlines()
    assert said[1:] == [f"rxtemporal.errors.SchemaError: {here.value}"]


@pytest.mark.java
def test_a_streaming_query(clicks: DataFrame, tmp_path: Path) -> None:
    """Its first line has the sentence, in ``awaitTermination`` and in ``exception``."""
    result = run(divide, stream=stream(clicks, cti="cti"), buckets=2)
    query = written(result, tmp_path / "checkpoint")
    for said in (refused(query.awaitTermination), str(query.exception())):
        assert "Python worker: ZeroDivisionError: integer division" in said.splitlines()[0]
        assert "in select, composed at" in said.splitlines()[1]
        assert "Traceback" not in said


@pytest.mark.full
@pytest.mark.java
def test_a_row_that_breaks_a_cti(clicks: DataFrame, tmp_path: Path) -> None:
    """So does an error of this package in a stateful task."""
    result = run(lambda s: s, s=stream(clicks, cti="cti"), buckets=1)
    query = written(result, tmp_path / "checkpoint")
    said = refused(query.awaitTermination)
    assert "rxtemporal.errors.CtiViolationError: " in said.splitlines()[0]
    assert "Traceback" not in said
    assert isinstance(read_task_error(query.exception()), CtiViolationError)


@pytest.mark.full
@pytest.mark.java
def test_another_query_on_a_checkpoint(clicks: DataFrame, tmp_path: Path) -> None:
    """A refused checkpoint names the difference."""
    given = stream(clicks.where("x is null or start_time = 1"), cti="cti")
    written(run(lambda s: s, s=given, buckets=2), tmp_path / "checkpoint").awaitTermination()
    FileStream.reopen(tmp_path / "in", SCHEMA).add(
        pl.DataFrame({"start_time": [None], "x": [None], "cti": [15]}, schema=SCHEMA)
    )
    query = written(run(lambda s: s, s=given, buckets=1), tmp_path / "checkpoint")
    said = refused(query.awaitTermination)
    assert "rxtemporal.errors.CheckpointError: " in said.splitlines()[0]
    assert "has 2 buckets" in said.splitlines()[0]


@pytest.mark.java
def test_from_dataframe(rows: DataFrame) -> None:
    """A stream of a result raises the error itself."""
    with pytest.raises(ZeroDivisionError, match="integer division") as raised:
        from_dataframe(run(divide, stream=rows, buckets=2)).to_polars()
    assert any("in select, composed at" in note for note in raised.value.__notes__)


@pytest.mark.full
@pytest.mark.java
def test_from_dataframe_in_this_package(rows: DataFrame, clicks: DataFrame) -> None:
    """So it does with errors of this package, bounded or streaming."""
    with pytest.raises(SchemaError, match=PLACE):
        from_dataframe(run(convert, stream=rows, buckets=2)).to_polars()
    result = run(lambda s: s, s=stream(clicks, cti="cti"), buckets=1, cti="cti")
    with pytest.raises(CtiViolationError):
        from_dataframe(result, cti="cti", trigger="availableNow").to_polars()


@pytest.mark.java
@pytest.mark.parametrize("mode", draw_cases(["spooled", "direct"], ["direct"]))
def test_a_sink(rows: DataFrame, spark: SparkSession, tmp_path: Path, mode: Any) -> None:
    """A function that runs a query inside Spark ends the sink's run with that query's error."""

    def target(frame: DataFrame, number: int) -> None:
        run(convert, stream=rows, buckets=2).collect()

    sink = SparkSink(target, path=tmp_path / "sink", mode=mode, session=spark)
    points = rxt.from_events([rxt.PointEvent(1, {"x": 1})])
    with pytest.raises(SchemaError, match=PLACE) as raised, points.run(sink) as process:
        process.wait()
    assert any("in micro-batch 0" in note for note in raised.value.__notes__)


@pytest.mark.full
@pytest.mark.java
def test_a_checkpoint_of_an_earlier_release(clicks: DataFrame, tmp_path: Path) -> None:
    """Where this package holds Spark's error it says so in its own words."""
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor

    class Earlier(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self._state = handle.getValueState("state", "data binary")

        def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Iterator[Any]:  # noqa: N802
            list(rows)
            self._state.update((b"x",))
            yield pd.DataFrame({"data": [b""], "before": [0], "after": [0]})

        def close(self) -> None:
            pass

    packed = clicks.selectExpr("0 as bucket", "0 as input", "cti", "cast('a' as binary) data")
    earlier = packed.groupBy("bucket").transformWithStateInPandas(
        Earlier(), "data binary, before bigint, after bigint", "Append", "None"
    )
    written(earlier, tmp_path / "checkpoint").awaitTermination()
    FileStream.reopen(tmp_path / "in", SCHEMA).add(
        pl.DataFrame({"start_time": [None], "x": [None], "cti": [15]}, schema=SCHEMA)
    )
    result = run(
        lambda s: s.snapshot_window().aggregate(n=agg.count()),
        s=stream(clicks, cti="cti"),
        buckets=1,
    )
    query = written(result, tmp_path / "checkpoint")
    with pytest.raises(Exception, match="OPERATOR_NOT_MATCH_IN_STATE_METADATA"):
        query.awaitTermination()
    found = read_task_error(query.exception())
    assert isinstance(found, CheckpointError)
    assert "a new checkpointLocation" in str(found)
