"""A flow of any size as the event-flow page reads it, made without running a query."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]
MINUTE = 60_000_000
ORIGIN = 1_767_254_400_000_000  # 2026-01-01T08:00Z
DELAY = 5 * MINUTE
WINDOW = 10 * MINUTE
ROOMS = ("hall", "kitchen", "office", "attic")


def column(values: Any, kind: str) -> dict[str, Any]:
    """Return a column of numbers: `kind` is f64, i32 or u8."""
    array = np.ascontiguousarray(values, {"f64": "<f8", "i32": "<i4", "u8": "u1"}[kind])
    return {"type": kind, "n": len(array), "data": base64.b64encode(array.tobytes()).decode()}


def times(values: Any) -> dict[str, Any]:
    """Return a column of times, given as ticks since `ORIGIN`."""
    return {**column(values, "f64"), "origin": str(ORIGIN)}


def words(codes: Any, values: list[Any]) -> dict[str, Any]:
    """Return a column of texts by their codes."""
    return {"type": "dict", "codes": column(codes, "i32"), "values": values}


def causes(lists: list[list[int]] | Numbers, role: int = 0) -> dict[str, Any]:
    """Return the direct causes of each row: row numbers of the first input."""
    counts = [len(each) for each in lists]
    rows = np.concatenate([np.asarray(each, int) for each in lists]) if len(lists) else []
    return {
        "offsets": column(np.concatenate([[0], np.cumsum(counts)]), "i32"),
        "side": column(np.zeros(len(rows)), "u8"),
        "row": column(rows, "i32"),
        "role": column(np.full(len(rows), role), "u8"),
    }


def make_flow(
    events: int = 400, *, rooms: tuple[str, ...] = ROOMS, seed: int = 7
) -> dict[str, Any]:
    """Return the flow of readings by room, filtered, averaged over windows, and kept if warm."""
    readings = Readings(events, rooms, seed)
    windows = Windows(readings)
    return {
        "version": 1,
        "title": "warm rooms",
        "time": "datetime",
        "zone": "UTC",
        "every": 1,
        "steps": events,
        "sampled": None,
        "sentence": "tumbling_window holds rows back: its window is open "
        "until the CTI of readings passes its end.",
        "nodes": [readings.source(), readings.where(), windows.average(), windows.alerts()],
        "arrivals": [readings.arrivals()],
        "output": 3,
        "delay": {"readings": DELAY},
        "latency": None,
        "diff": None,
        "live": False,
    }


class Readings:
    """Readings of rooms in the order of arrival, some late, and those that are warm."""

    def __init__(self, events: int, rooms: tuple[str, ...], seed: int) -> None:
        random = np.random.default_rng(seed)
        self.rooms = rooms
        self.step = np.arange(events)
        self.start = np.round(self.step * 0.9 * MINUTE - random.exponential(2 * MINUTE, events))
        self.start[random.random(events) < 0.02] -= 12 * MINUTE
        self.room = random.integers(0, len(rooms), events)
        noise = random.normal(0, 0.6, events)
        wave = 3 * np.sin(self.start / (90 * MINUTE))
        self.value = np.round(19 + wave + self.room % 4 + noise, 2)
        self.cti = np.maximum.accumulate(self.start) - DELAY
        self.by = np.maximum(np.concatenate([[-np.inf], self.cti[:-1]]) - self.start, 0)
        self.late = self.by > 0
        self.rows = np.flatnonzero(~self.late)
        self.warm = np.flatnonzero(self.value[self.rows] > 20)
        self.kept = self.rows[self.warm]
        self.moved = np.flatnonzero(np.diff(self.cti, prepend=-np.inf) > 0)

    def source(self) -> dict[str, Any]:
        """Return the input stream."""
        held = np.minimum(self.step, 12 + 5 * np.sin(self.step / 30))
        return node(
            0,
            "readings",
            kind="source",
            rows=self._columns(self.rows),
            fields=["room", "value"],
            ctis=(self.moved, self.cti[self.moved]),
            counts=(len(self.step), len(self.rows)),
            ctiRule="newest start - 5 min",
            heldCurve=curve(self.step, held),
        )

    def where(self) -> dict[str, Any]:
        """Return the operator that keeps warm readings."""
        return node(
            1,
            "where",
            inputs=[0],
            line="query.py:12",
            counts=(len(self.rows), len(self.kept)),
            rows=self._columns(self.kept),
            fields=["room", "value"],
            ctis=(self.moved, self.cti[self.moved]),
            causes=causes(self.warm[:, None]),
            ctiRule="as its input",
        )

    def _columns(self, chosen: Numbers) -> dict[str, Any]:
        start, room = self.start[chosen], self.room[chosen]
        payload = [words(room, list(self.rooms)), column(self.value[chosen], "f64")]
        return row_columns(start, start + 1, chosen, chosen, room, self.rooms, payload)

    def arrivals(self) -> dict[str, Any]:
        """Return all readings as they arrived."""
        events = len(self.step)
        number = np.full(events, -1)
        number[self.rows] = np.arange(len(self.rows))
        return {
            "stream": 0,
            "step": column(self.step, "i32"),
            "start": times(self.start),
            "end": times(self.start + 1),
            "kind": column(np.zeros(events), "u8"),
            "verdict": column(np.where(self.late, 2, 0), "u8"),
            "by": column(self.by * self.late, "f64"),
            "row": column(number, "i32"),
            "position": column(self.step, "i32"),
            "input": words(np.zeros(events), ["readings.csv"]),
            "fields": fields(["room", "value"]),
            "payload": [words(self.room, list(self.rooms)), column(self.value, "f64")],
        }


class Windows:
    """Averages of warm readings, by room and window of ten minutes."""

    def __init__(self, readings: Readings) -> None:
        self.readings = readings
        start, room = readings.start[readings.kept], readings.room[readings.kept]
        bucket = np.floor(start / WINDOW).astype(int)
        pairs, group = np.unique(np.stack([bucket, room], 1), axis=0, return_inverse=True)
        order = np.argsort(group, kind="stable")
        members = np.split(order, np.cumsum(np.bincount(group))[:-1])
        last = len(readings.cti) - 1
        passed = np.searchsorted(np.maximum.accumulate(readings.cti), (pairs[:, 0] + 1) * WINDOW)
        by_known = np.argsort(passed, kind="stable")
        passed, pairs = passed[by_known], pairs[by_known]
        self.members = [members[each].tolist() for each in by_known]
        self.start, self.room = pairs[:, 0] * float(WINDOW), pairs[:, 1]
        self.end = np.where(passed > last, np.inf, self.start + WINDOW)
        self.known, self.closed = np.minimum(passed, last), np.where(passed > last, -1, passed)
        value = readings.value[readings.kept]
        self.mean = np.round((np.bincount(group, value) / np.bincount(group))[by_known], 2)
        self.all = np.unique(bucket) * float(WINDOW)
        self.ctis = (readings.moved, np.floor(readings.cti[readings.moved] / WINDOW) * WINDOW)

    def average(self) -> dict[str, Any]:
        """Return the window operator, which holds back."""
        step = self.readings.step
        sizes = column([len(each) for each in self.members], "i32")
        return node(
            2,
            "tumbling_window",
            inputs=[1],
            line="query.py:13",
            keys=["room"],
            ctiRule="start of the open window",
            rows=self._columns(np.arange(len(self.room)), sizes),
            fields=["room", "average", "count"],
            causes=causes(self.members),
            ctis=self.ctis,
            counts=(len(self.readings.kept), len(self.room)),
            window={"start": times(self.all), "end": times(self.all + WINDOW)},
            holdsBack=True,
            holds="rows of open windows",
            held=37,
            heldCurve=curve(step, np.abs(40 * np.sin(step / 25))),
        )

    def alerts(self) -> dict[str, Any]:
        """Return the query's result: the averages above 22."""
        chosen = np.flatnonzero(self.mean > 22)
        return node(
            3,
            "select",
            inputs=[2],
            line="query.py:15",
            output=True,
            ctiRule="as its input",
            rows=self._columns(chosen),
            fields=["room", "alert"],
            causes=causes(chosen[:, None]),
            counts=(len(self.room), len(chosen)),
            ctis=self.ctis,
            keys=["room"],
        )

    def _columns(self, at: Numbers, *more: dict[str, Any]) -> dict[str, Any]:
        rooms = self.readings.rooms
        payload = [words(self.room[at], list(rooms)), column(self.mean[at], "f64"), *more]
        start, end, known, closed = self.start, self.end, self.known, self.closed
        return row_columns(start[at], end[at], known[at], closed[at], self.room[at], rooms, payload)


