"""Late events of a source, as another source."""

from __future__ import annotations

from typing import Any

import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MAX_TIME, TICK
from rxtemporal.errors import SchemaError
from rxtemporal.ingress.side_source import SideSource

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
