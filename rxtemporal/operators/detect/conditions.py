"""Conditions of variables: the values that they read, masks over rows, and tests of threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.batch import Bools, Int64s
from rxtemporal.core.columns import (
    Column,
    Columns,
    Nullable,
    SeriesColumn,
    get_valid,
    make_series,
    physical_type,
)
from rxtemporal.engine.expressions.evaluator import Predicate
from rxtemporal.engine.record_store import RecordStore
from rxtemporal.operators.detect import layout
from rxtemporal.operators.detect.evaluation import extend_ways, list_last
from rxtemporal.operators.detect.functions import STARTS, Function, list_functions, parse_column
from rxtemporal.operators.detect.layout import REGISTERS, ROW_BEFORE, ROW_START, MatchTables
from rxtemporal.operators.detect.programs import Programs, Register
from rxtemporal.operators.detect.settings import DetectSettings
from rxtemporal.operators.windows.field_values import read_floats, read_integers, read_valid


class RowValues:
    """Reader of rows in a store, by their numbers; ``time`` is the type of their starts."""

    __slots__ = ("rows", "schema", "time")

    def __init__(self, rows: RecordStore, schema: pl.Schema, time: pl.DataType) -> None:
        self.rows = rows
        self.schema = schema
        self.time = time

    def read(self, name: str, numbers: Int64s) -> Column:
        """Return a field of rows, or their starts; null where the number is negative.

        The name of the start means that, also where a field is called so.
        """
        there = numbers >= 0
        all_there = bool(there.all())
        at = numbers if all_there else np.where(there, numbers, 0)
        if name in STARTS:
            column: Column = self.rows.array[at, ROW_START]
        else:
            (column,) = self.rows.fields(at, [name])
        return column if all_there else _drop_values(column, there)

    def read_series(self, name: str, numbers: Int64s) -> pl.Series:
        """Return the same as a series."""
        dtype = self.time if name in STARTS else self.schema[name]
        return make_series(name, self.read(name, numbers), dtype)

    def read_fields(self, names: Iterable[str], numbers: Int64s) -> dict[str, pl.Series]:
        """Return fields of rows that are there, whatever their names are."""
        names = [*names]
        columns = zip(names, self.rows.fields(numbers, names), strict=True)
        return {name: make_series(name, column, self.schema[name]) for name, column in columns}

    def find_before(self, numbers: Int64s, n: int) -> Int64s:
        """Return the n-th row before each row in its key; -1 if there is none."""
        before = self.rows.array[:, ROW_BEFORE]
        for _ in range(n):
            numbers = np.where(numbers >= 0, before[numbers], -1)
        return numbers


def _drop_values(column: Column, there: np.ndarray) -> Column:
    """Return a column with null where a mask is False."""
    if isinstance(column, SeriesColumn):
        return SeriesColumn(column.series.set(pl.Series(~there), None))
    values = column.values if isinstance(column, Nullable) else column
    return Nullable(values, get_valid(column) & there)


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


class Condition:
    """The condition of one variable, over its row, rows before it, and functions of a way."""

    def __init__(self, expression: pl.Expr, types: Mapping[str, pl.DataType]) -> None:
        names = sorted({*expression.meta.root_names()})
        self.schema = pl.Schema({name: types[name] for name in names})
        self.functions = list_functions([expression])
        self.looks_back = any(each.kind != "prev" for each in self.functions)
        self._test = Predicate(expression, self.schema)

    def test(self, columns: Sequence[Column], height: int) -> Bools:
        """Return which rows satisfy it, given the columns of its schema."""
        return np.asarray(self._test(Columns(self.schema, columns, height)))


class Conditions:
    """The conditions of all variables by number; None is satisfied by every row."""

    def __init__(self, settings: DetectSettings, programs: Programs, values: RowValues) -> None:
        self._values = values
        self._inputs = programs.inputs
        given = [settings.conditions.get(name) for name in settings.automaton.variables]
        self._conditions = [
            None if each is None else Condition(each, settings.types) for each in given
        ]
        # what the conditions read that are not about a way, each once
        self._fields = sorted({
            name
            for each in self._conditions
            if each is not None and not each.looks_back
            for name in each.schema
        })  # fmt: skip

    @property
    def look_back(self) -> bool:
        """True if one of them is about the rows matched so far."""
        return any(each is not None and each.looks_back for each in self._conditions)

    def make_mask(self, rows: Int64s) -> Bools:
        """Return which rows satisfy which variables, ``bool[rows, variables]``.

        True for those whose conditions are about a way.
        """
        mask = np.ones((len(rows), len(self._conditions)), np.bool_)
        read = {name: self._read(name, rows) for name in self._fields}
        for number, condition in enumerate(self._conditions):
            if condition is not None and not condition.looks_back:
                columns = [read[name] for name in condition.schema]
                mask[:, number] = condition.test(columns, len(rows))
        return mask

    def set_inputs(self, rows: Int64s) -> None:
        """Compute the inputs of programs for rows, and put them into their records."""
        records = self._values.rows.array
        with np.errstate(all="ignore"):
            for number, (reads, run, dtype) in enumerate(self._inputs):
                column, place = run([self._read(name, rows) for name in reads]), layout.ROW_VALUES
                place += 2 * number
                if dtype.is_float():
                    records[rows, place] = read_floats(column).view(np.int64)
                elif physical_type(dtype) is not None:
                    records[rows, place] = read_integers(column)
                records[rows, place + 1] = read_valid(column)

    def test_ways(self, registers: Registers, t: MatchTables, ways: Ways) -> Bools:
        """Return which ways may take their next row as their variable."""
        passes = np.ones(len(ways.row), np.bool_)
        for number, condition in enumerate(self._conditions):
            if condition is None:
                continue
            at = np.flatnonzero(ways.variable == number)
            if not len(at):
                continue
            some = Ways(*(column[at] for column in ways))
            made = np.empty((len(registers), len(at)), np.int64)
            if condition.looks_back:
                extend_ways(t, some.node, some.row, some.variable, made)
            columns = [
                self._read(name, some.row)
                if (function := parse_column(name)) is None or function.kind == "prev"
                else registers.read(function, t, some, made)
                for name in condition.schema
            ]
            passes[at] = condition.test(columns, len(at))
        return passes

    def _read(self, name: str, rows: Int64s) -> Column:
        """Return a field of rows, or of rows before them."""
        function: Function | None = parse_column(name)
        if function is None:
            return self._values.read(name, rows)
        before = self._values.find_before(rows, function.n)
        return self._values.read(str(function.field), before)
