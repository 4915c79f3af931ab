"""Laws of the hand-off: the results are those of the same run without one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from typing import Any

import physical
import pytest
from arrangements import cut, finish, interleave
from hypothesis import given
from hypothesis import strategies as st
from reactivex.subject import Subject
from runs import SOON, Log
from strategies import arrivals, few_payloads, streams

import rxtemporal as rxt
from rxtemporal import EventShape, agg
from rxtemporal.testing import assert_same_history

NAMES = ("left", "right")

QUERIES: dict[str, Callable[[Any, Any], rxt.Streamable]] = {
    "union": lambda left, right: left.union(right),
    "anti join": lambda left, right: left.left_anti_join(right, on="k"),
    "counts": lambda left, right: (
        left.union(right).group_by("k").snapshot_window().aggregate(n=agg.count())
    ),
}

bounds = st.sampled_from([1, 2, 3, 5, 8, 1_000])
hand_offs = st.one_of(
    st.none(), st.builds(rxt.HandOff, bounds, st.sampled_from([*rxt.WhenFull] * 2))
)


def settings(drawn: Any, other: str) -> rxt.AdvanceTimeSettings | None:
    """Return settings of a drawn frequency, delay and policy, with or without an import."""
    every, delay, policy, imports = drawn
    return rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(every, delay),
        rxt.AdvanceTimeImportSettings(other) if imports else None,
        policy=policy,
    )


drawn_settings = st.tuples(
    st.sampled_from([1, 2, 3]),
    st.sampled_from([-1, 0, 2, 8]),
    st.sampled_from([*rxt.AdvanceTimePolicy]),
    st.booleans(),
)


class Run:
    """One run of a query over two streams that push, and its results."""

    def __init__(
        self, query: str, given: list[dict[str, Any]], items: list[tuple[int, Any]]
    ) -> None:
        app = rxt.Application("handed")
        subjects = [Subject[Any]() for _ in NAMES]
        made = [
            app.define_stream(
                name, rxt.from_observable(subject, schema=physical.SCHEMA, name=name, **options)
            )
            for name, subject, options in zip(NAMES, subjects, given, strict=True)
        ]
        app.query("out", QUERIES[query](*made))
        self.sink = Log(EventShape.EDGE)
        process = app.run("out", self.sink)
        for number, item in items:
            subjects[number].on_next(item)
        for subject in subjects:
            subject.on_completed()
        assert process.wait(SOON)
        self.told = process.diagnostics()

    def verdicts(self) -> list[Any]:
        """The verdicts of the doors on each stream."""
        return [(each.name, each.events_in, each.late, each.cti) for each in self.told.streams]


def assert_same(direct: Run, handed: Run, given: list[dict[str, Any]]) -> None:
    """Check history, verdicts and final CTI, and that the queues kept their bounds."""
    assert_same_history(direct.sink.batches, handed.sink.batches)
    assert handed.verdicts() == direct.verdicts()
    assert handed.told.cti == direct.told.cti
    for stream, options in zip(handed.told.streams, given, strict=True):
        hand_off = options["hand_off"]
        assert (stream.hand_off is None) == (hand_off is None)
        if stream.hand_off is not None:
            assert stream.hand_off.rows_waiting == 0
            assert stream.hand_off.most_rows_waiting <= hand_off.max_rows


@pytest.mark.parametrize("query", QUERIES)
@given(
    st.tuples(arrivals(payload=few_payloads()), arrivals(payload=few_payloads())),
    st.tuples(drawn_settings, drawn_settings),
    st.tuples(hand_offs, hand_offs),
    st.sampled_from([1, 1, 4]),
    st.randoms(use_true_random=False),
)
def test_a_hand_off_changes_no_verdict_and_no_result(
    query: str, drawn: Any, advance: Any, handed: Any, batch_rows: int, random: Random
) -> None:
    """Events in any order, late ones too, any imports, any bounds: as without a hand-off."""
    items = interleave([[physical.event(each) for each in items] for items in drawn], random)
    given = [
        {
            "advance_time": settings(each, other),
            "batch_rows": batch_rows,
            "hand_off": hand_off,
        }
        for each, other, hand_off in zip(advance, reversed(NAMES), handed, strict=True)
    ]
    direct = Run(query, [{**each, "hand_off": None} for each in given], items)
    assert_same(direct, Run(query, given, items), given)


@pytest.mark.parametrize("query", QUERIES)
@given(
    st.tuples(streams(payload=few_payloads()), streams(payload=few_payloads())),
    st.tuples(hand_offs, hand_offs),
    st.randoms(use_true_random=False),
)
def test_batches_with_edges_go_through_whole_or_in_pieces(
    query: str, drawn: Any, handed: Any, random: Random
) -> None:
    """Whole batches, larger than the bound too: a piece keeps rows, edge ids and order."""
    cuts = [finish(items) for items in drawn]
    pieces = [physical.batches(items, cut(items, random)) for items in cuts]
    items = interleave(pieces, random)
    given = [{"hand_off": hand_off} for hand_off in handed]
    direct = Run(query, [{"hand_off": None}, {"hand_off": None}], items)
    assert_same(direct, Run(query, given, items), given)


@pytest.mark.parametrize("when_full", rxt.WhenFull)
@given(st.integers(1, 9), st.integers(1, 5), st.randoms(use_true_random=False))
def test_from_many_threads_nothing_is_lost_or_doubled(
    when_full: rxt.WhenFull, max_rows: int, threads: int, random: Random
) -> None:
    """Each event that a subject let through comes out once; the others were counted as late."""
    subject = rxt.CtiSynchronizingSubjectAlternate.create_point(delay=random.choice([0, 5, 50]))
    stream = rxt.from_observable(
        subject, schema={"payload": int}, hand_off=rxt.HandOff(max_rows, when_full)
    )
    sink = Log()
    process = stream.run(sink)
    each = 40

    def push(name: int) -> None:
        with subject.input(f"source {name}") as into:
            for number in range(each):
                into.on_next(rxt.PointEvent(number, name * each + number))
                if number % 5 == name % 5:
                    into.on_next(rxt.Cti(number))

    pushing = [threading.Thread(target=push, args=(name,)) for name in range(threads)]
    for thread in pushing:
        thread.start()
    for thread in pushing:
        thread.join(SOON)
    subject.on_completed()
    assert process.wait(SOON)
    assert len(set(sink.rows)) == len(sink.rows)
    assert len(sink.rows) + subject.stats().late == threads * each
    told = process.diagnostics().streams[0].hand_off
    assert told is not None
    assert told.most_rows_waiting <= max_rows
