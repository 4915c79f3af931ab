"""Conditions of variables: masks over rows, inputs of programs, and tests of a thread and a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, Int64s
from rxtemporal.core.columns import Column, Columns, physical_type
from rxtemporal.engine.expressions.evaluator import Predicate
from rxtemporal.operators.detect import layout
from rxtemporal.operators.detect.evaluation import extend_ways
from rxtemporal.operators.detect.functions import Function, list_functions, parse_column
from rxtemporal.operators.detect.layout import MatchTables
from rxtemporal.operators.detect.programs import Programs
from rxtemporal.operators.detect.registers import Registers, Ways
from rxtemporal.operators.detect.row_values import RowValues
from rxtemporal.operators.detect.settings import DetectSettings
from rxtemporal.operators.windows.field_values import read_floats, read_integers, read_valid


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
