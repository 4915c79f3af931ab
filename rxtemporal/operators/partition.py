"""Partitions of a plan: fields to split its sources by, so that each bucket computes its part.

A *split* names one field of each source. The rows of all sources are put into buckets by a hash of
that field's value. The split is valid if no operator ever needs rows of two buckets together: then
the results of running the plan on each bucket, united, are those of one run. Each operator's
``partition`` says which rows it needs together, and which fields it leaves unchanged.

If several splits are valid, so is the one by all their fields, which spreads rows better.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from itertools import islice, product
from typing import TypeAlias

from rxtemporal.ingress.side_source import SideSource
from rxtemporal.operators.operator import Keys
from rxtemporal.operators.partition_keys import PartitionRule, are_known
from rxtemporal.operators.plan import Node, explain_crossing

# so many fields spread the rows well enough
_MOST_FIELDS = 8
# the field to split each source by, by the source's id (None: any row may be in any bucket), and
# the fields of a stream that have that field's value in every row
_Split: TypeAlias = tuple[dict[int, str | None], frozenset[str]]


@dataclasses.dataclass(frozen=True, slots=True)
class Partition:
    """Fields by whose values the rows of each source go to buckets, or the reason why they cannot.

    ``fields`` has an entry for each source node, by its id: fields in an order that is the same for
    all sources, or none if any row may be in any bucket. ``reason`` is None, or says which operator
    needs rows together that no split keeps together.
    """

    fields: Mapping[int, Keys]
    reason: str | None = None

    def get_fields(self, source: Node) -> Keys:
        """Return the fields by which a source's rows go to buckets."""
        return self.fields[id(source)]


@dataclasses.dataclass(frozen=True, slots=True)
class TracedFields:
    """Names that some fields of the sources have in the rows of a plan.

    ``inputs``: for each operator the names in the rows of each input; of several names of a field
    the one by which the operator keeps rows together. ``output``: the names in the results, and
    ``streams`` those in each stream.
    """

    inputs: Mapping[Node, tuple[Keys, ...]]
    output: Keys
    streams: Mapping[Node, Keys]


def trace_fields(output: Node, fields: Mapping[Node, Keys]) -> TracedFields | str:
    """Return the names of fields of each source in the rows of all streams of a plan.

    ``fields`` has the same number of fields for each source; the first ones are meant to be equal
    where rows meet, and so on. If an operator needs rows together that differ in one of them, or a
    stream no longer has one, return the reason. The plan's fields have to be known.
    """
    known: dict[Node, tuple[frozenset[str], ...]] = {}
    inputs: dict[Node, tuple[Keys, ...]] = {}
    for node in output.list_nodes():
        if node.source is not None:
            known[node] = tuple(frozenset([name]) for name in fields[node])
            continue
        rule = node.get_rule()
        places = list(zip(*(known[each] for each in node.inputs), strict=True))
        chosen = [rule.choose_names(place) for place in places]
        if None in chosen:
            names = ", ".join(dict.fromkeys(name for each in fields.values() for name in each))
            return explain_crossing(node, names)
        inputs[node] = tuple(zip(*chosen, strict=True))
        known[node] = tuple(map(rule.keep_names, places))
    if not all(known[output]):
        return "the results do not have the field"
    streams = {node: tuple(min(each) for each in names if each) for node, names in known.items()}
    return TracedFields(inputs, streams[output], streams)


def find_partition(output: Node) -> Partition:
    """Return the fields to split a plan's sources by; the plan's fields have to be known.

    Where each device has its own time they are those that name it.
    """
    nodes = output.list_nodes()
    sources = [node for node in nodes if node.source is not None]
    if output.clock is not None:
        return Partition({id(node): output.device_sources[node] for node in sources})
    side = next((node.source for node in sources if isinstance(node.source, SideSource)), None)
    if side is not None:
        reason = f"{side.what} are judged by one door, in the order of all rows"
        return Partition(dict.fromkeys(map(id, sources), ()), reason)
    needed = _find_needed(nodes)
    found: dict[int, list[_Split]] = {}
    for node in nodes:
        splits = list(_list_splits(node, needed, found))
        if not splits:
            return Partition(dict.fromkeys(map(id, sources), ()), _explain_failure(node, found))
        found[id(node)] = splits
    chosen = [fields for fields, _ in islice(found[id(output)], _MOST_FIELDS)]
    return Partition(
        {
            id(source): tuple(name for split in chosen if (name := split[id(source)]) is not None)
            for source in sources
        }
    )


