"""Settings of operators as text, for fingerprints: the same text in another process."""

from __future__ import annotations

import dataclasses
from typing import Any

import polars as pl

from rxtemporal.operators import expressions

# fields that are no setting of an operator: a span is the same number however it was given
_UNWRITTEN = ("line", "time")


def describe_settings(described: Any) -> str:
    """Return the fields of an operator, or of a part of one, with their values."""
    fields = [f.name for f in dataclasses.fields(described) if f.name not in _UNWRITTEN]
    return ", ".join(f"{name}={describe_value(getattr(described, name))}" for name in fields)


def describe_value(value: Any) -> str:
    """Return a setting of an operator as text that is the same in another process."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return f"{type(value).__name__}({describe_settings(value)})"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(describe_value, value))}]"
    if isinstance(value, pl.Expr):
        return expressions.describe(value)
    if callable(value):
        return str(getattr(value, "__qualname__", type(value).__qualname__))
    if " at 0x" in repr(value):  # an address differs between processes
        return type(value).__qualname__
    return repr(value)
