"""A query run by hand, step by step, so that it can be stopped, saved and gone on with."""

from __future__ import annotations

from rxtemporal.core.batch import EventBatch
from rxtemporal.errors import ArgumentError
from rxtemporal.ingress.late_source import LateSource
from rxtemporal.ingress.packer import read_batches
from rxtemporal.query.streamable import Streamable
from rxtemporal.runtime.stepper import Stepwise


class Stepper(Stepwise):
    """The steps of one query, with batches pushed through them by hand and without Rx.

    Its sources are named as the query's streams are (``name=`` where they were made), and their
    fields have to be known (``schema=``). What comes out is what the query gives in its own form:
    edges and CTIs included. ``save`` returns what the steps hold; the stepper of the same query
    that loads it goes on as this one would have.

    Not thread-safe: whoever drives it serialises.

    >>> import rxtemporal as rxt
    >>> from rxtemporal import agg
    >>> def occupied(visits):
    ...     return visits.snapshot_window().aggregate(n=agg.count())
    >>> visits = rxt.from_events([], schema={"room": str}, name="visits")
    >>> before = Stepper(occupied(visits))
    >>> _ = before.push("visits", rxt.EventBatch.from_dicts(
    ...     [{"start_time": 0, "end_time": 9, "room": "lab"}], cti=5))
    >>> after = Stepper(occupied(visits))
    >>> after.load(before.save())
    >>> [(out.end.tolist(), out.cti) for out in after.push("visits", rxt.EventBatch.empty(
    ...     {"room": str}, 10))]
    [([9], 10)]
    """

    def __init__(self, query: Streamable) -> None:
        if not isinstance(query, Streamable):
            raise ArgumentError(f"a Stepper takes a Streamable, got {query!r}")
        super().__init__(query._node)

    def drain(self) -> list[EventBatch]:
        """Read the sources that have to be asked to their ends; return what comes out."""
        out = []
        for node in self._nodes:
            if isinstance(node.source, LateSource):
                raise ArgumentError(
                    f"nothing is late in a stepper, which has no doors: {node.source.name!r}. "
                    "Hint: run the query, or push batches of this source."
                )
            if node.source is not None and not node.source.pushes:
                for batch in read_batches(node.source):
                    out += self.through(node, batch)
        return out
