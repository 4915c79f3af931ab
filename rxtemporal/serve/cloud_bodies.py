"""Bodies with CloudEvents: structured, in batches, and binary, where attributes are headers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec
from starlette.types import Scope

from rxtemporal.errors import EventError
from rxtemporal.ingress.cloud_events import CloudEvent, read_cloud_event
from rxtemporal.ingress.encoded_rows import explain
from rxtemporal.ingress.verdict import Rejected
from rxtemporal.query.push_source import RowLayout
from rxtemporal.serve.body_rows import (
    JSON,
    BodyError,
    BodyRows,
    check_values,
    find_place,
    refuse_long,
)
from rxtemporal.serve.responses import RequestError
from rxtemporal.serve.settings import Limits

EVENT = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
_PREFIX = b"ce-"
_decode = msgspec.json.Decoder().decode


class CloudBody(NamedTuple):
    """The rows of a body, their common source, their numbers if all have one, and the trace."""

    rows: BodyRows
    source: str | None
    numbers: list[int] | None
    traceparent: str | None


def read_attributes(scope: Scope) -> dict[str, str]:
    """Return the attributes that are headers; empty if the body is not one event."""
    return {
        name[len(_PREFIX) :].decode("latin-1"): unquote(value.decode("latin-1"))
        for name, value in scope["headers"]
        if name.startswith(_PREFIX)
    }


def is_cloud_body(kind: str, attributes: Mapping[str, str]) -> bool:
    """Return True if a body of this content type, or with these attributes, has CloudEvents."""
    return kind in (EVENT, BATCH) or "specversion" in attributes


def read_cloud_body(
    body: bytes, kind: str, attributes: Mapping[str, str], layout: RowLayout, limits: Limits
) -> CloudBody:
    """Return the rows of a body; an event that is wrong is a refused row.

    ``BodyError``: the body is not JSON. ``RequestError``: it has events of several sources (400),
    or too many (413).
    """
    check_values(body, limits)
    try:
        value = _decode(body)
    except Exception as error:
        raise BodyError(explain(error), **find_place(body, error)) from None
    if kind == BATCH and not isinstance(value, list):
        raise BodyError("a batch of CloudEvents is a JSON array", byte=0)
    if kind not in (EVENT, BATCH):
        value = {**attributes, "data": value}
    events = value if kind == BATCH else [value]
    if len(events) > limits.rows:
        raise RequestError(413, f"a body has at most {limits.rows} rows")
    return _read_events(events, layout, lambda rows: refuse_long(body, rows, limits))


def _read_events(
    events: list[Any], layout: RowLayout, refuse: Callable[[BodyRows], BodyRows]
) -> CloudBody:
    read: dict[int, CloudEvent] = {}
    refused: list[Rejected] = []
    for place, event in enumerate(events):
        try:
            read[place] = read_cloud_event(event, layout.start, layout.seq)
        except EventError as error:
            refused.append(Rejected(place, str(error), event))
    sources = list(dict.fromkeys(each.source for each in read.values()))
    if len(sources) > 1:
        raise RequestError(
            400,
            f"a batch has events of one source, got {sources[0]!r} and {sources[1]!r}. "
            "Hint: send a batch for each source.",
        )
    items = [each.row for each in read.values()]
    rows = refuse(BodyRows(JSON, items, len(events), refused, [*read]))
    # of a stream with a field for the number each row has its own
    numbers = [read[place].number for place in rows.places or ()]
    is_numbered = layout.seq is None and None not in numbers
    first = events[0] if events and isinstance(events[0], dict) else {}
    return CloudBody(
        rows,
        sources[0] if sources else None,
        numbers if is_numbered and numbers else None,  # type: ignore[arg-type]
        first.get("traceparent"),
    )
