"""Side streams: what a source's door does not let in, as further sources of a plan."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import Cti, RowEvent
from rxtemporal.core.safe_text import encodable, json_text
from rxtemporal.core.ticks import MAX_TIME, TICK
from rxtemporal.core.time_forms import TimeForm
from rxtemporal.errors import SchemaError
from rxtemporal.ingress.clock_settings import ClockSettings
from rxtemporal.ingress.settings import AdvanceTimeSettings
from rxtemporal.ingress.verdict import Rejected


class SideSource:
    """A source beside another, its origin: both share one door and its CTIs, and are read once."""

    what = "side stream"
    """What its rows are, for names."""

    schema: pl.Schema | None
    # it has the CTIs that hold for all devices
    clock: ClockSettings | None = None

    def __init__(self, origin: Any) -> None:
        self.origin = origin
        self.name = f"{self.what} of {origin.name}"
        self.settings: AdvanceTimeSettings | None = origin.settings

    def copy_beside(self, origin: Any) -> Self:
        """Return a copy beside another source, with the same name and settings."""
        copied = copy.copy(self)
        copied.origin = origin
        return copied

    @property
    def declared_time(self) -> TimeForm | None:
        """The form of the times: that of the origin."""
        return self.origin.declared_time  # type: ignore[no-any-return]

    def describe_time(self) -> str:
        """Return what says the form of the times, for a message."""
        return str(self.origin.describe_time())


def lacks_common_time(side: SideSource) -> bool:
    """Return True if no CTI holds for all devices before the stream ends: any may be far behind."""
    clock = side.origin.clock
    return clock is not None and clock.behind is None


def find_origin(source: Any) -> Any:
    """Return the source that is read: the origin of a side stream, else the source itself."""
    return source.origin if isinstance(source, SideSource) else source


LATE_FIELDS: dict[str, pl.DataType] = {
    "source": pl.String(),
    "reason": pl.String(),
    "by": pl.Duration("us"),
    "start": pl.Datetime("us", "UTC"),
    "end": pl.Datetime("us", "UTC"),
}


class LateSource(SideSource):
    """Late events of a source, as another source."""

    what = "late events"

    def __init__(self, origin: Any, suffix: str) -> None:
        super().__init__(origin)
        self._suffix = suffix
        self.schema = None if origin.schema is None else self._with(origin.schema)

    def _with(self, payload: pl.Schema) -> pl.Schema:
        schema = dict(LATE_FIELDS)
        for name, dtype in payload.items():
            named = name + self._suffix if name in LATE_FIELDS else name
            if named in schema:
                raise SchemaError(
                    f"late events have fields {', '.join(LATE_FIELDS)}, and the payload has "
                    f"{name!r}. "
                    "Hint: late_events(suffix='_sent') renames the payload's."
                )
            schema[named] = dtype
        return pl.Schema(schema)

    def batch(self, fields: pl.DataFrame, payload: pl.DataFrame, cti: int) -> EventBatch:
        """Return late events as points at the CTI that each broke, column ``cti`` of ``fields``.

        Events that come after the end of time are omitted: no row can start there.
        """
        names = self._with(payload.schema)
        started = (fields["cti"] < MAX_TIME).to_numpy()
        start = fields["cti"].to_numpy()
        columns = [*fields.drop("cti"), *payload]
        frame = pl.DataFrame(
            [column.alias(name) for column, name in zip(columns, names, strict=True)]
        )
        return EventBatch.of_rows(start, start + TICK, frame, cti).take(started)


REJECT_FIELDS: dict[str, pl.DataType] = {
    "source": pl.String(),
    "input": pl.String(),
    "index": pl.Int64(),
    "reason": pl.String(),
    "row": pl.String(),
    "arrived": pl.Datetime("us", "UTC"),
}


class RejectListener(Protocol):
    """A run in which rejected rows are a stream."""

    def take(self, rejected: Sequence[Rejected]) -> None:
        """Take rejected rows, from any thread."""


class RejectSource(SideSource):
    """Rejected rows of a source, as another source."""

    what = "rejected rows"

    def __init__(self, origin: Any) -> None:
        super().__init__(origin)
        self.schema = pl.Schema(REJECT_FIELDS)
        # the latest run whose query reads the stream
        self.listener: RejectListener | None = None

    def listen(self, listener: RejectListener) -> None:
        """Give rejected rows to a run from now on."""
        self.listener = listener

    def batch(self, rejected: Sequence[Rejected], start: int, cti: int) -> EventBatch:
        """Return rejected rows as points at a time."""
        columns = {
            "source": [encodable(each.source) for each in rejected],
            "input": [encodable(each.input) for each in rejected],
            "index": [each.index for each in rejected],
            "reason": [each.reason for each in rejected],
            "row": [_text(each.row) for each in rejected],
            "arrived": [each.arrived for each in rejected],
        }
        starts = np.full(len(rejected), start, np.int64)
        payload = pl.DataFrame(columns, schema=self.schema, strict=True)
        return EventBatch.of_rows(starts, starts + TICK, payload, cti)


def _text(row: Any) -> str:
    """Return a row as JSON; an event with its kind, its times and its payload."""
    kind = type(row)
    if kind is Cti or kind in RowEvent.__subclasses__():
        names = ("start_time", "end_time", "edge_type", "payload")
        return json_text({"event": kind.__name__, **{n: v for n in names if (v := _get(row, n))}})
    return json_text(row)


def _get(event: Any, name: str) -> Any:
    try:
        return getattr(event, name, None)
    except Exception:  # a half-made event, or its times' own code
        return None
