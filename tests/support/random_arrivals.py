"""Input streams with late events, edges and imports, made from a seed."""

from __future__ import annotations

from random import Random
from typing import Any

import polars as pl

import rxtemporal as rxt

FIELDS = {"k": str, "v": int}


def make_stream(random: Random, name: str, imports: str | None = None) -> rxt.Streamable:
    """Return a stream of events, or of the rows of a frame, of which some come late."""
    settings = _make_settings(random, imports)
    if random.random() < 0.35:
        events = [each for each in make_events(random, edges=False) if not _is_cti(each)]
        frame = pl.DataFrame(
            {
                "start": [each.start for each in events],
                "end": [each.end for each in events],
                "k": [each.payload["k"] for each in events],
                "v": [each.payload["v"] for each in events],
            },
            schema={"start": pl.Int64, "end": pl.Int64, "k": pl.String, "v": pl.Int64},
        )
        return rxt.from_polars(frame, start="start", end="end", name=name, advance_time=settings)
    return rxt.from_events(make_events(random), schema=FIELDS, name=name, advance_time=settings)


def _is_cti(event: Any) -> bool:
    return isinstance(event, rxt.Cti)


def _make_settings(random: Random, imports: str | None) -> rxt.AdvanceTimeSettings:
    policy = random.choice([rxt.AdvanceTimePolicy.DROP, rxt.AdvanceTimePolicy.ADJUST])
    if imports is not None:
        taken = rxt.AdvanceTimeImportSettings(imports)
        return rxt.AdvanceTimeSettings(imports=taken, policy=policy)
    made = rxt.AdvanceTimeGenerationSettings(random.choice([1, 1, 3, 10]), random.choice([0, 2, 9]))
    return rxt.AdvanceTimeSettings(made, policy=policy)


def make_events(random: Random, count: int = 60, *, edges: bool = True) -> list[Any]:
    """Return events whose times rise on the whole, with CTIs among them."""
    made: list[Any] = []
    opened: list[tuple[int, dict[str, Any]]] = []
    time = 0
    for _ in range(count):
        time += random.choice([0, 0, 1, 2, 5])
        start = time - random.choice([0, 0, 0, 1, 4, 12])
        payload = {"k": random.choice("ab"), "v": random.choice([1, 2, None])}
        kind = random.choice(["point", "point", "interval", *(["start", "end"] if edges else [])])
        if kind == "point":
            made.append(rxt.PointEvent(start, payload))
        elif kind == "interval":
            made.append(rxt.IntervalEvent(start, start + random.choice([1, 3, 20]), payload))
        elif kind == "start":
            made.append(rxt.EdgeEvent.create_start(start, payload))
            opened.append((start, payload))
        elif opened:
            start, payload = opened.pop(random.randrange(len(opened)))
            end = max(start + 1, time - random.choice([0, 3]))
            made.append(rxt.EdgeEvent.create_end(start, end, payload))
        if random.random() < 0.05:
            made.append(rxt.Cti(max(0, time - random.choice([0, 5]))))
    return made
