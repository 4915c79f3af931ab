"""Plans in a line of text and as a picture; nothing runs."""

from __future__ import annotations

from rxtemporal.operators.plan import Node

# names that a line of text has; further ones are counted
MOST_NAMES = 6


def name_plan(node: Node) -> str:
    """Return the sources, the number of operators, the fields and the keys of a plan in a line.

    >>> import rxtemporal as rxt
    >>> readings = rxt.from_events([], schema={"temp": int}, name="readings")
    >>> name_plan(readings._node), name_plan(readings.to_point_events()._node)
    ("'readings': temp", "1 operator over 'readings': temp")
    """
    nodes = node.list_nodes()
    sources = [each.source.name for each in nodes if each.source is not None]
    count = len(nodes) - len(sources)
    operators = f"{count} {'operator' if count == 1 else 'operators'} over " if count else ""
    fields = "fields unknown" if node.schema is None else _list_names(list(node.schema))
    keys = f"; by {_list_names(list(node.keys))}" if node.keys else ""
    return f"{operators}{_list_names([*map(repr, sources)])}: {fields or 'no fields'}{keys}"


def _list_names(names: list[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join([*names[:MOST_NAMES], *([f"… {more} more"] if more > 0 else [])])


def draw_plan(node: Node) -> str:
    """Return the picture of a plan: sources and operators with their fields and CTI rules."""
    from rxtemporal.display.plan_svg import PlanBox, plan_svg
    from rxtemporal.operators.explain import explain_time

    nodes = node.list_nodes()
    numbers = {id(each): number for number, each in enumerate(nodes)}
    boxes = []
    for each in nodes:
        fields = "fields unknown" if each.schema is None else ", ".join(each.schema) or "no fields"
        inputs = tuple(numbers[id(below)] for below in each.inputs)
        if each.operator is None:
            assert each.source is not None
            time = explain_time(each.source)
            boxes.append(PlanBox(each.source.name, (fields, time), inputs, time))
            continue
        rule = f"CTI: {each.operator.cti_rule}"
        tip = f"{each.operator.line}\n{rule}; holds {each.operator.holds}"
        boxes.append(PlanBox(each.operator.name, (fields, rule), inputs, tip))
    return plan_svg(boxes, title=f"Plan of {name_plan(node)}")
