"""Evolution of a run: which part of a saved state a changed query continues, and what begins.

An operator is kept, with its state, if it and all before it are the same. Each other one begins at
the cut, the instant of the checkpoint: it first gets the rows that its inputs have open there, with
their true starts. So a checkpoint has the open rows of each stream that may get a new reader: of
the sources, and of all operators but those that take each row alone, whose open rows follow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MIN_TIME, describe
from rxtemporal.engine.added_fields import add_fields_to_state, only_adds
from rxtemporal.engine.codec import loads
from rxtemporal.engine.cut_windows import CutWindows, FindComplete
from rxtemporal.engine.stage import Meter, Stage
from rxtemporal.errors import CheckpointError, RxTemporalError
from rxtemporal.operators.evolution import (
    OperatorRecord,
    Records,
    Ref,
    match_operators,
    passes,
)
from rxtemporal.operators.plan import Node
from rxtemporal.operators.wiring import Wiring
from rxtemporal.text.plain_text import text_table

KEPT, BEGUN, CHANGED, LOST = "kept", "begins", "changed", "given up"
# with more operators that are kept, a table has their number
_MOST_KEPT = 8


class PartFate(NamedTuple):
    """Fate of one part of a run: an input, an operator or an output."""

    fate: str
    kind: str
    name: str
    note: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Evolution:
    """The parts of a saved run that a changed query continues.

    ``operators`` and ``outputs`` have the number of each present one in the saved run; None if it
    begins. ``inputs`` are the names of the sources that are continued. ``needs_flag``: something
    of the last checkpoint is changed or given up.
    """

    operators: Sequence[int | None]
    outputs: Sequence[int | None]
    inputs: frozenset[str]
    fates: Sequence[PartFate]
    needs_flag: bool

    def __str__(self) -> str:
        kept = [each for each in self.fates if (each.fate, each.kind) == (KEPT, "operator")]
        rows = [("fate", "kind", "name", "note")]
        for each in self.fates:
            if len(kept) <= _MOST_KEPT or each not in kept:
                rows.append((each.fate, each.kind, each.name, each.note))
            elif each is kept[0]:
                rows.append((KEPT, "operator", f"{len(kept)} operators", each.note))
        return text_table(rows)


def describe_plan(
    records: Records, outputs: Sequence[Node], schemas: Mapping[str, pl.Schema | None]
) -> dict[str, Any]:
    """Return what a later, changed query compares itself with; ``schemas`` are of the sources."""
    return {
        "operators": [list(each) for each in records.operators],
        "leaves": [records.find(node) for node in outputs],
        "names": [_name(records, number) for number in range(len(records.nodes))],
        "schemas": {
            name: None if schema is None else pl.DataFrame(schema=schema)
            for name, schema in schemas.items()
        },
    }


def compare(
    saved: Mapping[str, Any],
    records: Records,
    outputs: Sequence[Node],
    outlets: tuple[Sequence[str], Sequence[str], Sequence[str]],
    inputs: Mapping[str, str],
    ctis: Mapping[str, int],
) -> Evolution:
    """Return what a query keeps of a saved run.

    ``outlets`` are the names of the saved outputs, of the present ones, and of those whose sinks
    have been given rows. ``inputs`` describe the present sources, ``ctis`` are those of the saved
    ones.
    """
    plan, (names, present, given) = saved["plan"], outlets
    refs = {name: records.find(node) for name, node in zip(present, outputs, strict=True)}
    old_refs = dict(zip(names, plan["leaves"], strict=True))
    both = {name: (refs[name], old_refs[name]) for name in present if name in old_refs}
    operators = _match_operators(saved, records, [*both.values()])

    def continues(ref: Ref, old: Ref) -> bool:
        return (operators[ref] if isinstance(ref, int) else ref) == old

    leaves = [
        names.index(name) if name in both and continues(*both[name]) else None for name in present
    ]
    fates = [
        *_compare_inputs(saved["inputs"], inputs, ctis),
        *_compare_operators(plan, records, operators),
        *_compare_outputs(leaves, present, given),
    ]
    kept_inputs = frozenset(saved["inputs"].keys() & inputs.keys())
    needs_flag = any(each.fate in (CHANGED, LOST) for each in fates)
    return Evolution(operators, leaves, kept_inputs, fates, needs_flag)


def _match_operators(
    saved: Mapping[str, Any], records: Records, outputs: Sequence[tuple[Ref, Ref]]
) -> list[int | None]:
    """Return the saved operator that each one continues; ``outputs`` are those of both plans."""
    before = [OperatorRecord(*each) for each in saved["plan"]["operators"]]
    seen = [_read_fields(saved["held"][number]) for number in range(len(before))]

    def fits(old: int, new: int) -> bool:
        fields = [each.schema for each in records.nodes[new].inputs]
        known = [*zip(seen[old], fields, strict=True)]
        if all(was is None or now is None or was == now for was, now in known):
            return True
        try:
            add_fields_to_held(records.nodes[new], saved["held"][old])
        except RxTemporalError:
            return False
        return True

    return match_operators(before, records.operators, fits, outputs)


def _compare_operators(
    plan: Mapping[str, Any], records: Records, operators: Sequence[int | None]
) -> Iterator[PartFate]:
    """Yield what becomes of each operator, of the present plan and then of the saved one."""
    for number, match in enumerate(operators):
        operator = records.nodes[number].operator
        if match is None and operator is not None and operator.makes_one_time:
            raise CheckpointError(
                f"{operator.name}, composed at {operator.line}, is not in the saved run and cannot "
                "begin in the middle of a stream in which each device has its own time. Hint: use "
                "the stream that the run has synchronized already, or begin with a new folder."
            )
        note = "" if match is not None else _tell_beginning(records.nodes[number])
        name = _name(records, number)
        yield PartFate(BEGUN if match is None else KEPT, "operator", name, note)
    for number, name in enumerate(plan["names"]):
        if number not in operators:
            passes = OperatorRecord(*plan["operators"][number]).passes
            yield PartFate(LOST, "operator", name, "" if passes else "its state is deleted")


def begin_anew(last: Evolution) -> Evolution:
    """Return what a query keeps that begins with the first row, in place of the last checkpoint."""
    notes = {
        (KEPT, "input"): "from its first row on",
        (KEPT, "operator"): "computed again",
        (BEGUN, "operator"): "gets all rows",
    }
    fates = [
        each._replace(note=notes.get((each.fate, each.kind), each.note)) for each in last.fates
    ]
    operators = [None] * len(last.operators)
    return Evolution(operators, last.outputs, frozenset(), fates, last.needs_flag)


def _compare_outputs(
    leaves: Sequence[int | None], present: Sequence[str], given: Sequence[str]
) -> Iterator[PartFate]:
    for leaf, name in zip(leaves, present, strict=True):
        if name not in given:
            yield PartFate(BEGUN, "output", name)
        elif leaf is not None:
            yield PartFate(KEPT, "output", name)
        else:
            yield PartFate(CHANGED, "output", name, "its sink continues with the new results")
    for name in given:
        if name not in present:
            yield PartFate(LOST, "output", name, "its sink stays as it is")


def _compare_inputs(
    saved: Mapping[str, str], now: Mapping[str, str], ctis: Mapping[str, int]
) -> Iterator[PartFate]:
    for name in now:
        if name not in saved:
            yield PartFate(BEGUN, "input", name)
            continue
        at = "nothing has come yet" if ctis[name] == MIN_TIME else f"at {describe(ctis[name])}"
        if saved[name] == now[name]:
            yield PartFate(KEPT, "input", name, at)
        else:
            yield PartFate(CHANGED, "input", name, f"{at}; was: {saved[name]}; is: {now[name]}")
    for name in saved.keys() - now.keys():
        yield PartFate(LOST, "input", name, "its waiting rows are deleted")


def _tell_beginning(node: Node) -> str:
    """Return where a new operator is composed, and what it does not have."""
    operator = node.operator
    assert operator is not None
    line = Path(operator.line).name
    if passes(node):
        return line
    if operator.incomplete == "dropped":
        return f"{line}; gets the open rows; windows that contain the cut are not given"
    return (
        f"{line}; gets the open rows; rows that have ended are gone from what it holds: "
        f"{operator.holds}"
    )


def _name(records: Records, number: int) -> str:
    """Return the name of an operator, with what it reads."""
    node = records.nodes[number]
    assert node.operator is not None
    label = f"{node.operator.label!r}: " if node.operator.label else ""
    inputs = [
        each if isinstance(each, str) else f"step {each + 1}"
        for each in records.operators[number].inputs
    ]
    return f"{label}{node.operator.name} (step {number + 1}) of {' and '.join(inputs)}"


def _read_fields(held: bytes) -> list[pl.Schema | None]:
    """Return the fields of the inputs of a saved operator, as far as they were known."""
    saved = loads("operator", held)
    if not saved:
        raise CheckpointError(
            "in the saved run each device had its own time (clock=), and now all have one. Hint: "
            "resume with the query as it was, or begin with a new folder."
        )
    return _list_fields(saved)


def _list_fields(saved: Sequence[Any]) -> list[pl.Schema | None]:
    return [None if each is None else each.schema for each in saved[0]]


# Fields -------------------------------------------------------------------------------------------


def add_fields_to_held(node: Node, held: bytes, *, is_output: bool = False) -> bytes:
    """Return the state of an operator, or of an output of a node, for the node's present fields.

    An error: the fields have changed in another way than that some were added, or all count.
    """
    given = (node,) if is_output else node.inputs
    if any(each.clock is not None for each in given):
        return held  # the state of lanes, of the same query
    saved = loads("operator", held)
    if not saved:
        # an operator over one time, which the lanes of a join compute for each device
        return held
    before = _list_fields(saved)
    after = [each.schema for each in given]
    pairs = [
        (was, now)
        for was, now in zip(before, after, strict=True)
        if was is not None and now is not None and was != now
    ]
    if not pairs:
        return held
    for was, now in pairs:
        if not only_adds(was, now):
            raise CheckpointError("a field has changed its type, or is gone")
    keys = given[0].keys
    operator: Any = None if is_output else node.operator
    if operator is not None and node.schema is not None and None not in before:
        output = operator.output(*before, keys)
        if output != node.schema:
            pairs.append((output, node.schema))
    return add_fields_to_state(held, pairs, keys)


def refuse_other_fields(saved: Mapping[str, Any], schemas: Mapping[str, Any]) -> None:
    """Raise if an input has other fields than before, unless some have only been added."""
    for name, after in schemas.items():
        frame = saved["plan"]["schemas"].get(name)
        if frame is None or after is None or frame.schema == after:
            continue
        if not only_adds(frame.schema, after):
            raise CheckpointError(
                f"input {name!r} had the fields {dict(frame.schema)}, and now has {dict(after)}: "
                "only fields may be added, which are null in the rows before. Hint: give the "
                "source another name; then it begins, and the one before is given up."
            )


def add_fields_to_reader(state: Mapping[str, Any], schema: pl.Schema | None) -> Mapping[str, Any]:
    """Return the state of a source that has got more fields."""
    door, (known, given), *rest, rows = state["packer"]
    if schema is None or known is None or known.schema == schema:
        return state
    none = dict.fromkeys(schema)
    reached, counts, opened, edges, table = door
    edges = [[start, {**none, **payload}, *other] for start, payload, *other in edges]
    rows = [[start, end, {**none, **payload}, *other] for start, end, payload, *other in rows]
    payloads = [pl.DataFrame(schema=schema), given]
    packer = [[reached, counts, opened, edges, table], payloads, *rest, rows]
    return {**state, "packer": packer}


# Open rows ----------------------------------------------------------------------------------------


def list_tailed(wiring: Wiring, find: Any) -> dict[Any, Meter]:
    """Return the streams whose open rows are kept, by their places: sources, and operators.

    None of those in which each device has its own time: no operator may begin behind them.
    """
    streams: dict[Any, Meter] = {
        find(node): entry for node, entry in wiring.sources.items() if node.clock is None
    }
    streams |= {
        find(node): stage
        for node, stage in wiring.stages.items()
        if not passes(node) and node.clock is None
    }
    return streams


def keep_tails(wiring: Wiring) -> None:
    """Have all streams keep their open rows; call before the first row."""
    for stream in list_tailed(wiring, id).values():
        stream.keep_tail()


def begin_operators(
    wiring: Wiring, kept: Mapping[Node, bool], outputs: Sequence[bool], *, partial: bool
) -> None:
    """Give each new operator, and each new output, the rows that its inputs have open.

    ``kept`` says of each operator if it is continued, ``outputs`` of each output. Results of new
    operators reach new ones alone. ``partial``: windows that contain the cut are given, too.
    """
    begun = {stage for node, stage in wiring.stages.items() if not kept[node]}
    new = [leaf for (_, leaf), same in zip(wiring.leaves, outputs, strict=True) if not same]
    opened: dict[Node, EventBatch | None] = {}
    if not partial:
        drop_incomplete_windows(wiring, [n for n in wiring.stages if not kept[n]])
    with ExitStack() as contexts:
        taking = {*begun, *new}
        for stage in begun:
            contexts.enter_context(stage.give_only_to(taking))
        for node, stage in wiring.stages.items():
            if not kept[node]:
                _give_open(wiring, kept, stage, node.inputs, opened)
        for (node, leaf), same in zip(wiring.leaves, outputs, strict=True):
            if not same:
                _give_open(wiring, kept, leaf, (node,), opened)


def _give_open(
    wiring: Wiring,
    kept: Mapping[Node, bool],
    stage: Stage,
    inputs: Sequence[Node],
    opened: dict[Node, EventBatch | None],
) -> None:
    for side, node in enumerate(inputs):
        if kept.get(node, True):
            if node not in opened:
                opened[node] = _find_open(wiring, node)
            if (rows := opened[node]) is not None:
                stage.pending.append((side, rows))
    stage.work(wiring.driver)


def _find_open(wiring: Wiring, node: Node) -> EventBatch | None:
    """Return the rows that a stream has open; None before the first row or CTI."""
    meter: Meter = wiring.sources[node] if node.source is not None else wiring.stages[node]
    if node.source is None and passes(node):
        rows = _find_open(wiring, node.inputs[0])
        step: Any = None if rows is None else _make_step(node, rows)
        return None if step is None else step.on_batch(rows)
    rows = None if meter.tail is None else meter.tail.collect(meter.cti)
    if rows is None and meter.cti > MIN_TIME:
        rows = EventBatch.empty(node.schema or pl.Schema(), meter.cti, node.keys)
    return rows


def _make_step(node: Node, rows: EventBatch) -> Any:
    assert node.operator is not None
    step: Any = node.operator.step  # of one input
    return step(rows.schema, rows.keys)


# Windows ------------------------------------------------------------------------------------------


def drop_incomplete_windows(wiring: Wiring, begun: Sequence[Node]) -> None:
    """Have new operators drop the windows that lack rows from before the cut."""
    since: dict[Node, int] = {}
    for node in begun:
        times = [since[each] if each in since else _get_cti(wiring, each) for each in node.inputs]
        operator = node.operator
        assert operator is not None
        since[node] = max(times)
        if since[node] == MIN_TIME:  # nothing has ended yet
            continue
        complete = operator.find_complete(since[node])
        if operator.incomplete is not None:
            wiring.stages[node].drop_windows(_make_cut(node, complete))
        else:
            since[node] = complete
    connect_cuts(wiring)


def connect_cuts(wiring: Wiring) -> None:
    """Tell those that drop windows of those in front of them."""
    above: dict[Node, list[tuple[CutWindows, FindComplete]]] = {}
    for node, stage in wiring.stages.items():
        assert node.operator is not None
        found: list[tuple[CutWindows, FindComplete]] = [
            (cut, partial(_pass_on, find, node.operator.find_complete))
            for each in node.inputs
            for cut, find in above.get(each, [])
        ]
        if stage.cut is not None:
            stage.cut.follow(found)
            found = [(stage.cut, int)]
        above[node] = found


def _pass_on(before: FindComplete, after: FindComplete, time: int) -> int:
    """Return a time as it comes through two operators; nothing is missing before all time."""
    return MIN_TIME if time == MIN_TIME else after(before(time))


def _make_cut(node: Node, since: int) -> CutWindows:
    assert node.operator is not None
    drops = node.operator.incomplete == "dropped"
    return CutWindows(since, node.operator.find_windows, drops=drops)


def restore_cut(node: Node, stage: Stage, state: Sequence[Any]) -> None:
    """Continue to drop the incomplete windows of an operator that began in an earlier run."""
    cut = _make_cut(node, MIN_TIME)
    cut.load(state)
    stage.drop_windows(cut)


def _get_cti(wiring: Wiring, node: Node) -> int:
    meter: Meter = wiring.sources[node] if node.source is not None else wiring.stages[node]
    return meter.cti


def refuse_unknown_plan(where: str) -> None:
    """Raise for a checkpoint of a release that saved no plan."""
    raise CheckpointError(
        f"{where} was saved by a release whose queries could not change. Hint: resume once with "
        "the query as it was, stop that run, and then change the query."
    )
