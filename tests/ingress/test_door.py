"""Matching, verdicts and the door: what is late, what becomes of it, and which CTIs are made."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import oracle
import polars as pl
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

import rxtemporal as rxt
from rxtemporal import AdvanceTimePolicy, Cti, EdgeEvent, IntervalEvent, LateReason, PointEvent
from rxtemporal.core.events import Event
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.codec import Captured, loads
from rxtemporal.errors import AdvanceTimeError, ArgumentError, CtiViolationError, EventError
from rxtemporal.ingress.door import Door
from rxtemporal.ingress.lateness import NO_CTI, measure_lateness
from rxtemporal.ingress.open_rows import OpenRows, make_hashable

DROP, ADJUST = rxt.AdvanceTimePolicy.DROP, rxt.AdvanceTimePolicy.ADJUST
start, end = EdgeEvent.create_start, EdgeEvent.create_end


@dataclasses.dataclass
class Reading:
    """A payload that has no hash."""

    temp: float
    note: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True)
class Frozen:
    """A payload that has one."""

    temp: float


class Opaque:
    """A payload that only equals itself."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


def settings(
    frequency: int | timedelta = 1,
    delay: int = 0,
    policy: rxt.AdvanceTimePolicy = DROP,
    *,
    shutdown: bool = True,
) -> rxt.AdvanceTimeSettings:
    """Settings that generate CTIs."""
    generation = rxt.AdvanceTimeGenerationSettings(frequency, delay, shutdown)
    return rxt.AdvanceTimeSettings(generation, policy=policy)


def every(ticks: int) -> timedelta:
    """A span of ticks."""
    return timedelta(microseconds=ticks)


def through(door: Door, events: Iterable[Event]) -> list[Any]:
    """What comes out of a door: the events that go on, and each CTI that advances."""
    out: list[Any] = []
    for event in events:
        before = door.cti
        kept, _, _ = door.accept(event)
        out += [] if kept is None else [kept]
        out += [Cti(door.cti)] if door.cti > before else []
    return out


def points(*times: int) -> list[PointEvent]:
    """A point at each time."""
    return [PointEvent(time, "p") for time in times]


# Which start edge an end edge closes ------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (math.nan, -math.nan),
        (0.0, -0.0),
        (None, None),
        ({"a": 1, "b": math.nan}, {"b": float("nan"), "a": 1}),
        ([1, math.nan], [1, float("nan")]),
        ({1, 2}, {2, 1}),
        (Reading(1.0), Reading(1.0, note="another")),
        (Reading(math.nan), Reading(float("nan"))),
        (Frozen(float("nan")), Frozen(float("nan"))),
        ({"a": {"b": [0.0]}}, {"a": {"b": [-0.0]}}),
    ],
)
def test_payloads_with_the_same_content_are_one_key(one: Any, other: Any) -> None:
    """Null equals null, NaN equals NaN and -0.0 equals 0.0, however deep they lie."""
    assert make_hashable(one) == make_hashable(other)
    assert hash(make_hashable(one)) == hash(make_hashable(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 2),
        (1, "1"),
        (None, 0),
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": 1}),
        ([1], (1,)),
        ([1, 2], [2, 1]),
        (Reading(1.0), Frozen(1.0)),
        (Reading, Frozen),
        (Opaque(), Opaque()),
        (math.nan, None),
    ],
)
def test_payloads_with_other_content_are_other_keys(one: Any, other: Any) -> None:
    """Values, names, order and kinds tell payloads apart; what has no hash equals itself alone."""
    assert make_hashable(one) != make_hashable(other)
    assert make_hashable(one) == make_hashable(one)


def test_identical_rows_are_closed_oldest_first() -> None:
    """Of rows with the same start and payload the first one opened is the first one closed."""
    rows: OpenRows[str] = OpenRows()
    for name in ("first", "second"):
        rows.open(1, {"x": 1}, name)
    rows.open(2, {"x": 1}, "elsewhere")
    assert (len(rows), rows.opened, sorted(rows)) == (3, 3, ["elsewhere", "first", "second"])
    assert [rows.close(1, {"x": 1}) for _ in range(3)] == ["first", "second", None]
    assert rows.close(2, {"x": 2}) is None
    assert (len(rows), rows.opened) == (1, 3)


# Verdicts ---------------------------------------------------------------------------------------


