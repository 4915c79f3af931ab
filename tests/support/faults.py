"""Runs into which a fault is put on purpose, and what must be true of them afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal import Cti, EventBatch, PointEvent
from rxtemporal.core.payloads import BadPayloadError
from rxtemporal.errors import ProcessEndedError

SCHEMA = {"device": str, "temp": float}
PATIENCE = 10.0


class EvilError(Exception):
    """An exception that cannot be written out."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Fault:
    """A fault that strikes once, when it is armed."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.is_armed = False
        self.has_struck = False

    def strike(self, *_: Any) -> None:
        """Raise the error if armed."""
        if self.is_armed:
            self.is_armed, self.has_struck = False, True
            raise self.error

    def put_into(self, monkeypatch: pytest.MonkeyPatch, kind: type, *names: str) -> None:
        """Let methods of a class raise before they do anything."""
        for name in names:
            original = getattr(kind, name)
            monkeypatch.setattr(kind, name, self._wrap(original))

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def method(*arguments: Any, **options: Any) -> Any:
            self.strike()
            return original(*arguments, **options)

        return method


class NotedSink(rxt.Sink):
    """Sink that notes starts and its end; a fault strikes where it writes, or is saved."""

    def __init__(self, fault: Fault | None = None, fault_of_save: Fault | None = None) -> None:
        self.starts: list[int] = []
        self.cti = 0
        self.closed: list[BaseException | None] = []
        self.fault, self.fault_of_save = fault, fault_of_save

    def open(self, name: str, schema: Any) -> None:
        """Begin."""

    def write(self, batch: EventBatch) -> None:
        """Note a batch."""
        if self.fault is not None:
            self.fault.strike()
        self.starts += batch.start.tolist()
        self.cti = batch.cti

    def close(self, error: BaseException | None) -> None:
        """Note the end."""
        self.closed.append(error)

    def save(self) -> bytes:
        """Return nothing."""
        if self.fault_of_save is not None:
            self.fault_of_save.strike()
        return b""

    def load(self, state: bytes) -> None:
        """Take nothing."""


class Way:
    """A way into a run: what is pushed, and the run's options."""

    def __init__(self, name: str, folder: Path) -> None:
        kind, *words = name.split()
        self.has_verdicts = kind in ("push", "async")
        self.is_async = kind == "async"
        self.is_told = self.has_verdicts or "log" in words or "resume" in words
        hand_off = None
        if "hand-off" in words:
            hand_off = rxt.HandOff()
        if "spill" in words:
            hand_off = rxt.HandOff(max_rows=1, when_full=rxt.WhenFull.SPILL)
        self.options = {word: folder / word for word in words if word in ("log", "resume")}
        self.source: Any
        if self.has_verdicts:
            self.source = rxt.PushSource("readings", schema=SCHEMA, hand_off=hand_off)
            self.stream = self.source.stream
            return
        alternate = rxt.CtiSynchronizingSubjectAlternate.create_point(0)
        self.source = alternate if kind == "subject" else Subject()
        self.stream = rxt.from_observable(
            self.source, schema=SCHEMA, name="readings", hand_off=hand_off
        )

    def push(self, item: Any) -> Any:
        """Push an item; return the verdict, if there is one."""
        if self.is_async:
            return asyncio.run(self.source.push_async(item))
        if self.has_verdicts:
            return self.source.push(item)
        for event in item if isinstance(item, list) else [item]:
            self.source.on_next(event)
            self.source.on_next(Cti(event.start))
        return None


def reading(start: int, temp: Any = 20.5) -> PointEvent:
    """Return a row."""
    return PointEvent(start, {"device": "a", "temp": temp})


