"""Errors of sinks and streams name the sink, the query and the stream; save() returns bytes."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal import PointEvent
from rxtemporal.errors import CheckpointError, SchemaError


class Full(rxt.Sink):
    """A sink that takes no batch."""

    def write(self, batch: rxt.EventBatch) -> None:
        """Fail."""
        raise OSError("disk is full")


class Odd(rxt.Sink):
    """A sink whose state is not bytes."""

    def write(self, batch: rxt.EventBatch) -> None:
        """Take it."""

    def save(self) -> Any:
        """Return a number."""
        return 5


def readings(name: str = "readings") -> rxt.Streamable:
    """A stream that can be read again."""
    frame = pl.DataFrame({"start_time": [1, 4], "temp": [19, 24]})
    return rxt.from_polars(frame, start="start_time", name=name)


def test_an_error_of_a_sink_names_sink_and_query() -> None:
    """The error keeps its type; a note says which sink of which query raised it."""
    with pytest.raises(OSError, match="disk is full") as caught:
        readings().run(Full(), name="warm").wait()
    assert caught.value.__notes__ == ["in the sink Full of query 'warm'"]


def test_a_bad_payload_names_stream_and_event() -> None:
    """The error keeps its type; notes say which event of which stream does not fit."""
    events = [PointEvent(1, {"x": 1}), PointEvent(2, {"x": "two"})]
    with pytest.raises(SchemaError) as caught:
        rxt.from_events(events, name="readings").to_events()
    notes = [f"the event is {events[1]!r}", "in stream 'readings'"]
    assert caught.value.__notes__ == notes


def test_an_error_of_a_source_names_the_stream() -> None:
    """An error of the user's iterator is the user's, with a note."""

    def broken() -> Any:
        yield PointEvent(1, {"x": 1})
        raise OSError("the line is dead")

    with pytest.raises(OSError, match="the line is dead") as caught:
        rxt.from_events(broken(), name="readings").to_events()
    assert caught.value.__notes__ == ["in stream 'readings'"]


def test_a_state_that_is_no_bytes_is_refused(tmp_path: Path) -> None:
    """A sink that saves something else ends the run with an error that says so."""
    with pytest.raises(
        CheckpointError, match=r"save\(\) returned int, not bytes\. Hint:"
    ) as caught:
        readings().run(Odd(), resume=tmp_path).wait()
    assert caught.value.__notes__ == ["in the sink Odd of query 'query'"]


def test_a_completed_run_that_is_resumed_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It reads nothing; one line in the log says why."""
    caplog.set_level(logging.INFO, "rxtemporal")
    results = rxt.Collect()
    for expected in (0, 1):
        with readings().run(results if expected else rxt.Collect(), resume=tmp_path):
            pass
        assert caplog.text.count("has completed; nothing is read") == expected
    assert results.to_dicts() == []
