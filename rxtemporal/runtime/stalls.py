"""Stalls: the reasons why a query delivers nothing, and remedies."""

from __future__ import annotations

import dataclasses

from rxtemporal.core.batch import TimeForm
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, describe


def format_time(time: int | None, form: TimeForm) -> str:
    """Return a time as text, in the form that the sources use."""
    if time is None or time <= MIN_TIME:
        return "-"
    return str(time) if form == "ticks" and time < MAX_TIME else describe(time)


def format_age(seconds: float) -> str:
    """Return a span of the wall clock as text."""
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


@dataclasses.dataclass(frozen=True, slots=True)
class Stall:
    """One reason why a query delivers nothing: the CTI that it waits for.

    ``stream`` is the input stream that has to advance; None if the query waits for an open row to
    end, which starts at ``next_due``. ``operator`` and ``side`` name the input of a two-input
    operator that is behind the other one, if one is waiting; ``direct`` is True if the stream
    itself is that input. ``cti`` (ticks) is the CTI that does not advance, and ``cti_age`` for how
    many seconds of the wall clock. ``rows`` wait in the whole query; the CTI has to pass
    ``next_due`` before the first of them can leave. ``ended``: the stream has ended before the end
    of time, so it will not advance again. ``imports`` is the stream from which it takes its CTIs if
    that one has ended: then none will come either. ``needs_fields``: its fields are not known
    before its first event. ``others`` are the query's other streams.
    """

    query: str
    stream: str | None
    operator: str | None
    side: str | None
    direct: bool
    cti: int
    cti_age: float
    rows: int
    next_due: int | None
    ended: bool
    others: tuple[str, ...]
    time: TimeForm
    needs_fields: bool = False
    imports: str | None = None

    def __str__(self) -> str:
        """Return the stall as a sentence."""
        due, rows = format_time(self.next_due, self.time), _count_rows(self.rows)
        if self.stream is None:
            return (
                f"query {self.query!r} waits for the end of an open row that starts at {due}; "
                f"{rows}: in interval shape rows leave complete, in order of start"
            )
        if self.needs_fields:
            why = "whose fields are not known before its first event"
            return f"{self._waiting_part()}, {why}; {rows}"
        first = "" if self.next_due is None else f", the first for a CTI above {due}"
        return f"{self._waiting_part()}, {self._cti_part()}; {rows}{first}"

    def _waiting_part(self) -> str:
        if self.operator is None:
            return f"query {self.query!r} waits for stream {self.stream!r}"
        comes = "" if self.direct else "which comes from "
        return f"{self.operator} waits for its {self.side} input, {comes}stream {self.stream!r}"

    def _cti_part(self) -> str:
        cti, age = format_time(self.cti, self.time), format_age(self.cti_age)
        if self.ended:
            return f"which ended at CTI {cti} and will not advance again"
        if self.imports is not None:
            where = "without a CTI" if self.cti <= MIN_TIME else f"at CTI {cti}"
            return (
                f"which imports the CTIs of stream {self.imports!r}, which has ended {where}, and "
                "the end of time is not imported"
            )
        if self.cti <= MIN_TIME:
            return f"which has had no CTI for {age}"
        return f"whose CTI has been at {cti} for {age}"

    @property
    def remedies(self) -> tuple[str, ...]:
        """The changes that usually help, as text."""
        if self.stream is None:
            return ("run with EventShape.EDGE, which shows starts at once", "send end edges")
        if self.needs_fields:
            return (f"schema= where {self.stream!r} is made",)
        if self.imports is not None:
            return (
                f"a generation beside imports= in the settings of {self.stream!r}, whose own "
                "events then advance it too",
                f"CTIs that the source of {self.stream!r} sends",
            )
        other = repr(self.others[0]) if self.others else "a faster stream"
        return (
            f"advance_time= settings with a delay on {self.stream!r}",
            f"imports=AdvanceTimeImportSettings({other}) in those of {self.stream!r}",
            f"heartbeat= or idle_after= where {self.stream!r} is made, if it falls silent",
        )


def _count_rows(n: int) -> str:
    return {0: "no row waits", 1: "1 row waits"}.get(n, f"{n:,} rows wait")
