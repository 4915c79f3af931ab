"""Streams and operators of Rx: what pipe gives, and what Rx is refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
import reactivex as rx
from reactivex import Observable
from reactivex import operators as rx_ops
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal import operators as ops
from rxtemporal.errors import RxTemporalWarning
from rxtemporal.testing import assert_same_history

EVENTS = [rxt.PointEvent(time, {"x": time % 3}) for time in range(6)]
X = pl.col("x")


def stream(**more: Any) -> rxt.Streamable:
    """Return a small stream."""
    return rxt.from_events(EVENTS, schema={"x": int}, **more)


def test_temporal_operators_give_a_stream() -> None:
    """A pipe of operators, windows and joins is the chain of the methods of these names."""
    window = ops.tumbling_window(2).aggregate(n=agg.count())
    piped = stream().pipe(ops.where(X > 0), ops.group_by("x"), window, ops.join(stream(), on="x"))
    plain = stream().where(X > 0).group_by("x").tumbling_window(2).aggregate(n=agg.count())
    assert isinstance(piped, rxt.Streamable)
    assert_same_history(piped, plain.join(stream(), on="x"))
    assert stream().pipe().to_events() == stream().to_events()


def test_rx_operators_get_events_without_ctis() -> None:
    """From the first operator of Rx on there is an observable: final events, and no CTI."""
    piped = stream(advance_time=rxt.INCREASING_START_TIME).pipe(
        ops.where(X == 1), rx_ops.map(lambda event: (event.start, event.payload["x"]))
    )
    got: list[Any] = []
    ended: list[bool] = []
    piped.subscribe(got.append, on_completed=lambda: ended.append(True))
    assert (got, ended) == ([(1, 1), (4, 1)], [True])
    assert piped.pipe(rx_ops.first()).run() == (1, 1)


def hot(readings: Any) -> Any:
    """Return a stream of a stream, as a query does."""
    return readings.where(X > 1)


@pytest.mark.parametrize(
    ("operators", "message"),
    [
        ([rx_ops.map(str), ops.where(X > 0)], "where comes behind an operator of Rx.*from_observ"),
        ([rx_ops.map(str), ops.join(1, on="x")], "join comes behind an operator of Rx"),  # type: ignore[arg-type]
        ([ops.tumbling_window(2)], r"a window in a pipe has no result.*\.aggregate"),
        ([stream()], "pipe takes operators, got the stream.*union"),
        ([3], r"pipe takes operators of rxtemporal\.operators or of Rx, got 3"),
        ([hot], r"it asks for 'where', which streams have\. Hint: .*hot\(stream\)"),
    ],
)
def test_what_cannot_stand_in_a_pipe_is_refused(operators: list[Any], message: str) -> None:
    """With an error that says what to write instead."""
    with pytest.raises(rxt.ArgumentError, match=message):
        stream().pipe(*operators)


def test_a_window_in_the_pipe_of_an_observable_is_refused() -> None:
    """As in that of a stream; and a stream is not an observable to begin with."""
    with pytest.raises(rxt.ArgumentError, match="a window in a pipe has no result"):
        Subject[Any]().pipe(ops.tumbling_window(2))
    with pytest.raises(rxt.ArgumentError, match="is a stream already"):
        rxt.from_observable(stream())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "combine",
    [
        lambda a, b: rx.merge(a, b),
        lambda a, b: rx.zip(a, b),
        lambda a, b: rx.combine_latest(a, b),
        lambda a, b: a.to_observable(ctis=False).pipe(rx_ops.merge(b)),
        lambda a, b: a.to_observable(ctis=False).pipe(rx_ops.with_latest_from(b)),
        lambda a, b: rx.defer(lambda _: b),
        lambda a, b: ops.where(X > 0)(a),
        lambda a, b: rx.of(1).pipe(rx_ops.map(str), rx_ops.concat(b)),
    ],
)
def test_rx_cannot_subscribe_to_a_stream(combine: Callable[[Any, Any], Observable[Any]]) -> None:
    """Its operators are told which operator of the algebra does that, and which method is one."""
    errors: list[Exception] = []
    combine(stream(), stream()).subscribe(on_error=errors.append)
    [error] = errors
    assert isinstance(error, rxt.BindingError)
    assert "stream.union(other)" in str(error)
    assert "to_observable(ctis=False)" in str(error)


def test_subscribe_knows_its_arguments() -> None:
    """An argument that neither Rx nor a stream has is a TypeError as ever."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'shapes'"):
        stream().subscribe(print, shapes=1)
    with pytest.raises(rxt.BindingError, match="no observable"):
        stream().subscribe(print, scheduler=None)


