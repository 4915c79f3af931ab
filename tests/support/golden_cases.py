"""Cases with known answers from outside, read: their times, their events and their streams.

The cases lie beside the repository and not in it; where they are not at hand there are none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import rxtemporal as rxt

GOLDEN = Path(__file__).parents[3] / "shared" / "golden"

Case = dict[str, Any]


def cases() -> list[Case]:
    """Every case of the folder; none where there is no folder."""
    files = [GOLDEN / "documents.jsonl", GOLDEN / "random.jsonl"]
    texts = [file.read_text(encoding="utf-8") for file in files if file.exists()]
    return [json.loads(line) for text in texts for line in text.splitlines()]


# Times and events ---------------------------------------------------------------------------------

SPANS = {"min": timedelta(minutes=1), "h": timedelta(hours=1)}


class Clock:
    """A case's times as ticks: numbers in the case's unit, ISO texts, or "inf"."""

    def __init__(self, case: Case, zero: int = 0) -> None:
        unit = case["params"].get("unit", "")
        self.zero, self.tick = zero, 1
        if unit.startswith("seconds after "):
            self.zero, self.tick = rxt.ticks(datetime.fromisoformat(unit.split()[-1])), 1_000_000

    def time(self, time: int | str) -> int:
        """A moment."""
        if time == "inf":
            return rxt.MAX_TIME
        if isinstance(time, str):
            return rxt.ticks(datetime.fromisoformat(time.split()[0]))
        return self.zero + time * self.tick

    def span(self, span: int | str) -> int:
        """A length of time: a number, or something like "3min"; "inf" is all of it."""
        if span == "inf":
            return rxt.MAX_TIME
        if isinstance(span, str):
            number = span.rstrip("hmin")
            return rxt.ticks(int(number) * SPANS[span.removeprefix(number)])
        return span * self.tick


def event(given: list[Any], clock: Clock) -> Any:
    """An event as a case writes it."""
    kind, start, *rest = given
    at = clock.time(start)
    match kind:
        case "punctuation" | "cti":
            return rxt.Cti(at)
        case "point" | "insert":
            return rxt.PointEvent(at, rest[0])
        case "interval":
            return rxt.IntervalEvent(at, clock.time(rest[0]), rest[1])
        case "start":
            return rxt.EdgeEvent.create_start(at, rest[-1])
        case "end":
            return rxt.EdgeEvent.create_end(at, clock.time(rest[0]), rest[1])
    raise AssertionError(given)


class Unsized:
    """Return events of unknown number, so that each CTI is answered at once."""

    def __init__(self, events: list[Any]) -> None:
        self._events = events

    def __iter__(self) -> Iterator[Any]:
        return iter(self._events)


# What a case gives --------------------------------------------------------------------------------


class Given:
    """A case to be run: its parameters, and its inputs in large batches or in small ones."""

    def __init__(self, case: Case, batches: str) -> None:
        self.case, self.params = case, case["params"]
        self.clock = Clock(case)
        self._large = batches == "large"

    def stream(self, name: str = "input") -> rxt.Streamable:
        """The input of this name."""
        given = self.case["inputs"][name]
        if isinstance(given, dict):
            return self.table(given["$data"])
        events = [event(each, self.clock) for each in given]
        return rxt.from_events(events if self._large else Unsized(events), name=name)

    def table(self, path: str) -> rxt.Streamable:
        """The rows of one of the folder's files; its datetimes are ticks here, as spans are."""
        read = rxt.read_csv(GOLDEN / path, start="start", end="end", unit="ticks")
        rows = 1_000 if self._large else 1
        frame = read.to_polars(time="ticks")
        return rxt.from_polars(frame, start="start_time", end="end_time", batch_rows=rows)

    def spans(self, *names: str) -> list[int]:
        """These parameters, as lengths of time."""
        return [self.clock.span(self.params[name]) for name in names]

    @property
    def alignment(self) -> int:
        """The moment at which some window begins."""
        return self.clock.time(self.params.get("alignment", 0))

    @property
    def output(self) -> rxt.WindowOutput:
        """Return the lifetime of a window's result; the documents name it in two ways."""
        point = self.params["output"].startswith("PointAlignToWindowEnd")
        return rxt.WindowOutput.POINT_AT_END if point else rxt.WindowOutput.WINDOW