class Trial:
    """One run with a fault: pushes good rows, a bad moment, and good rows again."""

    def __init__(self, way: Way, sink: NotedSink, stream: rxt.Streamable | None = None) -> None:
        self.way, self.sink = way, sink
        self.process = (way.stream if stream is None else stream).run(
            sink, warn_after=None, **way.options
        )
        self.accepted: list[int] = []
        self.rejected = 0
        self.raised: list[BaseException] = []

    def push(self, item: Any) -> None:
        """Push an item, and note what becomes of it."""
        try:
            verdict = self.way.push(item)
        except BaseException as error:
            self.raised.append(error)
            return
        items = item if isinstance(item, list) else [item]
        rejected = () if verdict is None else {each.index for each in verdict.rejected}
        self.rejected += len(rejected)
        self.accepted += [
            each.start
            for n, each in enumerate(items)
            if n not in rejected  # type: ignore[union-attr]
        ]

    def push_aside(self, item: Any) -> None:
        """Push a row that is late or rejected, and comes into no result."""
        with contextlib.suppress(BaseException):
            self.way.push(item)

    def judge(self) -> str:
        """Return how the run ended, or that it goes on; fail if it is deaf."""
        last = max(self.accepted, default=0)
        until = time.monotonic() + PATIENCE
        process = self.process
        while not process.ended and self.sink.cti < last and time.monotonic() < until:
            time.sleep(0.001)
        if process.running:
            # an end may be on its way, since a hand-off has a thread of its own
            time.sleep(0.02)
        if process.error is None and process.running:
            return self._judge_alive()
        return self._judge_ended()

    def _judge_alive(self) -> str:
        """Check that a run that goes on has lost nothing."""
        missing = set(self.accepted) - set(self.sink.starts) - {max(self.accepted)}
        assert not missing, f"deaf: rows {sorted(missing)} were acknowledged and never came"
        assert not self.sink.closed, "the sink is closed, and the run goes on"
        assert len(self.sink.starts) == len(set(self.sink.starts)), "a row came twice"
        assert not [e for e in self.raised if isinstance(e, ProcessEndedError)]
        self.process.stop()
        return "alive"

    def _judge_ended(self) -> str:
        """Check that a run that has ended told so."""
        process = self.process
        assert process.error is not None, "the run has ended without an error"
        until = time.monotonic() + PATIENCE
        while not process.ended and time.monotonic() < until:
            time.sleep(0.001)
        assert process.ended, "the run never ends"
        with pytest.raises(BaseException) as waited:  # noqa: PT011
            process.wait(PATIENCE)
        assert waited.value is process.error
        assert len(self.sink.closed) == 1, "the sink is not closed"
        assert self.sink.closed[0] is not None, "the sink does not know of the error"
        if self.way.is_told:
            with pytest.raises(ProcessEndedError) as refused:
                self.way.push(reading(1_000))
            assert refused.value.__cause__ is not None
        else:
            with contextlib.suppress(Exception):
                self.way.push(reading(1_000))
        return "ended"


def count_up(trial: Trial, first: int, count: int) -> None:
    """Push good rows."""
    for start in range(first, first + count):
        trial.push(reading(start))


ERRORS: dict[str, Callable[[], BaseException]] = {
    "ValueError": lambda: ValueError("v"),
    "RuntimeError": lambda: RuntimeError("r"),
    "RecursionError": lambda: RecursionError("r"),
    "MemoryError": MemoryError,
    "KeyError": lambda: KeyError("k"),
    "StopIteration": StopIteration,
    "AssertionError": AssertionError,
    "OSError": lambda: OSError(28, "no space left"),
    "EvilError": EvilError,
    "SchemaError": lambda: rxt.SchemaError("s"),
    "BadPayloadError": lambda: BadPayloadError("s"),
    "CtiViolationError": lambda: rxt.CtiViolationError("c"),
    "ProcessEndedError": lambda: ProcessEndedError("another"),
    "ComputeError": lambda: pl.exceptions.ComputeError("c"),
    "PanicException": lambda: pl.exceptions.PanicException("p"),
    "KeyboardInterrupt": KeyboardInterrupt,
    "SystemExit": lambda: SystemExit(1),
    "GeneratorExit": GeneratorExit,
}