LATE = [
    # event, policy, what goes on after CTI 10, why, by how much it is late
    (PointEvent(10, "a"), DROP, PointEvent(10, "a"), None, 0),
    (PointEvent(9, "a"), DROP, None, LateReason.DROPPED, 1),
    (PointEvent(9, "a"), ADJUST, None, LateReason.DROPPED, 1),
    (IntervalEvent(4, 20, "a"), DROP, None, LateReason.DROPPED, 6),
    (IntervalEvent(4, 20, "a"), ADJUST, IntervalEvent(10, 20, "a"), LateReason.ADJUSTED, 6),
    (IntervalEvent(4, 11, "a"), ADJUST, IntervalEvent(10, 11, "a"), LateReason.ADJUSTED, 6),
    (IntervalEvent(4, 10, "a"), ADJUST, None, LateReason.DROPPED, 6),
    (start(4, "a"), DROP, None, LateReason.DROPPED, 6),
    (start(4, "a"), ADJUST, start(10, "a"), LateReason.ADJUSTED, 6),
    (end(12, 20, "a"), DROP, None, LateReason.NO_OPEN_ROW, 0),
    (end(4, 8, "a"), ADJUST, None, LateReason.NO_OPEN_ROW, 2),
]


@pytest.mark.parametrize(("event", "policy", "kept", "reason", "by"), LATE)
def test_a_late_event_is_dropped_or_adjusted(
    event: Any, policy: rxt.AdvanceTimePolicy, kept: Any, reason: LateReason | None, by: int
) -> None:
    """DROP drops; ADJUST moves a start to the CTI if the lifetime reaches past it."""
    door = Door(settings(1_000, policy=policy), "s")
    out = through(door, [Cti(10), event])
    assert out == [Cti(10)] + ([] if kept is None else [kept])
    assert dict(door.late) == ({} if reason is None else {reason: 1})
    assert measure_lateness(event, 10) == by
    assert door.largest_lateness == by
    assert door.events == 1


def test_an_event_in_time_goes_on_as_the_same_object() -> None:
    """What is not late is not made anew."""
    door = Door(settings(1_000), "s")
    for event in [PointEvent(5, [1]), IntervalEvent(5, 9, [1]), start(5, [1])]:
        assert door.accept(event)[0] is event


def test_an_event_that_ends_the_stream_counts() -> None:
    """Its distance is the delay that would have been enough."""
    door = Door(None, "s")
    door.accept(Cti(10))
    with pytest.raises(CtiViolationError):
        door.accept(PointEvent(3, [1]))
    assert (door.events, door.largest_lateness) == (1, 7)


def test_points_in_time_stay_points_though_they_are_out_of_order() -> None:
    """Operators are faster over points, and nobody has to make their ends."""
    door = Door(settings(delay=9), "s")
    at = np.array([5, 9, 7])
    rows = rxt.EventBatch.of_rows(at, None, pl.DataFrame({"x": at}), MIN_TIME)
    passed, late = door.accept_batch(rows)
    assert (passed.are_points, passed.in_order, late) == (True, False, None)
    assert (door.cti, door.largest_lateness, door.events) == (0, 2, 3)


def test_an_adjusted_start_keeps_its_identity() -> None:
    """An end edge names the start as it was sent, and follows the row to where it was moved."""
    door = Door(settings(1_000, policy=ADJUST), "s")
    out = through(door, [Cti(10), start(4, "a"), end(4, 20, "a"), end(4, 20, "a")])
    assert out == [Cti(10), start(10, "a"), end(10, 20, "a")]
    assert dict(door.late) == {LateReason.ADJUSTED: 1, LateReason.NO_OPEN_ROW: 1}


@pytest.mark.parametrize("policy", [DROP, ADJUST])
def test_a_late_end_is_moved_to_the_cti(policy: rxt.AdvanceTimePolicy) -> None:
    """Dropping an end edge would leave its row alive for ever, so it is moved under both."""
    door = Door(settings(1_000, policy=policy), "s")
    out = through(door, [start(4, "a"), Cti(10), end(4, 8, "a")])
    assert out == [start(4, "a"), Cti(10), end(4, 10, "a")]
    assert dict(door.late) == {LateReason.END_MOVED: 1}


def test_a_row_never_ends_before_its_adjusted_start() -> None:
    """An end at or before the adjusted start becomes one tick after it."""
    door = Door(settings(1_000, policy=ADJUST), "s")
    out = through(door, [Cti(10), start(4, "a"), end(4, 8, "a")])
    assert out == [Cti(10), start(10, "a"), end(10, 11, "a")]


