"""Timelines of queries: a run, event by event, whose inputs and results become lanes."""

from __future__ import annotations

from collections.abc import Iterator

from reactivex.scheduler import VirtualTimeScheduler

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import EventShape
from rxtemporal.core.timeline_lanes import MOST_LANE_BARS, make_lane, make_late_bars
from rxtemporal.errors import ArgumentError
from rxtemporal.ingress.side_source import SideSource, find_origin
from rxtemporal.operators.plan import Node, Pace, set_pace
from rxtemporal.query.runs import shape_output
from rxtemporal.query.streamable import Streamable
from rxtemporal.run.execution import Execution
from rxtemporal.run.time_flow import find_imported
from rxtemporal.text.timeline import Bar, Lane, Timeline

# of payload fields that have the name of a field of late events
SUFFIX = "_"


def make_timeline(
    stream: Streamable,
    *,
    name: str = "result",
    inputs: bool = True,
    by: str | None = None,
    most: int = MOST_LANE_BARS,
    title: str = "",
) -> Timeline:
    """Run a query to the end of its sources and return its timeline.

    With ``inputs`` each input stream has a lane above the lane of the result. Events are read one
    by one, so each CTI that a stream sends is there; a late event is marked with the CTI that it
    broke. ``by`` is the field whose values have colours of their own. A lane has the first ``most``
    rows; the others are counted. A source that pushes is an ``ArgumentError``.

    >>> import rxtemporal as rxt
    >>> readings = rxt.from_events([rxt.PointEvent(4, {"x": 1})], name="readings")
    >>> [lane.describe() for lane in make_timeline(readings.extend_lifetime(3)).lanes]
    ['readings: 1 row, 1 CTI.', 'result: 1 row, 1 CTI.']
    """
    run = _LaneRun(stream, inputs)
    run.drain()
    lanes = list(run.make_input_lanes(by, most)) if inputs else []
    if not lanes or stream._node.source is None:
        lanes.append(make_lane(name, run.results, by=by, most=most, result=bool(lanes)))
    return Timeline(tuple(lanes), run.execution.time, title)


class _LaneRun:
    """A run of a query that keeps what its sources and the query itself give."""

    def __init__(self, stream: Streamable, inputs: bool) -> None:
        node = _step_by_step(stream)
        sources = [each for each in node.list_nodes() if each.source is not None] if inputs else []
        self._inputs = [each for each in sources if not isinstance(each.source, SideSource)]
        late = [_find_late(each) for each in self._inputs]
        found = [each for each in late if each is not None]
        streams = [Streamable(node), *map(Streamable, self._inputs), *found]
        self._late = [streams.index(each) if each is not None else None for each in late]
        outputs = [shape_output(each, EventShape.EDGE) for each in streams]
        self.execution = Execution(*outputs, others=find_imported([node], {}))
        self._batches: list[list[EventBatch]] = [[] for _ in streams]

    @property
    def results(self) -> list[EventBatch]:
        """The batches of the query."""
        return self._batches[0]

    def drain(self) -> None:
        """Run to the end of the sources; raise the error that ends the run."""
        errors = list[Exception]()
        self.execution.start_each(
            [each.append for each in self._batches], errors.append, lambda: None
        )
        try:
            self.execution.drain()
        finally:
            self.execution.dispose()
        if errors:
            raise errors[0]

    def make_input_lanes(self, by: str | None, most: int) -> Iterator[Lane]:
        """Yield the lane of each input stream, with its late events."""
        for number, (node, late) in enumerate(zip(self._inputs, self._late, strict=True), 1):
            assert node.source is not None
            bars = () if late is None else tuple(_make_late(self._batches[late], most))
            batches = self._batches[number]
            field = by if batches and by in batches[0].schema else None
            yield make_lane(node.source.name, batches, late=bars, by=field, most=most)


def _step_by_step(stream: Streamable) -> Node:
    """Return the plan over sources that are read one event at a time, in virtual time."""
    for node in stream._node.list_nodes():
        source = find_origin(node.source)
        if source is not None and source.pushes:
            raise ArgumentError(
                f"{source.name!r} pushes its events, and a timeline is drawn of what is there. "
                "Hint: record a run, and draw the recording; or collect batches, and draw those."
            )
    return set_pace(stream._node, Pace(1.0, VirtualTimeScheduler()))


def _find_late(node: Node) -> Streamable | None:
    if node.source is None or node.source.settings is None:
        return None
    return Streamable(node).late_events(suffix=SUFFIX)


def _make_late(batches: list[EventBatch], most: int) -> Iterator[Bar]:
    rows = [batch for batch in batches if len(batch)]
    if rows:
        yield from make_late_bars(EventBatch.concat(rows).slice(0, most).to_polars("ticks"))
