"""where, select, with_columns and drop: the relational operators that see one row at a time."""

from __future__ import annotations

import dataclasses
import dis
import inspect
import typing
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.lines import find_owners
from rxtemporal.core.payloads import BadPayloadError, PayloadReader
from rxtemporal.core.record_classes import is_record_class
from rxtemporal.core.safe_text import brief
from rxtemporal.core.schema import check_field, payload_schema
from rxtemporal.core.time_forms import TimeForm
from rxtemporal.engine.expressions.evaluator import Predicate, Projection
from rxtemporal.engine.step import Stateless
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators.causes.carried_rows import find_same_rows
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import History, match_equal_rows
from rxtemporal.operators.causes.lost_row import Fate, LostRow, write_expression, write_values
from rxtemporal.operators.expressions import check_predicate, check_row_by_row, infer_schema
from rxtemporal.operators.operator import (
    ADDED_LATER,
    Chain,
    Keys,
    Operator,
    RowExpression,
    RowOperator,
)
from rxtemporal.operators.partition_keys import Fields, PartitionRule, partition_by_row
from rxtemporal.operators.row_times import surround

if TYPE_CHECKING:
    from rxtemporal.engine.step import Step


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Where(RowOperator):
    """Rows whose payload satisfies a polars predicate."""

    keeps_lifetimes = True
    filters = True
    name = "where"
    predicate: pl.Expr

    def __post_init__(self) -> None:
        check_row_by_row(self.predicate, self.name)

    @property
    def row_filter(self) -> pl.Expr:
        """The predicate."""
        return self.predicate

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the same schema; raise if the predicate is not a bool over it."""
        check_predicate(self.predicate, schema, self.name)
        return schema

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        return WhereStep(self.predicate, schema)

    def list_expressions(
        self, schemas: tuple[pl.Schema, ...], keys: Keys
    ) -> Sequence[RowExpression]:
        """Return the predicate."""
        return [RowExpression("the predicate", self.predicate, *schemas)]

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        return find_kept_rows(inputs, output, rows)

    def explain_loss(self, lost: LostRow) -> Fate:
        """Return why a row of an input has given no row."""
        return explain_unsatisfied(self, lost)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class WhereRow(RowOperator):
    """Rows for which a Python function of the payload is true."""

    keeps_lifetimes = True
    filters = True
    name = "where"
    predicate: Callable[[dict[str, Any]], Any]

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the same schema."""
        return schema

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        return WhereRowStep(self.predicate)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        return find_kept_rows(inputs, output, rows)

    def explain_loss(self, lost: LostRow) -> Fate:
        """Return why a row of an input has given no row."""
        return explain_refused(self, lost)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Select(Operator):
    """A new payload for every row; ``adds`` keeps the other fields, as ``with_columns`` does."""

    projects = True
    keeps_lifetimes = True
    expressions: tuple[pl.Expr, ...]
    adds: bool = False
    drops: tuple[str, ...] = ()
    # parts of lines that go with fields that are dropped, or are computed anew
    lines: tuple[str, ...] = dataclasses.field(default=(), metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        for expression in self.expressions:
            check_row_by_row(expression, self.name)
        if not self.expressions and not self.drops:
            raise ArgumentError(f"{self.name} takes at least one field")

    @property
    def name(self) -> str:
        """The method that composed it."""
        return "drop" if self.drops else "with_columns" if self.adds else "select"

    def for_stream(self, form: TimeForm | None, schema: pl.Schema | None) -> Self:
        """Return the operator for a stream of such fields: lines go where their fields go.

        A field that is selected by its name keeps its line; one that is computed is a plain one.
        """
        owners = {} if schema is None else find_owners(schema)
        if schema is None or not owners:
            return self
        selections = [e for e in self.expressions if e.meta.is_column_selection()]
        computing = [e for e in self.expressions if not e.meta.is_column_selection()]
        chosen = infer_schema(schema, selections, self.name)
        computed = infer_schema(schema, computing, self.name)
        if self.adds or self.drops:
            gone = {*self.drops, *computed}
            lost = [part for part, name in owners.items() if name in gone and part not in gone]
            return dataclasses.replace(self, lines=tuple(lost))
        kept = [
            p for p, name in owners.items() if name in chosen and p not in {**chosen, **computed}
        ]
        return dataclasses.replace(self, expressions=(*self.expressions, *map(pl.col, kept)))

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the new schema; a grouped stream keeps its keys unchanged, first."""
        for field in self.drops:
            check_field(field, schema, "drop")
        if lost := set(self.drops) & set(keys):
            raise SchemaError(f"drop: {min(lost)!r} is a group key, which a grouped stream keeps")
        new = infer_schema(schema, self.expressions, self.name)
        computing = [e for e in self.expressions if not e.meta.is_column_selection()]
        computed = set(infer_schema(schema, computing, self.name))
        if changed := set(keys) & set(new) & computed:
            raise SchemaError(
                f"{self.name}: {min(changed)!r} is a group key and cannot be changed. "
                "Hint: give the result another name, or compute it before group_by."
            )
        kept = schema if self.adds or self.drops else {key: schema[key] for key in keys}
        fields = {
            name: dtype for name, dtype in kept.items() if name not in (*self.drops, *self.lines)
        }
        return pl.Schema({**fields, **new})

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return the rule: each row is seen alone; fields only selected or renamed are kept."""
        (schema,) = schemas
        made: dict[str, Fields | None] = {}
        for expression in self.expressions:
            names = list(infer_schema(schema, [expression], self.name))
            roots = expression.meta.root_names()
            if expression.meta.is_column_selection():
                made |= {name: (name,) for name in names}
            elif expression.meta.is_column_selection(allow_aliasing=True) and len(roots) == 1:
                made |= dict.fromkeys(names, (roots[0],))
            else:
                made |= dict.fromkeys(names)
        stays = {name: (name,) for name in self.output(schema, keys) if name not in made}
        known = {name: fields for name, fields in made.items() if fields is not None}
        return PartitionRule(None, tuple({**stays, **known}.items()))

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        return SelectStep(self.expressions, schema, self.output(schema, keys))

    def list_expressions(
        self, schemas: tuple[pl.Schema, ...], keys: Keys
    ) -> Sequence[RowExpression]:
        """Return the new fields."""
        (schema,) = schemas
        return [
            RowExpression(name, expression, schema)
            for expression in self.expressions
            for name in infer_schema(schema, [expression], self.name)
        ]

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        return find_same_rows(inputs, output, rows)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SelectRow(Operator):
    """A new payload for every row, computed from its payload by a Python function."""

    keeps_lifetimes = True
    name = "select"
    function: Callable[[dict[str, Any]], Any]
    schema: Any = None

    def __post_init__(self) -> None:
        # what annotations name is not there any more in a process that this is sent to
        object.__setattr__(self, "schema", self._fields())

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the fields of the function's results; a grouped stream keeps its keys, first."""
        fields = self._fields()
        if named := set(keys) & set(fields):
            raise SchemaError(
                f"select: {min(named)!r} is a group key, which stays as it is. "
                "Hint: leave it out of schema= and of what the function returns."
            )
        return pl.Schema({**{key: schema[key] for key in keys}, **fields})

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return the rule: each row is seen alone, and only keys are known to be kept."""
        return partition_by_row(keys)

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        return SelectRowStep(self.function, self._fields(), keys)

    def _fields(self) -> pl.Schema:
        """Return the fields named by ``schema``, or else by the return annotation."""
        given = _read_return_type(self.function) if self.schema is None else self.schema
        if given is None:
            raise ArgumentError(
                "select cannot see what a function returns. Hint: name the fields, for example "
                "schema={'celsius': float}, or annotate the function with the class that "
                "it returns, for example a dataclass or a pydantic model."
            )
        return payload_schema(given, lists=True)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        return find_same_rows(inputs, output, rows)


def _read_return_type(function: Callable[..., Any]) -> Any:
    """Return the record type of a function's return annotation, or None."""
    try:
        returned = typing.get_type_hints(function).get("return")
    except (NameError, TypeError):  # an annotation that names what is not there, or no function
        return None
    return returned if is_record_class(returned) else None


def select_by_function(what: tuple[Any, ...], named: dict[str, Any]) -> SelectRow | None:
    """Return a ``SelectRow`` if one of the arguments of ``select`` is a Python function.

    ``schema=`` then names the fields that the function returns; without a function it is an
    ordinary field name.
    """
    functions = [each for each in what if callable(each) and not isinstance(each, pl.Expr)]
    if not functions:
        return None
    others = [*what, *(name for name in named if name != "schema")]
    if len(others) > 1:
        raise ArgumentError(
            f"select takes one function and schema=, or else fields and expressions, got {others}"
        )
    return SelectRow(function=functions[0], schema=named.get("schema"))


Condition = pl.Expr | Callable[[dict[str, Any]], Any]


def where(*predicates: Condition) -> Chain:
    """Keep the rows whose payload satisfies every predicate; null is false.

    Rows, lifetimes and CTIs pass unchanged and at once. Nothing is held. A predicate is a polars
    expression computed row by row (aggregations, windows and shifts are errors), or a Python
    function of the payload as a dict, which costs about a microsecond per row. For an edge row the
    result for its start edge counts. ``ArgumentError``: a function has no return value.
    """
    if not predicates:
        raise ArgumentError("where takes at least one predicate")
    expressions = [each for each in predicates if isinstance(each, pl.Expr)]
    return Chain(surround(expressions, *(_where(predicate) for predicate in predicates)))


def _where(predicate: Condition) -> Operator:
    if isinstance(predicate, pl.Expr):
        return Where(predicate=predicate)
    if callable(predicate):
        if _returns_nothing(predicate):
            raise ArgumentError(
                f"the function given to where returns None for every row: {predicate!r}. Hint: it "
                "returns True for the rows that stay: where(lambda row: row['x'] > 1)."
            )
        return WhereRow(predicate=predicate)
    raise ArgumentError(
        f"where takes polars expressions or functions of the row, got {predicate!r}. "
        "Hint: where(pl.col('x') > 1), with import polars as pl."
    )


def _returns_nothing(function: Callable[..., Any]) -> bool:
    """Return True if each return of a Python function gives the constant None."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
        return False
    given: list[Any] = []
    before = None
    for each in dis.get_instructions(code):
        if each.opname == "RETURN_CONST":
            given.append(each.argval)
        elif each.opname == "RETURN_VALUE":
            given.append(before.argval if before and before.opname == "LOAD_CONST" else ...)
        before = each
    return bool(given) and all(each is None for each in given)


def select(*expressions: Any, **named: Any) -> Select | SelectRow | Chain:
    """Give every row a new payload, as polars' ``select`` does.

    Lifetimes and CTIs pass unchanged. Expressions are computed row by row; an expression that gives
    a list of scalars makes a field for ``explode``. A grouped stream keeps its keys, first. A field
    of a linear signal that is selected by its name keeps its line. Nothing is held.

    ``select(fn, schema=…)`` takes a Python function instead. It takes the payload as a dict and
    returns the new payload: a dict, or an object of the class of its return annotation. ``schema``
    (a mapping of names to types, or a class with typed fields: a dataclass, a NamedTuple, a
    TypedDict, a pydantic model, a msgspec Struct or an attrs class) may be omitted if there is such
    an annotation. The function costs some microseconds per row, and must return the
    same result for the same payload. For an edge row the payload of its start edge counts. A result
    that does not fit the schema is a ``SchemaError`` that shows the row.

    >>> import rxtemporal as rxt
    >>> readings = rxt.from_events([rxt.PointEvent(1, {"fahrenheit": 212})])
    >>> def celsius(row):
    ...     return {"celsius": (row["fahrenheit"] - 32) / 1.8}
    >>> readings.select(celsius, schema={"celsius": float}).to_polars().rows()
    [(1, 2, 100.0)]
    """
    return select_by_function(expressions, named) or _select(_expressions(expressions, named))


def _select(expressions: tuple[pl.Expr, ...], *, adds: bool = False) -> Select | Chain:
    """Return the operator, with the times of rows in front of it if the expressions read them."""
    selects = Select(expressions=expressions, adds=adds)
    read = [each for each in expressions if isinstance(each, pl.Expr)]
    operators = surround(read, selects)
    return selects if len(operators) == 1 else Chain(operators)


def with_columns(*expressions: str | pl.Expr, **named: Any) -> Select | Chain:
    """Add fields to the payload, or replace fields; otherwise as ``select``.

    Rows pass at once, lifetimes and CTIs unchanged. Nothing is held.
    """
    return _select(_expressions(expressions, named), adds=True)


def drop(*fields: str) -> Select:
    """Remove fields from the payload; otherwise as ``select``.

    Rows, lifetimes and CTIs pass unchanged and at once. Nothing is held.
    """
    if not fields:
        raise ArgumentError("drop takes at least one field")
    return Select(expressions=(), drops=fields)


def _expressions(positional: tuple[Any, ...], named: dict[str, Any]) -> tuple[pl.Expr, ...]:
    expressions = [pl.col(each) if isinstance(each, str) else each for each in positional]
    for name, value in named.items():
        if isinstance(value, str):
            value = pl.col(value)
        if callable(value) and not isinstance(value, pl.Expr):
            raise ArgumentError(
                f"{name}= takes an expression or a value, got the function {brief(value)}. Hint: "
                f"{name}=pl.col('x') * 2; or select(function, schema={{{name!r}: float}})."
            )
        expressions.append((value if isinstance(value, pl.Expr) else pl.lit(value)).alias(name))
    return tuple(expressions)


def find_kept_rows(inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
    """Return for each row the equal input row; of several the first is the first's, and so on."""
    of, row = match_equal_rows(output, inputs[0])
    wanted = np.isin(of, rows)
    return Causes.of_pairs(of[wanted], row[wanted])


def explain_unsatisfied(operator: Where, lost: LostRow) -> Fate:
    """Return the values of a row that do not satisfy the predicate."""
    names = operator.predicate.meta.root_names()
    values = {name: value for name, value in lost.payload.items() if name in names}
    return lost.tell(
        "dropped",
        f"dropped by {lost.place}: {write_values(values)} does not satisfy "
        f"{write_expression(operator.predicate)}",
        values=values,
    )


def explain_refused(operator: WhereRow, lost: LostRow) -> Fate:
    """Return the fate of a row of which the function is not true."""
    name = getattr(operator.predicate, "__name__", "the function")
    values = lost.payload
    return lost.tell(
        "dropped", f"dropped by {lost.place}: {name} is not true of {write_values(values)}",
        values=values,
    )  # fmt: skip


def make_field_error(error: AttributeError, operator: str) -> AttributeError:
    """Return the error for ``row.name``; another error as it is."""
    row: Any = error.obj
    if type(row) is not dict or error.name not in row:
        return error
    name = error.name
    return AttributeError(
        f"the function given to {operator} gets the row as a dict, which has no attribute "
        f"{name!r}. Hint: row[{name!r}]; or pl.col({name!r}) instead of a function.",
        name=name,
        obj=row,
    )


class WhereStep(Stateless):
    """Keeps the rows whose payload satisfies a predicate; null is false. Holds nothing."""

    def __init__(self, predicate: pl.Expr, schema: pl.Schema) -> None:
        self._predicate = Predicate(predicate, schema)

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows that satisfy the predicate, with the same lifetimes and CTI."""
        if not len(batch.start):  # without a call of the batch
            return batch
        return batch.take(self._predicate(batch.columns))


class WhereRowStep(Stateless):
    """Keeps the rows for which a Python function of the payload is true. Holds nothing.

    Costs a dict and a call for each row, about a microsecond.
    """

    def __init__(self, predicate: Callable[[dict[str, object]], object]) -> None:
        self._predicate = predicate

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows that satisfy the predicate, with the same lifetimes and CTI."""
        if not len(batch):
            return batch
        try:
            verdicts = [self._verdict(row) for row in batch.payload.iter_rows(named=True)]
        except AttributeError as error:
            raise make_field_error(error, "where") from error
        return batch.take(np.array(verdicts, np.bool_))

    def _verdict(self, row: dict[str, object]) -> bool:
        verdict = self._predicate(row)
        if verdict is None or isinstance(verdict, (bool, np.bool_)):
            return bool(verdict)
        hint = ""
        if isinstance(verdict, pl.Expr):
            hint = ". Hint: where takes the expression itself: where(pl.col('x') > 1)."
        raise SchemaError(
            f"a predicate returns True, False or None, got {verdict!r} for {row}{hint}"
        )


class SelectStep(Stateless):
    """Computes a new payload for each row from its own. Holds nothing."""

    def __init__(
        self, expressions: Sequence[pl.Expr], schema: pl.Schema, fields: pl.Schema
    ) -> None:
        self._projection = Projection(expressions, schema, fields)

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows with their new payload, the same lifetimes and CTI."""
        return batch.replace(payload=self._projection(batch.columns))


class SelectRowStep(Stateless):
    """Computes a new payload for each row from its own, by a Python function. Holds nothing.

    ``schema`` has the fields that the function returns; ``keys`` are kept, in front of them. Costs
    two dicts and a call for each row, a few microseconds.
    """

    def __init__(
        self, function: Callable[[dict[str, Any]], Any], schema: pl.Schema, keys: tuple[str, ...]
    ) -> None:
        self._function = function
        self._schema = schema
        self._keys = keys

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows with their new payload, the same lifetimes and CTI."""
        try:
            results = [self._function(row) for row in batch.payload.iter_rows(named=True)]
        except AttributeError as error:
            raise make_field_error(error, "select") from error
        try:
            made = PayloadReader(self._schema).frame(results)
        except BadPayloadError as error:
            given = batch.payload.row(error.row, named=True)
            if results[error.row] is None:
                raise SchemaError(
                    f"the function given to select returned None for {given}. Hint: it returns a "
                    "dict with the fields of schema=; perhaps a return is missing."
                ) from error
            raise SchemaError(
                f"the function given to select returned {results[error.row]!r} for {given}: {error}"
            ) from error
        if self._keys:
            made = pl.DataFrame([*batch.payload.select(self._keys).get_columns(), *made])
        return batch.replace(payload=made)
