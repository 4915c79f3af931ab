"""A model of advancing time: three streams in one process against a reference event by event."""

from __future__ import annotations

from datetime import timedelta
from itertools import groupby
from typing import Any

import numpy as np
import physical
import polars as pl
import strategies
from hypothesis import given
from hypothesis import strategies as st
from oracle import MAX_TIME, MIN_TIME, Gate, canonical, history, lifetime, shift_time
from reactivex.subject import Subject
from runs import SOON, Log

import rxtemporal as rxt
from rxtemporal import EventBatch, EventShape
from rxtemporal.ingress.open_rows import OpenRows

Item = tuple[Any, ...]
NAMES = ("a", "b", "c")
NEVER_DUE = 1_000

drawn_settings = st.fixed_dictionaries(
    {
        "every": st.sampled_from([None, 1, 2, 3]),
        "span": st.sampled_from([None, 1, 4, 9]),
        "delay": st.integers(-3, 8),
        "to_infinity": st.booleans(),
        "policy": st.sampled_from(list(rxt.AdvanceTimePolicy)),
        "imports": st.sampled_from([None, *NAMES]),
        "in_batches": st.booleans(),
    }
)


def reference(
    drawn: dict[str, dict[str, Any]], arriving: list[tuple[str, Item]]
) -> dict[str, Gate]:
    """What becomes of each event, accepted one by one; each CTI goes on at once to who imports."""
    gates = {name: Gate(each["policy"].value) for name, each in drawn.items()}
    count, last = dict.fromkeys(drawn, 0), dict.fromkeys(drawn)

    def reach(name: str, time: int) -> None:
        if time > gates[name].cti:
            gates[name].advance(time)
            for other in drawn:
                if drawn[other]["imports"] == name and time < MAX_TIME:
                    reach(other, time)

    for name, item in arriving:
        each = drawn[name]
        if item[0] == "cti":
            reach(name, item[1])
            continue
        gates[name].accept(item)
        if item[0] == "end":
            continue
        count[name] += 1
        due = bool(each["every"]) and count[name] % each["every"] == 0
        if each["span"] and (last[name] is None or item[1] >= last[name] + each["span"]):
            due, last[name] = True, item[1]
        if due:
            reach(name, shift_time(item[1], -each["delay"]))
    for name, each in drawn.items():
        if each["to_infinity"] or not (each["every"] or each["span"]):
            gates[name].advance(MAX_TIME)
    return gates


def settled(drawn: dict[str, dict[str, Any]]) -> None:
    """Make drawn settings legal: a count or a span, no import of oneself, something given."""
    for name, each in drawn.items():
        if each["imports"] == name:
            each["imports"] = None
        if each["every"]:
            each["span"] = None
        if not each["every"] and not each["span"] and not each["imports"]:
            each["every"] = NEVER_DUE


def settings(each: dict[str, Any]) -> rxt.AdvanceTimeSettings:
    """Drawn settings as those of a stream."""
    generation = imports = None
    if each["every"] or each["span"]:
        frequency = each["every"] or timedelta(microseconds=each["span"])
        generation = rxt.AdvanceTimeGenerationSettings(
            frequency, each["delay"], each["to_infinity"]
        )
    if each["imports"]:
        imports = rxt.AdvanceTimeImportSettings(each["imports"])
    return rxt.AdvanceTimeSettings(generation, imports, policy=each["policy"])


def named(arriving: list[tuple[str, Item]]) -> list[tuple[str, Item]]:
    """The items, with the number of its row as each payload; an end edge has its start's."""
    opened: OpenRows[int] = OpenRows()
    out = []
    for n, (name, item) in enumerate(arriving):
        if item[0] == "cti":
            out.append((name, item))
            continue
        number: int | None = n
        if item[0] == "start":
            opened.open(item[1], (name, item[-1]), n)
        elif item[0] == "end":
            number = opened.close(item[1], (name, item[-1]))
        out.append((name, (*item[:-1], {"n": n if number is None else number})))
    return out


def batches(items: list[Item]) -> list[EventBatch]:
    """The items as batches, each of which ends with a CTI, but for the last."""
    out: list[EventBatch] = []
    rows: list[tuple[int, int, int, int]] = []
    for item in [*items, ("cti", MIN_TIME)]:
        if item[0] == "cti":
            columns = np.array(rows, np.int64).reshape(-1, 4).T.copy()
            out.append(EventBatch(*columns[:3], pl.DataFrame({"n": columns[3]}), item[1]))
            rows = []
        else:
            n = item[-1]["n"]
            rows.append((*lifetime(item), n + 1 if item[0] in ("start", "end") else 0, n))
    return out


def rows_of(sink: Log) -> list[tuple[int, int, int]]:
    """The rows that came out, once the end edges are applied to their starts."""
    complete: list[tuple[int, int, int]] = []
    opened: dict[int, tuple[int, int, int]] = {}
    for batch in sink.batches:
        columns = batch.start.tolist(), batch.end.tolist(), batch.payload["n"].to_list()
        for edge, *row in zip(batch.edge.tolist(), *columns, strict=True):
            if edge:
                opened[edge] = tuple(row)
            else:
                complete.append(tuple(row))
    return sorted([*complete, *opened.values()])


@given(
    st.fixed_dictionaries(dict.fromkeys(NAMES, drawn_settings)),
    strategies.named_arrivals(NAMES, extremes=False, payload=strategies.few_payloads()),
)
def test_time_advances_as_the_reference_says(
    drawn: dict[str, dict[str, Any]], items: list[tuple[str, Item]]
) -> None:
    """Generation, imports in any loops, policy, shapes, own CTIs, events and batches, any order.

    Rows that come in, late events with the CTI that they broke, and each stream's time are those
    of the reference.
    """
    settled(drawn)
    arriving = named(items)
    app = rxt.Application("model")
    subjects, sinks = {name: Subject[Any]() for name in NAMES}, {}
    for name, each in drawn.items():
        stream = rxt.from_observable(subjects[name], schema={"n": int}, advance_time=settings(each))
        app.query("out " + name, app.define_stream(name, stream))
        sinks["out " + name] = Log(EventShape.EDGE)
    process = app.run(sinks=sinks)
    late: list[rxt.LateEvent] = []
    process.late.subscribe(late.append)
    for name, run in groupby(arriving, lambda each: each[0]):
        taken = [item for _, item in run]
        pushed = batches(taken) if drawn[name]["in_batches"] else map(physical.event, taken)
        for each in pushed:
            subjects[name].on_next(each)
    for subject in subjects.values():
        subject.on_completed()
    process.wait(SOON)
    told = {each.name: each for each in process.diagnostics().streams}
    for name, gate in reference(drawn, arriving).items():
        wanted = [(start, end, n) for start, end, ((_, n),) in history(canonical(gate.out))]
        assert rows_of(sinks["out " + name]) == sorted(wanted)
        assert told[name].cti == gate.cti
        assert told[name].events_in == sum(n == name and i[0] != "cti" for n, i in arriving)
        assert [
            (each.event.start, each.event.end, each.event.payload, each.cti, each.reason.value)
            for each in late
            if each.source == name
        ] == [(*lifetime(each.event), each.event[-1], each.cti, each.reason) for each in gate.late]