def test_a_dropped_start_takes_its_end_along() -> None:
    """Nothing is remembered of a dropped start; its end edge is counted under no open row."""
    door = Door(settings(1_000), "s")
    assert through(door, [Cti(10), start(4, "a"), end(4, 20, "a")]) == [Cti(10)]
    assert dict(door.late) == {LateReason.DROPPED: 1, LateReason.NO_OPEN_ROW: 1}
    assert len(door.open_rows) == 0


def test_edges_have_the_id_of_their_row_and_other_events_none() -> None:
    """A start edge and its end edge carry one id, different rows different ones."""
    door = Door(None, "s")
    sent = [start(1, "a"), start(1, "b"), end(1, 5, "b"), PointEvent(3, "a"), end(1, 6, "a")]
    assert [door.accept(event)[1] for event in sent] == [1, 2, 2, 0, 1]


def test_the_start_edges_payload_is_the_one_that_counts() -> None:
    """An end edge goes on with its start edge's payload, which may differ in type or sign."""
    door = Door(None, "s")
    door.accept(start(1, {"x": 0.0}))
    kept, _, _ = door.accept(end(1, 5, {"x": -0.0}))
    assert kept is not None
    assert math.copysign(1, kept.payload["x"]) == 1


# Without a policy -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "error", "message"),
    [
        (
            [Cti(10), PointEvent(4, "a")],
            CtiViolationError,
            r"PointEvent\(4, 'a'\) of stream 's'.*by 6",
        ),
        ([Cti(10), IntervalEvent(9, 20, "a")], CtiViolationError, "by 1 ticks.*policy"),
        ([Cti(10), start(4, "a")], CtiViolationError, r"breaks CTI 10 by"),
        ([start(4, "a"), Cti(10), end(4, 8, "a")], CtiViolationError, r"create_end\(4, 8, 'a'\)"),
        ([Cti(10), Cti(9)], CtiViolationError, r"Cti\(9\) of stream 's' is before its last CTI"),
        ([end(4, 8, "a")], EventError, "ends a row that is not open.*names its start"),
        ([start(4, "a"), end(4, 8, "b")], EventError, "ends a row that is not open"),
        ([start(4, "a"), end(5, 8, "a")], EventError, "ends a row that is not open"),
        (["hello"], EventError, "takes PointEvent, IntervalEvent, EdgeEvent and Cti, got 'hello'"),
    ],
)
def test_a_violation_without_a_policy_is_an_error(
    events: list[Any], error: type[Exception], message: str
) -> None:
    """The error names the event, the stream, the CTI and what to do."""
    door = Door(None, "s")
    for event in events[:-1]:
        door.accept(event)
    with pytest.raises(error, match=message):
        door.accept(events[-1])


def test_what_stands_at_the_cti_breaks_nothing() -> None:
    """A start or an end edge's end at the CTI is legal, and so is the same CTI again."""
    events = [start(5, "a"), Cti(5), PointEvent(5, "b"), Cti(9), Cti(9), end(5, 9, "a")]
    assert through(Door(None, "s"), events) == [e for i, e in enumerate(events) if i != 4]


def test_a_cti_that_goes_back_is_no_error_with_settings() -> None:
    """A stream whose time is made up lets its own CTIs through where they advance."""
    door = Door(settings(1_000), "s")
    assert through(door, [Cti(10), Cti(5), Cti(12)]) == [Cti(10), Cti(12)]


# CTIs that are made -----------------------------------------------------------------------------


GENERATED = [
    # frequency, delay, starts, what comes out
    (1, 0, (3, 5, 4, 5), [*points(3), Cti(3), *points(5), Cti(5), *points(5)]),
    (1, -1, (3, 3, 4), [*points(3), Cti(4), *points(4), Cti(5)]),
    (2, 0, (3, 9, 4, 12), [*points(3, 9), Cti(9), *points(12), Cti(12)]),
    (2, 3, (3, 9, 5, 20), [*points(3, 9), Cti(6), *points(20), Cti(17)]),
    (every(5), 0, (3, 4, 7, 8, 9), [*points(3), Cti(3), *points(4, 7, 8), Cti(8), *points(9)]),
    (every(5), 2, (3, 8, 5, 13), [*points(3), Cti(1), *points(8), Cti(6), *points(13), Cti(11)]),
]


