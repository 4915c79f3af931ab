"""What a sink's target is: something that takes micro-batches, each segment exactly once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import polars as pl

from rxtemporal.core.events import EventShape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# what stands for the spool's id where there is no spool
DIRECT = "direct"


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """Whose segments come: the query, its spool's id, its fields, and what Spark has committed.

    ``path`` is the sink's. The fields are the payload's, and ``_edge`` in edge shape.
    """

    query: str
    spool: str
    schema: pl.Schema
    committed: int
    path: Path = dataclasses.field(default_factory=Path)


class Writer(Protocol):
    """A target that is open for one query; ``last`` is the last segment it has published."""

    last: int

    def write(self, frame: DataFrame, number: int, last: int) -> None:
        """Take micro-batch ``number``, whose last segment is ``last``; it may come twice."""

    def close(self) -> None:
        """Let go of the target; there are no more micro-batches."""


@runtime_checkable
class Target(Protocol):
    """A ready target: the shapes it takes, and whether another process may write it for this one.

    ``shape_error`` says why the other shapes are not taken.
    """

    shapes: ClassVar[frozenset[EventShape]]
    runs_in_child: ClassVar[bool]
    shape_error: ClassVar[str]

    def open(self, origin: Origin) -> Writer:
        """Return the writer for a query, after undoing what it left half published."""


class _Function:
    """A user's function as a writer; what has been published is for the function to know."""

    def __init__(self, function: Callable[[DataFrame, int], Any]) -> None:
        self._function = function
        self.last = 0

    def write(self, frame: DataFrame, number: int, last: int) -> None:
        """Hand the micro-batch over."""
        self._function(frame, number)

    def close(self) -> None:
        """Leave it to the function's owner."""


def writer_for(target: Any, origin: Origin) -> Writer:
    """Return the open writer of a target: a ready one, or a function ``(df, batch_id)``."""
    return target.open(origin) if isinstance(target, Target) else _Function(target)
