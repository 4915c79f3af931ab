"""The parts of a query's streams by key, and the united results."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import arrangements
import oracle
import physical
from law_streams import Sides
from oracle import Event

import rxtemporal as rxt
from rxtemporal.operators.partition import Partition, find_partition
from rxtemporal.operators.plan import Node

BUCKETS = 3


@cache
def split(query: rxt.Streamable) -> tuple[Partition, dict[str, Node]]:
    """Return the partition of a query, and its sources by name."""
    nodes = query._node.list_nodes()
    return find_partition(query._node), {n.source.name: n for n in nodes if n.source is not None}


def bucket(event: Event, fields: tuple[str, ...]) -> int:
    """Return a row's bucket: by its fields, compared as keys, or without fields by its start."""
    values = [event[-1][field] for field in fields] if fields else [event[1]]
    return zlib.crc32(repr([_key(value) for value in values]).encode()) % BUCKETS


def _key(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return value + 0.0 if value == value else "NaN"


def in_buckets(query: rxt.Streamable, sides: Sides) -> Iterator[list[list[Event]]]:
    """Yield each bucket's part of the streams, with every CTI in it."""
    split_by, sources = split(query)
    by = [split_by.get_fields(sources[name]) if name in sources else () for name in physical.SIDES]
    for number in range(BUCKETS):
        yield [
            [event for event in items if event[0] == "cti" or bucket(event, fields) == number]
            for items, fields in zip(sides, by, strict=False)
        ]


def in_parts(query: rxt.Streamable, sides: Sides, random: Random) -> tuple[list[Any], int]:
    """Return the united history of what the buckets give, and the least of their CTIs."""
    rows, ctis = [], []
    for part in in_buckets(query, sides):
        made = [physical.batches(items, arrangements.cut(items, random)) for items in part]
        out = physical.pushed(query, arrangements.interleave(made, random))
        rows += physical.rows(out)
        ctis.append(out[-1].cti if out else oracle.MIN_TIME)
    return rows, min(ctis)
