"""Ways in which legal streams may arrive: reordered, cut into batches, interleaved.

All of it from a `Random`, so that a drawn stream shrinks while the arrangement stays one number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any, TypeVar

from oracle import MAX_TIME, Event, freeze, lifetime

Item = TypeVar("Item")


def finish(items: Sequence[Event], last: int = MAX_TIME) -> list[Event]:
    """Return the stream with a CTI at `last` at its end."""
    return list(items) if items and items[-1] == ("cti", last) else [*items, ("cti", last)]


def end_rows(items: Sequence[Event]) -> list[Event]:
    """Return the stream with no endless row: endless intervals last 41 ticks, open rows end."""
    cti, items = 0, list(items)
    open_rows: list[Event] = []
    for i, item in enumerate(items):
        if item[0] == "cti":
            cti = item[1]
        elif item[0] == "interval" and item[2] == MAX_TIME:
            items[i] = ("interval", item[1], item[1] + 41, item[3])
        elif item[0] == "start":
            open_rows.append(item)
        elif item[0] == "end":
            named = [row for row in open_rows if row[1] == item[1]]
            open_rows.remove(next(r for r in named if freeze(r[2]) == freeze(item[3])))
    ends = [("end", row[1], max(cti, row[1] + 1) + i, row[2]) for i, row in enumerate(open_rows)]
    return [*items, *ends]


def make_steady_stream(ticks: int, shapes: Sequence[str]) -> list[Event]:
    """Return a steady stream: rows of each shape at every tick, a pause now and then, few values.

    Some twenty rows are alive at a time; most live for some ticks, a few for a hundred.
    """
    items: list[Event] = []
    for time in range(ticks):
        if time % 50 < 30:
            items += [(kind, time, *end, _value(time)) for kind, end in _lives(time, shapes)]
        for after in (4, 90) if "edge" in shapes else ():
            start, long = time - after, after > 4
            if start >= 0 and start % 50 < 30 and long == (start % 25 == 0):
                items.append(("end", start, time, _value(start)))
        items.append(("cti", time))
    return items


def _value(time: int) -> dict[str, Any]:
    return {"k": "abc"[time % 3], "x": time % 5, "y": float(time % 7)}


def _lives(time: int, shapes: Sequence[str]) -> list[tuple[str, tuple[int, ...]]]:
    length = 100 if time % 25 == 0 else 7
    edge = [("start", ())] if "edge" in shapes else []
    return [("point", ()), ("interval", (time + length,)), *edge]


def name_by_start(item: Event) -> Event:
    """Return an event with a key of its own for its start, as strings and as numbers."""
    if item[0] == "cti":
        return item
    return (*item[:-1], {**item[-1], "k": f"key {item[1]}", "y": float(item[1])})


def make_tangled_stream(count: int) -> list[Event]:
    """Return a long stream in which rows of each shape wait, overlap and end out of order."""
    random = Random(7)
    items: list[Event] = []
    open_rows: list[tuple[int, Any]] = []
    for t in range(count):
        payload = {"k": "ab"[random.randrange(2)], "x": random.randrange(3), "y": None}
        start = t + random.randrange(400)
        items.append(("interval", start, start + random.choice((1, 3, 40, 700)), payload))
        items.append(("start", start, payload))
        open_rows.append((start, payload))
        if len(open_rows) > 300:
            row = open_rows.pop(random.randrange(len(open_rows)))
            items.append(("end", row[0], max(t, row[0] + 1) + random.randrange(50), row[1]))
        if t % 20 == 0:
            items.append(("cti", t))
    return finish(items)


def reorder(items: Sequence[Event], random: Random) -> list[Event]:
    """Return the events in an order that no CTI forbids, start edges before their end edges.

    An event may pass a CTI that does not speak of it, in either direction.
    """
    left, moved = list(items), list[Event]()
    opened: Counter[Any] = Counter()
    while left:
        inserts = [item for item in left if item[0] != "cti"]
        ready = [e for e in inserts if e[0] != "end" or opened[e[1], freeze(e[3])]]
        cti = next((item for item in left if item[0] == "cti"), None)
        if cti is not None and all(_judged(item) >= cti[1] for item in inserts):
            ready.append(cti)
        item = random.choice(ready)
        left.remove(item)
        moved.append(item)
        if item[0] in ("start", "end"):
            opened[item[1], freeze(item[-1])] += 1 if item[0] == "start" else -1
    return moved


def _judged(item: Event) -> int:
    """Return the time that no CTI may have passed."""
    return lifetime(item)[1] if item[0] == "end" else lifetime(item)[0]


def cut_evenly(items: Sequence[Any], size: int) -> list[slice]:
    """Return the cut into runs of one size."""
    return [slice(i, i + size) for i in range(0, len(items), size)]


def cut_at_ctis(items: Sequence[Event]) -> list[slice]:
    """Return the cut after each CTI."""
    ends = [i + 1 for i, item in enumerate(items) if item[0] == "cti"]
    return [slice(begin, end) for begin, end in pairwise([0, *ends])]


def cut(items: Sequence[Any], random: Random) -> list[slice]:
    """Return a cut into runs: few or many."""
    often = random.choice((0.0, 0.1, 0.4, 0.8))
    marks = [0, *(i for i in range(1, len(items)) if random.random() < often), len(items)]
    return [slice(i, j) for i, j in pairwise(marks)]


def interleave(sides: Sequence[Sequence[Item]], random: Random) -> list[tuple[int, Item]]:
    """Return the items of several sequences as one, each with the number of its own."""
    places = [side for side, items in enumerate(sides) for _ in items]
    random.shuffle(places)
    following = [iter(items) for items in sides]
    return [(side, next(following[side])) for side in places]
