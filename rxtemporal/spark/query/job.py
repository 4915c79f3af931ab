"""A query over DataFrames, and how its rows are split into buckets."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from rxtemporal.core.batch import END, START
from rxtemporal.errors import ArgumentError, BindingError
from rxtemporal.operators.explain import explain as explain_plan
from rxtemporal.operators.operator import Keys
from rxtemporal.operators.partition import Partition, find_partition
from rxtemporal.operators.plan import Node
from rxtemporal.spark.jvm.session import require_pyspark
from rxtemporal.spark.query.bounded_bucket import InputReader
from rxtemporal.spark.query.cti_column import PROMISED
from rxtemporal.spark.query.inputs import DataFrameInput, as_input
from rxtemporal.spark.query.push_down import push_down
from rxtemporal.spark.query.query_plan import Query, check_cti, check_reference, compose_plan
from rxtemporal.spark.schema import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


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
        plan = compose_plan(query, {name: each.schema for name, each in inputs.items()})
        check_reference(plan, {name for name, each in inputs.items() if each.advance_time})
        if cti is not None:
            check_cti(cti, plan.schema or pl.Schema())
        plan, inputs, pushed_down = push_down(plan, inputs)
        split = find_partition(plan)
        if buckets is None:
            session = next(iter(inputs.values())).frame.sparkSession
            buckets = int(session.conf.get("spark.sql.shuffle.partitions"))
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
        """Readers of the inputs that the plan uses."""
        numbers = {name: number for number, name in enumerate(self.inputs)}
        return tuple(
            InputReader(node.source.name, numbers[node.source.name], node.schema or pl.Schema())
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

        ticks = next(iter(self.inputs.values())).ticks
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


def _as_time(name: str, ticks: bool) -> Column:
    """Return a column of ticks as the user's kind of times."""
    from pyspark.sql import functions as sf

    return sf.col(name) if ticks else sf.timestamp_micros(sf.col(name))
