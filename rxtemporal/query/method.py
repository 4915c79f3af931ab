"""Operators as methods of a stream, with the operator's signature and docstring."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

from rxtemporal.operators.operator import Chain
from rxtemporal.operators.stream import Composed, Stream
from rxtemporal.operators.windows.plan import Windowed

P = ParamSpec("P")
S = TypeVar("S", bound=Stream)


class StreamMethod(Protocol[P]):
    """A method with the parameters of an operator, which returns a stream."""

    @overload
    def __get__(self, stream: None, owner: type[S], /) -> Callable[Concatenate[S, P], S]: ...
    @overload
    def __get__(self, stream: S, owner: type[S], /) -> Callable[P, S]: ...


class WindowMethod(Protocol[P]):
    """A method with the parameters of a window operator, which returns windows of the stream."""

    @overload
    def __get__(
        self, stream: None, owner: type[S], /
    ) -> Callable[Concatenate[S, P], Windowed[S]]: ...
    @overload
    def __get__(self, stream: S, owner: type[S], /) -> Callable[P, Windowed[S]]: ...


def method(operator: Callable[P, Composed]) -> StreamMethod[P]:
    """Return a method that applies an operator to a stream."""

    signature = inspect.signature(operator)

    def compose(stream: Stream, /, *args: P.args, **kwargs: P.kwargs) -> Stream:
        _check_call(operator, signature, args, kwargs)
        return stream._compose(operator(*args, **kwargs))

    return cast("StreamMethod[P]", _describe(compose, operator, signature, "Self"))


def window_method(operator: Callable[P, Windowed[Chain]]) -> WindowMethod[P]:
    """Return a method that applies a window operator to a stream."""

    signature = inspect.signature(operator)

    def compose(stream: Stream, /, *args: P.args, **kwargs: P.kwargs) -> Windowed[Stream]:
        _check_call(operator, signature, args, kwargs)
        return operator(*args, **kwargs).bind(stream._compose)

    return cast("WindowMethod[P]", _describe(compose, operator, signature, "Windowed[Self]"))


def _check_call(
    operator: Callable[..., Any], signature: inspect.Signature, args: Any, kwargs: Any
) -> None:
    """Raise a TypeError that shows the signature if the arguments do not fit it."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        # imported here: only a mistake needs it
        from rxtemporal.query.wrong_calls import make_call_error

        raise make_call_error(operator.__name__, signature, str(error), kwargs) from None


def _describe(
    compose: Callable[..., Any],
    operator: Callable[..., Any],
    signature: inspect.Signature,
    result: str,
) -> Callable[..., Any]:
    """Give a method the name, docstring and signature of its operator."""
    stream = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    taken = [stream, *signature.parameters.values()]
    functools.update_wrapper(compose, operator)
    vars(compose)["__signature__"] = signature.replace(parameters=taken, return_annotation=result)
    return compose
