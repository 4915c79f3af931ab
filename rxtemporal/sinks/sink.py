"""Sinks: receivers of the results of a running query."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import polars as pl

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.events import EventShape
from rxtemporal.errors import ArgumentError, CheckpointError, RxTemporalError


class SinkAwayError(RxTemporalError):
    """The database or server of a sink has not answered for as long as the sink is patient."""


class Sink(ABC):
    """Base class of sinks. A sink gets the batches of one query, one call at a time.

    1. ``open`` is called once, first; an exception in it keeps the query from starting.
    2. ``write`` gets the batches in order, in the sink's ``shape``. In interval shape every row is
       complete (or endless, with ``end = MAX_TIME``), and after a batch with CTI ``t`` exactly the
       rows with ``start < t`` have been written. An exception in it ends the query.
    3. ``close`` is called once, last, if ``open`` succeeded; it returns when all rows are safe.

    Only ``write`` has to be defined; the other methods do nothing unless a class overrides them.
    A sink whose ``write`` or ``close`` may wait for long overrides ``cancel``; one that calls user
    code in its own threads overrides ``in_callback``; one that takes part in a run with
    ``resume=`` overrides ``save`` and ``load``.
    """

    shape: EventShape = EventShape.INTERVAL
    """The shape in which the sink gets its rows; a class or an instance may set another one."""

    restarts: int = 0
    """How often the sink has restarted what it writes to, a worker or a connection."""

    undelivered_since: float | None = None
    """When it got the oldest row that is not delivered yet, of ``time.monotonic``; None: none."""

    away_since: float | None = None
    """When what it writes to began not to answer, of ``time.monotonic``; None: it answers."""

    by_position: bool = False
    """True if it knows by a position which results it has; see ``rxtemporal.sinks.positioned``."""

    numbered: bool = False
    """True if its positions are numbers of batches: each device has its own time."""

    most_rows: int | None = None
    """The most rows that it takes at once, if they are numbered; None: any number."""

    has_begun: bool = False
    """True if a part of it begins with this run, in which the other parts have resumed."""

    def __repr__(self) -> str:
        path = f"{str(self.path)!r}, " if hasattr(self, "path") else ""
        return f"{type(self).__name__}({path}{self.shape.value} shape)"

    def describe(self) -> str:
        """Return the class of the sink as its user knows it, or the name of a function."""
        return type(self).__name__

    def set_time_form(self, form: Callable[[], TimeForm]) -> None:  # noqa: B027
        """Set the function that returns the form of the sources' times; called before ``open``."""

    def set_next_number(self, number: int | None) -> None:  # noqa: B027
        """Note the number of the next new batch of a sink with numbered results.

        None, before ``load`` and ``open``: batches that have left before may still come again. The
        number comes once the last of those since the checkpoint has been written again.
        """

    def open(self, query: str, schema: pl.Schema) -> None:  # noqa: B027
        """Prepare for the query with this name, whose payload has this schema."""

    @abstractmethod
    def write(self, batch: EventBatch) -> None:
        """Write one batch."""

    def close(self, error: BaseException | None) -> None:  # noqa: B027
        """Finish; ``error`` is None if the query completed, else the error that ended it.

        It is a ``StoppedError`` if the process was stopped: then nothing has failed, and what has
        been written is to be kept.
        """

    def cancel(self, error: BaseException) -> None:  # noqa: B027
        """Make a ``write`` or ``close`` that waits raise this error; called from any thread."""

    def in_callback(self) -> bool:
        """Return True if this thread is running user code that the sink called."""
        return False

    def settle(self) -> bool:
        """Deliver the rows that are held, before the last ``save`` of a run that is stopped.

        So that this state says what has been delivered. A place that is away is not waited for.
        Return True if rows have been delivered.
        """
        return False

    def save(self) -> bytes | Callable[[], bytes]:
        """Return the sink's part of a checkpoint: the state that ``load`` needs to resume.

        A run with ``resume=`` calls it before the first row, too, after the first ``open``: a
        crash before its first checkpoint leads back to there.

        The query waits meanwhile. What takes long, such as a sync to disk, is left to a function:
        another thread calls it once, while ``write`` may go on, and it returns the state.
        """
        return b""

    def load(self, state: bytes) -> None:
        """Resume from a state that ``save`` returned; called before ``open``.

        The batches since that checkpoint follow; the sink may have written some of them before.
        """
        raise CheckpointError(
            "the checkpoint has a state of the run's sink, and this sink cannot load one. "
            "Hint: resume with the kind of sink that the run was started with."
        )


class ReadySink(Sink):
    """Sink with one form of times, by default that of the query's sources."""

    def __init__(self, time: TimeForm | None, shape: EventShape = EventShape.INTERVAL) -> None:
        if time not in (None, "datetime", "ticks"):
            raise ArgumentError(f"time is 'datetime', 'ticks' or None, got {time!r}")
        self.shape = shape
        self._time = time
        self._source_time: Callable[[], TimeForm] = lambda: "datetime"

    def set_time_form(self, form: Callable[[], TimeForm]) -> None:
        """Set the function that returns the form of the sources' times."""
        self._source_time = form

    def close(self, error: BaseException | None) -> None:
        """Keep the form of times, but no reference to the run."""
        form = self._source_time()
        self._source_time = lambda: form

    def _form(self, time: TimeForm | None = None) -> TimeForm:
        return time or self._time or self._source_time()


class _FunctionSink(Sink):
    """Sink that calls a function with each batch."""

    def __init__(self, function: Callable[[EventBatch], Any], shape: EventShape) -> None:
        self.function, self.shape = function, shape

    def describe(self) -> str:
        """Return the name of the function."""
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        return f"function {name}"

    def write(self, batch: EventBatch) -> None:
        """Call the function."""
        self.function(batch)


class _Delegate(Sink):
    """Sink that delegates to an object with the methods of one, not derived from ``Sink``."""

    def __init__(self, sink: Any) -> None:
        self.sink = sink
        for name in ("shape", "open", "close", "cancel", "in_callback", "settle", "save", "load"):
            if hasattr(sink, name):
                setattr(self, name, getattr(sink, name))

    def describe(self) -> str:
        """Return the class of the object."""
        return type(self.sink).__name__

    def write(self, batch: EventBatch) -> None:
        """Pass the batch to the object."""
        self.sink.write(batch)


def is_sink(value: Any) -> bool:
    """Return True if results can be written to the value: a sink or a function of batches."""
    methods = all(hasattr(value, name) for name in ("shape", "open", "write", "close"))
    return not isinstance(value, type) and (methods or callable(value))


def as_sink(value: Any, shape: EventShape | None = None) -> Sink:
    """Return a sink or a function of batches as a sink; refuse any other value.

    ``shape`` is the shape of a function's rows, by default intervals.
    """
    if not is_sink(value):
        from rxtemporal.core.safe_text import hint_sink

        raise ArgumentError(
            f"results go into a sink or a function of batches, got {value!r}. Hint: "
            f"{hint_sink(value)}."
        )
    if not isinstance(shape, EventShape | None):
        raise ArgumentError(f"shape is an EventShape, got {shape!r}. Hint: EventShape.EDGE.")
    if not isinstance(value, Sink) and not hasattr(value, "write"):
        return _FunctionSink(value, shape or EventShape.INTERVAL)
    if shape is not None:
        raise ArgumentError(
            f"shape= is for functions, and {type(value).__name__} has a shape of its own. "
            "Hint: leave it out, or give it to the sink."
        )
    return value if isinstance(value, Sink) else _Delegate(value)
