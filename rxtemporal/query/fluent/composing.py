"""What all families of methods stand on: a plan, and how an operator is added to it."""

from __future__ import annotations

from typing import Self

import polars as pl

from rxtemporal.errors import ArgumentError
from rxtemporal.operators.explain import explained
from rxtemporal.operators.operator import Beside, Chain, Operator
from rxtemporal.operators.plan import Node


class Composing:
    """A stream that knows its plan; each operator gives a new one."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def schema(self) -> pl.Schema | None:
        """The payload's fields and types; None where only the first event will tell."""
        return self._node.schema

    @property
    def keys(self) -> tuple[str, ...]:
        """The fields that the stream is grouped by."""
        return self._node.keys

    def explain(self) -> str:
        """Return the plan as text: each operator with its fields, its CTI rule and what it holds.

        What an operator takes stands below it. The CTI rule says what the operator promises when
        its input has promised ``t``: where nothing comes out, look for the rule that waits. Of a
        source it is told where its CTIs come from, and what becomes of late events.

        >>> import rxtemporal as rxt
        >>> readings = rxt.from_events([], schema={"temp": int}, name="readings")
        >>> print(readings.to_point_events().explain())
        to_point_events: temp Int64
          | CTI: t; holds nothing
          source 'readings': temp Int64
            | time: the CTIs that it sends; if it sends none, nothing is final before its end
            | hint: advance_time= makes CTIs out of its events
        t: the CTI of what stands below, which is what an operator takes
        """
        return explained(self._node)

    def _then(self, operator: Operator | Chain | Beside) -> Self:
        """Return the stream of what an operator makes of this one."""
        if isinstance(operator, Beside):
            return self._with(operator)
        node = self._node
        for each in operator.operators if isinstance(operator, Chain) else (operator,):
            schema = None if node.schema is None else each.checked(node.schema, node.keys)
            keys = each.keys_after(node.keys)
            node = Node(schema, keys, operator=each, inputs=(node,))
        return type(self)(node)

    def _with(self, beside: Beside) -> Self:
        operator, other = beside.operator, beside.other
        if not isinstance(other, Composing):
            raise ArgumentError(
                f"{operator.name} takes another stream, got {other!r}. "
                "Hint: make one with from_events, from_polars, read_parquet …"
            )
        left, right = self._node, other._node
        schema = None
        if left.schema is not None and right.schema is not None:
            schema = operator.checked(left.schema, right.schema, left.keys, right.keys)
        keys = operator.keys_after(left.keys)
        return type(self)(Node(schema, keys, operator=operator, inputs=(left, right)))
