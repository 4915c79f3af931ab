"""Reference data: rows that are valid until the next row of their key, also if told late."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import polars as pl

from rxtemporal.errors import AdvanceTimeError, ArgumentError, BindingError, SchemaError
from rxtemporal.ingress.lateness import LateReason
from rxtemporal.ingress.settings import (
    AdvanceTimeImportSettings,
    AdvanceTimePolicy,
    AdvanceTimeSettings,
)
from rxtemporal.ingress.side_source import LATE_FIELDS, SideSource
from rxtemporal.ingress.source import StreamSource
from rxtemporal.operators.plan import Node
from rxtemporal.operators.reference.plan import SINCE, SINCE_TYPE, Reference
from rxtemporal.query.streamable import Streamable

# what is appended to a field that is called like one of a late event
_SUFFIX = "_told"


def reference(
    stream: Streamable,
    on: str | Sequence[str],
    *,
    follows: Streamable | str | None = None,
) -> Streamable:
    """Make reference data of an input stream: each row says that from its start on this is so.

    Rows: of the rows of a key ``on`` (a field or several; null is an ordinary key), the one with
    the latest start is valid, and of equal starts the one that was told last. Only starts count.

    Lifetimes: a row lives from its start until the next valid row of its key begins; the last one
    never ends. Rows may come in any order. A row that is **told late**, which starts before the
    CTI, is valid from the CTI on: what was final stays as it was. If a row with a later start is
    valid by then, a late row has no effect from there on. Each late row is also a late event of the
    stream, with the reason *dropped*: it is not in the stream at its own start.

    CTIs: those of the stream. ``follows`` is another input stream, or its name: its CTIs are
    imported, in place of CTIs of the rows' own. So the other stream waits for no reference row, and
    a row that is about the future makes no other one late. Without ``follows`` the stream keeps
    its ``advance_time``; without both a late row is a ``CtiViolationError``.

    Errors: a stream that is computed, or whose rows a CTI synchronizing subject has judged, has
    lost its late rows before. Held: the valid row of each key, and the rows that have not begun.
    Cost: each row once.

    >>> import rxtemporal as rxt
    >>> places = [rxt.PointEvent(0, {"id": 7, "city": "Berlin"}),
    ...           rxt.PointEvent(20, {"id": 7, "city": "Paris"})]
    >>> rxt.reference(rxt.from_events(places), on="id").to_polars(time="ticks").rows()
    [(0, 20, 7, 'Berlin'), (20, None, 7, 'Paris')]
    """
    source = _find_source(stream, follows)
    names = (on,) if isinstance(on, str) else tuple(on)
    schema = stream.schema
    if schema is not None and SINCE in schema:
        raise SchemaError(f"reference needs the name {SINCE!r}. Hint: rename this field.")
    same = source is stream._node.source
    told = stream if same else Streamable(Node(schema, (), source=source))
    rows = told.with_columns(**{SINCE: pl.lit(None, SINCE_TYPE)})
    if source.settings is not None:
        rows = rows.union(_list_late(told))
    return rows.group_by(*names)._compose(Reference()).ungroup()


def _find_source(stream: Streamable, follows: Streamable | str | None) -> StreamSource:
    """Return the source of a stream, which drops late rows, so that all are late events."""
    if not isinstance(stream, Streamable):
        raise ArgumentError(f"reference takes a stream, got {stream!r}")
    source = stream._node.source
    if source is None or isinstance(source, SideSource):
        raise BindingError(
            "reference takes an input stream, and this one is computed: rows that were told late "
            "are not in it any more. Hint: rxt.reference(stream, on=…) first, then where(), "
            "select() …; or to_signal() if no late row has to count."
        )
    if source.clock is not None:
        raise BindingError(
            f"in stream {source.name!r} each device has its own time, and reference takes a stream "
            "with one time. Hint: leave out clock= where it is made; a stream with clock= can be "
            "joined with the reference."
        )
    if source.judged:
        raise BindingError(
            f"reference takes rows as they are told, and a CTI synchronizing subject in front of "
            f"{source.name!r} drops late ones. Hint: rxt.PushSource, or a plain subject with "
            "advance_time=."
        )
    settings = source.settings
    if follows is not None:
        imports = AdvanceTimeImportSettings(_find_name(follows))
        settings = AdvanceTimeSettings(imports=imports, policy=AdvanceTimePolicy.DROP)
    elif settings is not None:
        settings = dataclasses.replace(settings, policy=AdvanceTimePolicy.DROP)
    if settings is None or settings == source.settings:
        return source
    return source.copy_with(settings)


def _find_name(stream: Streamable | str) -> str:
    if isinstance(stream, str):
        return stream
    source = stream._node.source if isinstance(stream, Streamable) else None
    if source is None:
        hint = (
            "follow the stream of the source, its attribute .stream"
            if hasattr(stream, "stream")
            else "a computed stream has the time of its inputs; follow one of these"
        )
        raise AdvanceTimeError(
            f"follows is an input stream or its name, got {stream!r}. Hint: {hint}."
        )
    return source.name


def _list_late(told: Streamable) -> Streamable:
    """Return the rows of a stream that were told late, from the CTI on that each of them broke."""
    late = told.late_events(suffix=_SUFFIX).where(pl.col("reason") == LateReason.DROPPED.value)
    if told.schema is None:
        others = [name for name in LATE_FIELDS if name != "start"]
        since = late.with_columns(**{SINCE: pl.col("start")})
        return since.drop("start", *others)
    fields = {name: pl.col(f"{name}{_SUFFIX}" if name in LATE_FIELDS else name)
              for name in told.schema}  # fmt: skip
    return late.select(**fields, **{SINCE: pl.col("start")})
