"""A query over DataFrames, and how its rows are split into buckets."""

from __future__ import annotations

import dataclasses
import inspect
import json
import operator
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from rxtemporal.core.batch import END, START
from rxtemporal.core.schema import refuse_lists
from rxtemporal.core.time_forms import TimeForm
from rxtemporal.errors import ArgumentError, BindingError, SchemaError
from rxtemporal.ingress.side_source import SideSource
from rxtemporal.operators.explain import explain as explain_plan
from rxtemporal.operators.operator import Keys, Operator
from rxtemporal.operators.partition import Partition, find_partition
from rxtemporal.operators.plan import AnySource, Node, compose_again
from rxtemporal.query.inputs import from_events
from rxtemporal.query.streamable import Streamable
from rxtemporal.spark.jvm.session import require_pyspark
from rxtemporal.spark.query.cti_column import PROMISED
from rxtemporal.spark.query.inputs import DataFrameInput, as_input
from rxtemporal.spark.query.reader import InputReader
from rxtemporal.spark.schema import quote_name, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from rxtemporal.ingress.clock_settings import ClockSettings


Query = Callable[..., Streamable]


def compose_plan(
    query: Query,
    schemas: Mapping[str, pl.Schema],
    clocks: Mapping[str, ClockSettings | None] | None = None,
    times: Mapping[str, TimeForm] | None = None,
) -> Node:
    """Return the plan of a query over streams with these fields, clocks of devices, and times."""
    if not callable(query):
        raise ArgumentError(f"run takes a function from streams to a stream, got {query!r}")
    try:
        inspect.signature(query).bind(**dict(schemas))
    except TypeError as error:
        raise BindingError(
            f"the DataFrames do not match the query's parameters: {error}. Hint: pass each "
            "DataFrame under the name of a parameter."
        ) from error
    found, forms = clocks or {}, times or {}
    streams = {
        name: Streamable(_make_source(name, fields, found.get(name), forms.get(name)))
        for name, fields in schemas.items()
    }
    result = query(**streams)
    if not isinstance(result, Streamable):
        raise BindingError(f"a query returns a stream, got {result!r}")
    plan = result._node
    own = {id(each._node) for each in streams.values()}
    for node in plan.list_nodes():
        if node.source is not None and id(node) not in own:
            _refuse_late_rows(node.source, streams)
            raise BindingError(
                f"the query reads {node.source.name!r}, which is not one of its parameters. "
                "Hint: in Spark every stream comes from a DataFrame; make it a parameter."
            )
    assert plan.schema is not None
    refuse_lists(plan.schema)
    if clash := {START, END} & set(plan.schema):
        raise SchemaError(
            f"the result has a field {min(clash)!r}, the name of a column for its lifetimes. "
            "Hint: rename it with select()."
        )
    return plan


def _make_source(
    name: str,
    fields: pl.Schema,
    clock: ClockSettings | None = None,
    time: TimeForm | None = None,
) -> Node:
    """Return an input of a plan."""
    source: Any = from_events([], schema=fields, name=name)._node.source
    source.use_clock(clock)
    source.use_time(time)
    return Node(source.schema, (), source=source)


def separate_synchronized(
    plan: Node, inputs: Mapping[str, DataFrameInput]
) -> tuple[Node, dict[str, DataFrameInput]]:
    """Return a plan without operators that make one time, and inputs that have one in their place.

    Such an operator stands right behind its input: its door judges the rows a second time.
    """
    found, new, origins = dict(inputs), dict[int, Node](), dict[str, str]()
    nodes = plan.list_nodes()
    for node in nodes:
        operator: Any = node.operator
        if operator is None or not operator.makes_one_time:
            continue
        (source,) = node.inputs
        assert source.source is not None
        assert source.schema is not None
        name = origin = source.source.name
        while name in found:
            name += ", synchronized"
        origins[name] = origin
        found[name] = dataclasses.replace(inputs[origin], synchronized=operator, late=None)
        new[id(node)] = _make_source(name, source.schema, time=source.time)
    plan = _rebuild(nodes, new)[id(plan)]
    counted = {node.source.name for node in plan.list_nodes() if node.source is not None}
    for name, origin in origins.items():
        if origin not in counted:  # the counts of late rows have one place
            counted.add(origin)
            found[name] = dataclasses.replace(found[name], late=inputs[origin].late)
    return plan, found


def forget_clocks(plan: Node) -> Node:
    """Return a plan in which all rows have one time: those that are accepted are all there."""
    for node in plan.list_nodes():
        if node.source is not None:
            source: Any = node.source
            source.use_clock(None)
    return compose_again([plan])[0]


