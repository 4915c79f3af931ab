"""Plans as text and as a picture: operators, their CTI rules, and the source of their CTIs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rxtemporal.core.spans import describe_span, span
from rxtemporal.ingress.settings import (
    AdvanceTimeGenerationSettings,
    AdvanceTimePolicy,
    AdvanceTimeSettings,
    WhenAhead,
)
from rxtemporal.ingress.side_source import SideSource
from rxtemporal.operators.plan import AnySource, Node
from rxtemporal.text.plain_text import count_noun

LEGEND = "t: the CTI of the operator's input, which is the line below it"
LATE = {
    AdvanceTimePolicy.DROP: "late events are dropped",
    AdvanceTimePolicy.ADJUST: "late events are cut to begin at the CTI",
}


def explain(output: Node) -> str:
    """Return the plan as text: each operator above its inputs, with its CTI rule and its state.

    Each source is followed by the source of its CTIs.
    """
    names: dict[int, str] = {}
    shared = {each for each, n in _uses(output).items() if n > 1}
    return "\n".join([*_lines(output, 0, shared, names), LEGEND])


def _uses(output: Node) -> Counter[int]:
    return Counter(id(each) for node in output.list_nodes() for each in node.inputs)


def _lines(node: Node, depth: int, shared: set[int], names: dict[int, str]) -> Iterator[str]:
    indent = "  " * depth
    if id(node) in names:
        yield f"{indent}{names[id(node)]}, as above"
        return
    label = ""
    if id(node) in shared:
        names[id(node)] = f"stream {len(names) + 1}"
        label = f"{names[id(node)]}: "
    if node.operator is None:
        assert node.source is not None
        yield f"{indent}{label}source {node.source.name!r}: {_describe_fields(node)}"
        yield f"{indent}  | time: {explain_time(node.source)}"
        if node.source.settings is None:
            yield f"{indent}  | hint: advance_time= makes CTIs out of its events"
        return
    operator = node.operator
    grouped = f", by {', '.join(node.inputs[0].keys)}" if node.inputs[0].keys else ""
    yield f"{indent}{label}{operator.name}{grouped}: {_describe_fields(node)}"
    yield f"{indent}  | CTI: {operator.cti_rule}; holds {operator.holds}"
    if names_of_polars := _list_uncompiled(node):
        yield f"{indent}  | computed by polars: {', '.join(names_of_polars)}"
    schemas = tuple(each.schema for each in node.inputs if each.schema is not None)
    is_known = len(schemas) == len(node.inputs)
    if is_known and (costly := operator.list_costly(schemas, node.inputs[0].keys)):
        yield f"{indent}  | {operator.costly}: {', '.join(costly)}"
    for each in node.inputs:
        yield from _lines(each, depth + 1, shared, names)


def _list_uncompiled(node: Node) -> list[str]:
    """Return the names of what polars computes for each batch, as it is not compiled."""
    schemas = [each.schema for each in node.inputs]
    if node.operator is None or None in schemas:
        return []
    computed = node.operator.list_expressions(tuple(schemas), node.inputs[0].keys)  # type: ignore[arg-type]
    if not computed:
        return []
    # only a plan that is shown needs it before it runs
    from rxtemporal.engine.expressions.program import compile_outputs

    return [each.name for each in computed if compile_outputs(each.expression, each.fields) is None]


def _describe_fields(node: Node) -> str:
    if node.schema is None:
        return "fields known from its first event"
    return ", ".join(f"{name} {dtype}" for name, dtype in node.schema.items()) or "no fields"


def explain_time(source: AnySource) -> str:
    """Return text that says where a source's CTIs come from and how late events are handled."""
    if isinstance(source, SideSource):
        return f"the CTIs of {source.origin.name!r}"
    settings, lively = source.settings, source.lively
    if settings is None and not source.sends_ctis:
        return "it sends no CTIs, so nothing is final before its end"
    if settings is None:
        return "the CTIs that it sends; if it sends none, nothing is final before its end"
    generation, imports = settings.generation, settings.imports
    words = [] if generation is None else [_describe_generation(generation)]
    words += [] if imports is None else [f"the CTIs of {imports.stream_name!r}"]
    words.append(LATE[settings.policy])
    if source.clock is not None:
        words.append(str(source.clock))
    if settings.ahead is not None:
        words.append(_describe_guard(settings))
    if generation is not None and not generation.advance_to_infinity_on_shutdown:
        words.append("at its end only what is final comes out")
    if lively is not None and lively.heartbeat is not None:
        words.append(f"heartbeat: {lively.heartbeat}")
    if lively is not None and lively.idle_after is not None:
        words.append(f"idle after {describe_span(lively.idle_after)} of silence")
    return "; ".join(words)


def _describe_guard(settings: AdvanceTimeSettings) -> str:
    ahead = describe_span(settings.ahead_ticks or 0)
    fate = "are dropped" if settings.when_ahead is WhenAhead.LATE else "do not advance time"
    return f"events more than {ahead} ahead of the wall clock {fate}"


def _describe_generation(generation: AdvanceTimeGenerationSettings) -> str:
    frequency, delay = generation.frequency, generation.delay_ticks
    if not isinstance(frequency, int):
        every = f"each {describe_span(span(frequency, 'frequency'))} of event time"
    else:
        every = "after each event" if frequency == 1 else f"after every {frequency:,} events"
    behind = f"{describe_span(abs(delay))} {'behind' if delay > 0 else 'ahead of'} it"
    return f"a CTI {every}, {behind if delay else 'at its start'}"


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
    operators = f"{count_noun(count, 'operator')} over " if count else ""
    fields = "fields unknown" if node.schema is None else _list_names(list(node.schema))
    keys = f"; by {_list_names(list(node.keys))}" if node.keys else ""
    return f"{operators}{_list_names([*map(repr, sources)])}: {fields or 'no fields'}{keys}"


def _list_names(names: list[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join([*names[:MOST_NAMES], *([f"… {more} more"] if more > 0 else [])])


def draw_plan(node: Node) -> str:
    """Return the picture of a plan: sources and operators with their fields and CTI rules."""
    from rxtemporal.text.svg import PlanBox, plan_svg

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
