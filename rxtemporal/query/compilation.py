"""Compilation of the kernels of a plan before its first row."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from types import BuiltinFunctionType
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.core.events import EventShape
from rxtemporal.core.log import get_logger
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.ingress.pushed_source import PushedSource
from rxtemporal.operators.operator import TwoInputs
from rxtemporal.operators.plan import Node
from rxtemporal.query.push_source import PushSource
from rxtemporal.sinks.results import Collect

_log = get_logger(__name__)

# above the number from which rows are read as columns
_ROWS = 40
# ticks of a hundred years
_MOST_SPAN = 100 * 366 * 86_400 * 1_000_000
# what is compiled in this process already
_compiled: set[str] = set()
# modules whose objects are settings of an operator; others have code of the user's
_OWN = ("rxtemporal", "builtins", "polars", "numpy", "datetime", "enum")


class _RowForm(NamedTuple):
    """Form of a batch that is made up."""

    rows: int = _ROWS
    intervals: bool = False
    reversed: bool = False
    nulls: bool = False


# batches and single rows take different ways, and so do points, nulls, and rows out of order
_ROW_FORMS = (
    *[_RowForm(), _RowForm(rows=1)] * 3,
    _RowForm(intervals=True),
    _RowForm(intervals=True, reversed=True),
    _RowForm(reversed=True),
    _RowForm(nulls=True),
    *[_RowForm(rows=1)] * 40,
    # so many rows that some are forgotten
    *[_RowForm(rows=2_048), _RowForm(rows=2_048, intervals=True)] * 2,
)


def compile_plan(nodes: Sequence[Node]) -> Iterator[int]:
    """Compile the kernels of sources and operators; yield the number of nodes that are done.

    Each operator takes rows that are made up for its fields, by itself, so that no condition on
    the way keeps them from it. One with a function of the user's is left out, since the function
    might do more than compute; its kernels are compiled with its first row. Nothing is kept. What
    takes its time is logged, since machine code is kept on disk: it does so once for a release.
    """
    from rxtemporal.engine.kernels.compiled import on_first_compile

    for number, node in enumerate(nodes):
        yield number
        made_for = _describe(node)
        if made_for is None or made_for in _compiled:
            continue
        name = node.operator.name if node.operator is not None else "stream"
        with on_first_compile(partial(_tell, name, number + 1, len(nodes))):
            _compile(node, made_for)
        _compiled.add(made_for)


def _tell(name: str, number: int, count: int) -> None:
    _log.info("compiling, once for this release", operator=name, number=number, of=count)


def _compile(node: Node, made_for: str) -> None:
    from rxtemporal.operators.windows.aggregates import use_digits

    try:
        if isinstance(node.source, PushedSource):
            _run_source(node.source.owner)
        else:
            _run_operator(node)
            # as if a sum were more than two floats, which values of all magnitudes would show
            with use_digits():
                _run_operator(node)
    except Exception:  # rows that are made up need not make sense to it
        _log.debug("compiled in part", of=made_for, exc_info=True)


def _describe(node: Node) -> str | None:
    """Return what a node is compiled for; None if it is not."""
    if isinstance(node.source, PushedSource):
        return f"{node.source.name!r} of {node.schema}"
    if node.operator is None or _has_code(node.operator):
        return None
    schemas = [each.schema for each in node.inputs]
    known = tuple(schema for schema in schemas if schema is not None)
    if len(known) < len(schemas):
        return None
    return node.operator.fingerprint(known, node.inputs[0].keys)


def _has_code(value: Any) -> bool:
    """Return True if an operator, or a setting of it, has code of the user's."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(map(_has_code, value))
    if isinstance(value, dict):
        return any(map(_has_code, value.values()))
    if isinstance(value, BuiltinFunctionType | type):
        return False
    kind = value if callable(value) and hasattr(value, "__module__") else type(value)
    if str(kind.__module__).partition(".")[0] not in _OWN:
        return True
    if not dataclasses.is_dataclass(value):
        return False
    return any(_has_code(getattr(value, field.name)) for field in dataclasses.fields(value))


