"""Kernels of conditions over the rows matched so far: registers of nodes, and programs over them.

The registers of a node are those of the node before it, with its own row. They are computed in the
record that the next node will have, so a condition is tested as if the row were taken.
"""

from __future__ import annotations

import numpy as np

from rxtemporal.engine.kernels.compiled import borrow, jit
from rxtemporal.operators.detect.layout import (
    ABSOLUTE,
    ADD,
    AND,
    COUNT,
    DIFFER,
    DIVIDE,
    EMPTY,
    EQUAL,
    FILL,
    FIRST_ROW,
    FREE,
    FURTHER,
    GREATEST,
    IS_NOT_NULL,
    IS_NULL,
    LAST_NODE,
    LEAST,
    LEFT_SLOT,
    LESS,
    MATCH_START,
    MEAN,
    MULTIPLY,
    NEGATE,
    NODE_PARENT,
    NODE_ROW,
    NODES,
    NONE,
    NOT,
    NOT_ABOVE,
    NUMBER,
    OF_ROW,
    OPERATION,
    OR,
    OVERFLOWED,
    OWN,
    REGISTER_COLUMN,
    REGISTER_KIND,
    REGISTER_VARIABLE,
    REGISTERS,
    RIGHT_SLOT,
    ROW_START,
    SUBTRACT,
    SUM,
    TARGET,
    TO_FLOAT,
    Ints,
    MatchTables,
)

_LEAST, _MOST = -(2**63), 2**63 - 1


@borrow
def find_next_node(t: MatchTables) -> int:
    """Return the number that the next node will have."""
    free = t.counts[FREE]
    return int(free if free >= 0 else t.counts[NODES])


@borrow
def is_better(t: MatchTables, kind: int, row: int, other: int, column: int) -> bool:
    """Return True if the value of a row is better than that of another one; NaN is worst."""
    if kind == LEAST:
        return bool(t.rows[row, column] < t.rows[other, column])
    if kind == GREATEST:
        return bool(t.rows[row, column] > t.rows[other, column])
    value, have = t.row_floats[row, column], t.row_floats[other, column]
    if have != have:
        return bool(value == value)
    return bool(value < have if kind == LEAST + 1 else value > have)


@borrow
def add_value(t: MatchTables, kind: int, node: int, place: int, row: int, column: int) -> None:
    """Add the value of a row to a sum; note if it overflows."""
    if kind == SUM + 1:
        t.node_floats[node, place] += t.row_floats[row, column]
        return
    total, value = t.nodes[node, place], t.rows[row, column]
    if (value > 0 and total > _MOST - value) or (value < 0 and total < _LEAST - value):
        t.counts[OVERFLOWED] = 1
        return
    t.nodes[node, place] = total + value


@borrow
def extend(t: MatchTables, parent: int, row: int, variable: int) -> int:
    """Set the registers of the next node, which takes a row as a variable; return its number."""
    node = find_next_node(t)
    for i in range(t.registers.shape[0]):
        place, kind = REGISTERS + i, t.registers[i, REGISTER_KIND]
        column = t.registers[i, REGISTER_COLUMN]
        value = t.nodes[parent, place] if parent >= 0 else t.registers[i, EMPTY]
        t.nodes[node, place] = value
        if t.registers[i, REGISTER_VARIABLE] != variable:
            continue
        if column >= 0 and not t.rows[row, column + 1]:
            continue
        if kind == COUNT:
            t.nodes[node, place] = value + 1
        elif kind == LAST_NODE:
            t.nodes[node, place] = node
        elif kind in (SUM, SUM + 1):
            add_value(t, kind, node, place, row, column)
        elif value < 0 or (kind != FIRST_ROW and is_better(t, kind, row, value, column)):
            t.nodes[node, place] = row
    return node


