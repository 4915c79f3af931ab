"""A query run inside Spark: the same function of streams, over DataFrames."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from rxtemporal.core.batch import END, START
from rxtemporal.core.log import get_logger
from rxtemporal.core.schema import refuse_lists
from rxtemporal.errors import ArgumentError, BindingError, SchemaError
from rxtemporal.operators.alter import AlterEventLifetime
from rxtemporal.operators.explain import explain as explain_plan
from rxtemporal.operators.operator import Keys
from rxtemporal.operators.partition import Splitting, splitting
from rxtemporal.operators.plan import Node
from rxtemporal.query.inputs import from_events
from rxtemporal.query.streamable import Streamable
from rxtemporal.spark.jvm.session import require_pyspark
from rxtemporal.spark.query.bounded_bucket import BucketRun, Judge, Reader
from rxtemporal.spark.query.columns import BUCKET, ENDS, STARTS, carried_rows, everywhere, united
from rxtemporal.spark.query.cti_column import PROMISED, Lowest, Telling, with_end
from rxtemporal.spark.query.inputs import Input, as_input
from rxtemporal.spark.query.push_down import handed_over
from rxtemporal.spark.query.streaming import streamed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = get_logger(__name__)

Query = Callable[..., Streamable]


def run(
    query: Query, /, *, buckets: int | None = None, cti: str | None = None, **dataframes: Any
) -> DataFrame:
    """Return what a query makes of DataFrames, as a DataFrame: lazily, when Spark asks for it.

    ``query`` is a plain function of streams, as it would be called with ``from_polars(…)``; the
    DataFrames go by the names of its parameters. Columns are named ``start_time`` and ``end_time``
    (without the latter rows are points), or as ``stream(df, start=…, end=…)`` says; the others are
    the payload. The result has ``start_time``, ``end_time`` (null: never ends) and the payload;
    its rows are in no order.

    Filters and choices of fields that Spark does as well are its own; ``explain`` names them. Rows
    go to ``buckets`` (by default as many as ``spark.sql.shuffle.partitions``) by a hash of
    the fields that the plan can be split by, and each bucket runs the whole query over its part. A
    plan that cannot be split runs in one bucket; it is logged, and ``explain`` says why.

    A task reads its bucket in order of start and holds what the query holds; sorting is Spark's.
    An operator whose functions alter lifetimes (``alter_event_…``) has all of its bucket in memory.

    Streaming DataFrames give a streaming one, in append mode, whose rows come when they are final.
    Their CTIs go to every bucket, and each bucket's state is one value in Spark's state store. A
    checkpoint belongs to the query, the number of buckets and the shuffle partitions that began it;
    others are refused with a ``CheckpointError``, as the cause of Spark's own error. A row that
    breaks the CTI of an earlier micro-batch ends the query.

    ``cti`` names one more column of the result, for its CTIs: where it is not null the row is no
    event, its other columns are null, and no row of a later micro-batch starts before it. That is
    what ``stream(df, cti=…)`` reads, so that one run can feed another, at once or by way of a
    table. A CTI is the lowest of all buckets', comes when time has advanced, after the rows of its
    micro-batch, and never goes back; for it all results pass one task. A bounded result has one,
    the end of time; where an input ends before that it is lower, and rows pass one task there too.
    """
    job = Job.of(query, dataframes, buckets, cti)
    if job.split.reason is not None:
        log.warning("spark.one_bucket", reason=job.split.reason)
    return job.named(streamed(job)) if job.streaming else job.bounded()


def explain(query: Query, /, *, buckets: int | None = None, **dataframes: Any) -> str:
    """Return the plan of a query as text, and by which columns its inputs are split, or why not."""
    return Job.of(query, dataframes, buckets).explained()


@dataclasses.dataclass(frozen=True)
class Job:
    """A query over DataFrames, and how it is split."""

    plan: Node
    inputs: Mapping[str, Input]
    split: Splitting
    buckets: int
    handed: Mapping[str, list[Node]]
    cti: str | None = None

    @classmethod
    def of(
        cls, query: Query, given: Mapping[str, Any], buckets: int | None, cti: str | None = None
    ) -> Job:
        """Compose the query and see what it can be split by."""
        require_pyspark()
        inputs = {name: as_input(name, each) for name, each in given.items()}
        if not inputs:
            raise ArgumentError("run takes at least one DataFrame, by the name of a parameter")
        plan = composed(query, {name: each.schema for name, each in inputs.items()})
        if cti is not None:
            check_cti(cti, plan.schema or pl.Schema())
        plan, inputs, handed = handed_over(plan, inputs)
        split = splitting(plan)
        if buckets is None:
            session = next(iter(inputs.values())).frame.sparkSession
            buckets = int(session.conf.get("spark.sql.shuffle.partitions", "2") or 2)
        if isinstance(buckets, bool) or not isinstance(buckets, int) or buckets < 1:
            raise ArgumentError(f"buckets is a positive int, got {buckets!r}")
        return cls(plan, inputs, split, 1 if split.reason is not None else buckets, handed, cti)

    @property
    def streaming(self) -> bool:
        """Whether the inputs are streaming DataFrames; all have to be, or none."""
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
        return [node for node in self.plan.every() if node.source is not None]

    @property
    def readers(self) -> tuple[Reader, ...]:
        """How the inputs that the plan reads are read."""
        numbers = {name: number for number, name in enumerate(self.inputs)}
        return tuple(
            Reader(node.source.name, numbers[node.source.name], node.schema or pl.Schema())
            for node in self.sources
            if node.source is not None
        )

    def split_by(self, name: str) -> Keys:
        """Return the columns that an input is split by; none where any row may be anywhere."""
        return next(self.split.of(n) for n in self.sources if n.source and n.source.name == name)

    @property
    def anywhere(self) -> bool:
        """Whether every row may be anywhere, so that none has to be moved."""
        free = self.split.reason is None and not any(map(self.split.of, self.sources))
        given = self.inputs.values()
        return free and all(each.advance_time is None and each.cti is None for each in given)

    def bounded(self) -> DataFrame:
        """Return the result for bounded DataFrames."""
        rows = united([self._rows(reader) for reader in self.readers])
        if not self.anywhere:
            rows = rows.repartitionById(self.buckets, BUCKET)
        rows = rows.sortWithinPartitions(STARTS)
        # functions of time are held to what was committed, which on the Rx side only settings do
        steady = not any(isinstance(n.operator, AlterEventLifetime) for n in self.plan.every())
        told = frozenset(r.number for r in self.readers if self.inputs[r.name].cti is not None)
        work = BucketRun(self.plan, self.readers, self.written[1], steady, told)
        if self.cti is None:
            return self.named(rows.mapInArrow(work, self.written[0]))
        schema, written = self.given_out
        if all(each.ends for each in self.inputs.values()):
            return self.named(with_end(rows.mapInArrow(work, self.written[0]), schema))
        made = rows.mapInArrow(Telling(work, written), schema)
        return self.named(made.repartition(1).mapInArrow(Lowest(written), schema))

    def _rows(self, reader: Reader) -> DataFrame:
        given = self.inputs[reader.name]
        rows = carried_rows(reader.number, given, self.split_by(reader.name), self.buckets)
        if given.cti is not None:
            return everywhere(rows, self.buckets)
        if given.advance_time is None:
            return rows
        order = [f"o{i}" for i in range(len(given.order_by))]
        schema = rows.drop(*order).schema
        judge = Judge(reader, given.advance_time, self.buckets, _arrow_schema(schema))
        return (
            rows.repartition(1).sortWithinPartitions(*order, STARTS, ENDS).mapInArrow(judge, schema)
        )

    @property
    def written(self) -> tuple[Any, Any]:
        """The results as tasks write them, for Spark and for Arrow: times as ticks."""
        import pyarrow as pa
        from pyspark.sql.pandas.types import from_arrow_schema

        times = [pl.Series("s", [], pl.Int64), pl.Series("e", [], pl.Int64)]
        fields = [
            pl.Series(f"f{i}", [], t) for i, t in enumerate((self.plan.schema or {}).values())
        ]
        empty = pl.DataFrame([*times, *fields]).to_arrow(compat_level=pl.CompatLevel.oldest())
        schema = from_arrow_schema(pa.schema(empty.schema))
        return schema, _arrow_schema(schema)

    @property
    def given_out(self) -> tuple[Any, Any]:
        """The same with the column of CTIs behind."""
        schema = self.written[0].add(PROMISED, "long")
        return schema, _arrow_schema(schema)

    def named(self, written: DataFrame) -> DataFrame:
        """Return the results with times and fields as users know them."""
        from pyspark.sql import functions as sf

        ticks = next(iter(self.inputs.values())).ticks
        times = {START: sf.col("s"), END: sf.col("e")}
        columns = [
            (column if ticks else sf.timestamp_micros(column)).alias(name)
            for name, column in times.items()
        ]
        fields = [sf.col(f"f{i}").alias(name) for i, name in enumerate(self.plan.schema or ())]
        if self.cti is not None:
            told = sf.col(PROMISED)
            fields.append((told if ticks else sf.timestamp_micros(told)).alias(self.cti))
        return written.select(*columns, *fields)

    def explained(self) -> str:
        """Return the plan and the split as text."""
        text = explain_plan(self.plan)
        for name, nodes in self.handed.items():
            if operators := [node.operator.name for node in nodes if node.operator is not None]:
                text += f"\nSpark itself does of {name!r}: {', '.join(operators)}"
        if self.split.reason is not None:
            return f"{text}\none bucket: {self.split.reason}"
        told = [
            f"{name!r} by {', '.join(self.split_by(name)) or 'any row'}"
            for name in (reader.name for reader in self.readers)
        ]
        return f"{text}\n{self.buckets} buckets, split: {'; '.join(told)}"


def composed(query: Query, schemas: Mapping[str, pl.Schema]) -> Node:
    """Return the plan of a query over streams of these fields."""
    if not callable(query):
        raise ArgumentError(f"run takes a function from streams to a stream, got {query!r}")
    try:
        inspect.signature(query).bind(**dict(schemas))
    except TypeError as error:
        raise BindingError(
            f"the query and the DataFrames do not fit: {error}. Hint: each DataFrame is given by "
            "the name of the query's parameter."
        ) from error
    streams = {name: from_events([], schema=fields, name=name) for name, fields in schemas.items()}
    result = query(**streams)
    if not isinstance(result, Streamable):
        raise BindingError(f"a query returns a stream, got {result!r}")
    plan = result._node
    own = {id(each._node) for each in streams.values()}
    for node in plan.every():
        if node.source is not None and id(node) not in own:
            raise BindingError(
                f"the query reads {node.source.name!r}, which is no parameter of it. Hint: in "
                "Spark every stream comes from a DataFrame; make it a parameter."
            )
    assert plan.schema is not None
    refuse_lists(plan.schema)
    if clash := {START, END} & set(plan.schema):
        raise SchemaError(
            f"the result has a field {min(clash)!r}, which is the lifetime's name on the way out. "
            "Hint: rename it with select()."
        )
    return plan


def check_cti(name: Any, schema: pl.Schema) -> None:
    """Refuse what cannot be the name of the column of CTIs beside these fields."""
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


def _arrow_schema(schema: Any) -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")
