"""State of a whole run: its operators, its outputs, and the doors of its sources."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.engine.added_fields import add_fields_to_batch
from rxtemporal.engine.codec import Captured, loads
from rxtemporal.engine.stage import Meter, Stage
from rxtemporal.errors import CheckpointError
from rxtemporal.operators.evolution import Records, Ref
from rxtemporal.operators.fingerprint import Fingerprints, refuse_changes
from rxtemporal.operators.plan import Node
from rxtemporal.operators.wiring import Wiring
from rxtemporal.run.evolution import (
    Evolution,
    add_fields_to_held,
    add_fields_to_reader,
    begin_operators,
    compare,
    connect_cuts,
    describe_plan,
    list_tailed,
    refuse_other_fields,
    refuse_unknown_plan,
    restore_cut,
)
from rxtemporal.run.reader import Reader
from rxtemporal.storage.event_log.cursors import RecordedSource

ANEW = "or begin with a new folder, which computes everything anew"


SavedRun: TypeAlias = Mapping[str, Any]


def read_run(data: bytes) -> SavedRun:
    """Return what ``RunState.capture`` was given. ``CheckpointError`` if it is damaged."""
    saved: SavedRun = loads("run", data, "the saved run", ANEW)
    return saved


class RunState:
    """State of one run, to save and load: its operators, outputs and sources.

    A state belongs to the query that saved it: the same operators over the same sources.
    """

    def __init__(
        self,
        wiring: Wiring,
        readers: Sequence[Reader],
    ) -> None:
        self._wiring = wiring
        self._stages = [*wiring.stages.values(), *(leaf for _, leaf in wiring.leaves)]
        self._readers = readers
        names = {id(each.source): each.name for each in readers}
        found = Fingerprints(wiring.stages, names)
        self._steps = found.lines
        self.records = Records(wiring.stages, names)
        self._outputs = [f"an output of {found.place(node)}" for node, _ in wiring.leaves]

    def capture(self) -> Captured:
        """Return the state. The caller holds the run's lock, and nothing is on its way."""
        for reader in self._readers:
            refuse_unsavable(reader)
        state = {
            "steps": self._steps,
            "outputs": self._outputs,
            "inputs": self.inputs,
            "readers": {each.name: each.save() for each in self._readers},
            "meters": [_meters(stage) for stage in self._stages],
            "held": [stage.capture() for stage in self._stages],
            "plan": describe_plan(self.records, self._outlets, self._schemas),
            "tails": self._save_tails(),
            "cuts": [None if each.cut is None else each.cut.save() for each in self._stages],
        }
        return Captured("run", state)

    @property
    def inputs(self) -> dict[str, str]:
        """A description of each source."""
        return {each.name: _describe_source(each) for each in self._readers}

    @property
    def _schemas(self) -> dict[str, pl.Schema | None]:
        return {each.name: each.source.schema for each in self._readers}

    @property
    def _outlets(self) -> list[Node]:
        return [node for node, _ in self._wiring.leaves]

    def _save_tails(self) -> dict[Ref, Any]:
        streams = list_tailed(self._wiring, self.records.find).items()
        return {
            place: stream.tail.collect(stream.cti)
            for place, stream in streams
            if stream.tail is not None
        }

    def load(self, saved: SavedRun, begun: str = "it was saved") -> None:
        """Resume from a state: after the operators are connected, before a source is read.

        ``CheckpointError``: the query or a source has changed.
        """
        self.refuse_changes(saved, begun)
        self._load_kept(saved, range(len(self._stages)), {each.name for each in self._readers})

    def is_same(self, saved: SavedRun) -> bool:
        """Return True if a state is of the same query over the same sources."""
        was = saved["steps"], saved["outputs"], saved["inputs"]
        return was == (self._steps, self._outputs, self.inputs)

    def refuse_changes(
        self, saved: SavedRun, begun: str = "it was saved", otherwise: str = ANEW
    ) -> None:
        """Raise if the query or a source has changed."""
        inputs = saved["inputs"], self.inputs
        refuse_changes((saved["steps"], self._steps), inputs, begun, otherwise)
        refuse_changes((saved["outputs"], self._outputs), ({}, {}), begun, otherwise)

    def compare(
        self,
        saved: SavedRun,
        outlets: tuple[Sequence[str], Sequence[str]],
        sinks: Sequence[str] | None = None,
    ) -> Evolution:
        """Return what is kept of a state; ``outlets`` are the names of saved and present outputs.

        ``sinks`` are the names of the outputs that have been given rows, by default the saved ones.
        ``CheckpointError``: it was saved by a release whose queries could not change.
        """
        if "plan" not in saved:
            refuse_unknown_plan("the saved run")
        if any(node.clock is not None for node in (*self._wiring.stages, *self._outlets)):
            try:
                self.refuse_changes(saved)
            except CheckpointError as error:
                raise CheckpointError(
                    "a query in which each device has its own time (clock=) cannot change, with "
                    f"evolve=True neither: {error}"
                ) from None
            raise CheckpointError(
                "a query in which each device has its own time (clock=) continues its state only "
                f"as it is, with the same outputs. Saved: {[*outlets[0]]}. Now: {[*outlets[1]]}. "
                "Hint: resume with these, or begin with a new folder."
            )
        refuse_other_fields(saved, self._schemas)
        ctis = {name: each["meter"][1] for name, each in saved["readers"].items()}
        outputs = (*outlets, outlets[0] if sinks is None else sinks)
        return compare(saved, self.records, self._outlets, outputs, self.inputs, ctis)

    def load_changed(self, saved: SavedRun, evolution: Evolution, *, partial: bool) -> None:
        """Resume what is kept of a state, and begin what is new: it gets the open rows."""
        count = len(saved["plan"]["operators"])
        outputs = [None if each is None else count + each for each in evolution.outputs]
        kept = [*evolution.operators, *outputs]
        self._load_kept(saved, kept, evolution.inputs)
        operators = {
            node: each is not None
            for node, each in zip(self._wiring.stages, evolution.operators, strict=True)
        }
        same = [each is not None for each in outputs]
        begin_operators(self._wiring, operators, same, partial=partial)

    def _load_kept(
        self, saved: SavedRun, kept: Sequence[int | None], inputs: Collection[str]
    ) -> None:
        """Load the sources of these names, and each stage from the one of its number, if any."""
        for reader in self._readers:
            if reader.name in inputs:
                state = saved["readers"][reader.name]
                reader.load(add_fields_to_reader(state, reader.source.schema))
        tails, cuts = saved.get("tails", {}), saved.get("cuts")
        for node, entry in self._wiring.sources.items():
            _load_tail(entry, tails.get(self.records.find(node)), node)
        nodes = [*self._wiring.stages, *self._outlets]
        for place, (stage, number) in enumerate(zip(self._stages, kept, strict=True)):
            if number is None:
                continue
            meters, held = saved["meters"][number], saved["held"][number]
            for meter, (rows, cti) in zip([*stage.inputs, stage], meters, strict=True):
                # an operator in front has its own, and may be another one than it was
                if meter is stage or not isinstance(meter, Stage):
                    meter.resume(rows, cti)
            is_output = place >= len(self._wiring.stages)
            stage.load(add_fields_to_held(nodes[place], held, is_output=is_output))
            if not is_output:
                _load_tail(stage, tails.get(number), nodes[place])
            if cuts is not None and cuts[number] is not None:
                restore_cut(nodes[place], stage, cuts[number])
        connect_cuts(self._wiring)


def _load_tail(stream: Meter, rows: EventBatch | None, node: Node) -> None:
    if stream.tail is None:
        return
    if rows is not None and node.schema is not None:
        rows = add_fields_to_batch(rows, node.schema)
    stream.tail.restore(rows)


def _meters(stage: Stage) -> list[tuple[int, int]]:
    return [(meter.rows_out, meter.cti) for meter in (*stage.inputs, stage)]


def _describe_source(reader: Reader) -> str:
    """Return a description of a source that is the same in another process."""
    source = reader.source
    clock = "" if source.clock is None else f"; {source.clock}"
    return f"{_describe_fields(source.schema)}; {source.settings}{clock}"


def _describe_fields(fields: Mapping[str, Any] | None) -> str:
    if fields is None:
        return "fields of its events"
    return ", ".join(f"{name} {dtype}" for name, dtype in fields.items()) or "no fields"


def refuse_unsavable(reader: Reader) -> None:
    """Raise if a stream's position cannot be saved."""
    if isinstance(reader.source, RecordedSource):
        raise CheckpointError(
            f"stream {reader.name!r} is replayed from a recording, which always starts at its "
            "beginning. Hint: run the replay without resume=."
        )
