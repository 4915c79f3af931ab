"""Stepper of a query: runs it by hand, step by step, and can be saved and resumed."""

from __future__ import annotations

from rxtemporal.core.batch import EventBatch
from rxtemporal.errors import ArgumentError
from rxtemporal.ingress.packers import read_batches
from rxtemporal.ingress.side_source import SideSource
from rxtemporal.query.streamable import Streamable
from rxtemporal.run.stepper import Stepwise


class Stepper(Stepwise):
    """Steps of one query, through which batches are pushed by hand, without Rx.

    Sources are addressed by the names of the query's streams (``name=``), and their fields have to
    be known (``schema=``). Results have edges and CTIs. ``save`` returns the state of the steps; a
    stepper of the same query that loads it continues as this one would have.

    It is not thread-safe.

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
        """Read the sources that do not push to their ends, and return the results."""
        out = []
        for node in self._nodes:
            if isinstance(node.source, SideSource):
                side = node.source
                raise ArgumentError(
                    f"a stepper finds no {side.what}, so {side.name!r} would be empty. "
                    "Hint: run the query, or push batches of this source."
                )
            if node.source is not None and not node.source.pushes:
                for batch in read_batches(node.source):
                    out += self.through(node, batch)
        return out
