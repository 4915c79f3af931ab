"""Operators as methods of a stream, with the operator's signature and docstring."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

from rxtemporal.operators.operator import Chain
from rxtemporal.operators.stream import Composed, Stream
from rxtemporal.operators.windows import Windowed

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

    def compose(stream: Stream, /, *args: P.args, **kwargs: P.kwargs) -> Stream:
        return stream._compose(operator(*args, **kwargs))

    return cast("StreamMethod[P]", _describe(compose, operator, "Self"))


def window_method(operator: Callable[P, Windowed[Chain]]) -> WindowMethod[P]:
    """Return a method that applies a window operator to a stream."""

    def compose(stream: Stream, /, *args: P.args, **kwargs: P.kwargs) -> Windowed[Stream]:
        return operator(*args, **kwargs).bind(stream._compose)

    return cast("WindowMethod[P]", _describe(compose, operator, "Windowed[Self]"))


def _describe(
    compose: Callable[..., Any], operator: Callable[..., Any], result: str
) -> Callable[..., Any]:
    """Give a method the name, docstring and signature of its operator."""
    signature = inspect.signature(operator)
    stream = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    taken = [stream, *signature.parameters.values()]
    functools.update_wrapper(compose, operator)
    vars(compose)["__signature__"] = signature.replace(parameters=taken, return_annotation=result)
    return compose