def _refuse_late_rows(source: AnySource, streams: Mapping[str, Streamable]) -> None:
    """Refuse a query that asks for late rows of an input, or for another time of it."""
    name = source.origin.name if isinstance(source, SideSource) else source.name
    if name in streams:
        raise BindingError(
            f"the query needs the late rows of {name!r}, which are dropped in Spark before it. "
            "Hint: leave follows= of reference() out, since all rows of a DataFrame without "
            "advance_time= are in time; or run the query in this process, over "
            f"spark.from_dataframe(…, name={name!r})."
        )


def check_reference(plan: Node, judged: Collection[str]) -> None:
    """Refuse reference data over inputs that drop late rows: these would never be valid."""
    for node in plan.list_nodes():
        if node.operator is None or not node.operator.takes_late_rows:
            continue
        for each in node.list_nodes():
            if each.source is not None and each.source.name in judged:
                raise BindingError(
                    f"reference takes late rows, too, and Spark drops those of "
                    f"{each.source.name!r} before the query, since this input has advance_time=. "
                    "Hint: leave it out, if the DataFrame is complete; or run the query in this "
                    "process, over spark.from_dataframe(…)."
                )


def check_cti(name: Any, schema: pl.Schema) -> None:
    """Refuse a name for the column of CTIs that is not a name or that a field has."""
    if not isinstance(name, str) or not name:
        raise ArgumentError(
            f"cti is the name of a column for the result's CTIs, got {name!r}. Hint: a parameter "
            "of a query cannot be called cti or buckets here; those are run's own."
        )
    if name.casefold() in {each.casefold() for each in (START, END, *schema)}:
        raise SchemaError(
            f"the result has a column {name!r} already, so its CTIs need another: "
            f"it has {', '.join([START, END, *schema])}"
        )


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtEq": operator.le,
    "Gt": operator.gt,
    "GtEq": operator.ge,
}
_LOGIC: dict[str, Callable[[Any, Any], Any]] = {"And": operator.and_, "Or": operator.or_}
_MOST = 2**63


class _UnsupportedError(Exception):
    """Spark may give another result."""


@dataclasses.dataclass(frozen=True)
class _Value:
    """A part of a predicate as a Spark column, with the kind of its values."""

    column: Any
    kind: str


def push_down(
    plan: Node, inputs: Mapping[str, DataFrameInput]
) -> tuple[Node, dict[str, DataFrameInput], dict[str, list[Node]]]:
    """Return the rest of the plan, the inputs with pushed-down operators, and these by input."""
    nodes = plan.list_nodes()
    uses = Counter(id(each) for node in nodes for each in node.inputs)
    after = {id(each): node for node in nodes for each in node.inputs if uses[id(each)] == 1}
    given, pushed, new = dict(inputs), {name: list[Node]() for name in inputs}, dict[int, Node]()
    for node in nodes:
        if node.source is None:
            continue
        name, last = node.source.name, node
        while (following := after.get(id(last))) is not None:
            done = _push_operator(following, given[name])
            if done is None:
                break
            given[name], last = done, following
            pushed[name].append(following)
        if last is not node:
            new[id(last)] = dataclasses.replace(node, schema=given[name].schema)
    return _rebuild(nodes, new)[id(plan)], given, pushed


def _rebuild(nodes: list[Node], new: dict[int, Node]) -> dict[int, Node]:
    made = dict(new)
    for node in nodes:
        if id(node) not in made:
            inputs = tuple(made[id(each)] for each in node.inputs)
            made[id(node)] = dataclasses.replace(node, inputs=inputs)
    return made


def _push_operator(node: Node, given: DataFrameInput) -> DataFrameInput | None:
    """Return the input after an operator that Spark computes, or None."""
    if given.advance_time is not None or node.keys:
        return None
    try:
        if node.operator is not None and (predicate := node.operator.row_filter) is not None:
            return _push_where(predicate, given)
        if isinstance(node.operator, Operator) and node.operator.projects:
            return _push_select(node.operator, given)
    except _UnsupportedError:
        pass
    return None


def _push_where(predicate: pl.Expr, given: DataFrameInput) -> DataFrameInput:
    from pyspark.sql import functions as sf

    tree = json.loads(predicate.meta.serialize(format="json"))
    wanted = _translate(tree, given.schema)
    if wanted.kind != "bool":
        raise _UnsupportedError
    keep = wanted.column
    if given.cti is not None:  # a CTI is not a row
        keep = sf.col(quote_name(given.cti)).isNotNull() | keep
    return dataclasses.replace(given, frame=given.frame.where(keep))


