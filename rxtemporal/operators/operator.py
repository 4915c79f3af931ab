"""What an operator is: a frozen description, validated when composed, that makes steps."""

from __future__ import annotations

import dataclasses
from functools import reduce

import polars as pl
from reactivex import Observable

from rxtemporal.batch import EventBatch
from rxtemporal.errors import blame
from rxtemporal.seam import composed_at, lift
from rxtemporal.steps.step import Step

__all__ = ["Chain", "Operator"]

Keys = tuple[str, ...]


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Operator:
    """One temporal operator, as a value that works in ``pipe`` and in a plan.

    It has no state: each subscription makes a step of its own.
    """

    line: str = dataclasses.field(default_factory=composed_at, repr=False)

    @property
    def name(self) -> str:
        """The operator's name, as users type it."""
        raise NotImplementedError

    @property
    def cti_rule(self) -> str:
        """The output CTI for an input CTI ``t``, for people."""
        return "t"

    @property
    def place(self) -> str:
        """What an error is blamed on: the operator and the line that composed it."""
        return f"in {self.name}, composed at {self.line}"

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the schema that comes out for the one that goes in; raise if it does not fit."""
        raise NotImplementedError

    def keys_after(self, keys: Keys) -> Keys:
        """Return what the stream is grouped by afterwards."""
        return keys

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step for streams of this schema."""
        raise NotImplementedError

    def checked(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return ``output``, and blame this operator where it raises."""
        try:
            return self.output(schema, keys)
        except Exception as error:
            raise blame(error, self.place) from error.__cause__

    def __call__(self, source: Observable[EventBatch]) -> Observable[EventBatch]:
        """Return the observable of what this operator makes of a source's batches."""
        return lift(self._make_checked, self.place)(source)

    def _make_checked(self, batch: EventBatch) -> Step:
        self.output(batch.schema, batch.keys)
        return self.make(batch.schema, batch.keys)


@dataclasses.dataclass(frozen=True)
class Chain:
    """Operators one after the other, as one value."""

    operators: tuple[Operator, ...]

    def __call__(self, source: Observable[EventBatch]) -> Observable[EventBatch]:
        """Return the observable of what all of them make of a source's batches."""
        return reduce(lambda stream, operator: operator(stream), self.operators, source)
