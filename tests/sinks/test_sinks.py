"""Ready sinks keep, print and write results; functions and users' own classes are sinks, too."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from reactivex import of
from run_settings import save_often
from runs import SOON

import rxtemporal as rxt
from rxtemporal import Cti, EventShape, IntervalEvent, PointEvent
from rxtemporal.core.events import Event
from rxtemporal.errors import ArgumentError, CheckpointError, SchemaError, SpoolError
from rxtemporal.testing import assert_same_history

EVENTS: list[Event] = [
    PointEvent(1, {"x": 1.5}),
    IntervalEvent(3, rxt.MAX_TIME, {"x": None}),
    Cti(4),
    PointEvent(6, {"x": 2.0}),
]
SCHEMA = {"x": float}
SUFFIXES = [".parquet", ".csv", ".json", ".jsonl", ".ndjson"]


def stream(events: Any = EVENTS) -> rxt.Streamable:
    """Return a stream of events."""
    return rxt.from_events(events, schema=SCHEMA)


def read(path: Path) -> pl.DataFrame:
    """Return a file's rows, with times as ticks."""
    ways: dict[str, Callable[[Path], pl.DataFrame]] = {
        ".parquet": pl.read_parquet,
        ".csv": lambda path: pl.read_csv(path, schema=rows([]).schema),
    }
    if path.suffix in ways:
        return ways[path.suffix](path)
    return pl.read_ndjson(path, schema=rows([]).schema)


def rows(events: Any = EVENTS) -> pl.DataFrame:
    """Return what the query gives."""
    return stream(events).to_polars(time="ticks")


# Collect ----------------------------------------------------------------------------------------


def test_collect_keeps_what_came() -> None:
    """As batches, a frame, dicts and events."""
    results = rxt.Collect()
    with stream().run(results):
        pass
    assert_same_history(results.batches, stream())
    assert results.to_polars().sort("start_time").equals(rows())
    assert results.to_dicts()[0] == {"start_time": 1, "end_time": 2, "x": 1.5}
    assert results.to_events()[0] == IntervalEvent(1, 2, {"x": 1.5})
    assert results.to_events(time="datetime")[0].start_time == rxt.to_datetime(1)


def test_times_have_the_form_that_sources_give_them(tmp_path: Path) -> None:
    """Datetimes of a source are datetimes in a sink, and ticks where they are asked for."""
    noon = rxt.to_datetime(12 * 3_600_000_000)
    events = [PointEvent(noon, {"x": 1.0})]
    for source in stream(events), rxt.from_observable(of(*events), schema=SCHEMA):
        results = rxt.Collect()
        with source.run(results):
            pass
        assert results.to_events()[0].start_time == noon
        assert results.to_dicts(time="ticks")[0]["start_time"] == rxt.ticks(noon)
        with source.run(rxt.File(tmp_path / "out.parquet")):
            pass
        assert pl.read_parquet(tmp_path / "out.parquet")["start_time"].to_list() == [noon]


def test_collect_without_results_has_the_fields() -> None:
    """A query without rows gives an empty frame with its columns."""
    results = rxt.Collect()
    assert results.to_events() == []
    with stream([]).run(results):
        pass
    assert results.to_polars().columns == ["start_time", "end_time", "x"]


def test_collect_in_edge_shape_has_both_ends() -> None:
    """A row that was open comes as its start and as its end."""
    results = rxt.Collect(EventShape.EDGE)
    events = [rxt.EdgeEvent.create_start(1, {"x": 1.0}), Cti(3)]
    events.append(rxt.EdgeEvent.create_end(1, 5, {"x": 1.0}))
    with stream(events).run(results):
        pass
    assert results.to_events(time="ticks") == [events[0], events[2]]


# Print ------------------------------------------------------------------------------------------


def test_print_writes_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """A heading, then aligned rows; what has no end or no value is said in words."""
    with stream().run(rxt.Print()):
        pass
    assert capsys.readouterr().out == (
        "start_time  end_time    x\n"
        "1           2           1.5\n"
        "3           never ends  null\n"
        "6           7           2\n"
    )