def node(number: int, name: str, *, kind: str = "operator", **settings: Any) -> dict[str, Any]:
    """Return a node of the plan; what is not given is empty."""
    rows_in, rows_out = settings.pop("counts")
    steps, ctis = settings.pop("ctis")
    names = settings.pop("fields")
    made = {
        "id": number,
        "name": name,
        "kind": kind,
        "line": None,
        "inputs": [],
        "keys": [],
        "ctiRule": "",
        "holds": "nothing",
        "rowsIn": rows_in,
        "rowsOut": rows_out,
        "cti": None,
        "held": 0,
        "seconds": 0.0004 * rows_in,
        "holdsBack": False,
        "fields": fields(names),
        "window": None,
        "heldCurve": {"step": column([], "i32"), "rows": column([], "i32")},
        "causes": None,
        "causesNote": None,
        "ctis": {"step": column(steps, "i32"), "cti": times(ctis)},
        "output": False,
    }
    return {**made, **settings}


def fields(names: list[str]) -> list[dict[str, str]]:
    """Return fields with their types: texts, but for numbers by their names."""
    types = {"value": "Float64", "average": "Float64", "alert": "Float64", "count": "Int64"}
    return [{"name": name, "type": types.get(name, "String")} for name in names]


def row_columns(
    start: Any,
    end: Any,
    known: Any,
    closed: Any,
    lane: Any,
    keys: tuple[str, ...],
    payload: list[Any],
) -> dict[str, Any]:
    """Return the rows of a node."""
    return {
        "start": times(start),
        "end": times(end),
        "known": column(known, "i32"),
        "closed": column(closed, "i32"),
        "lane": words(lane, list(keys)),
        "payload": payload,
    }


def curve(step: Numbers, rows: Numbers) -> dict[str, Any]:
    """Return a curve of the rows held."""
    return {"step": column(step, "i32"), "rows": column(rows, "i32")}


def flow_text(events: int = 400, **settings: Any) -> str:
    """Return a flow as JSON."""
    return json.dumps(make_flow(events, **settings))
