"""Kernels of ways: nodes, each of which leads to the one before, and the rows that they need."""

from __future__ import annotations

import numpy as np

from rxtemporal.engine.holdings import KEY
from rxtemporal.engine.kernels.compiled import borrow, jit
from rxtemporal.operators.detect.evaluation import find_next_node
from rxtemporal.operators.detect.layout import (
    FREE,
    NODE_LENGTH,
    NODE_PARENT,
    NODE_REFS,
    NODE_ROW,
    NODE_VARIABLE,
    NODES,
    NODES_GONE,
    NONE,
    ROW_BEFORE,
    ROW_REFS,
    ROWS_GONE,
    Ints,
    MatchTables,
)


@borrow
def release_row(t: MatchTables, row: int) -> None:
    """Count that something needs a row no more; release it if nothing does."""
    t.rows[row, ROW_REFS] -= 1
    if t.rows[row, ROW_REFS] == 0:
        t.rows[row, KEY] = NONE
        t.counts[ROWS_GONE] += 1


@borrow
def release_way(t: MatchTables, node: int) -> None:
    """Count that something needs a node no more; release it, and what it led to, if nothing does.

    With a node goes its need of its row and of the rows ``before`` that. Released nodes are a list,
    in which each leads to the next as its parent.
    """
    while node >= 0:
        t.nodes[node, NODE_REFS] -= 1
        if t.nodes[node, NODE_REFS] > 0:
            return
        row, parent = t.nodes[node, NODE_ROW], t.nodes[node, NODE_PARENT]
        t.nodes[node, KEY], t.nodes[node, NODE_PARENT] = NONE, t.counts[FREE]
        t.counts[FREE] = node
        t.counts[NODES_GONE] += 1
        for _ in range(t.rules.before + 1):
            if row < 0:
                break
            further = t.rows[row, ROW_BEFORE]
            release_row(t, row)
            row = further
        node = parent


@borrow
def add_node(t: MatchTables, row: int, variable: int, parent: int) -> int:
    """Make a node that its caller needs, and whose registers are there; return its number."""
    node = find_next_node(t)
    if t.counts[FREE] >= 0:
        t.counts[FREE] = t.nodes[node, NODE_PARENT]
        t.counts[NODES_GONE] -= 1
    else:
        t.counts[NODES] += 1
    t.nodes[node, KEY], t.nodes[node, NODE_ROW] = t.rows[row, KEY], row
    t.nodes[node, NODE_VARIABLE], t.nodes[node, NODE_PARENT] = variable, parent
    t.nodes[node, NODE_REFS], t.nodes[node, NODE_LENGTH] = 1, 1
    if parent >= 0:
        t.nodes[parent, NODE_REFS] += 1
        t.nodes[node, NODE_LENGTH] += t.nodes[parent, NODE_LENGTH]
    for _ in range(t.rules.before + 1):
        if row < 0:
            break
        t.rows[row, ROW_REFS] += 1
        row = t.rows[row, ROW_BEFORE]
    return int(node)


@jit
def list_ways(nodes: Ints, last: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the rows and variables of the ways that end with these nodes, and their lengths.

    Each way is in order, from its first row. O(result).
    """
    lengths = np.empty(len(last), np.int64)
    total = 0
    for i in range(len(last)):
        lengths[i] = nodes[last[i], NODE_LENGTH]
        total += lengths[i]
    row, variable = np.empty(total, np.int64), np.empty(total, np.int64)
    end = 0
    for i in range(len(last)):
        end += lengths[i]
        node, at = last[i], end
        while node >= 0:
            at -= 1
            row[at], variable[at] = nodes[node, NODE_ROW], nodes[node, NODE_VARIABLE]
            node = nodes[node, NODE_PARENT]
    return row, variable, lengths


@jit
def release_ways(t: MatchTables, last: Ints) -> None:
    """Count that matches need the ways that end with these nodes no more. O(released nodes)."""
    for i in range(len(last)):
        release_way(t, last[i])
