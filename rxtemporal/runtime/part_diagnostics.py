"""Diagnostics of the parts of a process: inputs, operators, input streams and queries."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.ingress.input_stats import SourceStats
from rxtemporal.ingress.lateness import LateReason
from rxtemporal.ingress.settings import HandOffDiagnostics


@dataclasses.dataclass(frozen=True, slots=True)
class InputDiagnostics:
    """Diagnostics of one input of an operator: its rows, its CTI (ticks) and the CTI's age.

    ``name`` is ``left`` or ``right``, or ``input`` if there is only one. ``cti_age`` is in seconds
    of the wall clock, since the CTI last advanced or since the start.
    """

    name: str
    rows_in: int
    cti: int
    cti_age: float


@dataclasses.dataclass(frozen=True, slots=True)
class OperatorDiagnostics:
    """Diagnostics of one operator of a running query: its line of source code, and its counters.

    ``rows`` is the number of rows it holds. ``next_due`` is the earliest start or end (of a window,
    its end) that the CTI has to pass before any held row can leave; None if no row waits.
    """

    name: str
    line: str
    rows: int
    rows_out: int = 0
    cti: int = MIN_TIME
    cti_age: float = 0.0
    next_due: int | None = None
    inputs: tuple[InputDiagnostics, ...] = ()

    @property
    def rows_in(self) -> int:
        """The number of rows received, on all inputs."""
        return sum(each.rows_in for each in self.inputs)

    @property
    def held_back_by(self) -> InputDiagnostics | None:
        """The input of two with the lower CTI; None if they are equal."""
        if len({each.cti for each in self.inputs}) < 2:
            return None
        return min(self.inputs, key=lambda each: each.cti)


@dataclasses.dataclass(frozen=True, slots=True)
class StreamDiagnostics:
    """Diagnostics of one input stream: its events, the late ones, and its CTI (ticks).

    ``largest_lateness`` is the delay, in ticks, that would have lost nothing: the smallest one with
    which no event would have been late by a CTI of this stream. ``late_by_import`` counts the
    events that are late only because of a CTI from outside (imported, from a heartbeat, or while
    idle), against which no delay of this stream helps. ``ahead`` counts the rows and CTIs that the
    clock guard found ahead of the wall clock. ``inputs`` has the counters of each input, if the
    source merges several: a subject in front of the run, or a ``PushSource``; events that a subject
    has dropped are counted there alone. ``rows_out`` have entered the query; ``rows`` wait for a
    CTI, the oldest at ``next_due``; ``open_rows`` are start edges without an end edge. ``cti_age``
    is in seconds of the wall clock, since the stream last passed on a CTI or since the start.
    ``hand_off`` has the counters of the stream's hand-off, if it has one. ``lateness`` has the
    numbers of the late events in this life of the run by how late they were, in the buckets of the
    metric of that name; ``total_lateness`` is the sum of their distances from the CTI, in ticks.
    """

    name: str
    events_in: int
    late: dict[LateReason, int]
    largest_lateness: int
    cti: int
    late_by_import: int = 0
    rows_out: int = 0
    rows: int = 0
    next_due: int | None = None
    open_rows: int = 0
    cti_age: float = 0.0
    idle: bool = False
    ended: bool = False
    hand_off: HandOffDiagnostics | None = None
    inputs: Mapping[str, SourceStats] = dataclasses.field(default_factory=dict)
    ahead: int = 0
    lateness: tuple[int, ...] = ()
    total_lateness: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class QueryDiagnostics:
    """Diagnostics of one query: the rows delivered to its sink, and its CTI (ticks).

    In interval shape ``rows`` wait for an open row to end; the oldest of them starts at
    ``next_due``. ``sink_restarts`` is how often the sink has restarted what it writes to.
    """

    name: str
    rows_out: int
    batches_out: int
    cti: int
    rows: int = 0
    next_due: int | None = None
    cti_age: float = 0.0
    sink_restarts: int = 0