@pytest.mark.parametrize(("frequency", "delay", "starts", "out"), GENERATED)
def test_ctis_are_made_after_the_event_that_makes_them_due(
    frequency: Any, delay: int, starts: tuple[int, ...], out: list[Any]
) -> None:
    """Every N-th event, or each start T after the last that did, makes a CTI less the delay."""
    assert through(Door(settings(frequency, delay), "s"), points(*starts)) == out


def test_dropped_events_count_and_make_ctis() -> None:
    """A CTI that is due is made whether its event was kept or not."""
    door = Door(settings(2, -20), "s")
    assert through(door, [Cti(10), *points(4, 5)]) == [Cti(10), Cti(25)]
    assert door.late[LateReason.DROPPED] == 2


def test_a_cti_due_that_does_not_advance_counts_as_having_been_due() -> None:
    """After one that would not advance the count begins anew."""
    door = Door(settings(every(5), 0), "s")
    out = through(door, [Cti(10), *points(8, 12, 13)])
    assert out == [Cti(10), *points(12, 13), Cti(13)]


def test_end_edges_make_nothing_due() -> None:
    """Only starts are counted."""
    door = Door(settings(2), "s")
    sent = [start(1, "a"), end(1, 2, "a"), start(5, "b")]
    assert through(door, sent) == [*sent, Cti(5)]


def test_a_made_cti_stops_at_the_ends_of_time() -> None:
    """A start less a delay that lies before all time makes no CTI, one after it ends time."""
    assert through(Door(settings(1, 5), "s"), points(MIN_TIME + 2)) == [
        *points(MIN_TIME + 2),
        Cti(MIN_TIME),
    ]
    assert through(Door(settings(1, -5), "s"), points(MAX_TIME - 2))[-1] == Cti(MAX_TIME)


@pytest.mark.parametrize(
    ("given", "cti"),
    [(None, MAX_TIME), (settings(), MAX_TIME), (settings(shutdown=False), 7)],
)
def test_when_the_source_completes_the_settings_decide(
    given: rxt.AdvanceTimeSettings | None, cti: int
) -> None:
    """Time goes to its end, unless the settings say that only what is final comes out."""
    door = Door(given, "s")
    door.accept(Cti(7))
    door.finish()
    assert door.cti == cti


def test_a_new_door_has_promised_nothing() -> None:
    """Before the first CTI every time is in time."""
    door = Door(None, "s")
    assert door.cti == NO_CTI < MIN_TIME
    assert door.accept(PointEvent(MIN_TIME, "a"))[0] is not None


# Settings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: settings(0), AdvanceTimeError, "frequency must be positive, got 0"),
        (lambda: settings(-1), AdvanceTimeError, "frequency must be positive, got -1"),
        (lambda: settings(timedelta(0)), AdvanceTimeError, "frequency must be positive"),
        (
            lambda: settings(True),
            AdvanceTimeError,
            "number of events, a timedelta or a text such as '1s', got True",
        ),
        (
            lambda: settings(1.5),
            AdvanceTimeError,
            "number of events, a timedelta or a text such as '1s', got 1.5",
        ),  # type: ignore[arg-type]
        (
            lambda: settings(1, 1.5),
            ArgumentError,
            "delay is a timedelta, a text such as '5m', or an int",
        ),  # type: ignore[arg-type]
        (lambda: settings(1, 1, "drop"), AdvanceTimeError, "DROP or ADJUST, got 'drop'"),  # type: ignore[arg-type]
        (lambda: rxt.AdvanceTimeSettings(policy=DROP), AdvanceTimeError, "leave advance_time= out"),
        (lambda: rxt.AdvanceTimeSettings(5, policy=DROP), AdvanceTimeError, "generation is an"),  # type: ignore[arg-type]
        (lambda: rxt.AdvanceTimeSettings(settings().generation), TypeError, "policy"),  # type: ignore[call-arg]
    ],
)
def test_settings_that_cannot_be_followed_are_refused(
    make: Any, error: type[Exception], message: str
) -> None:
    """What was given is named where it is given; the policy has no default."""
    with pytest.raises(error, match=message):
        make()


def test_the_ready_made_settings_are_each_event_and_drop() -> None:
    """Increasing starts have a CTI at each start, strictly increasing ones a tick after it."""
    assert settings(1, 0) == rxt.INCREASING_START_TIME
    assert settings(1, -1) == rxt.STRICTLY_INCREASING_START_TIME


