"""Reference data: told in any order, late, and corrected, the rows joined with it are right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal import Streamable

# a reading of a device at a time (without a city), or a city told for it from a time on
Step = tuple[int, str, str | None]
# the time of a reading, its device, and the city that is valid then
Found = list[tuple[int, str, str | None]]
FIELDS = {"device": str, "city": str}
DROP, ADJUST = rxt.AdvanceTimePolicy.DROP, rxt.AdvanceTimePolicy.ADJUST
CTIS = rxt.AdvanceTimeGenerationSettings(frequency=1, delay=0)


def expect(steps: list[Step]) -> Found:
    """Return what the readings meet: of the rows told by then the latest one, and who was late."""
    cti, told, readings = 0, list[Any](), list[tuple[int, str]]()
    for number, (time, device, city) in enumerate(steps):
        if city is not None:
            told.append((device, time, max(time, cti), number, city))
        elif time >= cti:
            readings.append((time, device))
            cti = time
    return sorted(
        (time, device, max(
            (rest for name, *rest in told if name == device and rest[1] <= time),
            default=[None],
        )[-1])
        for time, device in readings
    )  # fmt: skip


def read(collected: rxt.Collect) -> Found:
    """Return the rows of a sink in order."""
    rows = collected.to_dicts(time="ticks")
    return sorted((row["start_time"], row["device"], row["city"]) for row in rows)


def place(readings: Streamable, moves: Streamable) -> Streamable:
    """Return the readings, each with the city that is valid at its time."""
    places = rxt.reference(moves, on="device", follows=readings)
    return readings.left_outer_join(places, on="device")


class Service:
    """Readings and cities that are pushed, each reading joined with the city valid at its time."""

    def __init__(self, hand_off: rxt.HandOff | None = None, **run: Any) -> None:
        options: Any = {"start": "ts", "hand_off": hand_off}
        self.readings = rxt.PushSource("readings", schema={"device": str}, **options)
        self.moves = rxt.PushSource("moves", schema=FIELDS, **options)
        self.found = rxt.Collect()
        self.process = place(self.readings.stream, self.moves.stream).run(self.found, **run)

    def push(self, step: Step) -> rxt.Verdict:
        """Push a reading or a city."""
        time, device, city = step
        if city is None:
            return self.readings.push({"ts": time, "device": device})
        return self.moves.push({"ts": time, "device": device, "city": city})

    def close(self) -> None:
        """End both sources, and wait."""
        self.moves.close()
        self.readings.close()
        assert self.process.wait(30)


def serve(*steps: Step) -> Found:
    """Return what comes out of a service for these pushes."""
    service = Service()
    for step in steps:
        service.push(step)
    service.close()
    found = read(service.found)
    assert found == expect(list(steps))
    return found


def test_rows_may_be_told_in_any_order() -> None:
    """A row that is about an earlier time does not replace one about a later time."""
    assert serve(
        (30, "a", "Rome"), (0, "a", "Berlin"), (20, "a", "Paris"),
        (10, "a", None), (20, "a", None), (29, "a", None), (40, "a", None),
    ) == [
        (10, "a", "Berlin"), (20, "a", "Paris"), (29, "a", "Paris"), (40, "a", "Rome"),
    ]  # fmt: skip


def test_rows_loaded_after_the_first_readings_are_valid_from_then_on() -> None:
    """Readings that are final stay without a city; the next ones have it."""
    assert serve(
        (10, "a", None), (20, "a", None), (0, "a", "Berlin"), (0, "b", "Bonn"),
        (30, "a", None), (30, "b", None),
    ) == [(10, "a", None), (20, "a", "Berlin"), (30, "a", "Berlin"), (30, "b", "Bonn")]  # fmt: skip


def test_a_move_told_late_is_valid_from_the_cti_on() -> None:
    """It is a late event, and the device does not stay where it was for ever."""
    service = Service()
    service.push((0, "a", "Berlin"))
    for time in (10, 20, 30):
        service.push((time, "a", None))
    late = service.push((15, "a", "Paris")).late
    assert [(each.event.start, each.cti, each.by) for each in late] == [(15, 30, 15)]
    service.push((40, "a", None))
    service.close()
    cities = [city for _, _, city in read(service.found)]
    assert cities == ["Berlin", "Berlin", "Paris", "Paris"]


@pytest.mark.parametrize("about", [5, 19])
def test_a_late_row_does_not_replace_a_later_one(about: int) -> None:
    """At 20 the device went to Paris; where it was before that is over when it is told."""
    assert serve(
        (0, "a", "Berlin"), (20, "a", "Paris"), (30, "a", None), (about, "a", "Rome"),
        (40, "a", None),
    )[-1] == (40, "a", "Paris")  # fmt: skip


def test_a_late_row_lasts_until_a_later_one_begins() -> None:
    """A move that is known in advance ends what is told late."""
    assert serve(
        (0, "a", "Berlin"), (50, "a", "Rome"), (30, "a", None), (20, "a", "Paris"),
        (40, "a", None), (60, "a", None),
    ) == [(30, "a", "Paris"), (40, "a", "Paris"), (60, "a", "Rome")]  # fmt: skip


def test_rows_are_corrected() -> None:
    """Of rows with the same start the last one told is valid: all along, or from the CTI on."""
    assert serve(
        (10, "a", "Berlin"), (10, "a", "Bonn"), (15, "a", None), (20, "a", None),
        (10, "a", "Basel"), (10, "a", "Bern"), (30, "a", None),
    ) == [(15, "a", "Bonn"), (20, "a", "Bern"), (30, "a", "Bern")]  # fmt: skip


TIMES, DEVICES = st.integers(0, 20), st.sampled_from("aaab")
TOLD = st.tuples(TIMES, DEVICES, st.sampled_from(["Berlin", "Paris", "Rome"]))
STEPS = st.lists(st.tuples(TIMES, DEVICES, st.none()) | TOLD, min_size=8, max_size=25)


@given(steps=STEPS)
def test_readings_meet_what_is_valid_whenever_it_was_told(steps: list[Step]) -> None:
    """In any order of readings and rows each reading has its city; what was late is told."""
    serve(*steps)


MOVES: list[Step] = [
    (10, "a", None), (0, "a", "Berlin"), (20, "a", None), (50, "a", "Rome"), (15, "a", "Paris"),
    (30, "a", None), (12, "a", "Bonn"), (40, "a", None), (60, "a", None),
]  # fmt: skip


def test_a_recording_gives_the_same(tmp_path: Path) -> None:
    """What was told late is told late again."""
    service, replayed = Service(record=tmp_path / "recording"), rxt.Collect()
    for step in MOVES:
        service.push(step)
    service.close()
    with place(**rxt.replay(tmp_path / "recording")).run(replayed) as process:
        assert process.wait(60)
    assert read(replayed) == read(service.found) == expect(MOVES)


def test_behind_a_hand_off_it_is_the_same() -> None:
    """Rows are judged when they are pushed, whenever the query gets them."""
    service = Service(hand_off=rxt.HandOff())
    for step in MOVES:
        service.push(step)
    service.close()
    assert read(service.found) == expect(MOVES)


def test_streams_of_an_application() -> None:
    """A stream may be followed by its name; lists are read merged by time."""
    app, found = rxt.Application("service"), rxt.Collect()
    events = [rxt.PointEvent(time, {"device": "a"}) for time in (5, 15, 25)]
    readings = app.define_stream("readings", events, advance_time=rxt.INCREASING_START_TIME)
    moves = app.define_stream("moves", list_moves(schema=FIELDS, advance_time=IMPORTS))
    places = rxt.reference(moves, on="device", follows="readings")
    query = app.query("placed", readings.join(places, on="device"))
    with app.run(query, sinks=[found]) as process:
        assert process.wait(60)
    # Rome is told after Paris, when the CTI is 15, and valid from then until Paris begins at 20
    assert read(found) == [(15, "a", "Rome"), (25, "a", "Paris")]


@given(steps=STEPS, stop=st.integers(0, 25))
def test_a_restart_changes_nothing(steps: list[Step], stop: int, tmp_path_factory: Any) -> None:
    """What is valid, and since when, is in the checkpoint."""
    folder, found = tmp_path_factory.mktemp("state"), set[Any]()
    first = Service(resume=folder)
    for step in steps[:stop]:
        first.push(step)
    first.process.stop()
    second = Service(resume=folder)
    for step in steps[stop:]:
        second.push(step)
    second.close()
    found = {*read(first.found), *read(second.found)}
    assert found == set(expect(steps))


SHAPES: dict[str, Callable[[int, dict[str, Any]], Any]] = {
    "points": rxt.PointEvent,
    "intervals": lambda time, row: rxt.IntervalEvent(time, time + 15, row),
    "start edges": rxt.EdgeEvent.create_start,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("policy", [DROP, ADJUST])
@pytest.mark.parametrize("as_follower", [True, False])
@given(steps=STEPS)
def test_each_shape_and_policy_gives_the_same(
    shape: str, policy: rxt.AdvanceTimePolicy, as_follower: bool, steps: list[Step]
) -> None:
    """Only starts count, and a late row is valid from the CTI on under both policies."""
    sent: dict[bool, Subject[Any]] = {True: Subject(), False: Subject()}
    imports = rxt.AdvanceTimeSettings(
        imports=rxt.AdvanceTimeImportSettings("readings"), policy=policy
    )
    each = rxt.AdvanceTimeSettings(CTIS, policy=policy)
    moves = rxt.from_observable(
        sent[True], schema=FIELDS, name="moves", advance_time=each if as_follower else imports
    )
    readings = rxt.from_observable(
        sent[False], schema={"device": str}, name="readings", advance_time=rxt.INCREASING_START_TIME
    )
    places = rxt.reference(moves, on="device", follows=readings if as_follower else None)
    found = rxt.Collect()
    with readings.left_outer_join(places, on="device").run(found) as process:
        for time, device, city in steps:
            row = {"device": device} | ({} if city is None else {"city": city})
            make = rxt.PointEvent if city is None else SHAPES[shape]
            sent[city is not None].on_next(make(time, row))
        for each_sent in sent.values():
            each_sent.on_completed()
        assert process.wait(30)
    assert read(found) == expect(steps)


def list_moves(**options: Any) -> Streamable:
    """Return two moves of a device, as they are told."""
    rows = [rxt.PointEvent(t, {"device": "a", "city": c}) for t, c in ((20, "Paris"), (0, "Rome"))]
    return rxt.from_events(rows, **{"name": "moves", **options})


def test_a_list_needs_no_settings() -> None:
    """Without CTIs nothing is late, and at its end everything is final."""
    expected = [(0, 20, "a", "Rome"), (20, None, "a", "Paris")]
    assert rxt.reference(list_moves(), on="device").to_polars().rows() == expected
    frame = pl.DataFrame({"t": [20, 0], "device": "a", "city": ["Paris", "Rome"]})
    assert rxt.reference(rxt.from_polars(frame, start="t"), on="device").to_polars().rows() == (
        expected
    )


@pytest.mark.parametrize("schema", [None, {"device": str, "start": int, "reason": str}])
def test_fields_may_be_called_like_those_of_late_events(schema: Any) -> None:
    """The fields are the same in a row that was told late, if they are known."""
    fields = {"start": 7, "reason": "new"} if schema else {"city": "Rome"}
    rows = [rxt.PointEvent(t, {"device": d, **fields}) for t, d in ((20, "a"), (5, "b"))]
    moves = rxt.from_events(rows, schema=schema, advance_time=rxt.INCREASING_START_TIME)
    found = rxt.reference(moves, on="device").to_polars()
    values = tuple(fields.values())
    assert found.rows() == [(20, None, "a", *values), (20, None, "b", *values)]


@pytest.mark.parametrize("settings", [None, rxt.INCREASING_START_TIME])
def test_a_stream_may_be_used_beside_its_reference_data(settings: Any) -> None:
    """It is one stream, read once."""
    moves = list_moves(schema=FIELDS, advance_time=settings)
    both = moves.join(rxt.reference(moves, on="device"), on="device", suffix="_then")
    found = both.to_polars().select("start_time", "city", "city_then").rows()
    assert found == [(0, "Rome", "Rome"), (20, "Paris", "Paris")][settings is not None :]


def test_several_fields_and_null_are_keys() -> None:
    """A key may have several fields, and null is an ordinary one."""
    keys = [("a", 1), ("a", 2), ("a", None), ("a", None)]
    rows = [rxt.PointEvent(t, {"k": k, "n": n}) for t, (k, n) in enumerate(keys)]
    found = rxt.reference(rxt.from_events(rows, schema={"k": str, "n": int}), on=["k", "n"])
    assert [row[:2] for row in found.to_polars().rows()] == [
        (0, None),
        (1, None),
        (2, 3),
        (3, None),
    ]


IMPORTS = rxt.AdvanceTimeSettings(
    imports=rxt.AdvanceTimeImportSettings("readings"), policy=rxt.AdvanceTimePolicy.ADJUST
)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda s: s.where(pl.col("city") != "Rome"), "is computed: rows that were told late"),
        (lambda s: s.late_events(), "is computed"),
        (lambda s: 5, "reference takes a stream, got 5"),
        (lambda s: s.with_columns(_since=1), "is computed"),
    ],
)
def test_what_has_lost_its_late_rows_is_refused(make: Any, message: str) -> None:
    """Rows that were told late have to be seen."""
    with pytest.raises(rxt.RxTemporalError, match=message):
        rxt.reference(make(list_moves(advance_time=IMPORTS)), on="device")


def test_a_subject_that_drops_late_rows_is_refused() -> None:
    """It has judged them before, by its own policy."""
    subject = rxt.CtiSynchronizingSubject.create_point(0)
    with pytest.raises(
        rxt.BindingError, match=r"subject in front of 'moves' drops late ones. Hint"
    ):
        rxt.reference(rxt.from_observable(subject, schema=FIELDS, name="moves"), on="device")


def test_a_stream_in_which_each_device_has_its_own_time_is_refused() -> None:
    """The message is about the reference, and not about what it is made of."""
    moves = list_moves(advance_time=0, clock="device")
    with pytest.raises(rxt.BindingError, match=r"stream 'moves' each device .* leave out clock="):
        rxt.reference(moves, on="device")


def test_other_arguments_are_refused() -> None:
    """A key has to be a field, and a stream to follow an input stream."""
    moves = list_moves(schema=FIELDS)
    with pytest.raises(rxt.SchemaError, match="there is no field 'id'"):
        rxt.reference(moves, on="id")
    with pytest.raises(rxt.AdvanceTimeError, match="follows is an input stream or its name"):
        rxt.reference(moves, on="device", follows=moves.drop("city"))
    source: Any = rxt.PushSource("rows", schema={"device": str}, start="t")
    with pytest.raises(rxt.AdvanceTimeError, match=r"Hint: follow .*\.stream"):
        rxt.reference(moves, on="device", follows=source)
    with pytest.raises(rxt.SchemaError, match="needs the name '_since'"):
        rxt.reference(list_moves(schema={"device": str, "_since": int}), on="device")


@pytest.mark.parametrize(
    "between",
    [
        lambda s: s,
        lambda s: s.where(pl.col("city").is_not_null()).select("device", "city"),
        lambda s: s.union(list_moves(schema=FIELDS)),
    ],
)
def test_a_signal_that_would_lose_late_points_is_refused(between: Any) -> None:
    """ADJUST drops points, so that a device would stay where it was for ever."""
    moves = between(list_moves(schema=FIELDS, advance_time=IMPORTS))
    with pytest.raises(rxt.AdvanceTimeError, match=r"ADJUST.* Hint: rxt\.reference") as raised:
        moves.to_signal("device")
    assert "in to_signal, composed at" in str(raised.value)


def test_a_signal_of_what_cannot_be_dropped_is_allowed() -> None:
    """Rows that were told late have been adjusted, or need not count."""
    moves = list_moves(schema=FIELDS, advance_time=IMPORTS)
    moves.extend_lifetime(5).to_signal("device")
    list_moves(schema=FIELDS, advance_time=rxt.INCREASING_START_TIME).to_signal("device")
