"""Micro-batches of segments for writers of tables, and a Spark that runs tasks in this process."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.storage.segments import SegmentFolder, Spool


class LocalSpark:
    """Stands for a Spark session: tasks run in this process, one after another."""

    defaultParallelism = 2  # noqa: N815

    @property
    def sparkContext(self) -> LocalSpark:  # noqa: N802
        """The context: this object."""
        return self

    @property
    def conf(self) -> dict[str, str]:
        """The settings, all of them as they are by default."""
        return {}

    def parallelize(self, parts: list[Any], tasks: int) -> LocalTasks:
        """Return the tasks of a job."""
        assert len(parts) == tasks
        return LocalTasks(parts)


@dataclasses.dataclass
class LocalTasks:
    """Parts of a job, a task for each."""

    parts: list[Any]

    def mapPartitions(self, task: Callable[[Iterable[Any]], Iterator[Any]]) -> LocalTasks:  # noqa: N802
        """Run the tasks."""
        return LocalTasks([got for part in self.parts for got in task([part])])

    def collect(self) -> list[Any]:
        """Return what they gave."""
        return self.parts


@dataclasses.dataclass(frozen=True)
class SegmentBatch:
    """Micro-batch of the segments of a folder, up to ``last``."""

    last: int
    folder: SegmentFolder
    spark: Any = dataclasses.field(default_factory=LocalSpark)
    number: int = 0

    @property
    def frame(self) -> Any:
        """There is none: the tasks read segments."""
        raise NotImplementedError

    def lay_out(self, after: int, aside: Path) -> tuple[SegmentFolder, dict[int, int]]:
        """Return the folder, and the rows of each of its segments above ``after``."""
        numbers = range(after + 1, self.last + 1)
        return self.folder, {each: self.folder.describe(each).rows for each in numbers}


def make_spool(path: Path, schema: pl.Schema, segments: Iterable[EventBatch]) -> SegmentFolder:
    """Write batches as segments, and return their folder."""
    with Spool.open(path, "q", schema) as spool:
        for batch in segments:
            spool.append(batch.replace(cti=max(batch.cti, spool.cti or MIN_TIME)))
    return SegmentFolder(path)