def _find_needed(nodes: list[Node]) -> set[int]:
    """Return the ids of the streams that an operator above them needs rows of together."""
    needed: set[int] = set()
    for node in reversed(nodes):
        if node.operator is not None and (
            id(node) in needed or node.get_rule().together is not None
        ):
            needed.update(map(id, node.inputs))
    return needed


def _list_splits(node: Node, needed: set[int], found: dict[int, list[_Split]]) -> Iterator[_Split]:
    """Yield the splits of a stream's sources that are valid for the plan up to this stream."""
    if node.source is not None:
        assert node.schema is not None
        names: list[str | None] = [*node.schema] if id(node) in needed else [None]
        for name in names:
            yield {id(node): name}, frozenset() if name is None else frozenset([name])
        return
    rule = node.get_rule()
    for splits in product(*(found[id(each)] for each in node.inputs)):
        known = [fields for _, fields in splits]
        if not (_is_consistent(splits) and _is_valid(rule, known)):
            continue
        after = rule.keep_names(known)
        if after or id(node) not in needed:
            yield {source: name for fields, _ in splits for source, name in fields.items()}, after


def _is_consistent(splits: tuple[_Split, ...]) -> bool:
    """Return True if the inputs split the sources that they share by the same field."""
    merged: dict[int, str | None] = {}
    for fields, _ in splits:
        if any(merged.setdefault(source, name) != name for source, name in fields.items()):
            return False
    return True


def _is_valid(rule: PartitionRule, known: list[frozenset[str]]) -> bool:
    """Return True if rows needed together are in one bucket: the field to split by is equal."""
    return rule.together is None or any(are_known(given, known) for given in rule.together)


def _explain_failure(node: Node, found: Mapping[int, list[_Split]]) -> str:
    """Return the reason why no split is valid up to this operator."""
    assert node.operator is not None
    rule, name = node.get_rule(), node.operator.name
    agreeing = [s for s in product(*(found[id(each)] for each in node.inputs)) if _is_consistent(s)]
    if not agreeing:
        return f"the inputs of {name} share a source, and need it split by different fields"
    if any(_is_valid(rule, [fields for _, fields in splits]) for splits in agreeing):
        return f"no field passes {name} unchanged, and a later operator needs rows together"
    assert rule.together is not None
    if not rule.together and len(node.inputs) == 1:
        return f"{name} of an ungrouped stream sees all rows"
    if not rule.together:
        return f"{name} without keys compares every row with every other"
    pairs = [" = ".join(dict.fromkeys(map(str, pair))) for pair in rule.together]
    return (
        f"{name} needs rows together that agree in {', '.join(pairs)}, and no field of the sources "
        "that reaches it has the same value in these rows"
    )


def find_mixing(begin: Node, end: Node) -> Node | None:
    """Return the first operator that takes rows of different keys of a branch together, if any.

    The branch begins with the grouped stream ``begin``. Nothing is said of what follows an explicit
    ``ungroup``, or a ``group_by`` of other keys, nor of what has no known fields.
    """
    # for each key the fields of a stream that have its value; None where the user has decided
    known: dict[Node, list[frozenset[str]] | None] = {begin: [frozenset([k]) for k in begin.keys]}
    for node in end.list_nodes():
        given = [known[each] for each in node.inputs if each in known]
        if node in known or node.operator is None or not given:
            continue
        if None in given or node.operator.ends_grouping or None in (e.schema for e in node.inputs):
            known[node] = None
            continue
        if node.keys and not node.inputs[0].keys:  # grouped again, under the names of the keys
            same = {*begin.keys} <= {*node.keys}
            known[node] = [frozenset([k]) for k in begin.keys] if same else None
            continue
        # rows from outside of the branch have the keys under the names that they meet
        rule, count = node.get_rule(), len(begin.keys)
        fields = [*zip(*(_list_known(known, each, count) for each in node.inputs), strict=True)]
        if len(given) == len(node.inputs) and not all(_is_valid(rule, [*key]) for key in fields):
            return node
        known[node] = [rule.keep_names(key) for key in fields]
    return None


def _list_known(
    known: Mapping[Node, list[frozenset[str]] | None], node: Node, count: int
) -> list[frozenset[str]]:
    return known.get(node) or [frozenset(node.schema or ())] * count