@pytest.mark.parametrize("item", [EVENTS[0], rxt.Cti(4), {"x": 1}, None], ids=repr)
@pytest.mark.parametrize(
    "operator", [ops.where(X > 0), ops.join(Subject(), on="x")], ids=["where", "join"]
)
def test_operators_in_a_pipe_take_batches(operator: Any, item: Any) -> None:
    """Anything else is an error that names the operator, its line and the way to a stream."""
    items: Subject[Any] = Subject()
    errors: list[Exception] = []
    items.pipe(operator).subscribe(on_error=errors.append)
    items.on_next(item)
    items.on_next(item)
    [error] = errors
    text = str(error)
    assert "takes event batches, got" in text
    assert "rxt.from_observable(events)" in text
    assert "test_rx_pipe.py:" in text


def test_an_event_among_batches_is_refused_too() -> None:
    """Also when batches came before it."""
    items: Subject[Any] = Subject()
    errors: list[Exception] = []
    items.pipe(ops.where(X > 0)).subscribe(on_error=errors.append)
    items.on_next(rxt.EventBatch.from_dicts([{"start_time": 1, "x": 1}], cti=5))
    items.on_next(rxt.PointEvent(6, {"x": 1}))
    assert "takes event batches" in str(errors[0])


@pytest.mark.parametrize("name", ["payload", "end", "end_time"])
def test_a_cti_says_that_it_is_no_row(name: str) -> None:
    """A filter that reads the payload of a CTI is told what a CTI is, and how to leave it out."""
    errors: list[Exception] = []
    reading = rx_ops.filter(lambda event: getattr(event, name) is not None)
    stream(advance_time=rxt.INCREASING_START_TIME).to_observable().pipe(reading).subscribe(
        on_error=errors.append
    )
    [error] = errors
    assert isinstance(error, AttributeError)
    assert f"has no {name}: it is not a row" in str(error)
    assert "to_observable(ctis=False)" in str(error)
    assert not hasattr(rxt.Cti(1), "payload")
    with pytest.raises(AttributeError, match=r"no attribute 'x'$"):
        getattr(rxt.Cti(1), "x")  # noqa: B009


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        (rx_ops.debounce(1), "debounce"),
        (rx_ops.throttle_with_timeout(1), "debounce"),
        (rx_ops.sample(1), "sample"),
        (rx_ops.throttle_first(1), "throttle_first"),
    ],
)
def test_an_operator_that_drops_ctis_is_warned_of(operator: Any, name: str) -> None:
    """In front of a stream without settings, wherever it stands; the warning names this line."""
    events: Subject[Any] = Subject()
    before = events.pipe(operator, rx_ops.map(lambda item: item), rx_ops.share())
    with pytest.warns(RxTemporalWarning, match=f"{name} comes before the stream") as caught:
        rxt.from_observable(before)
    assert caught[0].filename == __file__


def test_no_warning_where_ctis_come() -> None:
    """With settings for its time a stream makes its own CTIs, and other operators drop none."""
    events: Subject[Any] = Subject()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rxt.from_observable(events.pipe(rx_ops.debounce(1)), advance_time=rxt.INCREASING_START_TIME)
        rxt.from_observable(events.pipe(rx_ops.map(str), rx_ops.delay(1)))