@borrow
def find_last(t: MatchTables, parent: int, place: int, n: int) -> int:
    """Return the row that is the n-th before the last one of a variable in a way; -1 if none is."""
    node = t.nodes[parent, place] if parent >= 0 else NONE
    for _ in range(n):
        if node < 0:
            break
        before = t.nodes[node, NODE_PARENT]
        node = t.nodes[before, place] if before >= 0 else NONE
    return int(t.nodes[node, NODE_ROW] if node >= 0 else NONE)


@borrow
def load(t: MatchTables, i: int, node: int, parent: int, row: int, first: int) -> None:
    """Put what an instruction reads of a way into its cell."""
    operation, to = t.code[i, OPERATION], t.code[i, TARGET]
    place, column = t.code[i, LEFT_SLOT], t.code[i, RIGHT_SLOT]
    if operation == NUMBER:
        t.cells[to, 0], t.cells[to, 1] = t.nodes[node, place], 1
        return
    if operation == MATCH_START:
        t.cells[to, 0], t.cells[to, 1] = t.rows[first, ROW_START], 1
        return
    if operation >= MEAN:
        count = t.nodes[node, column]
        t.cells[to, 1] = count
        total = t.node_floats[node, place] if operation > MEAN else float(t.nodes[node, place])
        t.cell_floats[to, 0] = total / max(count, 1)
        return
    of = row
    if operation == OWN:
        column = place
    elif operation == OF_ROW:
        of = t.nodes[node, place]
    else:
        of = find_last(t, parent, place, t.code[i, FURTHER])
    t.cells[to, 1] = 0
    if of >= 0:
        t.cells[to, 0], t.cells[to, 1] = t.rows[of, column], t.rows[of, column + 1]


@borrow
def compute(t: MatchTables, i: int) -> None:
    """Put the number that an instruction computes into its cell; null gives null."""
    operation, to = t.code[i, OPERATION], t.code[i, TARGET]
    left, right = t.code[i, LEFT_SLOT], t.code[i, RIGHT_SLOT]
    x, y = t.cells[left, 0], t.cells[right, 0]
    a, b = t.cell_floats[left, 0], t.cell_floats[right, 0]
    t.cells[to, 1] = min(t.cells[left, 1], t.cells[right, 1])
    if operation == ADD:
        t.cells[to, 0] = x + y
    elif operation == ADD + 1:
        t.cell_floats[to, 0] = a + b
    elif operation == SUBTRACT:
        t.cells[to, 0] = x - y
    elif operation == SUBTRACT + 1:
        t.cell_floats[to, 0] = a - b
    elif operation == MULTIPLY:
        t.cells[to, 0] = x * y
    elif operation == MULTIPLY + 1:
        t.cell_floats[to, 0] = a * b
    elif operation == DIVIDE:
        t.cell_floats[to, 0] = np.divide(a, b)
    elif operation == NEGATE:
        t.cells[to, 0] = -x
    elif operation == NEGATE + 1:
        t.cell_floats[to, 0] = -a
    elif operation == ABSOLUTE:
        t.cells[to, 0] = abs(x)
    elif operation == ABSOLUTE + 1:
        t.cell_floats[to, 0] = abs(a)
    elif operation == TO_FLOAT:
        t.cell_floats[to, 0] = float(x)


@borrow
def compare(t: MatchTables, i: int) -> None:
    """Put the result of a comparison into its cell; NaN is equal to NaN and above all."""
    operation, to = t.code[i, OPERATION], t.code[i, TARGET]
    left, right = t.code[i, LEFT_SLOT], t.code[i, RIGHT_SLOT]
    x, y = t.cells[left, 0], t.cells[right, 0]
    a, b = t.cell_floats[left, 0], t.cell_floats[right, 0]
    t.cells[to, 1] = min(t.cells[left, 1], t.cells[right, 1])
    if operation == EQUAL:
        t.cells[to, 0] = int(x == y)
    elif operation == DIFFER:
        t.cells[to, 0] = int(x != y)
    elif operation == LESS:
        t.cells[to, 0] = int(x < y)
    elif operation == NOT_ABOVE:
        t.cells[to, 0] = int(x <= y)
    elif operation == EQUAL + 1:
        t.cells[to, 0] = int(a == b or (a != a and b != b))
    elif operation == DIFFER + 1:
        t.cells[to, 0] = int(a != b and (a == a or b == b))
    elif operation == LESS + 1:
        t.cells[to, 0] = int(a < b or (a == a and b != b))
    else:
        t.cells[to, 0] = int(a <= b or b != b)


