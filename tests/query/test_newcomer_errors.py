"""Errors that somebody meets in the first hour: each says what happened and what to write."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from child_process import environment
from reactivex.subject import Subject
from runs import SOON, nothing_left_running

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.errors import ArgumentError, BindingError, CtiViolationError, SourceError
from rxtemporal.query import runnable_stream, runs

STREAM = rxt.from_events([rxt.PointEvent(1, {"k": "a", "x": 2})], schema={"k": str, "x": int})


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What a Python of its own has printed."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda s: s.group_by("k").aggregate(n=agg.count()), AttributeError,
         r"stream has no 'aggregate'\. Hint: say first over which windows: \.tumbling_window\("),
        (lambda s: s.top_k(3, "x"), AttributeError, r"windows: .* and then \.top_k"),
        (lambda s: s.mean("x"), AttributeError, r"aggregate\(x=agg\.mean"),
        (lambda s: s.filter(lambda row: row["x"]), AttributeError, r"Hint: \.where"),
        (lambda s: s.tumblng_window("1m"), AttributeError, r"did you mean \.tumbling_window\?"),
        (lambda s: s.zzz, AttributeError, r"docs/algebra\.md"),
        (lambda s: s.tumbling_window(5).to_polars(), AttributeError,
         r"windows have no 'to_polars': .* Hint: follow a window with \.aggregate\(name=agg"),
        (lambda s: s.union(s.tumbling_window(5)), ArgumentError, "got windows without results"),
        (lambda s: s.tumbling_window(5).aggregate(agg.count()), ArgumentError,
         r"got count\(\) without a name\. Hint: .*aggregate\(n=agg\.count\(\)\)"),
        (lambda s: s.tumbling_window(5).aggregate(agg.sum("x")), ArgumentError, r"sum=agg\.sum\(…"),
        (lambda s: agg.mean(), TypeError, r"Hint: temp=agg\.mean\('temp'\)\.$"),
        (lambda s: s.run(rxt.Collect()).join(), AttributeError, r"no 'join'\. Hint: wait\(\)"),
        (lambda s: s.run(rxt.Collect()).result, AttributeError, r"Hint: the results are in the"),
        (lambda s: s.run(rxt.Collect()).zzz, AttributeError, "a process has no 'zzz'.$"),
        (lambda s: s.tumbling_window(timedelta.max), ArgumentError, "duration is too long"),
        (lambda s: s.join(s.select("x")), ArgumentError,
         r"neither on= nor where=.*cross_join\(other\) means every pair"),
    ],
)  # fmt: skip
def test_a_method_that_is_forgotten_or_unknown_is_named(
    make: Callable[[rxt.Streamable], Any], error: type[Exception], message: str
) -> None:
    """The message says what to write instead."""
    with pytest.raises(error, match=message):
        make(STREAM)


def test_private_names_are_plain_attribute_errors() -> None:
    """Copying and pickling ask for them."""
    assert not hasattr(STREAM, "__array__")
    assert not hasattr(STREAM.tumbling_window(5), "_nothing")


def test_a_join_of_groups_or_with_a_predicate_needs_no_on() -> None:
    """Keys of groups match rows, and so does a predicate; every pair has to be asked for."""
    both = STREAM.group_by("k").join(STREAM.group_by("k").select("k", y="x"))
    assert both.to_events() == [rxt.IntervalEvent(1, 2, {"k": "a", "x": 2, "y": 2})]
    other = STREAM.select(y="x")
    assert (
        STREAM.cross_join(other)
        .to_polars()
        .equals(STREAM.join(other, where=pl.col("x") == pl.col("y")).to_polars())
    )
    unknown = rxt.from_events([rxt.PointEvent(1, {"x": 2})])
    with pytest.raises(ArgumentError, match="neither on= nor where="):
        unknown.join(unknown, suffix="_2").to_polars()


def test_an_iterator_that_is_used_up_is_an_error() -> None:
    """A second run would have no rows in silence; a list is read again."""

    def events() -> Iterator[Any]:
        yield rxt.PointEvent(1, "a")

    for used in (iter([rxt.PointEvent(1, "a")]), events()):
        stream = rxt.from_events(used, name="doors")
        assert len(stream.to_events()) == 1
        with pytest.raises(SourceError, match=r"iterator of stream 'doors' is used up.*a list"):
            stream.to_events()
    assert rxt.from_events(iter([])).to_events() == []


def test_a_sinks_error_of_the_system_names_the_sink(tmp_path: Path) -> None:
    """Also where only its text is shown."""
    with pytest.raises(FileNotFoundError, match=r"folder of the result file does .*sink File of"):
        STREAM.run(rxt.File(tmp_path / "none" / "out.csv"))

    def save_rows(batch: Any) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device, in the sink function .*save_rows"):
        STREAM.run(save_rows).wait(SOON)


def test_ticks_are_told_as_ticks() -> None:
    """Who counts in ticks is not told of the year 1970."""
    with pytest.raises(CtiViolationError, match=r"breaks CTI 5 by 1 ticks"):
        rxt.from_events([rxt.Cti(5), rxt.PointEvent(4, "a")]).to_events()
    late = rxt.PointEvent("2026-01-01T11:00:00Z", "a")
    with pytest.raises(CtiViolationError, match=r"breaks CTI 2026-01-01T12:00:00Z by"):
        rxt.from_events([rxt.Cti("2026-01-01T12:00:00Z"), late]).to_events()


@pytest.mark.full
def test_a_difference_of_histories_shows_the_test(tmp_path: Path) -> None:
    """The traceback ends in the test, and does not show the library."""
    path = tmp_path / "test_it.py"
    path.write_text(
        "from rxtemporal.testing import assert_same_history\n"
        "def test_it():\n"
        "    assert_same_history([(1, 2, {'x': 1})], [])\n"
    )
    shown = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)).stdout
    assert "the histories differ" in shown
    assert "histories.py" not in shown


# Waiting ----------------------------------------------------------------------------------------


def test_a_call_that_waits_for_a_source_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log names the sources that have not ended; then the call goes on."""
    monkeypatch.setattr(runs, "PATIENCE", 0.01)
    doors: Subject[Any] = Subject()
    told: list[str] = []

    class Ends(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage())
            threading.Thread(target=doors.on_completed).start()

    handler = Ends()
    logger = logging.getLogger("rxtemporal.query.runs")
    logger.addHandler(handler)
    try:
        stream = rxt.from_observable(doors, schema={"x": int}, name="doors")
        assert stream.to_polars().height == 0
    finally:
        logger.removeHandler(handler)
    [notice] = told
    assert "to_polars() is still waiting: 'doors' has not ended, after 0 rows in" in notice


