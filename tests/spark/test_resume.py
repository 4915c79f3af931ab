"""Rows that a resumed sink appends and skips, without Spark."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import reactivex.subject
from no_spark import use_no_spark
from sink_input import HOUR, SCHEMA, batches, rows, write

import rxtemporal as rxt
from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import EventShape
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.errors import (
    ArgumentError,
    BindingError,
    CheckpointError,
    EventError,
    SchemaError,
    SpoolError,
)
from rxtemporal.sinks import Sink
from rxtemporal.spark import ParquetTable, SparkSink
from rxtemporal.storage.segments import SegmentFolder, Spool


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test here start Spark."""
    use_no_spark(monkeypatch)


def opened(path: Path, schema: pl.Schema = SCHEMA) -> SparkSink:
    """A sink that is open."""
    sink = SparkSink(print, path=path)
    sink.open("q", schema)
    return sink


def spooled(path: Path) -> pl.DataFrame:
    """All rows of the spool, in order."""
    folder = SegmentFolder(path / "spool")
    mark, last = folder.bounds()
    return pl.concat([folder.read(number) for number in range(mark + 1, last + 1)])


def cut(given: list[dict[str, Any]], rng: random.Random) -> list[EventBatch]:
    """The same run, cut somewhere: each batch has the rows before its CTI, some have none."""
    ctis = [*sorted(rng.sample(range(1, 8 * HOUR), 6)), 8 * HOUR, MAX_TIME]
    last, done = -1, []
    for cti in ctis:
        part = [row for row in given if last <= row["start_time"] < cti]
        done.append(EventBatch.from_dicts(part, schema=SCHEMA, cti=cti))
        last = cti
    return done


@pytest.mark.parametrize("seed", range(40))
def test_any_number_of_broken_runs_make_one(tmp_path: Path, seed: int) -> None:
    """However runs are cut and wherever they break off, the spool has each row just once."""
    rng = random.Random(seed)
    given = rows(8)
    for _ in range(rng.randrange(4)):
        sink = opened(tmp_path)
        write(sink, cut(given, rng)[: rng.randrange(9)])
        sink.close(RuntimeError("broken"))
    sink = opened(tmp_path)
    write(sink, cut(given, rng))
    sink.close(RuntimeError("so that the spool stays"))
    got = spooled(tmp_path).sort("start_time")
    assert got["start_time"].to_list() == [row["start_time"] for row in given]
    folder = SegmentFolder(tmp_path / "spool")
    assert folder.describe(folder.bounds()[1]).cti == MAX_TIME


def test_a_batch_without_rows_has_no_segment(tmp_path: Path) -> None:
    """The next segment's CTI covers it, and the place that is kept never runs ahead."""
    sink = opened(tmp_path)
    write(sink, [EventBatch.empty(SCHEMA, 0), batches(1)[0], EventBatch.empty(SCHEMA, 2 * HOUR)])
    assert sink.stats().segments == 1
    sink.close(RuntimeError())
    assert SegmentFolder(tmp_path / "spool").describe(1).cti == HOUR


def test_the_last_cti_is_durable_when_a_run_ends_well(tmp_path: Path) -> None:
    """``close`` without an error appends the CTI that was reached, at the end of time or before."""
    sink = opened(tmp_path)
    write(sink, batches(1, end=7 * HOUR))
    sink.close(None)
    assert SegmentFolder(tmp_path / "spool").describe(2).cti == 7 * HOUR


def test_the_end_of_time_is_remembered_at_once(tmp_path: Path) -> None:
    """A batch with the last CTI is a segment even without rows, and the rest is left out."""
    sink = opened(tmp_path)
    write(sink, batches(1))
    assert sink.stats().segments == 2
    sink.close(None)
    again = opened(tmp_path)
    write(again, batches(1))
    assert (again.stats().segments, again.stats().rows_known) == (0, 3)
    again.close(None)


def test_a_row_before_the_runs_own_cti_is_refused(tmp_path: Path) -> None:
    """A row that breaks what this run has promised is not a repetition: an error."""
    sink = opened(tmp_path)
    row = {"start_time": 5, "k": "a", "v": 1}
    sink.write(EventBatch.empty(SCHEMA, 9))
    with pytest.raises(EventError, match="of an earlier batch of this run"):
        sink.write(EventBatch.from_dicts([row], schema=SCHEMA, cti=12))
    with pytest.raises(EventError, match="of an earlier batch of this run"):
        sink.close(None)  # what was refused is missing: the run has not ended well


