"""Records of each library go in wherever dicts do, with the same results."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pydantic
import pytest
from reactivex import Subject
from records import CLASSES, KINDS

import rxtemporal as rxt

FIELDS = {"ts": int, "room": str, "temp": float, "kind": str}
# more than are read one by one
MANY = 50
ROWS = [
    {"ts": n, "room": f"room {n % 3}", "temp": None if n % 7 == 0 else n / 4, "kind": "hot"}
    for n in range(MANY)
]


# what is left of a row whose time is its start
LEFT = [{name: value for name, value in row.items() if name != "ts"} for row in ROWS]


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request: pytest.FixtureRequest) -> Any:
    """Return a class whose objects are rows."""
    return request.param


def make_subject() -> Any:
    """Return a subject in front of a query."""
    return rxt.CtiSynchronizingSubjectAlternate(rxt.EventShape.POINT, 0, rxt.AdvanceTimePolicy.DROP)


def list_payloads(query: rxt.Streamable) -> list[Any]:
    """Run a query, and return the payloads of its results."""
    return [event.payload for event in query.to_events() if isinstance(event, rxt.IntervalEvent)]


def list_rows(results: rxt.Collect) -> list[Any]:
    """Return the payloads of what a sink has."""
    return results.batch.payload.to_dicts()


def make_events(kind: Any) -> list[Any]:
    """Return points of all rows, as objects of a class."""
    return [rxt.PointEvent(n, kind(**row)) for n, row in enumerate(ROWS)]


@pytest.mark.parametrize("given", ["class", "none"])
def test_events_of_a_list_an_iterator_and_an_async_generator(kind: Any, given: str) -> None:
    """With the class as their schema, and without one."""

    async def arrive() -> AsyncIterator[Any]:
        for event in make_events(kind):
            yield event

    def iterate() -> Iterator[Any]:
        yield from make_events(kind)

    # room 0 has no temperature, so that the first event alone would not do
    schema = kind if given == "class" else None
    assert list_payloads(rxt.from_events(make_events(kind), schema=schema)) == ROWS
    assert list_payloads(rxt.from_events(iterate(), schema=schema)) == ROWS
    assert list_payloads(rxt.from_async(arrive(), schema=schema)) == ROWS


def test_events_of_an_observable(kind: Any) -> None:
    """The payloads of events that a subject passes on, as the objects that they are."""
    subject: Any = make_subject()
    seen: list[Any] = []
    subject.subscribe(seen.append)
    process = rxt.from_observable(subject, schema=kind).run(results := rxt.Collect())
    for event in make_events(kind):
        subject.on_next(event)
    subject.on_completed()
    process.wait()
    assert list_rows(results) == ROWS
    assert isinstance(seen[0].payload, kind)


def make_objects(kind: Any) -> list[Any]:
    """Return all rows as objects of a class."""
    return [kind(**row) for row in ROWS]


def test_rows_that_are_pushed(kind: Any) -> None:
    """One, a few, many, mixed with dicts, of several inputs, from an event loop, with numbers."""
    source = rxt.PushSource("rows", schema=kind, start="ts")
    process = source.stream.run(results := rxt.Collect())
    objects = make_objects(kind)
    assert source.push(objects[0]).accepted == 1
    assert source.push(objects[1:4]).accepted == 3
    assert source.push(objects[4:40]).accepted == 36
    assert source.push([ROWS[40], objects[41]]).accepted == 2
    verdicts = source.push_all([("a", objects[42]), ("b", objects[43:45])])
    assert [each.accepted for each in verdicts] == [1, 2]
    assert asyncio.run(source.push_async(objects[45])).accepted == 1
    assert asyncio.run(source.push_async(iter(objects[46:48]))).accepted == 2
    device = source.input("device")
    assert device.push(objects[48], seq=1).accepted == 1
    assert device.push(objects[48], seq=1).duplicates == 1
    assert source.push(objects[49]).accepted == 1
    source.close()
    process.wait()
    assert list_rows(results) == LEFT


def test_many_objects_of_which_some_do_not_fit(kind: Any) -> None:
    """The others are accepted; a rejected one is shown as the object that was pushed."""
    source = rxt.PushSource("rows", schema=kind, start="ts")
    process = source.stream.run(results := rxt.Collect())
    objects = make_objects(kind)
    bad = kind(**ROWS[5])
    if isinstance(bad, tuple):
        bad = kind(**{**ROWS[5], "temp": "warm"})
    elif kind.__name__ == "Slotted":
        object.__setattr__(bad, "temp", "warm")
    else:
        bad.temp = "warm"
    verdict = source.push([*objects[:5], bad, *objects[5:]])
    assert verdict.accepted == MANY
    (rejected,) = verdict.rejected
    assert rejected.index == 5
    assert "'temp' is Float64 and cannot hold 'warm'" in rejected.reason
    assert rejected.row is bad
    source.close()
    process.wait()
    assert list_rows(results) == LEFT


def test_rows_of_an_observable(kind: Any) -> None:
    """Objects that have their time in a field, one by one and in lists."""
    objects = make_objects(kind)
    subject: Subject[Any] = Subject()
    stream = rxt.from_observable(subject, schema=kind, start="ts", advance_time=0)
    process = stream.run(results := rxt.Collect())
    for item in [*objects[:3], objects[3:]]:
        subject.on_next(item)
    subject.on_completed()
    process.wait()
    assert list_rows(results) == LEFT


@pytest.mark.parametrize("result", CLASSES.values(), ids=CLASSES)
def test_what_a_function_returns(result: Any) -> None:
    """``select`` and ``apply`` take the fields from the annotation, and objects as rows."""

    def copy(row: dict[str, Any]) -> Any:
        return result(**row)

    def copy_all(rows: Sequence[dict[str, Any]]) -> Any:
        return [result(**dict(row)) for row in rows]

    copy.__annotations__["return"] = result
    copy_all.__annotations__["return"] = list[result]  # type: ignore[valid-type]
    stream = rxt.from_events([rxt.PointEvent(n, row) for n, row in enumerate(ROWS)], schema=FIELDS)
    assert list_payloads(stream.select(copy)) == ROWS
    assert list_payloads(stream.tumbling_window(10).apply(copy_all)) == ROWS


def test_an_object_with_extra_fields_of_its_own() -> None:
    """What the schema does not name is counted as ignored, or refused."""

    class Open(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="allow")
        time: int
        x: int

    source = rxt.PushSource("rows", schema={"x": int})
    process = source.stream.run(rxt.Collect())
    assert source.push([Open(time=1, x=1, note="a"), Open(time=2, x=1)]).accepted == 2
    assert source.stats().ignored == {"note": 1}
    process.stop()
    strict = rxt.PushSource("rows", schema={"x": int}, extra=rxt.Extra.REFUSE)
    process = strict.stream.run(rxt.Collect())
    (rejected,) = strict.push(Open(time=1, x=1, note="a")).rejected
    assert rejected.reason.startswith("field 'note' is not in the schema")
    process.stop()


def test_objects_in_a_run_that_is_resumed(tmp_path: Path, kind: Any) -> None:
    """Rows of a subject that wait for a CTI are in the state of the run."""
    for part in (make_events(kind)[:20], make_events(kind)[20:]):
        subject: Any = make_subject()
        stream = rxt.from_observable(subject, schema=kind, name="rows")
        process = (
            stream.tumbling_window(MANY)
            .apply(lambda rows: [{"rows": len(rows)}], schema={"rows": int})
            .run(results := rxt.Collect(), resume=tmp_path / "state")
        )
        for event in part:
            subject.on_next(event)
        process.stop()
    assert not results.to_events()
    subject = make_subject()
    stream = rxt.from_observable(subject, schema=kind, name="rows")
    process = (
        stream.tumbling_window(MANY)
        .apply(lambda rows: [{"rows": len(rows)}], schema={"rows": int})
        .run(results := rxt.Collect(), resume=tmp_path / "state")
    )
    subject.on_next(rxt.Cti(MANY))
    subject.on_completed()
    process.wait()
    assert [row["rows"] for row in results.to_dicts()] == [MANY]