def _run_operator(node: Node) -> None:
    """Let a step of an operator take rows in all forms that its inputs may have."""
    operator, keys = node.operator, node.inputs[0].keys
    schemas: list[Any] = [each.schema for each in node.inputs]
    step: Any
    if isinstance(operator, TwoInputs):
        step = operator.step(schemas[0], schemas[1], keys)
        takes = [step.on_left, step.on_right]
    else:
        assert operator is not None
        step = operator.step(schemas[0], keys)
        takes = [step.on_batch]
    length, space = _find_scale(operator)
    begin = 0
    for form in _ROW_FORMS:
        for take, schema in zip(takes, schemas, strict=True):
            take(
                _make_batch(schema, keys, form, np.arange(begin, begin + form.rows) * space, length)
            )
        begin += form.rows
    step.load(step.save())
    for take, schema in zip(takes, schemas, strict=True):
        take(EventBatch.empty(schema, MAX_TIME, keys))
        _move_rows(schema)


def _move_rows(schema: pl.Schema) -> None:
    """Move and renumber rows as a store does that holds many: no step here holds so many at once.

    A store has columns of times and of flags beside the fields.
    """
    from rxtemporal.engine.kernels.rows import FEW, move_rows
    from rxtemporal.engine.key_store import follow

    fields = [each.dtype for each in Columns.empty(schema).columns if isinstance(each, np.ndarray)]
    for dtype in {np.dtype(np.int64), np.dtype(np.bool_), *fields}:
        move_rows(np.zeros(FEW, dtype), np.arange(FEW))
    follow(np.arange(FEW), np.arange(FEW))


def _find_scale(operator: Any) -> tuple[int, int]:
    """Return a short lifetime, and a space with which some rows lie in each of several windows.

    No two rows are alive at a time, since an operator may take a signal.
    """
    settings = [getattr(operator, field.name) for field in dataclasses.fields(operator)]
    spans = [each for each in settings if type(each) is int and 0 < each < _MOST_SPAN]
    shortest, longest = min(spans, default=1), max(spans, default=1)
    space = max(1, (longest if longest < _ROWS * shortest else shortest) // 4)
    return min(shortest, space), space


def _make_batch(
    schema: pl.Schema, keys: tuple[str, ...], form: _RowForm, start: Int64s, length: int
) -> EventBatch:
    """Return a batch of rows with these starts, whose CTI is the last one."""
    count = len(start)
    columns = [
        _make_column(name, dtype, count, form.nulls and name not in keys)
        for name, dtype in schema.items()
    ]
    payload = pl.DataFrame(columns) if columns else pl.DataFrame(height=count)
    end = start + length if form.intervals else None
    batch = EventBatch.of_rows(start, end, payload, int(start[-1]), keys)
    return batch.take(np.arange(count)[::-1]) if form.reversed else batch


def _make_column(name: str, dtype: pl.DataType, count: int, nulls: bool) -> pl.Series:
    numbers = pl.Series(name, [n % 3 for n in range(count)])
    try:
        column = numbers.cast(pl.String).cast(dtype) if dtype == pl.String else numbers.cast(dtype)
    except pl.exceptions.PolarsError:
        column = pl.Series(name, [None] * count, dtype=dtype)
    return pl.concat([column.clear(1), column.slice(1)]) if nulls else column


def _run_source(source: PushSource) -> None:
    """Push rows into a source that is like another one, in memory."""
    double = source._make_double()
    # rows that are made up need not make sense to it, and nobody has to read of them
    double.rejects.subscribe(lambda rejected: _log.debug("not compiled", reason=rejected.reason))
    rows = [_make_row(double, n, number=n) for n in range(2 * _ROWS)]
    with double.stream.run(Collect(), warn_after=None):
        double.push(rows[0])
        double.push(rows[:_ROWS])
        double.push(rows[_ROWS // 2 :])  # in part duplicates
        double.push([_make_row(double, -n) for n in range(_ROWS)])  # late
        double.push(_make_row(double, 7_200))
        double.close()


def _make_row(source: PushSource, second: int, number: int | None = None) -> dict[str, Any]:
    """Return a row of the hour before now; a second beyond that is one of a fast clock.

    Where times are ticks, the second is one.
    """
    node: Any = source.stream._node
    time: Any = datetime.now(UTC) + timedelta(seconds=second - 3_600)
    length: Any = timedelta(seconds=1)
    if node.source.declared_time == "ticks":
        time, length = second + 3_600, 1
    row: dict[str, Any] = {
        name: _make_column(name, dtype, 1, nulls=False)[0]
        for name, dtype in source._rows.schema.items()
    }
    names = source._layout
    row[names["start"]] = time
    if names["end"] is not None:
        is_edge = names["shape"] is EventShape.EDGE
        row[names["end"]] = None if is_edge else time + length
    if names["seq"] is not None:
        row[names["seq"]] = number
    return row