def test_a_row_that_is_not_finished_is_refused(tmp_path: Path) -> None:
    """A row at or after its batch's CTI would be lost by the next run, so it is an error."""
    sink = opened(tmp_path)
    row = {"start_time": 5, "k": "a", "v": 1}
    with pytest.raises(EventError, match="takes only finished rows"):
        sink.write(EventBatch.from_dicts([row], schema=SCHEMA, cti=5))
    sink.close(EventError())
    sink = opened(tmp_path)
    edge = EventBatch.from_dicts([row], schema=SCHEMA, cti=6)
    with pytest.raises(EventError, match="edge"):
        sink.write(edge.replace(edge=edge.edge + 1))
    sink.close(EventError())


def test_a_path_belongs_to_one_run_at_a_time(tmp_path: Path) -> None:
    """A second sink on the path is refused while the first is open, and not afterwards."""
    first = opened(tmp_path)
    with pytest.raises(SpoolError, match="is being written by"):
        opened(tmp_path)
    first.close(None)
    opened(tmp_path).close(None)


def checkpoint(path: Path, offset: bytes) -> None:
    """A checkpoint of Spark's with one committed micro-batch."""
    for kind in ("offsets", "commits"):
        (path / "checkpoint" / kind).mkdir(parents=True, exist_ok=True)
        (path / "checkpoint" / kind / "0").write_bytes(b"v1\n{}\n" + offset)


def test_a_checkpoint_behind_the_spool_is_refused(tmp_path: Path) -> None:
    """One that was restored, or that a power cut threw back, would ask for what is gone."""
    with Spool.open(tmp_path / "spool", "q", SCHEMA) as spool:
        for number in range(3):
            spool.append(EventBatch.empty(SCHEMA, number))
        spool.discard(2)
    checkpoint(tmp_path, b'{"segment": 1}')
    with pytest.raises(SpoolError, match=r"an older one\. Hint: delete .*checkpoint;"):
        opened(tmp_path)
    checkpoint(tmp_path, b'{"segment": 2}')
    opened(tmp_path).close(RuntimeError())


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    """Bytes that are not text are damage like any other."""
    checkpoint(tmp_path, b"\xff")
    with pytest.raises(SpoolError, match="is damaged"):
        opened(tmp_path)


