"""The protocol of a sink's targets, which take micro-batches, each segment exactly once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import polars as pl

from rxtemporal.core.events import EventShape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# the id in place of a spool's where there is no spool
DIRECT = "direct"
# the columns of edge shape: a row's number, and "open" or "closed"
EDGE, STATE = "_edge", "_state"


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """Origin of segments: the query, its spool's id, its fields, the last committed segment.

    ``path`` is the sink's. The fields are the payload's, and ``_edge`` in edge shape.
    """

    query: str
    spool: str
    schema: pl.Schema
    committed: int
    path: Path = dataclasses.field(default_factory=Path)


class Writer(Protocol):
    """Writer to a target for one query; ``last`` is the last segment that it has published."""

    last: int

    def write(self, frame: DataFrame, number: int, last: int) -> None:
        """Write micro-batch ``number``, whose last segment is ``last``; it may come twice."""

    def close(self) -> None:
        """Release the target; there are no more micro-batches."""


@runtime_checkable
class Target(Protocol):
    """Target with the shapes that it takes; ``shape_error`` says why it refuses the others.

    ``runs_in_child``: a worker process may write it in place of this process.
    """

    shapes: ClassVar[frozenset[EventShape]]
    runs_in_child: ClassVar[bool]
    shape_error: ClassVar[str]

    def open(self, origin: Origin) -> Writer:
        """Return the writer for a query, after undoing its unfinished publication."""


class _FunctionWriter:
    """A user's function as a writer; the function itself tracks what it has published."""

    def __init__(self, function: Callable[[DataFrame, int], Any]) -> None:
        self._function = function
        self.last = 0

    def write(self, frame: DataFrame, number: int, last: int) -> None:
        """Call the function with the micro-batch."""
        self._function(frame, number)

    def close(self) -> None:
        """Do nothing; the function belongs to the user."""


def writer_for(target: Any, origin: Origin) -> Writer:
    """Return the open writer of a built-in target or of a function ``(df, batch_id)``."""
    return target.open(origin) if isinstance(target, Target) else _FunctionWriter(target)