def _push_select(select: Operator, given: DataFrameInput) -> DataFrameInput:
    from pyspark.sql import functions as sf

    schema = given.schema
    output = select.output(schema, ())
    stays = {name: fields[0] for name, fields in select.partition((schema,), ()).keeps}
    times = list(dict.fromkeys(filter(None, (given.start, given.end, given.cti))))
    names = [name.casefold() for name in [*times, *output]]
    if set(stays) != set(output) or len(set(names)) < len(names):
        raise _UnsupportedError
    fields = [sf.col(quote_name(stays[name] or name)).alias(name) for name in output]
    frame = given.frame.select(*(sf.col(quote_name(time)) for time in times), *fields)
    return dataclasses.replace(given, frame=frame)


# Predicates ---------------------------------------------------------------------------------------


def _translate(tree: Any, schema: pl.Schema) -> _Value:
    """Return a part of a predicate in Spark's form."""
    from pyspark.sql import functions as sf

    if not isinstance(tree, dict) or len(tree) != 1:
        raise _UnsupportedError
    ((what, inner),) = tree.items()
    if what == "Column":
        return _Value(sf.col(quote_name(inner)), _kind(schema[inner]))
    if what == "Literal":
        return _constant(inner)
    if what == "BinaryExpr":
        left, right = (_translate(inner[side], schema) for side in ("left", "right"))
        return _combine(inner["op"], left, right)
    if what == "Function":
        return _function(inner["function"], [_translate(each, schema) for each in inner["input"]])
    raise _UnsupportedError


def _kind(dtype: pl.DataType) -> str:
    if dtype.is_integer():
        return "int"
    # a Float32 compared with a constant is compared as one here, and as a double in Spark
    return {pl.Float64: "float", pl.String: "str", pl.Boolean: "bool"}.get(type(dtype), "other")


def _constant(given: Any) -> _Value:
    from pyspark.sql import functions as sf

    ((form, inner),) = given.items()
    if form not in ("Dyn", "Scalar") or not isinstance(inner, dict):
        raise _UnsupportedError
    ((name, value),) = inner.items()
    kinds = {"Int": int, "Float": float, "Str": str, "Bool": bool}
    for prefix, kind in kinds.items():
        if name.startswith(prefix) and type(value) is kind and name != "Float32":
            if isinstance(value, int) and not -_MOST <= value < _MOST:
                raise _UnsupportedError
            return _Value(sf.lit(value), kind.__name__)
    raise _UnsupportedError


def _combine(op: str, left: _Value, right: _Value) -> _Value:
    if left.kind != right.kind or left.kind == "other":
        raise _UnsupportedError
    if op in _LOGIC and left.kind == "bool":
        return _Value(_LOGIC[op](left.column, right.column), "bool")
    if op in _COMPARISONS:
        return _Value(_COMPARISONS[op](left.column, right.column), "bool")
    raise _UnsupportedError


def _function(named: Any, values: list[_Value]) -> _Value:
    if named == {"Boolean": "IsNull"}:
        return _Value(values[0].column.isNull(), "bool")
    if named == {"Boolean": "IsNotNull"}:
        return _Value(values[0].column.isNotNull(), "bool")
    if named == {"Boolean": "Not"} and values[0].kind == "bool":
        return _Value(~values[0].column, "bool")
    raise _UnsupportedError


# a bucket takes about a millisecond of each micro-batch
_LEAST_OF_STREAM = 32