def test_an_error_in_the_midst_of_a_write_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were more written after it, the place that is kept would have run over the lost rows."""
    failed = threading.Event()

    def interrupted(spool: Spool, given: EventBatch) -> int:
        monkeypatch.undo()
        failed.set()
        raise LookupError("in the midst")

    monkeypatch.setattr(Spool, "append", interrupted)
    subject: reactivex.subject.Subject[EventBatch] = reactivex.subject.Subject()
    process = rxt.from_observable(subject, schema=dict(SCHEMA)).run(
        SparkSink(print, path=tmp_path), name="q"
    )
    first, second = batches(2)[:2]
    subject.on_next(first)
    assert failed.wait(5)
    subject.on_next(second)
    with pytest.raises(LookupError, match="in the midst"):
        process.wait(5)
    assert SegmentFolder(tmp_path / "spool").bounds() == (0, 0)


def test_a_sink_is_opened_once_and_used_while_open(tmp_path: Path) -> None:
    """Writing before ``open`` or after ``close``, and opening twice, are errors that say so."""
    sink = SparkSink(print, path=tmp_path)
    assert isinstance(sink, Sink)
    with pytest.raises(BindingError, match="not open"):
        sink.write(batches(1)[0])
    sink.open("q", SCHEMA)
    with pytest.raises(BindingError, match="opened once"):
        sink.open("q", SCHEMA)
    sink.close(None)
    with pytest.raises(BindingError, match="not open"):
        sink.write(batches(1)[0])


@pytest.mark.parametrize("names", [("k", "K"), ("Start_Time",), ("_SEGMENT",), ("Ä", "ä")])
def test_names_that_spark_cannot_tell_apart_are_refused(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    """Spark ignores case in the names of columns, so two that differ by it alone are an error."""
    with pytest.raises(SchemaError, match=f"the field '{names[-1]}' with"):
        opened(tmp_path, pl.Schema({name: pl.Int64() for name in names}))


class Connected:
    """Looks like a session of Spark Connect."""


Connected.__module__ = "pyspark.sql.connect.session"


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"target": "table"}, ArgumentError, "or a function"),
        ({"target": ParquetTable}, ArgumentError, "ParquetTable, a DatabaseTable, a Console"),
        ({"mode": "quick"}, ArgumentError, "'spooled' .* or 'direct' .*, got 'quick'"),
        ({"shape": EventShape.EDGE}, ArgumentError, "files cannot be updated"),
        ({"shape": "edge"}, ArgumentError, "shape is an EventShape, got 'edge'"),
        ({"spool_limit": 0}, ArgumentError, "a number of bytes, or None, got 0"),
        ({"when_full": "drop"}, ArgumentError, "'block' .* or 'refuse' .*, got 'drop'"),
        ({"session": 3}, ArgumentError, "settings for a session of the sink's own"),
        ({"trigger": 1}, ArgumentError, "'1 second'"),
        ({"max_segments_per_batch": 0}, ArgumentError, "1 or more"),
        ({"session": Connected()}, BindingError, "Connect"),
    ],
)
def test_what_cannot_be_is_refused_at_once(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], says: str
) -> None:
    """A wrong argument is refused when the sink is made, with what is allowed."""
    target = options.pop("target", ParquetTable(tmp_path / "t"))
    with pytest.raises(error, match=says) as refused:
        SparkSink(target, path=tmp_path, **options)
    assert "Hint" in str(refused.value) or "got" in str(refused.value)


def test_importing_imports_no_pyspark() -> None:
    """The package, its Spark side and a sink are made without pyspark."""
    code = (
        "import sys, rxtemporal, rxtemporal.spark as s\n"
        "s.SparkSink(s.ParquetTable('t'), path='p'); s.session\n"
        "assert 'pyspark' not in sys.modules and 'pyarrow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_session_is_a_function() -> None:
    """``rxtemporal.spark.session`` starts a session; an unknown name is an ``AttributeError``."""
    import rxtemporal.spark

    assert callable(rxtemporal.spark.session)
    with pytest.raises(AttributeError, match="nothing"):
        rxtemporal.spark.nothing  # noqa: B018


@pytest.mark.parametrize("seed", range(10))
def test_numbered_batches_are_there_once(tmp_path: Path, seed: int) -> None:
    """Devices with times of their own: a run that goes on repeats some with their numbers."""
    rng, written = random.Random(seed), 0
    parts = [rows(9)[begin : begin + 3] for begin in range(0, 27, 3)]
    rng.shuffle(parts)  # no order of time
    state = b""
    while written < len(parts):
        sink = SparkSink(print, path=tmp_path)
        sink.numbered = True
        if state:
            sink.load(state)
        sink.open("q", SCHEMA)
        first = rng.randint(0, written)
        last = rng.randint(written, len(parts))
        for number in range(first, last):
            batch = EventBatch.from_dicts(parts[number], schema=SCHEMA, cti=HOUR)
            batch.number = number
            sink.write(batch)
        assert sink.stats().rows_known == 3 * (min(written, last) - first)
        saved: Any = sink.save()
        state, written = saved(), max(written, last)
        sink.close(StopIteration())
    found = spooled(tmp_path).sort("start_time")
    assert found.height == 27
    assert found["v"].to_list() == [row["v"] for row in rows(9)]


def test_a_folder_of_numbered_rows_belongs_to_one_run(tmp_path: Path) -> None:
    """A run without its checkpoint has other numbers."""
    for known in (False, True):
        sink = SparkSink(print, path=tmp_path)
        sink.numbered = True
        if known:
            with pytest.raises(CheckpointError, match="Hint: continue that with resume="):
                sink.open("q", SCHEMA)
            return
        sink.open("q", SCHEMA)
        batch = EventBatch.from_dicts(rows(1), schema=SCHEMA, cti=HOUR)
        batch.number = 0
        sink.write(batch)
        sink.close(StopIteration())
