"""Plans: graphs of operators and their inputs, down to the sources."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import polars as pl

from rxtemporal.core.time_forms import FORMS, TimeForm
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.operator import Keys, Operator, TwoInputs
from rxtemporal.operators.partition_keys import PartitionRule

if TYPE_CHECKING:
    from reactivex.scheduler import VirtualTimeScheduler

    from rxtemporal.ingress.side_source import SideSource
    from rxtemporal.ingress.source import StreamSource

AnySource: TypeAlias = "StreamSource | SideSource"
# for each field that names a device, the fields of a stream that have its value in every row
DeviceFields: TypeAlias = tuple[frozenset[str], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Pace:
    """A speed: seconds of application time in one of the clock's; None is the wall clock.

    >>> Pace(60.0).speed
    60.0
    """

    speed: float
    clock: VirtualTimeScheduler | None = None


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Node:
    """An operator of a plan with its inputs, or a source.

    A node that is used twice is one stream and is computed once.
    """

    schema: pl.Schema | None
    keys: Keys
    source: AnySource | None = None
    operator: Operator | TwoInputs | None = None
    inputs: tuple[Node, ...] = ()
    # only for a source that is replayed at a speed
    pace: Pace | None = None
    # the form of its times, as far as the plan knows it
    time: TimeForm | None = dataclasses.field(init=False, default=None)
    # None if it has one time for all its rows
    clock: DeviceFields | None = dataclasses.field(init=False, default=None)
    # the fields of each source that name the device, if each device has its own time
    device_sources: Mapping[Node, Keys] = dataclasses.field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Find the form of the times, and the fields that name the device whose time counts.

        ``ArgumentError``: streams of both forms meet here, or rows of devices with different times.
        """
        clock, sources = _find_clock(self)
        object.__setattr__(self, "clock", clock)
        object.__setattr__(self, "device_sources", sources)
        form, witness = self.own_time, self
        for each in self.inputs:
            if form is None:
                form, witness = each.time, each
            elif each.time not in (None, form):
                refuse_two_forms(witness, each)
        object.__setattr__(self, "time", form)

    def list_device_fields(self) -> list[str]:
        """Return the fields that name the device of a row; none in a stream of one time."""
        return [min(names) for names in self.clock or () if names]

    @property
    def knows_ends(self) -> bool:
        """True if the end of each row is known when it comes."""
        if self.operator is None:
            return False
        if self.operator.keeps_lifetimes:
            return all(each.knows_ends for each in self.inputs)
        return self.operator.knows_ends

    def get_rule(self) -> PartitionRule:
        """Return the rule that says which rows of its inputs an operator needs together."""
        assert self.operator is not None
        schemas = tuple(each.schema for each in self.inputs if each.schema is not None)
        assert len(schemas) == len(self.inputs)
        return self.operator.partition(schemas, self.inputs[0].keys)

    @property
    def own_time(self) -> TimeForm | None:
        """The form that the source declares, or the spans of the operator have."""
        if self.source is not None:
            return self.source.declared_time
        return None if self.operator is None else self.operator.time

    def describe_own_time(self) -> str:
        """Return what says the form of the times, for a message."""
        if self.operator is not None:
            takes = "takes spans in ticks" if self.own_time == "ticks" else "takes spans with units"
            if self.operator.reads_times:
                takes = "reads the times as " + FORMS[self.own_time or "datetime"]
            return f"{self.operator.name}, composed at {self.operator.line}, {takes}"
        assert self.source is not None
        return self.source.describe_time()

    @property
    def cti_delay(self) -> int | None:
        """The ticks by which a source makes its CTIs behind its events; None if it makes none.

        Late events as a stream have those of the stream that they were late for.
        """
        settings = getattr(self.source, "settings", None)
        generation = None if settings is None else settings.generation
        return None if generation is None else int(generation.delay_ticks)

    def list_nodes(self) -> list[Node]:
        """Return this node and all nodes below it, each once, inputs first."""
        return list_nodes((self,))


_Clock: TypeAlias = "tuple[DeviceFields | None, Mapping[Node, Keys]]"
_NO_CLOCK: _Clock = (None, {})


