"""Rx operators and streams: what a ``pipe`` makes of them, and what Rx is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reactivex import Observable, abc
from reactivex.disposable import Disposable

from rxtemporal.core.events import EventShape
from rxtemporal.core.safe_text import brief
from rxtemporal.errors import ArgumentError, BindingError
from rxtemporal.operators.operator import Branch, Chain, Operator, PartialOperator
from rxtemporal.operators.stream import Stream
from rxtemporal.operators.windows.plan import Windowed
from rxtemporal.query.runs import observe

_COMPOSED = (Operator, Chain, PartialOperator, Branch)


def pipe(stream: Stream, operators: Sequence[Any]) -> Any:
    """Return the stream, or from the first Rx operator on the observable, behind the operators."""
    for each in operators:
        _check(each)
    count = next((n for n, each in enumerate(operators) if not isinstance(each, _COMPOSED)), None)
    for each in operators[:count]:
        stream = stream._compose(each)
    if count is None:
        return stream
    for each in operators[count:]:
        if isinstance(each, _COMPOSED):
            raise ArgumentError(
                f"{_name(each)} comes behind an operator of Rx, which has sent its events on one "
                "by one and without CTIs. Hint: put the temporal operators first, or make a stream "
                "again: rxt.from_observable(events, advance_time=…)."
            )
    return _pipe_events(observe(stream, EventShape.INTERVAL, False, None), operators[count:])


def _pipe_events(events: Any, operators: Sequence[Any]) -> Any:
    for each in operators:
        try:
            events = each(events)
        except AttributeError as error:
            if not isinstance(error.obj, Observable):
                raise
            name = getattr(each, "__name__", "query")
            raise ArgumentError(
                f"pipe gave {name} an observable of events, and it asks for {error.name!r}, which "
                f"streams have. Hint: call a function of streams with the stream: {name}(stream)."
            ) from error
    return events


def _check(operator: Any) -> None:
    """Raise if this cannot stand in a pipe."""
    if isinstance(operator, Windowed):
        operator(None)
    if isinstance(operator, Stream | Observable):
        raise ArgumentError(
            f"pipe takes operators, got the stream {brief(operator)}. "
            "Hint: stream.union(other), or stream.join(other, on=…)."
        )
    if not callable(operator):
        raise ArgumentError(
            f"pipe takes operators of rxtemporal.operators or of Rx, got {brief(operator)}. "
            "Hint: stream.pipe(ops.where(…), rx_ops.map(…))."
        )


def _name(operator: Any) -> str:
    if isinstance(operator, Chain):
        return operator.operators[-1].name
    name = operator.operator.name if isinstance(operator, PartialOperator) else operator.name
    return str(name)


def refuse_subscription(
    on_next: Any, on_error: Any, arguments: Mapping[str, Any]
) -> abc.DisposableBase:
    """Send the error of an Rx operator that subscribes to a stream as if to an observable."""
    unknown = [name for name in arguments if name != "scheduler"]
    if unknown:
        raise TypeError(f"subscribe() got an unexpected keyword argument {unknown[0]!r}")
    error = BindingError(
        "an operator of Rx subscribes to a Streamable, which is a query and no observable. "
        "Hint: stream.union(other) merges two streams, and stream.join(other, …) combines them, by "
        "application time; stream.to_observable(ctis=False) is an observable of the results."
    )
    report = getattr(on_next, "on_error", on_error)
    if report is None:
        raise error
    # sent, not raised: some operators of Rx subscribe on a thread of their own
    report(error)
    return Disposable()
