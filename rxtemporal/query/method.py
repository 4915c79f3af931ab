"""Operators as methods of a stream, and errors for calls that a stream does not understand."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

from rxtemporal.operators.operator import Chain
from rxtemporal.operators.stream import Composed, Stream
from rxtemporal.operators.windows.plan import Windowed

_AFTER_WINDOW = (
    "say first over which windows: .tumbling_window('1m'), .hopping_window('5m', '1m') or "
    ".snapshot_window(), and then .{name}(…)."
)
_AGGREGATE = (
    "aggregates are computed over windows: .tumbling_window('1m').aggregate(x=agg.{name}(…))."
)
HINTS = {
    **dict.fromkeys(("aggregate", "top_k"), _AFTER_WINDOW),
    "agg": _AFTER_WINDOW.replace("{name}", "aggregate"),
    **dict.fromkeys(("count", "sum", "min", "max", "mean", "avg", "std", "var"), _AGGREGATE),
    **dict.fromkeys(("first", "last", "quantile"), _AGGREGATE),
    "median": "over windows: .tumbling_window('1m').aggregate(x=agg.quantile('field', 0.5)).",
    "filter": ".where(pl.col('x') > 1) keeps rows.",
    "map": ".select(…) or .with_columns(…) compute fields.",
    "flat_map": ".explode('field') makes rows of a list; .apply(…) follows a window.",
    "rename": ".select(new=pl.col('old')) renames fields.",
    **dict.fromkeys(("window", "windows"), ".tumbling_window('1m') and its like make windows."),
    "sliding_window": ".hopping_window2('5m', '1m'), or .extend_lifetime('5m').snapshot_window().",
    **dict.fromkeys(("groupby", "key_by", "keyBy", "partition_by"), ".group_by('field')."),
    **dict.fromkeys(("merge", "concat", "union_all"), ".union(other) has the rows of both."),
    **dict.fromkeys(("sort", "order_by", "orderBy"), "results are in order of start already."),
    **dict.fromkeys(("limit", "take"), ".head(n) has the first n rows."),
    "print": ".show() prints a table, .subscribe(print) each result as it comes.",
    **dict.fromkeys(("to_list", "to_dicts"), ".to_events(), or .to_polars().to_dicts()."),
    "toPandas": ".to_pandas().",
    **dict.fromkeys(("execute", "start"), ".to_polars() runs a query to its end."),
    **dict.fromkeys(("to_csv", "write_csv", "to_json", "to_parquet"), ".run(rxt.File('out.csv'))."),
    **dict.fromkeys(("watermark", "with_watermark", "withWatermark"),
                    "advance_time='5m' where the stream is made says how late events may be."),
    **dict.fromkeys(("lag", "diff", "shift"), ".group_by('k').previous('x') gives the row before."),
    **dict.fromkeys(("left_join", "outer_join"), ".left_outer_join(other, on=…)."),
    **dict.fromkeys(("asof_join", "join_asof"), ".join(other.to_signal(on='k'), on='k')."),
    **dict.fromkeys(("why", "why_not"), "rxt.{name}(query, …) is a function."),
    **dict.fromkeys(("debounce", "throttle"), ".session_window('5s') sees bursts of events."),
}  # fmt: skip


def make_unknown_method_error(name: str, methods: Iterable[str]) -> AttributeError:
    """Return the error for a method that a stream does not have."""
    public = [each for each in methods if not each.startswith("_")]
    if name in HINTS:
        hint = HINTS[name].replace("{name}", name)
    elif near := difflib.get_close_matches(name, public, 1):
        hint = f"did you mean .{near[0]}?"
    else:
        hint = "docs/algebra.md lists the operators."
    return AttributeError(f"a stream has no {name!r}. Hint: {hint}")


# names of parameters in other systems, and in some of them values, and what to write here
_PARAMETERS = {
    **dict.fromkeys(("size", "length", "width", "window"), "duration"),
    **dict.fromkeys(("slide", "step", "hop", "every", "advance"), "period"),
    **dict.fromkeys(("gap", "inactivity", "idle"), "timeout"),
    **dict.fromkeys(("offset", "origin", "phase"), "alignment"),
    **dict.fromkeys(("by", "key", "keys", "left_on", "right_on"), "on"),
    **dict.fromkeys(("condition", "predicate"), "where"),
    **dict.fromkeys(("function", "func", "f"), "fn"),
}
_JOINS = {
    **dict.fromkeys(("left", "leftouter", "left_outer"), "left_outer_join"),
    **dict.fromkeys(("outer", "full", "fullouter", "full_outer"), "full_outer_join"),
    **dict.fromkeys(("anti", "leftanti", "left_anti"), "left_anti_join"),
    "cross": "cross_join",
    "inner": "join",
}


def make_call_error(
    name: str, signature: inspect.Signature, reason: str, named: Mapping[str, Any]
) -> TypeError:
    """Return the error for arguments that do not fit an operator's signature."""
    shown = signature.replace(
        parameters=[_shorten(each) for each in signature.parameters.values()],
        return_annotation=inspect.Signature.empty,
    )
    unknown = {each: value for each, value in named.items() if each not in signature.parameters}
    if unknown:
        reason = f"does not take {', '.join(f'{each}=' for each in unknown)}"
    hints = [
        hint
        for given, value in unknown.items()
        if (hint := _hint_argument(given, value, signature))
    ]
    if name == "where" and unknown:
        hints += [f"where(pl.col({each!r}) == {value!r})" for each, value in unknown.items()]
    if name == "hopping_window" and not named:
        hints.append("windows that follow each other without overlap are tumbling_window(duration)")
    hint = f" Hint: {'; '.join(hints)}." if hints else ""
    return TypeError(f"{name}() {reason}. Its signature is {name}{shown}.{hint}")


def _shorten(parameter: inspect.Parameter) -> inspect.Parameter:
    plain = parameter.replace(annotation=inspect.Parameter.empty)
    if isinstance(parameter.default, Enum):
        return plain.replace(default=_Shown(str(parameter.default)))
    return plain


class _Shown(str):
    """A default value as it is typed."""

    def __repr__(self) -> str:
        return str(self)


def _hint_argument(given: str, value: Any, signature: inspect.Signature) -> str:
    if given == "how":
        method = _JOINS.get(str(value).lower())
        return f"how={value!r} is the method {method}(…)" if method else ""
    meant = _PARAMETERS.get(given, "")
    if given == "every" and "period" not in signature.parameters:
        meant = "duration"
    if meant not in signature.parameters:
        near = difflib.get_close_matches(given, signature.parameters, 1)
        meant = near[0] if near else ""
    return f"{given}= is {meant}= here" if meant else ""


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
