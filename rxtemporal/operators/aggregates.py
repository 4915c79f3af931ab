"""Aggregates as descriptions: the field that each reads, its type, and the state that it makes."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any

import polars as pl

from rxtemporal.core.schema import declared_type
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators.expressions import check_row_by_row, infer_field_type

if TYPE_CHECKING:
    from rxtemporal.engine.steps.aggregates import RunningAggregate
    from rxtemporal.engine.steps.window_rows import ListedAggregate

if TYPE_CHECKING:
    from rxtemporal.engine.steps.aggregates import RunningAggregate
    from rxtemporal.engine.steps.window_rows import ListedAggregate


class Aggregate:
    """One aggregate, of a field or of an expression computed row by row."""

    reads: pl.Expr | None = None

    def check(self) -> None:
        """Refuse what is wrong of itself, whatever fields there are."""

    def dtype(self, schema: pl.Schema) -> pl.DataType:
        """Return the result's type for rows of this schema; refuse what has no such aggregate."""
        raise NotImplementedError

    def make(self, name: str, schema: pl.Schema) -> RunningAggregate | ListedAggregate | None:
        """Return a new state for this aggregate; None for the count of rows, which needs none."""
        raise NotImplementedError


def parse_field(field: Any, who: str) -> pl.Expr:
    """Return what an aggregate reads: a field by its name, or an expression of each row."""
    if isinstance(field, str):
        return pl.col(field)
    if isinstance(field, pl.Expr):
        return check_row_by_row(field, f"agg.{who}")
    raise ArgumentError(f"agg.{who} takes a field's name or a polars expression, got {field!r}")


class _UserCode(Aggregate):
    """Common part of users' own aggregates: the field that they read, and their type."""

    _dtype: Any = None

    def __init__(self, field: str | pl.Expr | None = None, *, dtype: Any = None) -> None:
        self.reads = None if field is None else parse_field(field, type(self).__name__)
        if dtype is not None:
            self._dtype = dtype

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.reads is None else self.reads})"

    def _says(self) -> Any:
        """Return the function whose annotation tells the result's type."""
        raise NotImplementedError

    def check(self) -> None:
        """Refuse a class that lacks a function, or does not tell what type it gives."""
        self._check_type()

    def dtype(self, schema: pl.Schema) -> pl.DataType:
        if self.reads is not None:
            infer_field_type(self.reads, schema)
        return self._check_type()

    def _check_type(self) -> pl.DataType:
        given, says = self._dtype, self._says()
        if given is None:
            try:
                given = typing.get_type_hints(says).get("return")
            except NameError:  # an annotation that names what is not there at run time
                given = None
        if given is None or given is Any:
            raise SchemaError(
                f"the type of {self!r} is not known. "
                "Hint: give dtype=float (or a polars type), or annotate what it returns."
            )
        # kept, since what annotations name is not there any more in a process that it is sent to
        dtype = self._dtype = declared_type(repr(self), given)
        return dtype


class UserDefinedAggregate(_UserCode):
    """An aggregate of your own: a class with ``compute``, or with four incremental functions.

    ``compute(values)`` gets the values of ``field`` that are not null (or, without a field, the
    payloads as dicts) of each window, in order of (start, payload), and returns one value. Or:
    ``init()`` gives a state, ``add(state, value)`` and ``remove(state, value)`` return the state
    with a value more or less, ``result(state)`` the value: for windows that share rows this costs
    what changes. ``remove(add(s, x), x)`` has to be ``s``. A state that is to be saved is made of
    numbers, strings, times, lists, tuples, dicts and sets. The type of the result is ``dtype``, or
    what ``compute`` or ``result`` is annotated with.

    >>> import rxtemporal as rxt
    >>> from rxtemporal import agg
    >>> class Spread(agg.UserDefinedAggregate):
    ...     def compute(self, values: list[int]) -> int:
    ...         ordered = sorted(values)
    ...         return ordered[-1] - ordered[0]
    >>> readings = rxt.from_events([rxt.PointEvent(1, 20), rxt.PointEvent(2, 27)])
    >>> readings.tumbling_window(10).aggregate(spread=Spread("payload")).to_events()
    [IntervalEvent(0, 10, {'spread': 7})]
    """

    def compute(self, values: list[Any]) -> Any:
        """Return the value of a window."""
        raise NotImplementedError

    def init(self) -> Any:
        """Return the state over no rows."""
        raise NotImplementedError

    def add(self, state: Any, value: Any) -> Any:
        """Return the state with a value more."""
        raise NotImplementedError

    def remove(self, state: Any, value: Any) -> Any:
        """Return the state with a value less."""
        raise NotImplementedError

    def result(self, state: Any) -> Any:
        """Return the value of a state."""
        raise NotImplementedError

    @property
    def _incremental(self) -> bool:
        four = ("init", "add", "remove", "result")
        own = [name for name in four if _own(self, name, UserDefinedAggregate)]
        plain = _own(self, "compute", UserDefinedAggregate)
        if plain == (len(own) == len(four)) or (own and len(own) < len(four)):
            missing = ", ".join(name for name in four if name not in own)
            raise ArgumentError(
                f"{type(self).__name__} needs either compute, or all of init, add, remove and "
                f"result{f' (missing: {missing})' if own and missing else ''}"
            )
        return not plain

    def _says(self) -> Any:
        return self.result if self._incremental else self.compute

    def make(self, name: str, schema: pl.Schema) -> RunningAggregate | ListedAggregate:
        """Return a new state for this aggregate."""
        from rxtemporal.engine.steps.user_windows import IncrementalAggregate, WindowAggregate

        if self._incremental:
            return IncrementalAggregate(self, self.reads, name, self.dtype(schema))
        return WindowAggregate(self.compute, self.reads, self.dtype(schema), sensitive=False)


class TimeSensitiveAggregate(_UserCode):
    """An aggregate of your own that sees lifetimes: ``compute(events, window)`` returns one value.

    ``events`` are the window's rows as interval events, lifetimes clipped to the window, payloads
    as dicts; ``window`` has ``start`` and ``end``; all times are ticks. It needs the window's end:
    on a snapshot window the CTI waits at the start of the oldest snapshot that has not ended. A
    ``field`` only picks what ``event.payload`` is: its value in place of the dict.

    >>> import rxtemporal as rxt
    >>> from rxtemporal import agg
    >>> class Weighted(agg.TimeSensitiveAggregate):
    ...     def compute(self, events: list[rxt.IntervalEvent], window) -> float:
    ...         length = window.end - window.start
    ...         total = 0.0
    ...         for event in events:
    ...             total += (event.end - event.start) * event.payload["x"]
    ...         return total / length
    >>> rows = rxt.from_events([rxt.IntervalEvent(0, 5, {"x": 2.0})])
    >>> rows.tumbling_window(10).aggregate(mean=Weighted()).to_events()
    [IntervalEvent(0, 10, {'mean': 1.0})]
    """

    def compute(self, events: list[Any], window: Any) -> Any:
        """Return the value of a window."""
        raise NotImplementedError

    def _says(self) -> Any:
        if not _own(self, "compute", TimeSensitiveAggregate):
            raise ArgumentError(f"{type(self).__name__} needs compute(events, window)")
        return self.compute

    def make(self, name: str, schema: pl.Schema) -> ListedAggregate:
        """Return a new state for this aggregate."""
        from rxtemporal.engine.steps.user_windows import WindowAggregate

        return WindowAggregate(self.compute, self.reads, self.dtype(schema), sensitive=True)


def _own(user: Any, name: str, base: type) -> bool:
    return getattr(type(user), name) is not getattr(base, name)
