"""The way of a pushed event: from a subject to the operator's step it passes few objects."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import polars as pl
import pytest
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal import Cti, CtiSynchronizingSubjectAlternate, PointEvent
from rxtemporal.core.columns import Columns
from rxtemporal.ingress.door import Door

# the subject is the first of them, the step is where they arrive
MOST_OBJECTS = 8
_PACKAGES = ("rxtemporal", "reactivex")
# what travels: events, batches and their columns are not stations on the way
_VALUES = (rxt.EventBatch, Columns, PointEvent, Cti)


def objects_passed(push: Callable[[], object]) -> list[str]:
    """The classes of the objects whose methods run until the first step has its batch."""
    found: dict[int, str] = {}
    arrived = False

    def look(frame: FrameType, kind: str, argument: Any) -> None:
        nonlocal arrived
        module = frame.f_globals.get("__name__", "")
        if kind != "call" or arrived or not module.startswith(_PACKAGES):
            return
        arrived = frame.f_code.co_name == "on_batch"
        owner = frame.f_locals.get("self")
        if owner is not None and not arrived and not isinstance(owner, _VALUES):
            found[id(owner)] = type(owner).__name__

    sys.setprofile(look)
    try:
        push()
    finally:
        sys.setprofile(None)
    assert arrived
    return list(found.values())


def make_point_subject() -> CtiSynchronizingSubjectAlternate:
    """A subject that judges."""
    return CtiSynchronizingSubjectAlternate.create_point(0)


@pytest.mark.parametrize("make", [Subject, make_point_subject])
def test_an_event_passes_few_objects(make: Callable[[], Any]) -> None:
    """Event and CTI from ``on_next`` of a subject to the step of the first operator."""
    subject = make()
    stream = rxt.from_observable(subject, schema={"x": pl.Int64})
    stream.where(pl.col("x") > 0).subscribe(lambda event: None)
    subject.on_next(PointEvent(1, {"x": 1}))
    subject.on_next(Cti(2))  # the step has been made

    def push() -> None:
        subject.on_next(PointEvent(3, {"x": 1}))
        subject.on_next(Cti(4))

    passed = objects_passed(push)
    assert len(passed) <= MOST_OBJECTS, passed


def test_an_event_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a subject has judged goes past the stream's door, which only counts it."""
    subject = CtiSynchronizingSubjectAlternate.create_interval(
        0, policy=rxt.AdvanceTimePolicy.ADJUST
    )
    asked: list[Any] = []
    accept = Door.accept

    def noticed(door: Door, event: Any, ahead: bool = False) -> Any:
        asked.append(event)
        return accept(door, event, ahead)

    monkeypatch.setattr(Door, "accept", noticed)
    out: list[Any] = []
    stream = rxt.from_observable(subject, schema={"x": pl.Int64})
    stream.subscribe(out.append)
    subject.on_next(rxt.IntervalEvent(1, 9, {"x": 1}))
    subject.on_next(Cti(5))
    subject.on_next(rxt.IntervalEvent(2, 8, {"x": 2}))
    subject.on_completed()
    assert [(each.start, each.end) for each in out] == [(1, 9), (5, 8)]
    assert [type(each) for each in asked] == [Cti, Cti]


def test_edges_of_a_subject_are_matched_by_the_stream() -> None:
    """An end edge closes the row that its start edge opened, adjusted or not."""
    subject = CtiSynchronizingSubjectAlternate.create_edge(0, policy=rxt.AdvanceTimePolicy.ADJUST)
    frames = rxt.from_observable(subject, schema={"x": pl.Int64})
    out: list[Any] = []
    frames.subscribe(out.append)
    subject.on_next(Cti(5))
    subject.on_next(rxt.EdgeEvent.create_start(2, {"x": 1}))
    subject.on_next(rxt.EdgeEvent.create_end(2, 9, {"x": 1}))
    subject.on_completed()
    assert [(each.start, each.end) for each in out] == [(5, 9)]