# The door for columns ---------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [DROP, ADJUST])
@pytest.mark.parametrize("frequency", [1, 3, every(4)])
@pytest.mark.parametrize("delay", [-1, 0, 5])
@pytest.mark.parametrize("batch_rows", [1, 2, 100])
def test_columns_pass_the_same_door_as_events(
    policy: rxt.AdvanceTimePolicy, frequency: Any, delay: int, batch_rows: int
) -> None:
    """A frame's rows get the verdicts that they would get one by one, however they are cut."""
    times = [(3, 9), (8, 12), (2, 20), (15, 16), (9, 11), (30, 31), (1, 2), (14, 40), (33, 34)]
    given = settings(frequency, delay, policy)
    events = [IntervalEvent(s, e, {"n": n}) for n, (s, e) in enumerate(times)]
    one_by_one = rxt.from_events(events, advance_time=given).to_events()
    frame = pl.DataFrame({"s": [s for s, _ in times], "e": [e for _, e in times], "n": range(9)})
    stream = rxt.from_polars(frame, start="s", end="e", advance_time=given, batch_rows=batch_rows)
    assert sorted(map(repr, stream.to_events())) == sorted(map(repr, one_by_one))


def test_datetimes_and_ticks_meet_at_the_door() -> None:
    """A CTI given in ticks judges an event given as a datetime."""
    door = Door(settings(1_000, policy=ADJUST), "s")
    noon = datetime(1970, 1, 1, 0, 0, 0, 4, tzinfo=UTC)
    out = through(door, [Cti(10), IntervalEvent(noon, noon + every(16), "a")])
    assert out == [Cti(10), IntervalEvent(10, 20, "a")]
    assert isinstance(out[1].start_time, datetime)


@pytest.mark.parametrize("policy", list(AdvanceTimePolicy))
@given(
    items=strategies.arrivals(["point", "interval"], extremes=False),
    every=st.one_of(
        st.integers(1, 4), st.integers(1, 9).map(lambda us: timedelta(microseconds=us))
    ),
    delay=st.integers(-3, 8),
    batch_rows=st.integers(1, 9),
)
def test_the_door_for_columns_is_the_door_for_events(
    policy: AdvanceTimePolicy, items: list[Any], every: Any, delay: int, batch_rows: int
) -> None:
    """A frame's rows get the verdicts and the starts that the same events get from the model."""
    rows = [item for item in items if item[0] != "cti"]
    settings = rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(every, delay), policy=policy
    )
    expected, late = oracle.door(
        rows,
        every=every if isinstance(every, int) else None,
        span=None if isinstance(every, int) else rxt.ticks(every),
        delay=delay,
        policy=policy.value,
    )
    lifetimes = [oracle.lifetime(row) for row in rows]
    frame = pl.DataFrame(
        {
            "start": [start for start, _ in lifetimes],
            "end": [None if end == rxt.MAX_TIME else end for _, end in lifetimes],
            "row": range(len(rows)),
        },
        schema={"start": pl.Int64, "end": pl.Int64, "row": pl.Int64},
    )
    stream = rxt.from_polars(
        frame, start="start", end="end", advance_time=settings, batch_rows=batch_rows
    )
    kept = stream.drop("row").to_polars().rows()
    wanted = [oracle.lifetime(item) for item in expected if item[0] != "cti"]
    forever = [(start, None if end == rxt.MAX_TIME else end) for start, end in wanted]
    assert sorted(kept, key=repr) == sorted(forever, key=repr)
    assert len(rows) - len(kept) == sum(each.reason == "dropped" for each in late)


def test_a_door_that_is_loaded_knows_what_is_late() -> None:
    """Before any CTI has come again: the one that was saved makes the row late."""
    first, second = Door(settings(), "a"), Door(settings(), "a")
    first.accept(PointEvent(7, "x"))
    captured = Captured("door", first.save())
    second.load(loads("door", captured.dumps()))
    kept, _, late = second.accept(PointEvent(6, "late"))
    assert kept is None
    assert late is not None
    assert (late.cti, late.by) == (7, 1)


def test_rows_behind_a_loaded_state_have_ids_of_their_own() -> None:
    """Rows that have ended by then count, too: no id is that of another open row."""
    first, second = Door(None, "a"), Door(None, "a")
    ids = [first.accept(start(time, name))[1] for time, name in ((1, "x"), (2, "y"))]
    first.accept(end(1, 5, "x"))
    second.load(loads("door", Captured("door", first.save()).dumps()))
    ids.append(second.accept(start(3, "z"))[1])
    assert len({*ids}) == 3
    assert [second.accept(end(time, 6, name))[1] for time, name in ((2, "y"), (3, "z"))] == ids[1:]