def test_print_writes_into_a_file_in_the_shape_it_is_given() -> None:
    """An open row is one in edge shape, and times are ISO 8601."""
    file = io.StringIO()
    events = [rxt.EdgeEvent.create_start(0, {"x": 1.0}), Cti(3)]
    with stream(events).run(rxt.Print(shape=EventShape.EDGE, time="datetime", file=file)):
        pass
    assert file.getvalue().splitlines()[1].split() == ["1970-01-01T00:00:00Z", "open", "1"]


# File -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_has_all_rows_when_the_query_has_completed(tmp_path: Path, suffix: str) -> None:
    """It replaces the one that was there, and nothing else is left."""
    path = tmp_path / f"out{suffix}"
    path.write_text("old", "utf-8")
    with stream().run(rxt.File(path)):
        pass
    assert read(path).sort("start_time").equals(rows())
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_file_without_rows_has_its_columns(tmp_path: Path, suffix: str) -> None:
    """A query without results writes an empty table."""
    path = tmp_path / f"out{suffix}"
    with stream([]).run(rxt.File(path)):
        pass
    assert read(path).equals(rows([]))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_query_that_fails_leaves_the_file_as_it_was(tmp_path: Path, suffix: str) -> None:
    """The file does not change, and no other file is left."""
    path = tmp_path / f"out{suffix}"
    path.write_text("old", "utf-8")
    with pytest.raises(rxt.CtiViolationError):
        stream([*EVENTS, Cti(2)]).run(rxt.File(path)).wait()
    assert path.read_text("utf-8") == "old"
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("resumes", [False, True])
def test_a_process_that_is_stopped_leaves_its_rows(
    tmp_path: Path, suffix: str, resumes: bool
) -> None:
    """The file has what came out; a run that is resumed goes on, with each row once."""
    path = tmp_path / f"out{suffix}"
    path.write_text("old", "utf-8")
    resume = {"resume": tmp_path / "kept"} if resumes else {}
    for life in range(3):
        source = rxt.PushSource("s", schema={"x": int})
        process = source.stream.run(rxt.File(path), **resume)
        times = range(10 * life, 10 * life + 10)
        source.push([{"time": time, "x": time} for time in times])
        process.stop()
        # the last row waits for a later one, in the state if there is one
        first = 0 if resumes else 10 * life
        found = read(path).sort("start_time").get_column("x").to_list()
        assert found in (list(range(first, times.stop - 1)), list(range(first, times.stop)))
        hidden = {each.name for each in tmp_path.iterdir()} - {path.name, "kept"}
        assert hidden == ({f".{path.name}.part"} if resumes else set())
    if resumes:
        source = rxt.PushSource("s", schema={"x": int})
        with source.stream.run(rxt.File(path), **resume):
            source.close()
        assert read(path).get_column("x").to_list() == list(range(30))
        assert {each.name for each in tmp_path.iterdir()} == {path.name, "kept"}


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("resumes", [False, True])
def test_a_file_has_one_writer_at_a_time(tmp_path: Path, suffix: str, resumes: bool) -> None:
    """A second run is refused before it writes; the first goes on, and then another may begin."""
    path = tmp_path / f"out{suffix}"

    def start(name: str) -> tuple[rxt.PushSource, rxt.Process]:
        source = rxt.PushSource("s", schema={"x": int})
        resume: dict[str, Any] = {"resume": tmp_path / name} if resumes else {}
        return source, source.stream.run(rxt.File(path), **resume)

    source, process = start("first")
    source.push([{"time": 0, "x": 0}, rxt.Cti(1)])
    with pytest.raises(SpoolError, match=rf"\.out\{suffix}\.part is being written by .*Hint: "):
        start("second")
    source.push([{"time": 1, "x": 1}, rxt.Cti(2)])
    source.close()
    process.wait()
    assert read(path).sort("start_time").get_column("x").to_list() == [0, 1]
    source, process = start("third")
    source.push([{"time": 2, "x": 2}, rxt.Cti(3)])
    source.close()
    process.wait()
    assert read(path).get_column("x").to_list() == [2]
    assert {each.name for each in tmp_path.iterdir()} - {"first", "second", "third"} == {path.name}