@dataclasses.dataclass(frozen=True)
class Job:
    """A query over DataFrames and its split; ``pushed_down`` are the operators of Spark itself."""

    plan: Node
    inputs: Mapping[str, DataFrameInput]
    split: Partition
    buckets: int
    pushed_down: Mapping[str, list[Node]]
    cti: str | None = None

    @classmethod
    def compose(
        cls, query: Query, given: Mapping[str, Any], buckets: int | None, cti: str | None = None
    ) -> Job:
        """Compose a query and find its split."""
        require_pyspark()
        inputs = {name: as_input(name, each) for name, each in given.items()}
        if not inputs:
            raise ArgumentError("run takes at least one DataFrame, by the name of a parameter")
        plan = compose_plan(
            query,
            {name: each.schema for name, each in inputs.items()},
            {name: each.clock for name, each in inputs.items()},
            {name: each.time for name, each in inputs.items()},
        )
        check_reference(plan, {name for name, each in inputs.items() if each.advance_time})
        if cti is not None:
            check_cti(cti, plan.schema or pl.Schema())
        plan, inputs = separate_synchronized(plan, inputs)
        clocked = [inputs[each.source.name] for each in plan.device_sources if each.source]
        if clocked and all(each.ends and not each.frame.isStreaming for each in clocked):
            plan = forget_clocks(plan)
        if cti is not None and plan.clock is not None:
            raise ArgumentError(
                f"cti={cti!r} is a column of CTIs that hold for all rows, and each device has its "
                "own time in the results. Hint: .synchronize('1h') at the end of the query."
            )
        plan, inputs, pushed_down = push_down(plan, inputs)
        split = find_partition(plan)
        if buckets is None:
            buckets = _choose_buckets(next(iter(inputs.values())).frame)
        if isinstance(buckets, bool) or not isinstance(buckets, int) or buckets < 1:
            raise ArgumentError(f"buckets is a positive int, got {buckets!r}")
        buckets = 1 if split.reason is not None else buckets
        return cls(plan, inputs, split, buckets, pushed_down, cti)

    @property
    def is_streaming(self) -> bool:
        """True if the inputs are streaming DataFrames; all have to be, or none."""
        kinds = {bool(each.frame.isStreaming) for each in self.inputs.values()}
        if len(kinds) > 1:
            raise BindingError(
                "some of these DataFrames are bounded and some streaming. Hint: read all of them "
                "with spark.read, or all with spark.readStream."
            )
        return kinds.pop()

    @property
    def sources(self) -> list[Node]:
        """The plan's sources."""
        return [node for node in self.plan.list_nodes() if node.source is not None]

    @property
    def readers(self) -> tuple[InputReader, ...]:
        """Readers of the inputs that the plan uses, numbered by their names.

        The numbers stand in states, which do not depend on the order of arguments.
        """
        names = sorted(node.source.name for node in self.sources if node.source is not None)
        numbers = {name: number for number, name in enumerate(names)}
        return tuple(
            InputReader(
                node.source.name,
                numbers[node.source.name],
                node.schema or pl.Schema(),
                () if node.source.clock is None else node.source.clock.fields,
            )
            for node in self.sources
            if node.source is not None
        )

    def split_by(self, name: str) -> Keys:
        """Return the columns that an input is split by; none if any row may be in any bucket."""
        return next(
            self.split.get_fields(n) for n in self.sources if n.source and n.source.name == name
        )

    @cached_property
    def tick_schema(self) -> StructType:
        """The results as tasks write them: times as ticks, then fields by number."""
        fields = {f"f{i}": t for i, t in enumerate((self.plan.schema or {}).values())}
        return spark_schema({"s": pl.Int64(), "e": pl.Int64(), **fields})

    @cached_property
    def tick_schema_with_cti(self) -> StructType:
        """The same, followed by the column of CTIs."""
        return type(self.tick_schema)([*self.tick_schema]).add(PROMISED, "long")

    def name_columns(self, rows: DataFrame) -> DataFrame:
        """Return results with times and fields under the user's names."""
        from pyspark.sql import functions as sf

        ticks = self.plan.time == "ticks"
        times = [_as_time(column, ticks).alias(name) for column, name in (("s", START), ("e", END))]
        fields = [sf.col(f"f{i}").alias(name) for i, name in enumerate(self.plan.schema or ())]
        ctis = [] if self.cti is None else [_as_time(PROMISED, ticks).alias(self.cti)]
        return rows.select(*times, *fields, *ctis)

    def explain(self) -> str:
        """Return the plan and the split as text."""
        text = explain_plan(self.plan)
        for name, nodes in self.pushed_down.items():
            if operators := [node.operator.name for node in nodes if node.operator is not None]:
                text += f"\nSpark itself does of {name!r}: {', '.join(operators)}"
        if self.split.reason is not None:
            return f"{text}\none bucket: {self.split.reason}"
        columns = [
            f"{name!r} by {', '.join(self.split_by(name)) or 'any row'}"
            for name in (reader.name for reader in self.readers)
        ]
        return f"{text}\n{self.buckets} buckets, split: {'; '.join(columns)}"


def _choose_buckets(frame: DataFrame) -> int:
    """Return the number of partitions; of a stream a multiple, so that there may be more later."""
    partitions = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions"))
    return -(-_LEAST_OF_STREAM // partitions) * partitions if frame.isStreaming else partitions


def _as_time(name: str, ticks: bool) -> Column:
    """Return a column of ticks as the user's kind of times."""
    from pyspark.sql import functions as sf

    return sf.col(name) if ticks else sf.timestamp_micros(sf.col(name))
