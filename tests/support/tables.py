"""Small tables of events through one operator, and what comes out as small tables."""

from __future__ import annotations

from typing import Any

import arrangements
import physical
import polars as pl
from oracle import MAX_TIME, MIN_TIME

A, B, C = ({"k": name, "x": x, "y": None} for name, x in (("a", 1), ("b", 2), ("c", 3)))
LENGTH = pl.col("end") - pl.col("start")
ROWS = [("interval", 3, 14, A), ("interval", 8, 9, B), ("interval", 5, MAX_TIME, C)]


def outputs(items: list[Any], operator: Any) -> list[list[tuple[Any, ...]]]:
    """Return the output for each item: (start, end, edge, k) of the rows, in order, and the CTI.

    MAX_TIME is written "-".
    """
    made = physical.batches(items, arrangements.cut_evenly(items, 1))
    step = operator.make(made[0].schema, ())
    found, cti = [], MIN_TIME
    for batch in made:
        out = step.on_batch(batch).check(cti)
        cti = out.cti
        ends = ["-" if end == MAX_TIME else end for end in out.end.tolist()]
        columns = (out.start.tolist(), ends, out.edge.tolist(), out.payload["k"].to_list())
        found.append([*sorted(zip(*columns, strict=True), key=repr), cti])
    return found


def history(items: list[Any], operator: Any) -> list[tuple[int, int, str]]:
    """The result of a stream that comes as one batch, with its end of time: (start, end, k)."""
    items = [*items, ("cti", MAX_TIME)]
    out = physical.run(physical.batches(items, [slice(0, len(items))]), operator)
    return sorted((row.start, row.end, row.payload["k"]) for row in physical.rows(out))


def history_by_ctis(
    query: physical.Query, items: list[Any]
) -> list[tuple[int, int, dict[str, Any]]]:
    """The result of a stream of which each CTI ends a batch: (start, end, payload)."""
    made = physical.batches(items, arrangements.cut_at_ctis(items))
    steps = physical.stepped(physical.planned(query), [(0, batch) for batch in made])
    rows = physical.rows([batch for out in steps for batch in out])
    return sorted(((*row,) for row in rows), key=lambda row: (row[:2], repr(row[2])))


def edges(*, start: int, end: int, ctis: tuple[int, ...]) -> list[Any]:
    """A row that opens, some CTIs, and its end."""
    return [("start", start, A), *(("cti", cti) for cti in ctis), ("end", start, end, A)]
