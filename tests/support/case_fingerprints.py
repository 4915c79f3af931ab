"""The fingerprints of all cases of the laws."""

from __future__ import annotations

from collections.abc import Callable

from law_streams import CASES
from physical import SCHEMA, SIDES

import rxtemporal as rxt
from rxtemporal.runtime.stepper import Stepwise


def sides() -> list[rxt.Streamable]:
    """The streams of the table of laws."""
    return [rxt.from_events([], schema=SCHEMA, name=name) for name in SIDES]


def fingerprints(query: Callable[..., rxt.Streamable], *streams: rxt.Streamable) -> tuple[str, ...]:
    """Return the fingerprint of a query over some streams."""
    return Stepwise(query(*streams)._node).fingerprints


def of_the_table() -> dict[str, list[str]]:
    """Return the fingerprint of each query of the table of laws."""
    streams = sides()
    return {
        name: [*fingerprints(case.query, *streams[: case.inputs])] for name, case in CASES.items()
    }
