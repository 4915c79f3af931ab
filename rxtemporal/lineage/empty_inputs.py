"""Inputs that ended before their fields were known."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import polars as pl

from rxtemporal.operators.causes.history import History
from rxtemporal.operators.operator import Operator, TwoInputs


def assume_fields(operator: Operator | TwoInputs, inputs: Sequence[History]) -> Sequence[History]:
    """Return the inputs of an operator, one without rows and fields with those that it assumes."""
    unknown = [not len(each) and not each.payload.width for each in inputs]
    if not isinstance(operator, TwoInputs) or unknown.count(True) != 1:
        return inputs
    missing = unknown.index(True)
    known = inputs[1 - missing]
    schema = inputs[missing].node.schema
    if schema is None:
        schema = operator.assume_fields(missing, known.payload.schema, known.keys)
    filled = dataclasses.replace(inputs[missing], payload=pl.DataFrame(schema=schema))
    return [filled, known] if missing == 0 else [known, filled]