def _find_clock(node: Node) -> _Clock:
    """Return the device fields of a stream; raise if rows of several devices are needed together.

    And the fields of its sources that name the device. Rows that an operator needs together have to
    agree in a device field.
    """
    if node.source is not None:
        clock = node.source.clock
        if clock is None:
            return _NO_CLOCK
        return tuple(frozenset([each]) for each in clock.fields), {node: clock.fields}
    assert node.operator is not None
    clocks = [each.clock for each in node.inputs]
    if not any(clocks):
        if node.operator.makes_one_time:
            raise ArgumentError(
                f"{node.operator.name} makes one time of the times of devices, and this stream has "
                'one time already. Hint: clock="device" where the stream is made gives each '
                "device its own; or leave the operator out."
            )
        return _NO_CLOCK
    if node.operator.makes_one_time:
        _check_devices(node)
        return _NO_CLOCK
    sources = {at: names for each in node.inputs for at, names in each.device_sources.items()}
    if None in clocks:
        side = clocks.index(None)
        clocks[side], others = _follow_device(node, side)
        sources |= others
    elif len({len(each or ()) for each in clocks}) > 1:
        _refuse_one_time(node)
    rule, places = node.get_rule(), list(zip(*(each or () for each in clocks), strict=True))
    if any(rule.choose_names(place) is None for place in places):
        first = next(each for each in node.list_nodes() if each.source and each.clock)
        names = " and ".join(name for field in first.clock or () for name in field)
        _refuse_crossing(node, names)
    return tuple(map(rule.keep_names, places)), sources


def _check_devices(node: Node) -> None:
    """Raise if an operator names devices that cannot be."""
    (given,) = node.inputs
    assert node.operator is not None
    assert given.schema is not None
    node.operator.check_devices(
        pl.Schema({(name := min(names)): given.schema[name] for names in given.clock or ()})
    )


def _follow_device(node: Node, side: int) -> tuple[DeviceFields, Mapping[Node, Keys]]:
    """Return the device fields of an input with one time, of which an operator needs each alone.

    And the fields of its sources that have the same values. The operator needs rows together that
    agree in the device, so that this input can be computed for each device, too.
    """
    rule, (one, other) = node.get_rule(), (node.inputs[side], node.inputs[1 - side])
    inner = one.list_nodes()
    given = [each for each in inner if each.source is not None]
    schemas = [each.schema for each in given if each.schema is not None]
    crosses = any(each.operator is not None and each.operator.makes_one_time for each in inner)
    if crosses:
        assert node.operator is not None
        raise ArgumentError(
            f"{node.operator.name}, composed at {node.operator.line}, joins a stream in which each "
            "device has its own time with one that comes out of synchronize(), and of that no "
            "device can be computed alone. Hint: .synchronize('1h') before the join on this side, "
            "too."
        )
    found: list[tuple[frozenset[str], tuple[str, ...]]] = []
    for names in other.clock or ():
        pairs = () if len(schemas) < len(given) else rule.together or ()
        wanted = {pair[side] for pair in pairs if pair[1 - side] in names}
        traced = ((_follow(one, dict(zip(given, each, strict=True))), each)
                  for each in product(*schemas))  # fmt: skip
        found += [next(((at, each) for at, each in traced if at and wanted & at), _NOWHERE)]
    if _NOWHERE in found or not found:
        _refuse_one_time(node)
    _check_behind(node, other)
    fields = zip(*(each for _, each in found), strict=True)
    return tuple(at for at, _ in found), dict(zip(given, fields, strict=True))


_NOWHERE: tuple[frozenset[str], tuple[str, ...]] = (frozenset(), ())


def _follow(node: Node, fields: Mapping[Node, str]) -> frozenset[str]:
    """Return the fields of a stream that have in each row the value of these of its sources.

    There are none if an operator needs rows together that differ in it.
    """
    if node.source is not None:
        return frozenset([fields[node]])
    rule, given = node.get_rule(), [_follow(each, fields) for each in node.inputs]
    return frozenset() if rule.choose_names(given) is None else rule.keep_names(given)


def _check_behind(node: Node, devices: Node) -> None:
    """Raise if a device may begin at any time: the rows of the other stream would be held."""
    assert node.operator is not None
    for each in devices.device_sources:
        clock = None if each.source is None else each.source.clock
        if clock is not None and clock.behind is None:
            raise ArgumentError(
                f"{node.operator.name}, composed at {node.operator.line}, joins a stream in which "
                "each device has its own time with one that has one time, whose rows are held for "
                "devices that are behind. Hint: behind='6h' where the stream of the devices is "
                "made says how far they may be."
            )


def _refuse_one_time(node: Node) -> NoReturn:
    """Raise since one input has a time for each device, and the other one another kind of time."""
    assert node.operator is not None
    raise ArgumentError(
        f"{node.operator.name}, composed at {node.operator.line}, joins a stream in which each "
        "device has its own time with one of another kind. Hint: .synchronize('1h') before it "
        "makes one time of those of the devices; or give both sources the same clock=; or join on "
        "the fields that name the device."
    )