def test_a_suffix_that_is_not_known_is_refused(tmp_path: Path) -> None:
    """Before anything runs."""
    with pytest.raises(ArgumentError, match=r"ends in \.csv, \.parquet.*got '.*out\.txt'"):
        rxt.File(tmp_path / "out.txt")


@pytest.mark.parametrize("sink", [rxt.File, rxt.AppendFile])
@pytest.mark.parametrize(
    ("suffix", "value", "what", "instead"),
    [
        ("csv", b"\xff", "bytes", pl.col("x").bin.encode("hex")),
        ("jsonl", b"\xff", "bytes", pl.col("x").bin.encode("hex")),
        ("csv", timedelta(seconds=1), "spans of time", pl.col("x").dt.total_microseconds()),
    ],
)
def test_a_field_that_the_format_cannot_have_is_refused_before_the_first_row(
    tmp_path: Path, sink: Any, suffix: str, value: Any, what: str, instead: pl.Expr
) -> None:
    """The file is not begun, and what the hint says is written, as are all values in Parquet."""
    path = tmp_path / f"rows.{suffix}"
    stream = rxt.from_events([rxt.PointEvent(1, {"x": value})])
    with pytest.raises(SchemaError, match=rf"'x' .*rows\.{suffix} cannot have {what}\. Hint: .*x"):
        stream.run(sink(path))
    assert not [*tmp_path.iterdir()]
    stream.with_columns(x=instead).run(sink(path)).wait(SOON)
    assert path.exists()
    stream.run(sink(tmp_path / "rows.parquet")).wait(SOON)
    assert pl.read_parquet(tmp_path / "*.parquet")["x"].to_list() == [value]


