"""Where a query's results go when it is run: the contract of a sink."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import EventShape

__all__ = ["Sink"]


@runtime_checkable
class Sink(Protocol):
    """Takes the batches of one query, one at a time, always from one thread at a time.

    1. ``open`` comes first and once; what it raises keeps the query from starting.
    2. ``write`` gets the batches in order, in the sink's ``shape``. In interval shape every row is
       complete (or endless, with ``end = MAX_TIME``), and after a batch with CTI ``t`` exactly the
       rows with ``start < t`` have been written. What ``write`` raises ends the query.
    3. ``close`` comes last and once: ``error`` is None when the stream completed, otherwise what
       ended it, which is a ``KeyboardInterrupt`` when a person did. It returns when everything
       accepted is safe.

    Four methods more are used where a sink has them. ``hurry(error)``, from any thread: somebody
    stops the process; a ``write`` or ``close`` that waits for something slow raises the error.
    ``calls_here()``: whether the sink is what runs in this thread, as where it calls a user's
    function; a process that is disposed there does not wait for its own end. In a run that is kept
    (``resume=``) ``save()`` returns as bytes what the sink holds back, after each state of the run,
    and ``load(state)`` gives it back, before ``open``: then batches come from that state on, of
    which the sink may have some.
    """

    shape: EventShape

    def open(self, name: str, schema: pl.Schema) -> None:
        """Get ready for the query called ``name``, whose payload has this schema."""

    def write(self, batch: EventBatch) -> None:
        """Take one batch."""

    def close(self, error: BaseException | None) -> None:
        """Finish."""
