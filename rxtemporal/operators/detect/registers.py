"""Registers: what conditions ask about the rows matched so far, read by columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rxtemporal.core.batch import Int64s
from rxtemporal.core.columns import Column, Nullable
from rxtemporal.operators.detect.evaluation import list_last
from rxtemporal.operators.detect.functions import Function
from rxtemporal.operators.detect.layout import REGISTERS, MatchTables
from rxtemporal.operators.detect.programs import Programs, Register
from rxtemporal.operators.detect.row_values import RowValues
from rxtemporal.operators.detect.settings import DetectSettings

Array = npt.NDArray[Any]


class Ways(NamedTuple):
    """Ways that end with a node (-1: none) and the row that they take next, as a variable."""

    node: Int64s
    variable: Int64s
    row: Int64s
    first: Int64s


class Registers:
    """The registers that conditions read, in the last columns of the nodes.

    A sum of floats is there by its bits.
    """

    def __init__(self, settings: DetectSettings, programs: Programs, values: RowValues) -> None:
        self._values = values
        self._numbers = {name: n for n, name in enumerate(settings.automaton.variables)}
        self._registers = programs.registers
        self._is_float = [programs.is_float(each) for each in self._registers]

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

    def read(self, function: Function, t: MatchTables, ways: Ways, computed: Int64s) -> Column:
        """Return a function's values for ways with their next row; ``computed`` are the registers.

        ``match_start`` is the start of the first row.
        """
        if function.kind == "match_start":
            return self._values.read("start", ways.first)
        number, field = self._numbers[function.variable], function.field
        if function.kind == "last":
            place = REGISTERS + self._registers.index(Register("last", number))
            back = function.n - (ways.variable == number)
            return self._values.read(str(field), list_last(t, ways.node, ways.row, place, back))
        register = Register(function.kind, number, field)
        if function.kind == "mean":
            total, count = (
                self._find(Register(kind, number, field), computed) for kind in ("sum", "count")
            )
            return Nullable(total / np.maximum(count, 1), count > 0)
        if function.kind == "first":
            register = Register("first", number)
        made = self._find(register, computed)
        return self._values.read(str(field), made) if function.reads_row else made

    def _find(self, register: Register, computed: Int64s) -> Array:
        number = self._registers.index(register)
        is_sum = register.kind == "sum" and self._is_float[number]
        found: Array = computed[number].view(np.float64) if is_sum else computed[number]
        return found
