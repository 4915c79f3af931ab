"""Drawn streams that import CTIs from each other, and their model."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from oracle import MAX_TIME, MIN_TIME, Gate, shift_time

import rxtemporal as rxt

NAMES = ("a", "b", "c")


DROP, ADJUST = rxt.AdvanceTimePolicy.DROP, rxt.AdvanceTimePolicy.ADJUST


Stream = dict[str, Any]


drawn_streams = st.fixed_dictionaries(
    {
        "rows": st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), max_size=12),
        "every": st.sampled_from([None, 1, 2, 3]),
        "delay": st.integers(-2, 5),
        "to_infinity": st.booleans(),
        "policy": st.sampled_from([DROP, ADJUST]),
        "imports": st.sampled_from([None, *NAMES, *NAMES]),
        "batch_rows": st.sampled_from([1, 2, 3, 5, 100]),
    }
)


all_drawn = st.fixed_dictionaries(dict.fromkeys(NAMES, drawn_streams))


def settings(each: Stream) -> rxt.AdvanceTimeSettings | None:
    """Drawn settings as those of a stream; none where nothing is given."""
    generation = imports = None
    if each["every"]:
        generation = rxt.AdvanceTimeGenerationSettings(
            each["every"], each["delay"], each["to_infinity"]
        )
    if each["imports"]:
        imports = rxt.AdvanceTimeImportSettings(each["imports"])
    if generation is None and imports is None:
        return None
    return rxt.AdvanceTimeSettings(generation, imports, policy=each["policy"])


def reference(drawn: dict[str, Stream]) -> dict[str, Gate]:
    """Every stream's gate after all events, accepted one by one, each CTI passed on at once."""
    gates = {name: Gate(each["policy"].value) for name, each in drawn.items()}
    count, ended = dict.fromkeys(drawn, 0), set()

    def reach(name: str, time: int) -> None:
        if time > gates[name].cti and name not in ended:
            gates[name].advance(time)
            for other in drawn:
                if drawn[other]["imports"] == name and time < MAX_TIME:
                    reach(other, time)

    arriving = []
    for rank, (name, each) in enumerate(drawn.items()):
        place = MIN_TIME
        for n, (time, length) in enumerate(each["rows"]):
            place = max(place, time)
            arriving.append((place, rank, n, name, ("interval", time, time + length, n)))
        arriving.append((place, rank, len(each["rows"]), name, None))
    for *_, name, event in sorted(arriving, key=lambda item: item[:3]):
        each = drawn[name]
        if event is None:
            if each["to_infinity"] or not each["every"]:
                gates[name].advance(MAX_TIME)
            ended.add(name)
            continue
        gates[name].accept(event)
        count[name] += 1
        if each["every"] and count[name] % each["every"] == 0:
            reach(name, shift_time(event[1], -each["delay"]))
    return gates


def not_of_itself(drawn: dict[str, Stream]) -> dict[str, Stream]:
    """The drawn streams, of which none imports its own CTIs."""
    return {
        name: each | ({"imports": None} if each["imports"] == name else {})
        for name, each in drawn.items()
    }