def explain_crossing(node: Node, names: str) -> str:
    """Return the reason why rows that differ in these fields meet in an operator."""
    assert node.operator is not None
    if _loses_device(node):
        return f"the rows of {node.operator.name} no longer have {names}"
    return f"{node.operator.name} needs rows together that differ in {names}"


def _loses_device(node: Node) -> bool:
    """Return True if rows no longer say of which device they are."""
    return node.get_rule().together is None or not all(
        all(each.clock or ()) for each in node.inputs
    )


def _refuse_crossing(node: Node, names: str) -> NoReturn:
    """Raise the error for an operator in which rows of devices with different times meet."""
    assert node.operator is not None
    if _loses_device(node):
        hint = f"keep {names} in select()"
    else:
        hint = f"group_by({names!r}), or keys that include it, computes each device alone"
    raise ArgumentError(
        f"each device has its own time in this stream, and {explain_crossing(node, names)}: "
        f"{node.operator.name}, composed at {node.operator.line}. Hint: .synchronize('1h') before "
        f"it makes one time of those of the devices; {hint}."
    )


def refuse_two_forms(*nodes: Node) -> NoReturn:
    """Raise the error for streams or spans of both forms that meet."""
    said = {str(node.time or node.own_time): _find_witness(node) for node in nodes}
    raise ArgumentError(
        "streams in ticks and streams of datetimes do not meet: "
        f"{said['ticks'].describe_own_time()}, and {said['datetime'].describe_own_time()}. Hint: "
        "unit= where a stream is made says what its numbers count, for example unit='s', and a "
        "span over datetimes has a unit, as '5m' or a timedelta; over ticks it is a number."
    )


def _find_witness(node: Node) -> Node:
    """Return the last source or operator below a node that says the form of its times."""
    return next(each for each in reversed(list_nodes((node,))) if each.own_time is not None)


def list_nodes(outputs: Sequence[Node], given: Container[Node] = ()) -> list[Node]:
    """Return these nodes and all nodes below them, each once, inputs first.

    None below those that are given, unless these are outputs themselves.
    """
    found: dict[int, Node] = {}
    stack = [(output, False) for output in reversed(outputs)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            found.setdefault(id(node), node)
        elif id(node) not in found:
            stack.append((node, True))
            if node not in given or node in outputs:
                stack += [(each, False) for each in reversed(node.inputs)]
    return list(found.values())


def list_direct_sources(output: Node) -> list[AnySource]:
    """Return the sources whose rows reach a stream with their own lifetimes."""
    found: dict[int, AnySource] = {}
    seen, stack = set[int](), [output]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.source is not None:
            found[id(node.source)] = node.source
        elif node.operator is not None and node.operator.keeps_lifetimes:
            stack += node.inputs
    return list(found.values())


def synchronize_sources(output: Node, operator: Operator) -> Node:
    """Return the same plan with one time for the devices of each source.

    The operator comes right behind the sources, so that each row is judged once, when it comes, and
    what the plan computes from those in time has one time.
    """
    operator.check_device_sources(len(output.device_sources))
    made: dict[int, Node] = {}
    for node in output.list_nodes():
        if node.clock is None:
            made[id(node)] = node
        elif node.source is not None:
            assert node.source.clock is not None
            own = operator.follow_source(node.source.clock)
            made[id(node)] = Node(node.schema, node.keys, operator=own, inputs=(node,))
        else:
            inputs = tuple(made[id(each)] for each in node.inputs)
            made[id(node)] = dataclasses.replace(node, inputs=inputs)
    return made[id(output)]


def compose_again(outputs: Sequence[Node], **changes: Any) -> list[Node]:
    """Return the same plans, checked against their sources as these are now.

    ``changes`` are those of the nodes of sources.
    """
    made: dict[int, Node] = {}
    for node in list_nodes(outputs):
        inputs = tuple(made[id(each)] for each in node.inputs)
        own = changes if node.source is not None else {"inputs": inputs}
        made[id(node)] = dataclasses.replace(node, **own)
    return [made[id(output)] for output in outputs]


def number_names(names: Iterable[str]) -> list[str]:
    """Return names of streams, each of them once: the second ``a`` is ``a 2``.

    >>> number_names(["a", "b", "a", "a 2"])
    ['a', 'b', 'a 2', 'a 2 2']
    """
    found: list[str] = []
    for name in names:
        own, again = name, 2
        while own in found:
            own, again = f"{name} {again}", again + 1
        found.append(own)
    return found


def set_pace(output: Node, pace: Pace) -> Node:
    """Return the same plan over sources that are replayed at a pace."""
    return compose_again([output], pace=pace)[0]
