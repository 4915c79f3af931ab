"""Registers: what conditions ask about the rows matched so far, kept for each node of a way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rxtemporal.core.batch import Bools, Int64s
from rxtemporal.core.columns import Column, Nullable
from rxtemporal.errors import SchemaError
from rxtemporal.operators.detect.functions import Function, list_functions
from rxtemporal.operators.detect.layout import NODE_PARENT, NODE_ROW, REGISTERS
from rxtemporal.operators.detect.row_values import RowValues
from rxtemporal.operators.detect.settings import DetectSettings
from rxtemporal.operators.windows.field_values import read_floats, read_integers, read_valid

Array = npt.NDArray[Any]


class Register(NamedTuple):
    """A number kept for each node.

    ``kind``: of the variable's rows the ``first`` one, or the one with the ``min`` or ``max`` of a
    field, as a row; the node of the ``last`` one; the ``count`` of rows, or of values that are not
    null; their ``sum``.
    """

    kind: str
    variable: int
    field: str | None = None


class Ways(NamedTuple):
    """Ways that end with a node (-1: none) and the row that they take next, as a variable."""

    node: Int64s
    variable: Int64s
    row: Int64s
    first: Int64s


class Registers:
    """The registers that the conditions need, in the last columns of the nodes.

    A sum of floats is there by its bits.
    """

    def __init__(self, settings: DetectSettings, values: RowValues) -> None:
        self._values = values
        self._numbers = {name: n for n, name in enumerate(settings.automaton.variables)}
        functions = list_functions(settings.conditions.values())
        found = [each for function in functions for each in self._list_needed(function)]
        self._registers = [*dict.fromkeys(found)]

    def _list_needed(self, function: Function) -> list[Register]:
        if function.kind not in ("first", "last", "count", "sum", "mean", "min", "max"):
            return []
        number, field = self._numbers[function.variable], function.field
        if function.kind in ("first", "last"):
            return [Register(function.kind, number)]
        if function.kind in ("count", "min", "max"):
            return [Register(function.kind, number, field)]
        return [Register("sum", number, field), Register("count", number, field)]

    def __len__(self) -> int:
        return len(self._registers)

    @property
    def refs(self) -> dict[int, str]:
        """The columns that have numbers of rows, or of nodes."""
        spaces = {"first": "row", "min": "row", "max": "row", "last": "node"}
        return {
            REGISTERS + number: spaces[each.kind]
            for number, each in enumerate(self._registers)
            if each.kind in spaces
        }

    def _is_float(self, register: Register) -> bool:
        field = register.field
        return register.kind == "sum" and self._values.get_type(str(field)).is_float()

    def compute(self, nodes: Sequence[Array], ways: Ways, own: Int64s | None) -> list[Array]:
        """Return all registers of ways, each with the row that it takes next.

        ``own`` are the nodes of these rows, if they have any.
        """
        each = enumerate(self._registers)
        return [self._extend(nodes, ways, number, register, own) for number, register in each]

    def _extend(
        self,
        nodes: Sequence[Array],
        ways: Ways,
        number: int,
        register: Register,
        own: Int64s | None,
    ) -> Array:
        fill = 0 if register.kind in ("count", "sum") else -1
        kept = nodes[REGISTERS + number]
        if self._is_float(register):
            kept = kept.view(np.float64)
        base: Array = np.full(len(ways.node), fill, kept.dtype)
        there = ways.node >= 0
        base[there] = kept[ways.node[there]]
        mine = ways.variable == register.variable
        if register.kind == "first":
            return _choose(mine & (base < 0), ways.row, base)
        if register.kind == "last":
            return base if own is None else _choose(mine, own, base)
        if register.field is None:
            return _choose(mine, base + 1, base)
        value, valid = self._read(register.field, ways.row)
        mine &= valid
        if register.kind == "count":
            return _choose(mine, base + 1, base)
        if register.kind == "sum":
            total = base + value
            # a sum that has wrapped has the sign of neither part
            if base.dtype == np.int64 and (mine & (((base ^ total) & (value ^ total)) < 0)).any():
                raise SchemaError(
                    f"detect: a sum of {register.field!r} in a condition overflows Int64. Hint: "
                    "cast the field to Float64 first with with_columns()."
                )
            return _choose(mine, total, base)
        return _choose(mine & self._is_better(register, base, value), ways.row, base)

    def _is_better(self, register: Register, base: Int64s, value: Array) -> Bools:
        """Return the mask of values that are better than those of other rows; NaN is worst."""
        have, _ = self._read(str(register.field), np.maximum(base, 0))
        better = value < have if register.kind == "min" else value > have
        if value.dtype.kind == "f":
            better |= np.isnan(have) & ~np.isnan(value)
        found: Bools = better | (base < 0)
        return found

    def _read(self, field: str, rows: Int64s) -> tuple[Array, Bools]:
        column = self._values.read(field, rows)
        is_float = self._values.get_type(field).is_float()
        value = read_floats(column) if is_float else read_integers(column).astype(np.int64)
        return value, np.broadcast_to(read_valid(column), len(rows))

    def read(
        self, function: Function, nodes: Sequence[Array], ways: Ways, computed: list[Array]
    ) -> Column:
        """Return a function's values for ways with their next row; ``computed`` are the registers.

        ``match_start`` is the start of the first row.
        """
        if function.kind == "match_start":
            return self._values.read("start", ways.first)
        number, field = self._numbers[function.variable], function.field
        if function.kind == "last":
            return self._values.read(str(field), self._find_last(function, nodes, ways))
        register = Register(function.kind, number, field)
        if function.kind == "mean":
            total, count = (
                computed[self._registers.index(Register(kind, number, field))]
                for kind in ("sum", "count")
            )
            return Nullable(total / np.maximum(count, 1), count > 0)
        if function.kind == "first":
            register = Register("first", number)
        made = computed[self._registers.index(register)]
        return self._values.read(str(field), made) if function.reads_row else made

    def _find_last(self, function: Function, nodes: Sequence[Array], ways: Ways) -> Int64s:
        """Return the row of a variable that is the n-th from the last."""
        number = self._numbers[function.variable]
        kept = nodes[REGISTERS + self._registers.index(Register("last", number))]
        row, parent = nodes[NODE_ROW], nodes[NODE_PARENT]
        node = _take(kept, ways.node)
        back = np.full(len(node), function.n) - (ways.variable == number)
        for _ in range(function.n):
            goes = (back > 0) & (node >= 0)
            node = np.where(goes, _take(kept, _take(parent, node)), node)
            back -= goes
        return np.where(back < 0, ways.row, _take(row, node))


def _choose(mask: Bools, values: Array, others: Array) -> Array:
    """Return values where a mask is True, and others where it is not."""
    found: Array = np.where(mask, values, others)
    return found


def _take(numbers: Int64s, places: Int64s) -> Int64s:
    """Return the numbers at these places; -1 where the place is negative."""
    found = np.full(len(places), -1)
    there = places >= 0
    found[there] = numbers[places[there]]
    return found
