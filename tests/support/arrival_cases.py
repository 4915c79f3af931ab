"""Cases of what a stream is given: in order, late, ahead, repeated and unreadable items."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from door_model import ALLOWED, MAX_TIME, NOW, Item
from hypothesis import strategies as st

import rxtemporal as rxt
from rxtemporal import AdvanceTimePolicy, WhenAhead


@dataclasses.dataclass(frozen=True)
class Case:
    """Items in the order in which they come, and how they are given.

    ``sizes`` are the numbers of items of the pushes, in turn. ``is_heard``: somebody subscribes to
    late events, and a stream has them.
    """

    shape: str
    policy: AdvanceTimePolicy
    delay: int
    when_ahead: WhenAhead | None
    items: tuple[Item, ...]
    sizes: tuple[int, ...] = (1,)
    as_datetimes: bool = False
    is_heard: bool = True

    @property
    def is_numbered(self) -> bool:
        """True if some rows have sequence numbers."""
        return any(item.seq is not None for item in self.items)

    def time(self, ticks: int | None) -> Any:
        """Return a time in the form of the case."""
        return rxt.to_datetime(ticks) if self.as_datetimes and ticks is not None else ticks

    def span(self, ticks: int) -> Any:
        """Return a span in the form of the case."""
        return timedelta(microseconds=ticks) if self.as_datetimes else ticks

    @property
    def settings(self) -> rxt.AdvanceTimeSettings:
        """The settings with which each row makes a CTI."""
        generation = rxt.AdvanceTimeGenerationSettings(1, self.span(self.delay))
        return rxt.AdvanceTimeSettings(generation, policy=self.policy, **self.guard)

    @property
    def guard(self) -> dict[str, Any]:
        """The arguments that say what happens to rows ahead of the wall clock."""
        if self.when_ahead is None:
            return {}
        return {"ahead": self.span(ALLOWED), "when_ahead": self.when_ahead}


STEPS = (1, 1, 1, 0, 2, 5, -1, -2, -4, -9)
KINDS = {
    "point": ["point"],
    "interval": ["interval"],
    # a brief row ends at once
    "edge": ["start", "start", "end", "brief"],
}


@st.composite
def items(draw: st.DrawFn, shape: str) -> tuple[Item, ...]:
    """Items of a few inputs: in order, late, ahead of the clock, repeated, without a number."""
    found: list[Item] = []
    opened: list[Item] = []
    numbers: dict[str | None, int] = {}
    is_numbered, names = draw(st.booleans()), draw(st.sampled_from([[None], [None, "a", "b"]]))
    others = ["cti", "unreadable", "far", *(["again", "again", "anew"] if is_numbered else [])]
    time = NOW - 60
    moves = st.tuples(
        st.sampled_from(KINDS[shape] * 6 + others), st.sampled_from(STEPS),
        st.integers(1, 12), st.sampled_from(names),
    )  # fmt: skip
    for n, (kind, step, length, name) in enumerate(draw(st.lists(moves, max_size=70))):
        start, kinds = time + step, KINDS[shape]
        mine = [item for item in found if item.input == name and item.seq is not None]
        if kind == "again":
            # an edge that came twice would open two rows where nobody looks at numbers
            found += mine[-length:][:1]
            continue
        if kind == "anew":
            numbers[name], start = 0, max([time, *(item.start for item in mine)]) + 1
        if kind == "far":
            start = NOW + 20 + length
        if kind == "end":
            edge = opened.pop(length % len(opened)) if opened else Item("start", time, 0, n)
            end = max(edge.start + 1, start)
            found.append(Item("end", edge.start, end, edge.n, edge.input, _next(numbers, edge.input)
                              if is_numbered else None))  # fmt: skip
            continue
        time = max(time, start) if kind != "far" else time
        if kind in ("cti", "unreadable"):
            found.append(Item(kind, start, start + 1, n, name))
            continue
        seq = _next(numbers, name) if is_numbered and length != 7 else None
        end = {"point": start + 1, "interval": start + length, "start": MAX_TIME}[kinds[0]]
        found.append(Item(kinds[0], start, end, n, name, seq))
        if kind == "brief":
            seq = _next(numbers, name) if is_numbered else None
            found.append(Item("end", start, start + length, n, name, seq))
        elif kinds[0] == "start" and kind != "far":
            opened.append(found[-1])
    return tuple(found)


def _next(numbers: dict[str | None, int], name: str | None) -> int:
    numbers[name] = numbers.get(name, -1) + 1
    return numbers[name]


@st.composite
def cases(draw: st.DrawFn, shapes: Sequence[str] = tuple(KINDS)) -> Case:
    """Draw items of one of some shapes, settings, and how the items are given."""
    shape = draw(st.sampled_from(shapes))
    return Case(
        shape,
        draw(st.sampled_from(list(AdvanceTimePolicy))),
        draw(st.sampled_from([0, 1, 3, 8, 12])),
        draw(st.sampled_from([None, None, *WhenAhead])),
        draw(items(shape)),
        draw(st.lists(st.sampled_from([1, 1, 2, 5, 40]), min_size=1, max_size=5).map(tuple)),
        draw(st.booleans()),
        draw(st.booleans()),
    )


def ordered(count: int, *, names: Sequence[str | None] = (None,), back: int = 0) -> Case:
    """Return a case of points in order, from inputs in turn, and a delay of 3.

    Each fourth point is ``back`` ticks back.
    """
    starts = [NOW - 60 + n - back * (n % 4 == 3) for n in range(count)]
    found = tuple(
        Item("point", start, start + 1, n, names[n % len(names)]) for n, start in enumerate(starts)
    )
    return Case("point", AdvanceTimePolicy.DROP, 3, None, found)
