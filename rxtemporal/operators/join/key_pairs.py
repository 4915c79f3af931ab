"""Keys by which the rows of two streams are matched: pairs of fields, or of expressions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeAlias

import polars as pl

from rxtemporal.errors import ArgumentError
from rxtemporal.operators.expressions import check_row_by_row
from rxtemporal.operators.operator import Operator, PartialOperator, TwoInputs
from rxtemporal.operators.row_times import WithoutFields, surround
from rxtemporal.operators.where import Select

Key: TypeAlias = str | pl.Expr
On: TypeAlias = str | Sequence[Key | tuple[Key, Key]] | Mapping[str, Key] | None


def read_pairs(on: Any, operator: str) -> tuple[tuple[str, str], ...]:
    """Return ``on`` as pairs of a left and a right field."""
    pairs = _list_pairs(on, operator)
    if not all(isinstance(name, str) for pair in pairs for name in pair):
        raise _make_error(on, operator)
    return tuple((str(left), str(right)) for left, right in pairs)


def _list_pairs(on: Any, operator: str) -> list[tuple[Key, Key]]:
    """Return ``on`` as pairs of a left and a right key."""
    if on is None:
        return []
    if isinstance(on, str):
        on = [on]
    # other iterables have no order, such as a set
    named = on if isinstance(on, Sequence) else ()
    pairs = list(on.items()) if isinstance(on, Mapping) else [_to_pair(key) for key in named]
    keys = [key for pair in pairs for key in pair]
    if not pairs or len(keys) != 2 * len(pairs) or not all(isinstance(k, Key) for k in keys):
        raise _make_error(on, operator)
    if len({(str(left), str(right)) for left, right in pairs}) < len(pairs):
        raise ArgumentError(f"{operator}: on names a pair of fields twice: {on!r}")
    return pairs


def _to_pair(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key, key)


def _make_error(on: Any, operator: str) -> ArgumentError:
    return ArgumentError(
        f"{operator}: on is a field's name, names, or a mapping left -> right, got {on!r}. "
        "Hint: a predicate of both sides goes into where=; cross_join means every pair."
    )


@dataclasses.dataclass(frozen=True)
class KeyPairs:
    """Pairs of fields, and expressions that are computed as such fields in front of the match.

    Those fields are dropped behind it. ``computed`` are those of the left and the right input.
    """

    names: tuple[tuple[str, str], ...]
    computed: tuple[tuple[pl.Expr, ...], tuple[pl.Expr, ...]] = ((), ())

    @classmethod
    def read(cls, on: Any, operator: str) -> Self:
        """Return ``on``, checked."""
        names: list[tuple[str, str]] = []
        computed: tuple[list[pl.Expr], list[pl.Expr]] = ([], [])
        for left, right in _list_pairs(on, operator):
            # of one name if both are computed, so that the two appear once
            both = isinstance(left, pl.Expr) and isinstance(right, pl.Expr)
            shown = str(left), str(left if both else right)
            names.append(shown)
            for side, key in enumerate((left, right)):
                if isinstance(key, pl.Expr):
                    computed[side].append(check_row_by_row(key, operator).alias(shown[side]))
        return cls(tuple(names), (tuple(computed[0]), tuple(computed[1])))

    def bind(self, operator: TwoInputs, other: Any) -> PartialOperator:
        """Return an operator bound to its right input, with what comes before and behind it."""
        fields = dict.fromkeys(key.meta.output_name() for side in self.computed for key in side)
        after = (WithoutFields(fields=tuple(fields)),) if fields else ()
        left, right = (_compute(side) for side in self.computed)
        return PartialOperator(operator, other, (left, right), after)


def _compute(keys: tuple[pl.Expr, ...]) -> tuple[Operator, ...]:
    return surround(keys, Select(expressions=keys, adds=True)) if keys else ()
