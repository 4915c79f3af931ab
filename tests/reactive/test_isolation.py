"""Isolation: a failing subscriber, query, source or sender does not affect the others."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from input_ways import both_subjects

import rxtemporal as rxt
from rxtemporal import Cti, EdgeEvent, IntervalEvent, PointEvent
from rxtemporal.errors import EventError, SchemaError


@both_subjects
def test_a_subscriber_that_raises_hurts_no_other(kind: Any) -> None:
    """Neither the producer nor another subscriber notices; it is counted, and stays subscribed."""
    subject = kind.create_point(0)
    before: list[Any] = []
    tried: list[Any] = []
    after: list[Any] = []

    def bad(event: Any) -> None:
        tried.append(event)
        raise RuntimeError("not mine")

    subject.subscribe(before.append)
    subject.subscribe(bad)
    subject.subscribe(after.append)
    sent = [PointEvent(1, "a"), Cti(2), PointEvent(3, "b")]
    for event in sent:
        subject.on_next(event)
    assert before == tried == after == sent
    assert subject.stats().subscriber_errors == 3


@both_subjects
def test_a_query_that_fails_hurts_no_other(kind: Any) -> None:
    """Of two queries on one subject the one that fails ends, and the other goes on."""
    subject = kind.create_point(0)
    stream = rxt.from_observable(subject)
    good: list[Any] = []
    out: list[Any] = []
    errors: list[Any] = []
    stream.where(pl.col("z") > 1).subscribe(out.append, errors.append)
    stream.subscribe(good.append)
    for event in [PointEvent(1, {"x": 1}), Cti(2), PointEvent(3, {"x": 3}), Cti(4)]:
        subject.on_next(event)
    assert good == [IntervalEvent(1, 2, {"x": 1}), IntervalEvent(3, 4, {"x": 3})]
    assert (out, [type(error) for error in errors]) == ([], [SchemaError])


@both_subjects
def test_a_source_that_fails_hurts_no_other(kind: Any) -> None:
    """Its handle closes and its failure is recorded; the others go on, and so does the subject."""
    subject = kind.create_point(0)
    got: list[Any] = []
    failed: list[Any] = []
    subject.subscribe(got.append, failed.append)
    one, two = subject.input("one"), subject.input("two")
    one.on_next(PointEvent(1, "a"))
    one.on_error(ConnectionError("gone"))
    two.on_next(PointEvent(2, "b"))
    two.on_next(Cti(3))
    assert (got, failed) == ([PointEvent(1, "a"), PointEvent(2, "b"), Cti(3)], [])
    assert subject.stats().sources["one"].failed == "ConnectionError('gone')"
    assert subject.stats().sources["two"].failed is None
    assert one.closed


@both_subjects
def test_a_bad_event_hurts_only_who_sent_it(kind: Any) -> None:
    """A wrong shape is refused to its sender, and others send on."""
    subject = kind.create_point(0)
    got: list[Any] = []
    subject.subscribe(got.append)
    one, two = subject.input("one"), subject.input("two")
    for bad in (IntervalEvent(1, 5, "a"), EdgeEvent.create_start(1, "a"), "hello", None):
        with pytest.raises(EventError, match="this subject takes point events and CTIs, got"):
            one.on_next(bad)
    two.on_next(PointEvent(2, "b"))
    one.on_next(PointEvent(3, "c"))
    assert got == [PointEvent(2, "b"), PointEvent(3, "c")]
