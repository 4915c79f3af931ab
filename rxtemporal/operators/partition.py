"""Partitions of a plan: fields to split its sources by, so that each bucket computes its part.

A *split* names one field of each source. The rows of all sources are put into buckets by a hash of
that field's value, and the split holds if no operator ever sees rows of two buckets together: then
running the plan on each bucket and uniting the results gives what one run gives. Which rows an
operator sees together, and which fields it hands on unchanged, it says itself (``partition``).

If several splits hold, so does the one by all their fields at once, which spreads rows better.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from itertools import islice, product
from typing import TypeAlias

from rxtemporal.ingress.side_source import SideSource
from rxtemporal.operators.operator import Keys
from rxtemporal.operators.partition_keys import PartitionRule
from rxtemporal.operators.plan import Node

# so many fields spread the rows well enough
_MOST_FIELDS = 8
# the field that each source is split by (by the source's id; none where any row may be anywhere),
# and the fields of the stream that have that field's value in all rows
_Split: TypeAlias = tuple[dict[int, str | None], frozenset[str]]


@dataclasses.dataclass(frozen=True, slots=True)
class Partition:
    """The fields by whose values the rows of each source go to buckets; or why they cannot.

    ``fields`` has an entry for each source node, by its id: fields in an order that is the same for
    all sources, or nothing where any row may be in any bucket. ``reason`` is None, or says which
    operator sees rows together that nothing keeps together.
    """

    fields: Mapping[int, Keys]
    reason: str | None = None

    def of(self, source: Node) -> Keys:
        """Return the fields by which a source's rows go to buckets."""
        return self.fields[id(source)]


def find_partition(output: Node) -> Partition:
    """Return what a plan can be split by; its fields have to be known."""
    nodes = output.list_nodes()
    sources = [node for node in nodes if node.source is not None]
    side = next((node.source for node in sources if isinstance(node.source, SideSource)), None)
    if side is not None:
        reason = f"{side.what} are judged by one door, in the order of all rows"
        return Partition(dict.fromkeys(map(id, sources), ()), reason)
    needed = _find_needed(nodes)
    found: dict[int, list[_Split]] = {}
    for node in nodes:
        splits = list(_splits(node, needed, found))
        if not splits:
            return Partition(dict.fromkeys(map(id, sources), ()), _reason(node, found))
        found[id(node)] = splits
    chosen = [fields for fields, _ in islice(found[id(output)], _MOST_FIELDS)]
    return Partition(
        {
            id(source): tuple(name for split in chosen if (name := split[id(source)]) is not None)
            for source in sources
        }
    )


def _rule(node: Node) -> PartitionRule:
    assert node.operator is not None
    schemas = tuple(each.schema for each in node.inputs)
    assert None not in schemas
    return node.operator.partition(schemas, node.inputs[0].keys)  # type: ignore[arg-type]


def _find_needed(nodes: list[Node]) -> set[int]:
    """Return the streams that go to an operator which sees rows together, now or later on."""
    needed: set[int] = set()
    for node in reversed(nodes):
        if node.operator is not None and (id(node) in needed or _rule(node).together is not None):
            needed.update(map(id, node.inputs))
    return needed


def _splits(node: Node, needed: set[int], found: dict[int, list[_Split]]) -> Iterator[_Split]:
    """Yield the splits of all sources of a stream that hold up to it."""
    if node.source is not None:
        assert node.schema is not None
        names: list[str | None] = [*node.schema] if id(node) in needed else [None]
        for name in names:
            yield {id(node): name}, frozenset() if name is None else frozenset([name])
        return
    rule = _rule(node)
    for splits in product(*(found[id(each)] for each in node.inputs)):
        known = [fields for _, fields in splits]
        if not (_agree(splits) and _holds(rule, known)):
            continue
        after = frozenset(name for name, given in rule.keeps if _is_known(given, known))
        if after or id(node) not in needed:
            yield {source: name for fields, _ in splits for source, name in fields.items()}, after


def _agree(splits: tuple[_Split, ...]) -> bool:
    """Return True if the inputs split the sources that they share by the same field."""
    merged: dict[int, str | None] = {}
    for fields, _ in splits:
        if any(merged.setdefault(source, name) != name for source, name in fields.items()):
            return False
    return True


def _holds(rule: PartitionRule, known: list[frozenset[str]]) -> bool:
    """Return True if rows seen together are in one bucket: they agree in the field to split by."""
    return rule.together is None or any(_is_known(given, known) for given in rule.together)


def _is_known(given: tuple[str | None, ...], known: list[frozenset[str]]) -> bool:
    return all(name is None or name in fields for name, fields in zip(given, known, strict=True))


def _reason(node: Node, found: Mapping[int, list[_Split]]) -> str:
    """Say why no split holds up to here."""
    assert node.operator is not None
    rule, name = _rule(node), node.operator.name
    agreeing = [s for s in product(*(found[id(each)] for each in node.inputs)) if _agree(s)]
    if not agreeing:
        return f"the inputs of {name} share a source, which each would have split by another field"
    if any(_holds(rule, [fields for _, fields in splits]) for splits in agreeing):
        return f"no field goes through {name} unchanged, and what follows sees rows together"
    assert rule.together is not None
    if not rule.together and len(node.inputs) == 1:
        return f"{name} of an ungrouped stream sees all rows"
    if not rule.together:
        return f"{name} without keys compares every row with every other"
    pairs = [" = ".join(dict.fromkeys(map(str, pair))) for pair in rule.together]
    return (
        f"{name} sees the rows together that agree in {', '.join(pairs)}, and no field of the "
        "sources that could be split by comes through to there"
    )