class Breaks(rxt.File):
    """A file whose disk is full after some batches."""

    left = 10

    def write(self, batch: rxt.EventBatch) -> None:
        """Write, and fail if it was one too many."""
        super().write(batch)
        self.left -= 1
        if not self.left:
            raise OSError("the disk is full")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_run_that_is_resumed_has_each_row_once(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hidden file is cut where the checkpoint was taken, and goes on from there."""
    save_often(monkeypatch)
    path, kept = tmp_path / f"out{suffix}", tmp_path / "kept"
    frame = pl.DataFrame({"t": range(100), "x": [n / 4 for n in range(100)]})
    each = rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(1, 0), policy=rxt.AdvanceTimePolicy.DROP
    )
    query = rxt.from_polars(frame, start="t", batch_rows=3, advance_time=each)
    for _ in range(2):
        with pytest.raises(OSError, match="disk is full"):
            query.run(Breaks(path), resume=kept).wait()
        assert not path.exists()
    for _ in range(2):  # a run that has completed is not run again, and its file stays
        query.run(rxt.File(path), resume=kept).wait()
        assert read(path).sort("start_time").equals(query.to_polars(time="ticks"))
    assert {each.name for each in tmp_path.iterdir()} == {path.name, "kept"}


def test_a_hidden_file_that_lacks_rows_is_refused(tmp_path: Path) -> None:
    """A run does not go on without what it had written."""
    sink = rxt.File(tmp_path / "out.csv")
    sink.load(b"70")
    with pytest.raises(CheckpointError, match=r"\.out\.csv\.part lacks rows.*Hint"):
        sink.open("query", pl.Schema({"x": pl.Int64}))


# Functions and users' own sinks ---------------------------------------------------------------


def test_a_function_gets_each_batch() -> None:
    """Rows come in interval shape; the function's result is ignored."""
    seen: list[rxt.EventBatch] = []
    with stream().run(seen.append):
        pass
    assert_same_history(seen, stream())


def test_a_function_gets_rows_in_the_shape_that_it_asks_for() -> None:
    """In edge shape a row is there as soon as it has begun, and again when it has ended."""
    start = rxt.EdgeEvent.create_start(2, {"x": 0.5})
    ended: list[Event] = [start, rxt.EdgeEvent.create_end(2, 7, start.payload)]
    seen: list[rxt.EventBatch] = []
    with stream(ended).run(seen.append, shape=EventShape.EDGE):
        pass
    assert [end for batch in seen for end in batch.end.tolist()] == [rxt.MAX_TIME, 7]
    with pytest.raises(ArgumentError, match="Collect has a shape of its own"):
        stream().run(rxt.Collect(), shape=EventShape.EDGE)
    with pytest.raises(ArgumentError, match=r"an EventShape, got 'edge'.*Hint"):
        stream().run(print, shape="edge")  # type: ignore[arg-type]


def test_results_are_frames_of_three_libraries() -> None:
    """Of a query, of what a sink has collected, and of a batch."""
    results = rxt.Collect()
    with stream().run(results):
        pass
    for each in (stream(), results, results.batch):
        assert pl.DataFrame(each.to_arrow()).equals(rows())
        assert pl.from_pandas(each.to_pandas()).equals(rows())


def test_an_error_of_a_function_ends_the_query() -> None:
    """As that of any sink does."""
    with pytest.raises(ZeroDivisionError):
        stream().run(lambda batch: 1 / 0).wait()


def test_functions_serve_several_queries() -> None:
    """One function may get the results of two queries."""
    seen: list[rxt.EventBatch] = []
    app = rxt.Application("two")
    app.query("one", app.define_stream("in", EVENTS, schema=SCHEMA))
    app.query("two", app.stream("in").where(pl.col("x") > 1))
    with app.run("one", "two", seen.append, seen.append):
        pass
    assert sum(map(len, seen)) == 5


class Least(rxt.Sink):
    """A sink that defines only what it has to."""

    def __init__(self) -> None:
        self.rows = 0

    def write(self, batch: rxt.EventBatch) -> None:
        """Count the rows."""
        self.rows += len(batch)


class Alike:
    """An object with the methods of a sink, derived from nothing."""

    shape = EventShape.POINT

    def __init__(self) -> None:
        self.rows = 0
        self.calls: list[str] = []

    def open(self, name: str, schema: pl.Schema) -> None:
        """Note the call."""
        self.calls.append(f"open {name}")

    def write(self, batch: rxt.EventBatch) -> None:
        """Count the rows."""
        self.rows += len(batch)

    def close(self, error: BaseException | None) -> None:
        """Note the call."""
        self.calls.append("close")

    def save(self) -> bytes:
        """Note the call."""
        self.calls.append("save")
        return b"kept"


def test_only_write_has_to_be_defined() -> None:
    """The rest is inherited."""
    sink = Least()
    with stream().run(sink):
        pass
    assert (sink.rows, sink.save(), sink.in_callback()) == (3, b"", False)
    assert sink.cancel(KeyboardInterrupt()) is None  # type: ignore[func-returns-value]


def test_an_object_with_the_methods_of_a_sink_is_one(tmp_path: Path) -> None:
    """Deriving from the base class is a convenience; the methods that there are get called."""
    sink = Alike()
    with stream().run(sink, resume=tmp_path):  # type: ignore[arg-type]
        pass
    assert sink.rows == 3
    assert sink.calls == ["open query", "save", "close", "save"]
    with pytest.raises(CheckpointError, match="this sink cannot load one"):
        stream().run(Least(), resume=tmp_path)


def test_printed_rows_stop_at_once() -> None:
    """A large batch is printed in pieces, and a sink that is cancelled raises between two."""
    out = io.StringIO()
    sink = rxt.Print(file=out)
    batch = rxt.EventBatch.from_polars(
        pl.DataFrame({"start_time": range(3_000), "x": range(3_000)}), end=None
    )
    sink.set_time_form(lambda: "ticks")
    sink.write(batch)
    assert out.getvalue().count("\n") == 3_001
    sink.cancel(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        sink.write(batch)
