"""The law of all ways in: the same rows get the same verdicts, counters and history by every way.

Each way is compared with one model, and so with each other way. A way that lacks a notion gets the
case without it: a frame names no inputs, a subject reads no payload and knows no numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import ways_in as ways
from arrival_cases import Case, cases, ordered
from door_model import DoorModel, Fate, Item, Late, Push, Rules
from hypothesis import example, given
from ways_in import Given, Observing, Pushing, Through

import rxtemporal as rxt
from rxtemporal import LateReason, WhenAhead
from rxtemporal.metrics.collector import Histogram

SUBJECTS = rxt.CtiSynchronizingSubject, rxt.CtiSynchronizingSubjectAlternate

# The notions that the rows of a case may have
EDGES, CTIS, INPUTS = "edges", "ctis", "inputs"
NUMBERS, UNREADABLE = "numbers", "unreadable"
# rows ahead of the wall clock are found; and they are rejected if so asked
AHEAD, REFUSAL = "ahead", "refusal"
DATETIMES = "datetimes"

EVENTS = frozenset({EDGES, CTIS, AHEAD, DATETIMES})
PUSHES = EVENTS | {INPUTS, NUMBERS, UNREADABLE, REFUSAL}

# What a way tells. Counters of the stream's door, samples of metrics, history, late rows as a
# stream; of a source with verdicts also these, the counters of each input, and late events.
STREAM = frozenset(
    {"events", "late by reason", "largest lateness", "lateness", "open rows", "ahead", "samples",
     "history", "late rows"}
)  # fmt: skip
SOURCE = STREAM | {"verdicts", "late", "totals", "cti", "inputs", "duplicates", "offsets"}
OBSERVABLE = STREAM | {"cti"}
# no histogram of lateness; its clocks are compared by CTIs, of which a batch is one
SUBJECT = frozenset({"late", "largest lateness", "cti", "inputs", "sums", "history"})
# Of several lives: a clock that was compared in an earlier one is not known any more. The histogram
# of lateness is of this life, which an event log repeats and a checkpoint does not; and rows that
# were neither accepted nor late since the last checkpoint of an earlier life are not counted.
RECOVERED = SOURCE - {"offsets"}
RESUMED = RECOVERED - {"lateness", "samples", "totals", "duplicates"}


@dataclasses.dataclass(frozen=True)
class Way:
    """A way of giving rows to a stream, the notions that its rows may have, and what it tells."""

    name: str
    give: Callable[[Case, Sequence[Push]], Given]
    cut: Callable[[Case], list[Push]]
    takes: frozenset[str]
    tells: frozenset[str]


def _pushing(
    name: str, give: Any, form: Any, cut: Any, *, without: Any = (), place: Any = None,
    lives: int = 1, **options: Any,
) -> Way:  # fmt: skip
    way = Pushing(give, form, tuple(options.items()), place, lives)
    tells = SOURCE if lives == 1 else RESUMED if place == "resume" else RECOVERED
    return Way(name, way, cut, PUSHES - set(without), tells)


def _observing(name: str, form: Any, cut: Any, *, without: Any = (), **options: Any) -> Way:
    own = {field.name for field in dataclasses.fields(Observing)}
    given = {key: options.pop(key) for key in list(options) if key in own}
    way = Observing(form, tuple(options.items()), **given)
    return Way(name, way, cut, EVENTS - set(without), OBSERVABLE)


def _through(name: str, form: Any, cut: Any, *, without: Any = (), **options: Any) -> list[Way]:
    runs, takes = options.pop("runs", False), (EVENTS | {INPUTS}) - set(without)
    given = tuple(options.items())
    return [
        Way(f"{name} of {kind.__name__}", Through(kind, form, runs, given), cut, takes, SUBJECT)
        for kind in SUBJECTS
    ]


FEW, SPILLS = rxt.HandOff(3), rxt.HandOff(3, rxt.WhenFull.SPILL)
ONE, MANY, ROWS, BATCHES = ways.cut_each, ways.cut_lists, ways.cut_rows, ways.cut_batches
# times of a batch are ticks, and each of its rows can be read
COLUMNS = DATETIMES, UNREADABLE

WAYS = [
    _pushing("push of a dict", ways.push, ways.to_dicts, ONE),
    # the shortest way: most rows only have to wait for others
    _pushing("push of a dict that waits", ways.push, ways.to_dicts, ONE, batch_rows=100),
    _pushing("push of an event", ways.push, ways.to_events, ONE),
    _pushing("push of an event that waits", ways.push, ways.to_events, ONE, batch_rows=100),
    _pushing("push of dicts", ways.push, ways.to_dicts, MANY),
    _pushing("push of dicts that wait", ways.push, ways.to_dicts, MANY, batch_rows=7),
    _pushing("push of events", ways.push, ways.to_events, MANY),
    _pushing("push of a frame", ways.push, ways.to_frames, ROWS),
    _pushing("push of a table", ways.push, ways.to_tables, ROWS),
    _pushing("push of a batch", ways.push, ways.to_batches, BATCHES, without=COLUMNS),
    _pushing("push of mixed forms", ways.push, ways.to_mixed, ways.cut_mixed),
    _pushing("push of mixed forms that wait", ways.push, ways.to_mixed, ways.cut_mixed,
             batch_rows=7),
    _pushing("push of an input", ways.push_input, ways.to_events, ONE),
    _pushing("push_all of dicts", ways.push_together, ways.to_dicts, ONE, batch_rows=100),
    _pushing("push_all of lists", ways.push_together, ways.to_dicts, MANY),
    _pushing("push_async of a dict", ways.push_async, ways.to_dicts, ONE, batch_rows=100),
    _pushing("push_async of dicts", ways.push_async, ways.to_dicts, MANY),
    _pushing("hand-off", ways.push, ways.to_dicts, ONE, hand_off=FEW),
    _pushing("hand-off of many", ways.push, ways.to_dicts, MANY, hand_off=FEW),
    _pushing("hand-off of frames", ways.push, ways.to_frames, ROWS, hand_off=FEW),
    _pushing("hand-off that spills", ways.push, ways.to_dicts, MANY, hand_off=SPILLS),
    _pushing("event log", ways.push, ways.to_dicts, ONE, place="log"),
    _pushing("event log of frames", ways.push, ways.to_frames, ROWS, place="log"),
    _pushing(
        "event log of push_async", ways.push_async, ways.to_dicts, ONE, place="log", batch_rows=100
    ),
    _pushing("recovery", ways.push, ways.to_dicts, ONE, place="log", lives=2),
    _pushing("recovery of frames", ways.push, ways.to_frames, ROWS, place="log", lives=2),
    _pushing("recovery of push_async", ways.push_async, ways.to_dicts, ONE, place="log", lives=2,
             batch_rows=100),
    _pushing("checkpoint", ways.push, ways.to_dicts, MANY, place="resume", lives=2,
             without=[UNREADABLE, REFUSAL]),
    # a replay counts no inputs, and what was rejected is not in the recording
    Way("replay", ways.replay_pushes, ONE, PUSHES - {REFUSAL}, STREAM - {"samples"}),
    Way("from_events", ways.give_list, ONE, EVENTS, STREAM),
    Way("from_events of an iterator", ways.give_iterator, ONE, EVENTS, STREAM),
    # open rows are counted of events only
    Way("from_events of batches", ways.give_batches, BATCHES, EVENTS - {DATETIMES},
        STREAM - {"open rows", "samples"}),
    Way("from_async", ways.give_async, ONE, EVENTS, STREAM),
    Way("from_polars", ways.give_frame, ONE, frozenset({AHEAD, DATETIMES}), STREAM),
    _observing("from_observable", ways.to_events, ONE),
    _observing("from_observable that waits", ways.to_events, ONE, batch_rows=100),
    _observing("from_observable behind a hand-off", ways.to_events, ONE, hand_off=FEW),
    _observing("from_observable of rows", ways.to_dicts, MANY, without=[EDGES], sends_rows=True),
    # open rows are counted of events only
    _observing("from_observable of batches", ways.to_batches, BATCHES, without=[DATETIMES, EDGES]),
    _observing("recovery of an observable", ways.to_events, ONE, place="log", lives=2),
    *_through("events", ways.to_events, ONE),
    *_through("batches", ways.to_batches, BATCHES, without=[DATETIMES]),
    *_through("events in front of a run", ways.to_events, ONE, runs=True),
    *_through("events in front of a hand-off", ways.to_events, ONE, runs=True, hand_off=FEW),
    *_through(
        "batches in front of a run", ways.to_batches, BATCHES, runs=True, without=[DATETIMES]
    ),
    # it is not told of the wall clock, and its late events are only counted
    Way("Spark", ways.give_spark_door, ROWS, frozenset(), frozenset({"spark", "cti", "history"})),
]  # fmt: skip


# The law ------------------------------------------------------------------------------------------


def reduce(case: Case, takes: frozenset[str]) -> Case:
    """Return a case without the notions that a way lacks."""
    found: list[Item] = []
    shape = "interval" if case.shape == "edge" and EDGES not in takes else case.shape
    seen: set[Item] = set()
    for item in case.items:
        is_repeat = item in seen and item.seq is not None
        seen.add(item)
        if (
            (item.kind == "cti" and CTIS not in takes)
            or (item.kind == "unreadable" and UNREADABLE not in takes)
            or (item.kind == "end" and EDGES not in takes)
            or (is_repeat and NUMBERS not in takes)
        ):
            continue
        kind = shape if item.kind == "start" and EDGES not in takes else item.kind
        found.append(
            dataclasses.replace(
                item,
                kind=kind,
                input=item.input if INPUTS in takes else None,
                seq=item.seq if NUMBERS in takes else None,
            )
        )
    when = case.when_ahead if AHEAD in takes else None
    if when is WhenAhead.REJECT and REFUSAL not in takes:
        when = WhenAhead.LATE
    is_dated = case.as_datetimes and DATETIMES in takes
    return dataclasses.replace(
        case, shape=shape, items=tuple(found), when_ahead=when, as_datetimes=is_dated
    )


def expect(way: Way, case: Case, pushes: Sequence[Push]) -> Given:
    """Return what the model tells of a case."""
    is_subject = isinstance(way.give, Through)
    is_pushed = isinstance(way.give, Pushing) or way.give is ways.replay_pushes
    rules = Rules(
        case.policy, case.delay, makes_ctis=not is_subject, delays_ctis=is_subject or is_pushed,
        when_ahead=case.when_ahead, own="subject" if is_subject else "source",
        stream=None if is_subject else ways.NAME,
    )  # fmt: skip
    model, verdicts = DoorModel(rules), []
    if is_subject:
        model.inputs["subject"]
    lives = getattr(way.give, "lives", 1)
    for life, part in enumerate(ways.split(pushes, lives)):
        if life and way.give.place == "log":  # type: ignore[attr-defined]
            model.restart()
        for push in part:
            verdicts.append(tell_fates(model, model.push(push)))
    told = tell_model(model, case, has_inputs=is_pushed or is_subject)
    if not case.is_heard:
        told |= {"late": []}
        del told["late rows"]
    return mask({"verdicts": verdicts} | told, way)


def mask(told: Given, way: Way) -> Given:
    """Return what a way tells."""
    return {name: value for name, value in told.items() if name in way.tells}


def tell_fates(model: DoorModel, fates: Sequence[Fate | None]) -> tuple[Any, ...]:
    """Return the verdict on a push from the fates of its items, as ``tell_verdict`` does."""
    named = [(index, fate) for index, fate in enumerate(fates) if fate is not None]
    what = [fate.what for _, fate in named]
    late = [(fate.late, index) for index, fate in named if fate.late is not None]
    rejected = [index for index, fate in named if fate.what == "rejected"]
    unsure = sum(fate.is_unsure for _, fate in named)
    cti = None if model.cti < rxt.MIN_TIME else model.cti
    return what.count("accepted"), what.count("duplicate"), late, rejected, cti, unsure


def tell_model(model: DoorModel, case: Case, *, has_inputs: bool) -> Given:
    """Return all that the model knows, in the form of the ways."""
    inputs, late = model.list_inputs(), model.count_late()
    buckets, total = model.count_lateness()
    sums = {name: model.sum(name) for name in ("events", "open_rows", "ahead")}
    samples: Given = {
        ("events",): sums["events"],
        **{("late.events", reason.value): count for reason, count in late.items()},
        ("ahead.events",): sums["ahead"],
        ("open.events",): sums["open_rows"],
        ("inputs",): len(inputs) if has_inputs else 0,
        **{(name,): model.sum(name) for name in ("duplicates", "unsure", "rejected")},
    }
    if case.as_datetimes:
        samples["lateness",] = Histogram(buckets, total / 1_000_000)
        samples["largest_lateness",] = model.largest_lateness / 1_000_000
    return {
        "events": sums["events"],
        "late by reason": late,
        "largest lateness": model.largest_lateness,
        "lateness": (buckets, total),
        "open rows": sums["open_rows"],
        "ahead": sums["ahead"],
        "samples": samples,
        "history": model.list_history(),
        "late": model.late,
        "late rows": sorted(map(_to_late_row, model.late)),
        "totals": {
            "late": len(model.late),
            "largest_lateness": model.largest_lateness,
            **{
                name: model.sum(name)
                for name in ("accepted", "duplicates", "rejected", "open_rows", "unsure")
            },
        },
        "cti": None if model.cti < rxt.MIN_TIME else model.cti,
        "inputs": inputs,
        "duplicates": {name: of.duplicates for name, of in model.inputs.items()},
        "offsets": {name: of.offset for name, of in model.inputs.items()},
        "sums": {
            "events": sums["events"], "late": len(model.late), "open_rows": sums["open_rows"],
        },
        "spark": {
            "events": sums["events"],
            "dropped": late.get(LateReason.DROPPED, 0),
            "adjusted": late.get(LateReason.ADJUSTED, 0),
            "largest_lateness": model.largest_lateness,
        },
    }  # fmt: skip


def _to_late_row(late: Late) -> tuple[Any, ...]:
    return late.cti, late.n, late.reason.value, late.by, late.start, late.end, late.source


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
@given(case=cases())
@example(case=ordered(40))
# each input has rows that are behind others and in time
@example(case=ordered(80, names=(None, "a", "b"), back=2))
def test_all_ways_in_are_one(way: Way, case: Case) -> None:
    """Verdicts, counters, late events and history are those of the model."""
    case = reduce(case, way.takes)
    pushes = way.cut(case)
    assert mask(way.give(case, pushes), way) == expect(way, case, pushes)
