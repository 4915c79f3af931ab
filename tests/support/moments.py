"""The moments at which a process is killed, made to stand still until it has been.

A ``Moment`` is one point in the way of a row, from the segment with some number on. The process
that gets there first says so in a file and waits for another one, so that the kill hits that point
however fast or slow the machine is. A run has several, one after the other: the next one counts
when the kill of the one before is ``done``. Afterwards the same code passes.

The points are put around the package's own functions, in the process that writes the spool by
``in_the_spool``, and in the one that drives Spark by opening the target ``Held``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from rxtemporal.core.events import EventShape
from rxtemporal.core.files import publish
from rxtemporal.spark import ParquetTable
from rxtemporal.spark.sink import runner
from rxtemporal.spark.targets import manifest
from rxtemporal.spark.targets import parquet as tables
from rxtemporal.spark.targets.target import MicroBatch, Origin, Writer
from rxtemporal.storage import segments

# before, during and after; where there are several points in one part, one of them is drawn
POINTS: dict[tuple[str, str], list[str]] = {
    ("segment", "before"): ["an append begins"],
    ("segment", "during"): ["its facts are named", "its rows are half written", "it is named"],
    ("segment", "after"): ["an append returns"],
    ("handler", "before"): ["the handler begins"],
    ("handler", "during"): ["a task runs"],
    ("handler", "after"): ["the handler returns"],
    ("publication", "before"): ["all files are staged"],
    ("publication", "during"): ["one file is moved", "the ledger is half written"],
    ("publication", "after"): ["the ledger is named"],
    # Spark writes it by itself: from here on the killer looks at the folder
    ("checkpoint", "before"): ["the micro-batch returns"],
    ("checkpoint", "during"): ["the micro-batch returns"],
    ("checkpoint", "after"): ["the micro-batch returns"],
}


# of so many segments one has the moment; the first segment of all is before any
BLOCK = 4


@dataclasses.dataclass(frozen=True)
class Moment:
    """A point, from a segment on."""

    point: str
    segment: int


@dataclasses.dataclass(frozen=True)
class Moments:
    """Those of a run, in order; ``folder`` is where the files lie that tell who is where."""

    folder: Path
    all: tuple[Moment, ...]

    def current(self) -> int:
        """Return which of them is next, their number when all are done."""
        return sum(self.file("done", index).exists() for index in range(len(self.all)))

    def next_is(self, point: str) -> bool:
        """Return True if the next one is at this point."""
        return [each.point for each in self.all[self.current() :]][:1] == [point]

    def at(self, point: str, segment: int) -> None:
        """Stand still here if this is the next moment, and nobody was at it before."""
        index = self.current()
        if not self.next_is(point) or segment < self.all[index].segment:
            return
        aside = self.folder / f"aside.{os.getpid()}"
        aside.write_text(json.dumps({"pid": os.getpid(), "segment": segment}), encoding="utf-8")
        with contextlib.suppress(FileExistsError):
            # a link is there with all that it says, or not at all
            os.link(aside, self.file("reached", index))
            while not self.file("go", index).exists():
                time.sleep(0.005)
        aside.unlink(missing_ok=True)

    def reached(self, index: int) -> dict[str, int] | None:
        """Return who is at a moment, None while nobody is."""
        path = self.file("reached", index)
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def may_write(self, segment: int) -> bool:
        """Return True if a segment may be written that leaves some for the moments to come."""
        done = self.current()
        return done == len(self.all) or segment <= 1 + BLOCK * (done + 1)

    def file(self, what: str, index: int) -> Path:
        """Return the file that says ``reached``, ``go`` or ``done`` of a moment."""
        return self.folder / f"{what}.{index}"


def put(owner: object, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """Replace a function where it is looked up, and return it.

    A point that is put where nobody passes any more would be waited for in vain.
    """
    before: Callable[..., Any] = vars(owner)[name]
    setattr(owner, name, call)
    return before


def half(path: Path, data: bytes) -> None:
    """Leave what a write leaves that is broken off in the middle."""
    path.with_name(f".{path.name}.part").write_bytes(data[: len(data) // 2])


def in_the_spool(moments: Moments) -> None:
    """Put the points around the writing of a segment, in this process."""
    append = segments.Spool.append

    def appended(self: segments.Spool, batch: Any) -> int:
        moments.at("an append begins", self.last + 1)
        number = append(self, batch)
        moments.at("an append returns", number)
        return number

    def published(path: Path, data: bytes) -> None:
        if path.suffix == ".arrow" and moments.next_is("its rows are half written"):
            half(path, data)
            moments.at("its rows are half written", int(path.stem))
        publish(path, data)
        if path.stem.isdigit():
            named = "it is named" if path.suffix == ".arrow" else "its facts are named"
            moments.at(named, int(path.stem))

    put(segments.Spool, "append", appended)
    put(segments, "publish", published)


@dataclasses.dataclass(frozen=True)
class Held:
    """A ``ParquetTable`` with the points of handler, publication and checkpoint in its way."""

    table: ParquetTable
    moments: Moments

    shapes: ClassVar[frozenset[EventShape]] = ParquetTable.shapes
    runs_in_child: ClassVar[bool] = True
    shape_error: ClassVar[str] = ParquetTable.shape_error

    def open(self, origin: Origin) -> Writer:
        """Return the writer, and put the points where it works."""
        return HeldWriter(self.table.open(origin), self.moments)


class HeldWriter:
    """Passes micro-batches on to a table's writer."""

    def __init__(self, inner: Any, moments: Moments) -> None:
        self._inner, self._moments = inner, moments
        self._segment, self._moved = 0, 0
        inner._move = self._around(inner._move, before="all files are staged")
        inner._write_ledger = self._around(inner._write_ledger, after="the ledger is named")
        self._make_task, inner._make_task = inner._make_task, self._make_held_task
        self._name_file = put(tables, "name_file", self._before_a_move)
        put(manifest, "publish", self._publish)
        taken = runner.Runner._on_batch
        put(runner.Runner, "_on_batch", self._around(taken, after="the micro-batch returns"))

    @property
    def last(self) -> int:
        """The last segment that is published."""
        return int(self._inner.last)

    def write(self, batch: MicroBatch) -> None:
        """Publish, with the points around it."""
        self._segment, self._moved = batch.last, 0
        self._at("the handler begins")
        self._inner.write(batch)
        self._at("the handler returns")

    def close(self) -> None:
        """Let go of the table."""
        self._inner.close()

    def _at(self, point: str) -> None:
        self._moments.at(point, self._segment)

    def _around(
        self, call: Callable[..., Any], before: str = "", after: str = ""
    ) -> Callable[..., Any]:
        def called(*given: Any) -> Any:
            self._at(before)
            done = call(*given)
            self._at(after)
            return done

        return called

    def _make_held_task(self, *given: Any) -> Callable[[Iterable[Any]], Iterator[Any]]:
        task = self._make_task(*given)
        if not self._moments.next_is("a task runs"):
            return task
        return functools.partial(passing, self._moments, self._segment, task)

    def _before_a_move(self, *given: Any) -> str:
        self._moved += 1
        if self._moved == 2:
            self._at("one file is moved")
        return self._name_file(*given)

    def _publish(self, path: Path, data: bytes, **given: Any) -> None:
        if self._moments.next_is("the ledger is half written"):
            half(path, data)
            self._at("the ledger is half written")
        publish(path, data, **given)


def passing(
    moments: Moments, last: int, task: Callable[[Iterable[Any]], Iterator[Any]], runs: Iterable[Any]
) -> Iterator[Any]:
    """Write the files of a micro-batch in a task of Spark's, which stands still at the moment."""
    for file in task(runs):
        moments.at("a task runs", last)
        yield file
