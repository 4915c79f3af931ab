"""Descriptions of aggregates: the field that each reads, its type, and a factory of its state."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any

import polars as pl

from rxtemporal.core.schema import declared_type
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators.expressions import check_row_by_row, infer_field_type

if TYPE_CHECKING:
    from rxtemporal.operators.windows.aggregates import RunningAggregate
    from rxtemporal.operators.windows.rows import ListedAggregate

if TYPE_CHECKING:
    from rxtemporal.operators.windows.aggregates import RunningAggregate
    from rxtemporal.operators.windows.rows import ListedAggregate


class Aggregate:
    """One aggregate, of a field or of an expression computed row by row."""

    reads: pl.Expr | None = None

    def check(self) -> None:
        """Raise an error if this aggregate is invalid for every schema."""

    def dtype(self, schema: pl.Schema) -> pl.DataType:
        """Return the type of the result for rows of this schema; raise if it is not defined."""
        raise NotImplementedError

    def make(self, name: str, schema: pl.Schema) -> RunningAggregate | ListedAggregate | None:
        """Return a new state for this aggregate; None for the count of rows, which needs none."""
        raise NotImplementedError


def parse_field(field: Any, who: str) -> pl.Expr:
    """Return the expression that an aggregate reads, from a field's name or an expression."""
    if isinstance(field, str):
        return pl.col(field)
    if isinstance(field, pl.Expr):
        return check_row_by_row(field, f"agg.{who}")
    raise ArgumentError(f"agg.{who} takes a field's name or a polars expression, got {field!r}")


class _UserCode(Aggregate):
    """Base class of user-defined aggregates: the field that they read, and their type."""

    _dtype: Any = None

    def __init__(self, field: str | pl.Expr | None = None, *, dtype: Any = None) -> None:
        self.reads = None if field is None else parse_field(field, type(self).__name__)
        if dtype is not None:
            self._dtype = dtype

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.reads is None else self.reads})"

    def _says(self) -> Any:
        """Return the function whose return annotation is the type of the result."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise an error if a function is missing or the type of the result is unknown."""
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
            except NameError:  # the annotation names something that does not exist at run time
                given = None
        if given is None or given is Any:
            raise SchemaError(
                f"the type of {self!r} is not known. "
                "Hint: give dtype=float (or a polars type), or annotate the return type."
            )
        # stored, since another process cannot resolve the names in annotations
        dtype = self._dtype = declared_type(repr(self), given)
        return dtype


class UserDefinedAggregate(_UserCode):
    """Base class of your own aggregates, with ``compute`` or with four incremental functions.

    ``compute(values)`` takes the values of ``field`` that are not null (or, without a field, the
    payloads as dicts) in one window, in order of (start, payload), and returns one value.

    The incremental functions cost only what changes between windows: ``init()`` returns a state,
    ``add(state, value)`` and ``remove(state, value)`` return the state with one value more or less,
    and ``result(state)`` returns the value. ``remove(add(s, x), x)`` must equal ``s``. To be saved,
    a state must consist of numbers, strings, times, lists, tuples, dicts and sets.

    The type of the result is ``dtype``, or the return annotation of ``compute`` or ``result``.

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
        """Return the state for no rows."""
        raise NotImplementedError

    def add(self, state: Any, value: Any) -> Any:
        """Return the state with one value added."""
        raise NotImplementedError

    def remove(self, state: Any, value: Any) -> Any:
        """Return the state with one value removed."""
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
        from rxtemporal.operators.windows.user_functions import (
            IncrementalAggregate,
            WindowAggregate,
        )

        if self._incremental:
            return IncrementalAggregate(self, self.reads, name, self.dtype(schema))
        return WindowAggregate(self.compute, self.reads, self.dtype(schema), sensitive=False)


class TimeSensitiveAggregate(_UserCode):
    """Base class of your own aggregates that see lifetimes; override ``compute``.

    ``compute(events, window)`` returns one value. ``events`` are the rows of the window as interval
    events, with lifetimes clipped to the window and payloads as dicts; ``window`` has ``start`` and
    ``end``; all times are ticks. The end of the window must be known: on a snapshot window the CTI
    is held at the start of the oldest snapshot that has not ended. With ``field``,
    ``event.payload`` is the value of that field instead of the dict.

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
        from rxtemporal.operators.windows.user_functions import WindowAggregate

        return WindowAggregate(self.compute, self.reads, self.dtype(schema), sensitive=True)


def _own(user: Any, name: str, base: type) -> bool:
    return getattr(type(user), name) is not getattr(base, name)
