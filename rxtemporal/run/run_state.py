"""State of a whole run: its operators, its outputs, and the doors of its sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rxtemporal.engine.codec import Captured, loads
from rxtemporal.engine.stage import Stage
from rxtemporal.errors import CheckpointError
from rxtemporal.operators.fingerprint import Fingerprints, refuse_changes
from rxtemporal.operators.wiring import Wiring
from rxtemporal.run.reader import Reader
from rxtemporal.storage.event_log.cursors import RecordedSource

ANEW = "or begin with a new folder, which computes everything anew"


class RunState:
    """State of one run, to save and load: its operators, outputs and sources.

    A state belongs to the query that saved it: the same operators over the same sources.
    """

    def __init__(
        self,
        wiring: Wiring,
        readers: Sequence[Reader],
    ) -> None:
        self._stages = [*wiring.stages.values(), *(leaf for _, leaf in wiring.leaves)]
        self._readers = readers
        found = Fingerprints(wiring.stages, {id(each.source): each.name for each in readers})
        self._steps = found.lines
        self._outputs = [f"an output of {found.place(node)}" for node, _ in wiring.leaves]

    def capture(self) -> Captured:
        """Return the state. The caller holds the run's lock, and nothing is on its way."""
        for reader in self._readers:
            refuse_unsavable(reader)
        state = {
            "steps": self._steps,
            "outputs": self._outputs,
            "inputs": {each.name: _description(each) for each in self._readers},
            "readers": {each.name: each.save() for each in self._readers},
            "meters": [_meters(stage) for stage in self._stages],
            "held": [stage.capture() for stage in self._stages],
        }
        return Captured("run", state)

    def load(self, data: bytes, begun: str = "it was saved") -> None:
        """Resume from a state: after the operators are connected, before a source is read.

        ``CheckpointError``: the state is damaged, or the query or a source has changed.
        """
        saved = loads("run", data, "the saved run", ANEW)
        inputs = {each.name: _description(each) for each in self._readers}
        refuse_changes((saved["steps"], self._steps), (saved["inputs"], inputs), begun, ANEW)
        refuse_changes((saved["outputs"], self._outputs), ({}, {}), begun, ANEW)
        for reader in self._readers:
            reader.load(saved["readers"][reader.name])
        for stage, meters, held in zip(self._stages, saved["meters"], saved["held"], strict=True):
            for meter, (rows, cti) in zip([*stage.inputs, stage], meters, strict=True):
                meter.rows_out, meter.cti = rows, cti
            stage.load(held)


def _meters(stage: Stage) -> list[tuple[int, int]]:
    return [(meter.rows_out, meter.cti) for meter in (*stage.inputs, stage)]


def _description(reader: Reader) -> str:
    """Return a description of a source that is the same in another process."""
    source = reader.source
    return f"{_describe_fields(source.schema)}; {source.settings}"


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
