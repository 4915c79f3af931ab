"""Two pushed streams, joined under virtual time."""

from __future__ import annotations

import re
from typing import Any

from reactivex.subject import Subject
from reactivex.testing import TestScheduler
from runs import Log

import rxtemporal as rxt
from rxtemporal import EventShape

SCHEMA = {"k": str, "x": int}


def row(x: int) -> dict[str, Any]:
    """A payload."""
    return {"k": "a", "x": x}


class House:
    """Two pushed streams, joined, under a clock that is moved by hand."""

    def __init__(self, shape: EventShape = EventShape.EDGE, **options: Any) -> None:
        self.readings, self.rooms = Subject[Any](), Subject[Any]()
        self.clock = TestScheduler()
        readings = rxt.from_observable(self.readings, schema=SCHEMA, name="readings")
        rooms = rxt.from_observable(self.rooms, schema=SCHEMA, name="rooms")
        self.sink = Log(shape)
        query = readings.join(rooms.where(lambda row: row["x"] > 0), on="k", suffix="_r")
        self.process = query.run(self.sink, name="placed", scheduler=self.clock, **options)

    def told(self) -> list[str]:
        """Return the description of what holds the query back, without the line."""
        holds = map(str, self.process.diagnostics().holding_back())
        return [re.sub(r" \(joined_rooms\.py:\d+\)", "", each) for each in holds]
