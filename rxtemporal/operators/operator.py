"""Operators: frozen descriptions, validated when composed, that make steps."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

import polars as pl

from rxtemporal.core.batch import EventBatch, Groups
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.errors import ArgumentError, SchemaError, blame
from rxtemporal.operators import expressions
from rxtemporal.operators.partition_keys import PartitionRule, partition_by_row

if TYPE_CHECKING:
    from reactivex import Observable

    from rxtemporal.engine.steps.step import Step, TwoInputStep
    from rxtemporal.reactive.meters import Gauge

Keys = tuple[str, ...]

_PACKAGE = __name__.partition(".")[0]


def composing_line() -> str:
    """Return ``file:line`` of the nearest caller outside of this package: who composes a query."""
    frame = sys._getframe(1)
    # by module, for the methods that dataclasses make are in no file
    while (
        frame.f_back is not None
        and str(frame.f_globals.get("__name__")).partition(".")[0] == _PACKAGE
    ):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class _Description:
    """Common part of operators of one and of two inputs.

    An operator has no state: each subscription makes a step of its own.
    """

    line: str = dataclasses.field(default_factory=composing_line, repr=False)

    @property
    def name(self) -> str:
        """The operator's name, as users type it."""
        raise NotImplementedError

    @property
    def cti_rule(self) -> str:
        """The output CTI for an input CTI ``t``, for people."""
        return "t"

    @property
    def holds(self) -> str:
        """The rows that a step of this operator holds, and until when, for people."""
        return "nothing"

    @property
    def place(self) -> str:
        """The place that an error names: the operator and the line that composed it."""
        return f"in {self.name}, composed at {self.line}"

    @property
    def passes_time(self) -> bool:
        """True if the output CTI is the input's as long as no row has come."""
        return True

    def fingerprint(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> str:
        """Return a text that differs from that of any other operator, or over other fields."""
        fields = "; ".join(
            ", ".join(f"{name} {dtype}" for name, dtype in schema.items()) for schema in schemas
        )
        return f"{self.name}({_settings(self)}) over ({fields}) by {list(keys)}"

    def keys_after(self, keys: Keys) -> Keys:
        """Return what the stream is grouped by afterwards."""
        return keys

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return which rows of inputs of these schemas have to be in one place.

        Every operator says so itself: a plan that is split where it must not be is wrong silently.
        """
        raise NotImplementedError


def _settings(described: Any) -> str:
    fields = [f.name for f in dataclasses.fields(described) if f.name != "line"]
    return ", ".join(f"{name}={_describe(getattr(described, name))}" for name in fields)


def _describe(value: Any) -> str:
    """Return a setting of an operator as text that is the same in another process."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return f"{type(value).__name__}({_settings(value)})"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_describe, value))}]"
    if isinstance(value, pl.Expr):
        return expressions.describe(value)
    if callable(value):
        return str(getattr(value, "__qualname__", type(value).__qualname__))
    if " at 0x" in repr(value):  # where it happens to lie says nothing
        return type(value).__qualname__
    return repr(value)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Operator(_Description):
    """One temporal operator, as a value that works in ``pipe`` and in a plan."""

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the schema that comes out for the one that goes in; raise if it does not fit."""
        return schema

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step for streams of this schema.

        Steps are imported here, so that only a query that runs loads them and their kernels.
        """
        raise NotImplementedError

    def step(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step that knows what it is made for, and loads no other one's state."""
        step = self.make(schema, keys)
        step.made_for = self.fingerprint((schema,), keys)
        return step

    def check(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return ``output``, and blame this operator where it raises."""
        try:
            return self.output(schema, keys)
        except Exception as error:
            raise blame(error, self.place) from error.__cause__

    def __call__(
        self, source: Observable[EventBatch], gauge: Gauge | None = None
    ) -> Observable[EventBatch]:
        """Return the observable of what this operator makes of a source's batches.

        ``gauge`` counts what passes.
        """
        from rxtemporal.reactive.lift import lift

        return lift(self._check_and_make, self.place, passes_time=self.passes_time)(source, gauge)

    def _check_and_make(self, batch: EventBatch) -> Step:
        self.output(batch.schema, batch.keys)
        return self.step(batch.schema, batch.keys)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class RowOperator(Operator):
    """An operator that looks at each row by itself, and keeps its payload."""

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Any row may be anywhere."""
        return partition_by_row(schemas[0])


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class TwoInputs(_Description):
    """One temporal operator of two streams, both ungrouped or grouped by the same keys."""

    @property
    def cti_rule(self) -> str:
        """The promise of both inputs."""
        return "the lower of the two"

    def output(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the schema that comes out for those that go in; raise if they do not fit."""
        raise NotImplementedError

    def make(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> TwoInputStep:
        """Return a new step for streams of these schemas, grouped by ``keys``."""
        raise NotImplementedError

    def step(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> TwoInputStep:
        """Return a new step that knows what it is made for, and loads no other one's state."""
        step = self.make(left, right, keys)
        step.made_for = self.fingerprint((left, right), keys)
        return step

    def check(self, left: pl.Schema, right: pl.Schema, keys: Keys, others: Keys) -> pl.Schema:
        """Return ``output``, and blame this operator where it raises."""
        try:
            return self._output(left, right, keys, others)
        except Exception as error:
            raise blame(error, self.place) from error.__cause__

    def _output(self, left: pl.Schema, right: pl.Schema, keys: Keys, others: Keys) -> pl.Schema:
        if keys != others:
            raise SchemaError(
                f"{self.name} takes two streams grouped by the same keys, or by none, and these "
                f"are grouped by {list(keys)} and {list(others)}. "
                "Hint: ungroup() both and give the keys in on=."
            )
        return self.output(left, right, keys)

    def __call__(
        self,
        left: Observable[EventBatch],
        right: Observable[EventBatch],
        gauge: Gauge | None = None,
    ) -> Observable[EventBatch]:
        """Return the observable of what this operator makes of two sources' batches.

        ``gauge`` counts what passes.
        """
        from rxtemporal.reactive.lift_two import lift_two

        return lift_two(self._check_and_make, self.place, self.make_absent)(left, right, gauge)

    def assume_fields(self, missing: int, known: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the fields of an input (0 or 1) that ends without ever having shown any."""
        return known

    def make_absent(self, missing: int, known: EventBatch) -> EventBatch:
        """Return an empty batch of an input that ends without ever having shown its fields."""
        schema = self.assume_fields(missing, known.schema, known.keys)
        empty = EventBatch.empty(schema, MIN_TIME)
        if known.groups is None:
            return empty
        from rxtemporal.engine.keys import KeyCoder

        coder = KeyCoder({key: schema[key] for key in known.keys})
        return empty.replace(groups=Groups(empty.start, coder))

    def _check_and_make(self, left: EventBatch, right: EventBatch) -> TwoInputStep:
        self._output(left.schema, right.schema, left.keys, right.keys)
        return self.step(left.schema, right.schema, left.keys)


@dataclasses.dataclass(frozen=True)
class Beside:
    """An operator of two inputs and its right one, as a value for the left one."""

    operator: TwoInputs
    other: Any

    def __call__(self, source: Observable[EventBatch]) -> Observable[EventBatch]:
        """Return what the operator makes of a source's batches and the other's."""
        if not hasattr(self.other, "pipe"):
            raise ArgumentError(
                f"{self.operator.name} in a pipe takes another observable of batches, got "
                f"{self.other!r}. Hint: two Streamables are joined by the method of that name."
            )
        return self.operator(source, self.other)


@dataclasses.dataclass(frozen=True)
class Chain:
    """Operators one after the other, as one value."""

    operators: tuple[Operator, ...]

    def __call__(self, source: Observable[EventBatch]) -> Observable[EventBatch]:
        """Return the observable of what all of them make of a source's batches."""
        return reduce(lambda stream, operator: operator(stream), self.operators, source)


@dataclasses.dataclass(frozen=True)
class Branch:
    """A function from a stream to a stream, as one value; ``end`` is the operator that follows."""

    name: str
    function: Callable[[Any], Any]
    end: Operator | None = None
    cti_rule = "the branch's"
    holds = "what the branch holds"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ArgumentError(
                f"{self.name} takes a function from a stream to a stream, got {self.function!r}"
            )

    def __call__(self, source: Observable[EventBatch]) -> Observable[EventBatch]:
        """Return the observable of what the function makes of a source, which is read once."""
        from reactivex import operators as rx_operators

        result = source.pipe(rx_operators.publish(self.function))
        return result if self.end is None else self.end(result)
