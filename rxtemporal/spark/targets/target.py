"""The protocol of a sink's targets, which take micro-batches, each segment exactly once."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import polars as pl

from rxtemporal.core.events import EventShape
from rxtemporal.core.files import publish, report_errors
from rxtemporal.errors import ArgumentError, SpoolError
from rxtemporal.storage.segments import SEGMENT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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


class Segments(Protocol):
    """Segments that tasks of Spark read; it can be pickled."""

    def content(self, sequence: int) -> bytes:
        """Return a segment's Arrow IPC file."""


class MicroBatch(Protocol):
    """Rows of some segments, as a DataFrame or as files."""

    @property
    def number(self) -> int:
        """Spark's number of the micro-batch."""

    @property
    def last(self) -> int:
        """The last of the segments."""

    @property
    def frame(self) -> DataFrame:
        """The rows with timestamps, the payload and ``_segment``."""

    @property
    def spark(self) -> SparkSession:
        """The session of the micro-batch."""

    def lay_out(self, after: int, aside: Path) -> tuple[Segments, dict[int, int]]:
        """Return the segments above ``after``, and how many rows each has, in order.

        ``aside`` is a folder for those that are in no file yet.
        """


class Writer(Protocol):
    """Writer to a target for one query."""

    @property
    def last(self) -> int:
        """The last segment that it has published."""

    def write(self, batch: MicroBatch) -> None:
        """Write a micro-batch; it may come twice."""

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

    def write(self, batch: MicroBatch) -> None:
        """Call the function with the micro-batch."""
        self._function(batch.frame, batch.number)

    def close(self) -> None:
        """Do nothing; the function belongs to the user."""


def writer_for(target: Any, origin: Origin) -> Writer:
    """Return the open writer of a built-in target or of a function ``(df, batch_id)``."""
    return target.open(origin) if isinstance(target, Target) else _FunctionWriter(target)


@dataclasses.dataclass(frozen=True, slots=True)
class Console:
    """Prints each micro-batch as a table of at most ``rows`` rows, in order of start.

    The ledger ``console.json`` beside the spool records the last printed segment, so that the next
    run prints the rest; after a crash between the two, one micro-batch is printed twice.
    Spark runs in this process, because it prints here.

    >>> Console(rows=5).rows
    5
    """

    rows: int = 20

    shapes: ClassVar[frozenset[EventShape]] = frozenset({EventShape.INTERVAL, EventShape.POINT})
    runs_in_child: ClassVar[bool] = False
    shape_error: ClassVar[str] = (
        "a Console does not accept edges: a printed row cannot be closed later. "
        "Hint: leave shape out: rows then come when they are complete; or use a DatabaseTable."
    )

    def __post_init__(self) -> None:
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or self.rows < 1:
            raise ArgumentError(f"rows is an int of 1 or more, got {self.rows!r}")

    def open(self, origin: Origin) -> Writer:
        """Return the writer; ``SpoolError`` if the ledger is damaged."""
        return _Printer(origin, self.rows)


class _Printer:
    def __init__(self, origin: Origin, rows: int) -> None:
        self._origin, self._rows = origin, rows
        self._ledger = origin.path / "console.json"
        self.last = 0 if origin.spool == DIRECT else self._read_ledger()

    def write(self, batch: MicroBatch) -> None:
        """Print new rows; the frame is executed even if there are none."""
        from pyspark.sql import functions as sf

        got: Any = pl.from_arrow(batch.frame.where(sf.col(SEGMENT) > self.last).toArrow())
        if batch.last <= self.last:
            return
        rows = got.drop(SEGMENT).sort("start_time")
        with pl.Config(tbl_rows=self._rows, tbl_hide_dataframe_shape=True):
            title = f"micro-batch {batch.number}: {rows.height} rows"
            print(title, rows.head(self._rows), sep="\n")
        if self._origin.spool != DIRECT:
            entry = {"spool": self._origin.spool, "segment": batch.last}
            with report_errors(f"cannot write {self._ledger}"):
                publish(self._ledger, json.dumps(entry).encode())
        self.last = batch.last

    def close(self) -> None:
        """Do nothing; nothing is held."""

    def _read_ledger(self) -> int:
        with report_errors(f"cannot read {self._ledger}"):
            if not self._ledger.exists():
                return 0
            text = self._ledger.read_bytes()
        try:
            entry = json.loads(text)
            spool, last = entry["spool"], int(entry["segment"])
        except (ValueError, KeyError, TypeError) as error:
            raise SpoolError(
                f"{self._ledger} is damaged. Hint: delete it; rows may then be printed twice."
            ) from error
        return last if spool == self._origin.spool else 0