def test_a_call_over_a_list_says_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A source that is known to end is not waited for."""
    monkeypatch.setattr(runs, "PATIENCE", 0)
    listed = rxt.from_events([rxt.PointEvent(1, {"x": 2})], schema={"x": int}, name="listed")
    assert listed.to_polars().height == 1
    assert "'listed'" not in caplog.text  # a run of another test may still wait and say so


def test_windows_of_microseconds_over_datetimes_are_refused() -> None:
    """A number counts ticks, which is right for streams in ticks alone."""
    minutes = rxt.from_events([rxt.PointEvent(f"2026-01-01T00:{n:02}:00Z", n) for n in (1, 2)])
    for right in (STREAM.tumbling_window(60), minutes.tumbling_window("60s")):
        right.aggregate(n=agg.count()).to_polars()
    for windows in (minutes.tumbling_window(60), minutes.hopping_window2(60, 30)):
        with pytest.raises(rxt.ArgumentError, match="takes spans in ticks, and the times of"):
            windows.aggregate(n=agg.count())


def test_the_notice_is_seen_without_any_logging() -> None:
    """Nobody who tries the library has configured logging."""
    code = (
        "import time, rxtemporal as rxt\n"
        "from rxtemporal.query import runs\n"
        "runs.PATIENCE = 0.01\n"
        "def slow():\n"
        "    yield rxt.PointEvent(1, 'a')\n"
        "    time.sleep(0.5)\n"
        "rxt.from_events(slow(), name='slow').to_polars()\n"
    )
    done = run_python("-c", code)
    assert "to_polars() is still waiting: 'slow' has not ended" in done.stderr


def test_a_subscription_without_results_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says what it waits for, once; nothing is left when it is disposed."""
    monkeypatch.setattr(runnable_stream, "WARN_AFTER", "10ms")
    doors: Subject[Any] = Subject()
    with nothing_left_running():
        held = rxt.from_observable(doors, schema={"x": int}, name="doors").subscribe(print)
        doors.on_next(rxt.PointEvent(1, {"x": 1}))
        until = time.monotonic() + SOON
        while "nothing has come out" not in caplog.text and time.monotonic() < until:
            time.sleep(0.01)
        held.dispose()
    assert "query 'query' waits for stream 'doors', which has had no CTI" in caplog.text


def test_an_endless_source_is_refused_by_calls_that_wait_for_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where it is certain; a subscription may follow it."""
    source = STREAM._node.source
    assert source is not None
    monkeypatch.setattr(source, "endless", True, raising=False)
    for call in ("to_polars", "to_events"):
        with pytest.raises(BindingError, match=rf"{call}\(\) returns when .*'events' never ends"):
            getattr(STREAM, call)()
    assert STREAM.head(1).height == 1


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ("spark.run", "rxtemporal.spark.run needs pyspark, which is not installed"),
        ("stream.run(spark.SparkSink(spark.Console(), path='spool'))", "Spark is not installed"),
    ],
)
def test_what_needs_spark_names_the_extra(use: str, message: str, tmp_path: Path) -> None:
    """A name that cannot be loaded, and a sink that cannot be opened, say what to install."""
    done = run_python(
        "-c",
        "import os, sys; sys.modules['pyspark'] = None\n"
        f"os.chdir({str(tmp_path)!r})\n"
        "import rxtemporal as rxt; from rxtemporal import spark\n"
        f"stream = rxt.from_events([rxt.PointEvent(1, {{'x': 1}})])\n{use}",
    )
    assert done.returncode == 1
    assert f"BindingError: {message}" in done.stderr
    assert "Hint: pip install 'rxtemporal[spark" in done.stderr
