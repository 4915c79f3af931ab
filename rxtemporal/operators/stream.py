"""Streams that know their plan, to which operators are applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeAlias

import polars as pl

from rxtemporal.core.safe_text import brief, type_name
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.operator import Branch, Chain, Operator, PartialOperator
from rxtemporal.operators.plan import Node, list_direct_sources, synchronize_sources
from rxtemporal.operators.windows.plan import Windowed

if TYPE_CHECKING:
    from reactivex import Observable

    from rxtemporal.core.batch import EventBatch

Composed: TypeAlias = Operator | Chain | PartialOperator | Branch


class Stream:
    """A stream that knows its plan; each operator returns a new stream."""

    def __init__(self, node: Node) -> None:
        if not isinstance(node, Node):
            raise ArgumentError(
                f"a stream is not made of {brief(node)}. Hint: rxt.from_events, rxt.from_polars, "
                "rxt.read_csv … make one."
            )
        self._node = node

    def __getitem__(self, key: Any) -> Any:
        """Raise an error: a stream has no items before it runs."""
        raise TypeError(
            "a stream has no items and no length before it runs. Hint: select('x') has one field; "
            "to_events() returns the results, and to_polars() a frame of them."
        )

    if not TYPE_CHECKING:  # a type checker refuses len(stream) itself

        def __bool__(self) -> bool:
            """Raise an error: a stream is neither true nor false, nor empty, before it runs."""
            raise TypeError(
                "a stream is neither true nor false before it runs. Hint: stream is not None asks "
                "for the stream; stream.head(1).height, if it has results; predicates are combined "
                "with & and |."
            )

        def __len__(self) -> int:
            """Raise an error: the number of results is known when it has run."""
            raise TypeError(
                "a stream has no length before it runs. Hint: len(stream.to_polars()) counts the "
                "results; .tumbling_window('1m').aggregate(n=agg.count()) the events of a window."
            )

    @property
    def schema(self) -> pl.Schema | None:
        """The payload's fields and types; None if unknown before the first event."""
        return self._node.schema

    @property
    def keys(self) -> tuple[str, ...]:
        """The fields that the stream is grouped by."""
        return self._node.keys

    def explain(self) -> str:
        """Return the plan as text: each operator with its fields, its CTI rule and what it holds.

        An operator stands above its inputs. The CTI rule is the output CTI for an input CTI ``t``:
        if there are no results, look for the rule that waits. For a source the plan says where its
        CTIs come from and what happens to late events.

        >>> import rxtemporal as rxt
        >>> readings = rxt.from_events([], schema={"temp": int}, name="readings")
        >>> print(readings.to_point_events().explain())
        to_point_events: temp Int64
          | CTI: t; holds nothing
          source 'readings': temp Int64
            | time: the CTIs that it sends; if it sends none, nothing is final before its end
            | hint: advance_time= makes CTIs out of its events
        t: the CTI of the operator's input, which is the line below it
        """
        # imported here, since few queries need it
        from rxtemporal.operators.explain import explain

        return explain(self._node)

    def _compose(self, operator: Composed) -> Self:
        """Return this stream with an operator applied to it."""
        if isinstance(operator, Branch):
            return self._branch(operator)
        if isinstance(operator, PartialOperator):
            return self._compose_two(operator)
        stream = self
        for each in operator.operators if isinstance(operator, Chain) else (operator,):
            stream = stream._compose_one(each)
        return stream

    def _compose_one(self, operator: Operator) -> Self:
        node = self._node
        if operator.makes_one_time and node.clock is not None:
            return type(self)(synchronize_sources(node, operator))
        operator = operator.for_stream(node.time, node.schema)
        operator.check_ends(are_known=node.knows_ends)
        operator.check_sources(list_direct_sources(node))
        schema = None if node.schema is None else operator.check(node.schema, node.keys)
        keys = operator.output_keys(node.keys)
        return type(self)(Node(schema, keys, operator=operator, inputs=(node,)))

    def _compose_two(self, partial: PartialOperator) -> Self:
        operator, other = partial.operator, partial.other
        if not isinstance(other, Stream):
            if isinstance(other, Windowed):
                raise ArgumentError(
                    f"{operator.name} takes another stream, got windows without results. "
                    "Hint: .aggregate(…), .top_k(…) or .apply(…) makes a stream of windows."
                )
            raise ArgumentError(
                f"{operator.name} takes another stream, got {_show(other)}. "
                "Hint: make one with from_events, from_polars or read_parquet."
            )
        before = [Chain(each) for each in partial.before]
        left, right = self._compose(before[0])._node, other._compose(before[1])._node
        schema = None
        if left.schema is not None and right.schema is not None:
            schema = operator.check(left.schema, right.schema, left.keys, right.keys)
        keys = operator.output_keys(left.keys)
        joined = type(self)(Node(schema, keys, operator=operator, inputs=(left, right)))
        return joined._compose(Chain(partial.after))

    def _branch(self, branch: Branch) -> Self:
        if branch.end is not None and not self.keys:
            raise ArgumentError(
                f"{branch.name} runs a branch for each key. Hint: group_by(…) comes first."
            )
        result = branch.function(self)
        if not isinstance(result, type(self)):
            raise ArgumentError(
                f"the branch of {branch.name} has to return a stream, got {result!r}"
            )
        if branch.end is None:
            return result
        from rxtemporal.operators.partition import find_mixing

        if (mixing := find_mixing(self._node, result._node)) is not None:
            assert mixing.operator is not None
            keys = ", ".join(map(repr, self.keys))
            raise ArgumentError(
                f"{mixing.operator.name} in the branch of {branch.name} would take rows of "
                f"different keys together: windows before it have ended the grouping by {keys}. "
                f"Hint: group_by({keys}) before it; or ungroup(), if all keys are meant."
            )
        return result._compose(branch.end) if result.keys else result


def _show(value: Any) -> str:
    shown = brief(value)
    return type_name(value) if "\n" in shown else shown


Other: TypeAlias = "Stream | Observable[EventBatch]"
"""The other input of an operator: a stream, or in a ``pipe`` an observable of batches."""
