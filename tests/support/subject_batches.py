"""What is pushed into a subject, as events and as batches, and what comes out as events."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import oracle
import physical
import polars as pl
from hypothesis import strategies as st

import rxtemporal as rxt
from rxtemporal import Cti, EventBatch

Named = tuple[str | None, tuple[Any, ...]]


def _runs(items: list[Named]) -> list[list[Named]]:
    """Cut items where the sender changes and after each CTI: each run can be a batch."""
    found: list[list[Named]] = []
    for item in items:
        if not found or found[-1][-1][0] != item[0] or found[-1][-1][1][0] == "cti":
            found.append([])
        found[-1].append(item)
    return found


def _batch_of(items: list[tuple[Any, ...]]) -> EventBatch | None:
    """Rows and the CTI after them as a batch; None if it would say nothing."""
    cti = items[-1][1] if items[-1][0] == "cti" else rxt.MIN_TIME
    rows = [item for item in items if item[0] != "cti"]
    if not rows and cti == rxt.MIN_TIME:
        return None
    lifetimes = np.array([oracle.lifetime(row) for row in rows], np.int64).reshape(-1, 2)
    edge = np.array([row[0] in ("start", "end") for row in rows], np.int64)
    payload = pl.DataFrame([row[-1] for row in rows], schema=physical.SCHEMA)
    return EventBatch(lifetimes[:, 0].copy(), lifetimes[:, 1].copy(), edge, payload, cti)


def flatten(out: list[Any], shape: str, since: int | None = None) -> list[tuple[Any, ...]]:
    """What came out since a CTI, event by event: a batch as its rows, then its CTI if it is new.

    A CTI at the beginning of time is left out: it says nothing, and a batch cannot have one.
    """
    found: list[tuple[Any, ...]] = []
    reached = rxt.MIN_TIME if since is None else since
    for each in out:
        if isinstance(each, Cti) and each.start == rxt.MIN_TIME:
            continue
        if not isinstance(each, EventBatch):
            found += physical.tuples([each])
            reached = max(reached, each.start) if isinstance(each, Cti) else reached
            continue
        for start, end, payload in zip(
            each.start.tolist(), each.end.tolist(), each.payload.to_dicts(), strict=True
        ):
            interval = (shape, start, end, payload)
            found.append(("point", start, payload) if shape == "point" else interval)
        if each.cti > reached:
            reached = each.cti
            found.append(("cti", reached))
    return found


def counters(subject: Any) -> Any:
    """The counters of a subject, but for who is connected and what the wall clock says."""
    stats = subject.stats()
    sources = {
        name: dataclasses.replace(each, open=False, clock_offset=None)
        for name, each in stats.sources.items()
    }
    return dataclasses.replace(stats, sources=sources)


def events(items: list[Named]) -> list[tuple[str | None, Any]]:
    """Return items as events, each with the name of its input."""
    return [(name, physical.event(item)) for name, item in items]


@st.composite
def mix(draw: st.DrawFn, items: list[Named]) -> list[tuple[str | None, Any]]:
    """Items as events and, where one input sends several, as batches."""
    pushes: list[tuple[str | None, Any]] = []
    for run in _runs(items):
        batch = _batch_of([item for _, item in run]) if draw(st.booleans()) else None
        pushes += events(run) if batch is None else [(run[0][0], batch)]
    return pushes
