"""Reading the columns of the event-flow page, as its scripts do."""

from __future__ import annotations

import base64
import itertools
import json
import math
import re
from typing import Any

import numpy as np

_TYPES = {"f64": "<f8", "i32": "<i4", "u8": "|u1"}
_FLOW = re.compile(r'<script type="application/json" id="flow">(.*?)</script>', re.S)


def read_numbers(column: dict[str, Any]) -> list[Any]:
    """Return the numbers of a column of numbers."""
    values = np.frombuffer(base64.b64decode(column["data"]), _TYPES[column["type"]])
    assert len(values) == column["n"]
    return values.tolist()


def read_column(column: dict[str, Any]) -> list[Any]:
    """Return the values of any column; None for null, infinite for an end of time."""
    if column["type"] == "dict":
        codes = read_numbers(column["codes"])
        return [None if code < 0 else column["values"][code] for code in codes]
    values = read_numbers(column)
    if "origin" in column:
        origin = int(column["origin"])
        values = [each if math.isinf(each) else origin + int(each) for each in values]
    nulls = read_numbers(column["nulls"]) if "nulls" in column else [0] * len(values)
    return [None if null else value for value, null in zip(values, nulls, strict=True)]


def read_flow(page: str) -> dict[str, Any]:
    """Return the flow in a page."""
    (text,) = _FLOW.findall(page)
    return json.loads(text)  # type: ignore[no-any-return]


def read_rows(node: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a node as dicts of start, end, known, closed and the fields."""
    rows = node["rows"]
    columns = {name: read_column(rows[name]) for name in ("start", "end", "known", "closed")}
    fields = zip(node["fields"], rows["payload"], strict=True)
    columns |= {field["name"]: read_column(column) for field, column in fields}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def read_causes(node: dict[str, Any]) -> list[list[tuple[int, int, int]]]:
    """Return the causes of each row of a node: side, row and role."""
    causes = {name: read_numbers(column) for name, column in node["causes"].items()}
    pairs = list(zip(causes["side"], causes["row"], causes["role"], strict=True))
    offsets = causes["offsets"]
    return [pairs[a:b] for a, b in itertools.pairwise(offsets)]
