"""Async iterables in, async iterators out: order, errors, bounds, a loop that is not blocked."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from reactivex.subject import Subject
from runs import SOON, Log

import rxtemporal as rxt
from rxtemporal import Cti, IntervalEvent, PointEvent
from rxtemporal.errors import ArgumentError, BindingError, CtiViolationError

EVENTS = [PointEvent(1, 1), PointEvent(3, 3), Cti(4), PointEvent(6, 6)]
ROWS = [IntervalEvent(t, t + 1, t) for t in (1, 3, 6)]


async def given(events: Any) -> AsyncIterator[Any]:
    """Events, with a breath between them."""
    for event in events:
        await asyncio.sleep(0)
        yield event


async def collected(stream: rxt.Streamable, **options: Any) -> list[Any]:
    """All results of a stream."""
    return [event async for event in stream.to_async(**options)]


def soon(coroutine: Any) -> Any:
    """Run a coroutine on a loop of its own; one that hangs fails."""
    return asyncio.run(asyncio.wait_for(coroutine, SOON))


def test_an_async_iterable_is_read_without_a_loop() -> None:
    """Where no loop runs, the query has one of its own."""
    assert rxt.from_async(given(EVENTS)).to_events() == ROWS


def test_inside_a_loop_everything_is_asynchronous() -> None:
    """The iterable is read on the loop that runs, and results come to it."""
    loops: list[object] = []

    async def noting() -> AsyncIterator[Any]:
        loops.append(asyncio.get_running_loop())
        for event in EVENTS:
            yield event

    async def main() -> tuple[list[Any], object]:
        return await collected(rxt.from_async(noting())), asyncio.get_running_loop()

    out, loop = soon(main())
    assert (out, loops) == (ROWS, [loop])


def test_results_of_any_source_come_in_the_shape_asked_for() -> None:
    """to_async takes shape and ctis as to_events does."""
    stream = rxt.from_events(EVENTS)
    for options in ({}, {"shape": rxt.EventShape.POINT, "ctis": True}, {"time": "datetime"}):
        assert soon(collected(stream, **options)) == stream.to_events(**options)  # type: ignore[arg-type]


def test_rows_of_a_query_are_iterated_asynchronously() -> None:
    """Each is a dict with its lifetime; rows that never end have None."""
    endless = rxt.IntervalEvent(7, rxt.MAX_TIME, {"x": 1})
    stream = rxt.from_events([rxt.PointEvent(1, {"x": 0}), endless])

    async def main() -> list[dict[str, Any]]:
        return [row async for row in stream]

    expected = stream.to_polars().to_dicts()
    assert soon(main()) == expected
    assert expected[1] == {"start_time": 7, "end_time": None, "x": 1}


def test_a_source_that_pushes_on_the_loop_is_followed() -> None:
    """An answer comes while the source is still open."""
    subject: Subject[Any] = Subject()

    async def main() -> list[Any]:
        out = []
        asyncio.get_running_loop().call_soon(lambda: [subject.on_next(each) for each in EVENTS])
        async with contextlib.aclosing(rxt.from_observable(subject).to_async()) as results:  # type: ignore[type-var]
            async for event in results:
                out.append(event)
                if len(out) == 2:
                    break
        assert not subject.observers
        return out

    assert soon(main()) == ROWS[:2]


def test_the_loop_is_not_blocked_by_a_source_that_waits() -> None:
    """Other tasks go on while an iterable waits for its next event."""
    go_on = threading.Event()

    def waiting() -> Iterator[Any]:
        assert go_on.wait(SOON)
        yield from EVENTS

    async def main() -> list[Any]:
        results = asyncio.create_task(collected(rxt.from_events(waiting())))
        await asyncio.sleep(0)
        go_on.set()
        return await results

    assert soon(main()) == ROWS


def test_a_source_is_read_as_fast_as_results_are_taken() -> None:
    """Between reader and taker only so much waits, on the way in and on the way out."""
    asked = 0

    async def endless() -> AsyncIterator[Any]:
        nonlocal asked
        while True:
            asked += 1
            yield PointEvent(asked, asked)
            yield Cti(asked + 1)

    async def main() -> None:
        results = rxt.from_async(endless()).to_async()
        async for event in results:
            if event.start == 3:
                for _ in range(200):
                    await asyncio.sleep(0.001)
                break
        await results.aclose()  # type: ignore[attr-defined]

    soon(main())
    assert 3 <= asked < 2_000


def test_errors_come_after_what_was_before_them() -> None:
    """A source's own error and a broken promise end the iteration, inside a loop and outside."""

    async def failing() -> AsyncIterator[Any]:
        for event in EVENTS:
            yield event
        raise OSError("the line is dead")

    async def main(stream: rxt.Streamable) -> list[Any]:
        out: list[Any] = []
        try:
            async for event in stream.to_async():
                out.append(event)
        except (OSError, CtiViolationError):
            return out
        return ["no error"]

    assert soon(main(rxt.from_async(failing()))) == ROWS[:2]
    assert soon(main(rxt.from_async(given([*EVENTS, PointEvent(1, 1)])))) == ROWS[:2]
    with pytest.raises(OSError, match="the line is dead"):
        rxt.from_async(failing()).to_events()


def test_a_process_that_is_stopped_lets_go_of_its_async_source() -> None:
    """The task that reads is cancelled, also where its next event never comes."""
    closed = threading.Event()

    async def silent() -> AsyncIterator[Any]:
        try:
            for event in EVENTS:
                yield event
            await asyncio.Event().wait()
        finally:
            closed.set()

    wrote = threading.Event()
    sink = Log(during={"write": wrote.set})
    process = rxt.from_async(silent()).run(sink)
    assert wrote.wait(SOON)
    process.dispose()
    assert closed.wait(SOON)
    assert sink.told[-1] == "close"


def test_batches_may_come_as_well() -> None:
    """An async iterable of event batches is a stream."""
    batches = list(rxt.from_events(EVENTS).to_batches())
    assert rxt.from_async(given(batches)).to_events() == ROWS


def test_blocking_the_loop_that_is_read_is_refused() -> None:
    """to_events on the loop whose events it reads would wait for ever."""

    async def main() -> None:
        with pytest.raises(
            BindingError, match=r"would block the event loop.*\. Hint: use async for"
        ):
            rxt.from_async(given(EVENTS)).to_events()

    soon(main())


@pytest.mark.parametrize("source", [EVENTS, given, None])
def test_what_is_not_async_iterable_is_refused(source: Any) -> None:
    """A list, or the function instead of what it returns, is named."""
    with pytest.raises(ArgumentError, match="from_async takes an async iterable of events, got"):
        rxt.from_async(source)