@borrow
def decide_truth(t: MatchTables, i: int) -> None:
    """Put the result of an instruction of three-valued logic, or about nulls, into its cell."""
    operation, to = t.code[i, OPERATION], t.code[i, TARGET]
    left, right = t.code[i, LEFT_SLOT], t.code[i, RIGHT_SLOT]
    x, y = t.cells[left, 0], t.cells[right, 0]
    has_left, has_right = t.cells[left, 1], t.cells[right, 1]
    if operation in (AND, OR):
        # a side that decides makes up for null
        decides = int(operation == OR)
        if (has_left and x == decides) or (has_right and y == decides):
            t.cells[to, 0], t.cells[to, 1] = decides, 1
        else:
            t.cells[to, 0], t.cells[to, 1] = 1 - decides, min(has_left, has_right)
    elif operation == NOT:
        t.cells[to, 0], t.cells[to, 1] = 1 - x, has_left
    elif operation == IS_NULL:
        t.cells[to, 0], t.cells[to, 1] = int(has_left == 0), 1
    elif operation == IS_NOT_NULL:
        t.cells[to, 0], t.cells[to, 1] = int(has_left != 0), 1
    elif operation == FILL:
        t.cells[to, 0], t.cells[to, 1] = (x, has_left) if has_left else (y, has_right)


@borrow
def run_program(
    t: MatchTables, variable: int, node: int, parent: int, row: int, first: int
) -> bool:
    """Return True if a way may take a row as a variable; its registers with it are at ``node``."""
    to = 0
    for i in range(t.programs[variable, 0], t.programs[variable, 1]):
        operation, to = t.code[i, OPERATION], t.code[i, TARGET]
        if operation < ADD:
            load(t, i, node, parent, row, first)
        elif operation < EQUAL:
            compute(t, i)
        elif operation < AND:
            compare(t, i)
        else:
            decide_truth(t, i)
    return bool(t.cells[to, 0] and t.cells[to, 1])


@borrow
def may_take(
    t: MatchTables, variable: int, parent: int, row: int, first: int, line: int, pair: int
) -> bool:
    """Return True if a way that ends with a node may take a row as a variable.

    The next node has the registers of the way with that row then.
    """
    passes = t.pairs[pair] if t.rules.by_pair else t.mask[line, variable]
    if passes and (t.registers.shape[0] or t.code.shape[0]):
        node = extend(t, parent, row, variable)
        if not t.rules.by_pair and t.programs[variable, 0] < t.programs[variable, 1]:
            return run_program(t, variable, node, parent, row, first)
    return bool(passes)


@jit
def extend_ways(t: MatchTables, parents: Ints, rows: Ints, variables: Ints, found: Ints) -> None:
    """Set ``found[register, way]`` to the registers of ways with a row more. O(result)."""
    for i in range(len(rows)):
        node = extend(t, parents[i], rows[i], variables[i])
        for number in range(t.registers.shape[0]):
            found[number, i] = t.nodes[node, REGISTERS + number]


@jit
def list_last(t: MatchTables, parents: Ints, rows: Ints, place: int, back: Ints) -> Ints:
    """Return for each way ``find_last`` of so many rows back, and its next row if that is -1."""
    found = np.empty(len(rows), np.int64)
    for i in range(len(rows)):
        found[i] = rows[i] if back[i] < 0 else find_last(t, parents[i], place, back[i])
    return found
