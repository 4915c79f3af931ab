"""The laws of causes: a result recomputed from its causes alone, or without one of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import oracle
import physical
from law_cases import Case
from oracle import Event, Row

import rxtemporal as rxt
from rxtemporal.operators.causes.history import History
from rxtemporal.view.lineage.capture import capture
from rxtemporal.view.lineage.flow import Flow

Sides = tuple[list[Event], ...]


class Caused:
    """A case over drawn streams, captured: its results, and the input rows that each stands on."""

    def __init__(self, case: Case, sides: Sides) -> None:
        self._case = case
        self.flow: Flow = capture(_compose(case, sides)._node)
        # rows that never end have results up to there
        if not isinstance(self.flow.error, rxt.UnboundedWindowError | None):
            raise self.flow.error
        sources = {history.name: history for history in self.flow.histories if history.origin}
        self._sources = [sources.get(name) for name in physical.SIDES[: case.inputs]]
        self.inputs = [[] if source is None else list_rows(source) for source in self._sources]
        self.results = list_rows(self.flow.result)
        self._tolerance = case.tolerance(self.inputs[0])

    def find_causes(self, number: int) -> list[list[int]]:
        """Return the rows of each input on which a result stands."""
        found = self.flow.trace(self.flow.output, [number])
        return [
            [] if source is None or source.number not in found else found[source.number].tolist()
            for source in self._sources
        ]

    def recompute(self, number: int, rows: list[list[int]]) -> bool:
        """Return True if the model over some rows of each input has this result."""
        some = [[side[i] for i in numbers] for side, numbers in zip(self.inputs, rows, strict=True)]
        result = self._clip(self.results[number])
        near = self._tolerance(result)
        return any(is_near(self._clip(row), result, near) for row in self._case.model(*some))

    def _clip(self, row: Row) -> Row:
        """Return a row as it is known at the end: an end after the last CTI is not known yet."""
        return row._replace(end=min(row.end, self._case.last))


def _compose(case: Case, sides: Sides) -> rxt.Streamable:
    unit: Any = "us" if case.real else None
    streams = [
        rxt.from_events(
            [physical.event(item) for item in items], schema=physical.SCHEMA, name=name, unit=unit
        )
        for name, items in zip(physical.SIDES, sides, strict=False)
    ]
    return case.query(*streams)


def list_rows(history: History) -> list[Row]:
    """Return the rows of a history as the oracle's."""
    payloads: Iterable[dict[str, object]] = history.payload.to_dicts()
    return [
        Row(*row)
        for row in zip(history.start.tolist(), history.end.tolist(), payloads, strict=True)
    ]


def is_near(a: Row, b: Row, tolerance: float) -> bool:
    """Return True if two rows are equal, floats within the tolerance."""
    return a[:2] == b[:2] and all(
        _is_near(value, b.payload[name], tolerance) for name, value in a.payload.items()
    )


def _is_near(a: object, b: object, tolerance: float) -> bool:
    if isinstance(a, float) and isinstance(b, float) and abs(a - b) <= tolerance:
        return True
    return oracle.freeze({"value": a}) == oracle.freeze({"value": b})
