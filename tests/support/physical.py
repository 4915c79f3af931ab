"""Physical streams of the oracle's tuples as the engine's events and batches, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import oracle
import polars as pl
import reactivex as rx
from oracle import MAX_TIME, MIN_TIME, Row

import rxtemporal as rxt
from rxtemporal import EventBatch
from rxtemporal.engine.codec import Captured
from rxtemporal.ingress.open_rows import OpenRows
from rxtemporal.operators.group_by import GroupStep
from rxtemporal.operators.wiring import Wiring
from rxtemporal.testing import Stepper

SCHEMA = {"k": pl.String, "x": pl.Int64, "y": pl.Float64}
SIDES = ("left", "right")
Query = Callable[..., rxt.Streamable]
# batches in the order in which they come, each with the number of the input that it comes from
Arrivals = Iterable[tuple[int, EventBatch]]


def event(item: tuple[Any, ...]) -> Any:
    """Return the engine's event for one of the oracle's tuples."""
    make = {
        "point": rxt.PointEvent,
        "interval": rxt.IntervalEvent,
        "start": rxt.EdgeEvent.create_start,
        "end": rxt.EdgeEvent.create_end,
        "cti": rxt.Cti,
    }
    return make[item[0]](*item[1:])


def tuples(events: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return the oracle's tuples for the engine's events."""
    found: list[tuple[Any, ...]] = []
    for each in events:
        if isinstance(each, rxt.Cti):
            found.append(("cti", each.start))
        elif isinstance(each, rxt.PointEvent):
            found.append(("point", each.start, each.payload))
        elif isinstance(each, rxt.IntervalEvent):
            found.append(("interval", each.start, each.end, each.payload))
        elif each.edge_type is rxt.EdgeType.START:
            found.append(("start", each.start, each.payload))
        else:
            found.append(("end", each.start, each.end, each.payload))
    return found


def batches(items: Sequence[tuple[Any, ...]], runs: Iterable[slice]) -> list[EventBatch]:
    """Return a legal stream cut into batches; edges are matched across all of them.

    Where the CTI of a run comes before some of its rows the run is cut there, so that what a batch
    promises after its rows is what the stream has promised by then.
    """
    open_rows: OpenRows[int] = OpenRows()
    cti, made = MIN_TIME, []
    for run in runs:
        columns: list[tuple[int, int, int, Any]] = []
        for item in items[run]:
            if item[0] == "cti":
                cti = item[1]
                continue
            edge = 0
            if item[0] == "start":
                edge = open_rows.opened + 1
                open_rows.open(item[1], item[-1], edge)
            elif item[0] == "end":
                edge = open_rows.close(item[1], item[-1]) or 0
            start, end = oracle.lifetime(item)
            columns.append((start, end, edge, item[-1]))
        made.append(_batch(columns, cti))
    return made


def _batch(columns: list[tuple[int, int, int, Any]], cti: int) -> EventBatch:
    start, end, edge = (np.array([column[i] for column in columns], np.int64) for i in range(3))
    payload = pl.DataFrame([column[3] for column in columns], schema=SCHEMA)
    return EventBatch(start, end, edge, payload, cti)


def run(made: Sequence[EventBatch], *operators: Any) -> list[EventBatch]:
    """Return what the operators make of the batches; each returned batch keeps its contract."""
    out: list[EventBatch] = []
    failed: list[Exception] = []
    stream = rx.from_iterable(made)
    for operator in operators:
        stream = operator(stream)
    stream.subscribe(out.append, failed.append)
    if failed:
        raise failed[0]
    return _checked(out)


def group(made: list[EventBatch], keys: Sequence[str]) -> list[EventBatch]:
    """Return the batches grouped by these fields."""
    step = GroupStep(tuple(keys))
    return [step.on_batch(batch) for batch in made] if keys else made


def run_with_restarts(made: Iterable[EventBatch], make: Callable[[], Any]) -> list[EventBatch]:
    """Return the output of a step that is saved and loaded before each batch."""
    out: list[EventBatch] = []
    step = make()
    for batch in made:
        saved, step = step.save(), make()
        step.load(saved)
        out.append(step.on_batch(batch))
    return out


def planned(
    query: Query, inputs: int = 1, schema: Any = SCHEMA, unit: Any = None
) -> rxt.Streamable:
    """Return a query's plan over inputs that are called left and right."""
    names = SIDES[:inputs]
    return query(*(rxt.from_events([], schema=schema, name=name, unit=unit) for name in names))


def pushed(plan: rxt.Streamable, made: Arrivals) -> list[EventBatch]:
    """Return what a plan makes of the batches, its steps made at the first of them."""
    wiring = Wiring([plan._node])
    entries = {source.name: entry for source, entry in wiring.entries}
    out: list[EventBatch] = []
    failed: list[Exception] = []
    wiring.leaves[0][1].deliver_to(out.append)
    wiring.driver.report_to(failed.append)
    for side, batch in made:
        if SIDES[side] in entries and not failed:
            entries[SIDES[side]].on_next(batch)
    if failed:
        raise failed[0]
    return _checked(out)


def stepped(
    plan: rxt.Streamable, made: Arrivals, restarts: Callable[[], bool] = lambda: False
) -> Iterator[list[EventBatch]]:
    """Yield what comes out for each batch.

    Wherever `restarts` says so, what the steps hold is captured and new ones go on with it. It is
    encoded after the old ones have gone on, which must not change it.
    """
    stepper, cti = Stepper(plan), MIN_TIME
    captured: list[Captured] | None = None
    for side, batch in made:
        if captured is not None:
            stepper.push(SIDES[side], batch)
            stepper = Stepper(plan)
            stepper.load([state.dumps() for state in captured])
        out = stepper.push(SIDES[side], batch)
        for each in out:
            each.check(cti)
            cti = each.cti
        yield out
        captured = stepper.capture() if restarts() else None


def _checked(out: list[EventBatch]) -> list[EventBatch]:
    cti = MIN_TIME
    for batch in out:
        batch.check(cti)
        cti = batch.cti
    return out


def rows(out: Iterable[EventBatch]) -> list[Row]:
    """Return the canonical history that batches describe."""
    found: list[list[Any]] = []
    open_rows: dict[int, list[Any]] = {}
    for batch in out:
        for start, end, edge, payload in zip(
            batch.start.tolist(),
            batch.end.tolist(),
            batch.edge.tolist(),
            batch.payload.to_dicts(),
            strict=True,
        ):
            if edge and end != MAX_TIME:
                row = open_rows.pop(edge)
                assert (row[0], oracle.freeze(row[2])) == (start, oracle.freeze(payload))
                row[1] = end
                continue
            found.append([start, end, payload])
            if edge:
                assert edge not in open_rows
                open_rows[edge] = found[-1]
    return [Row(*row) for row in found]
