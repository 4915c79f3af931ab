"""State of a whole run: its operators, its outputs, and the doors of its sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rxtemporal.engine.codec import Captured, loads
from rxtemporal.errors import CheckpointError
from rxtemporal.operators.fingerprint import Fingerprints, refuse_changes
from rxtemporal.operators.plan import Node
from rxtemporal.reactive.meters import Gauge
from rxtemporal.runtime.reader import Reader
from rxtemporal.storage.event_log.source import RecordedSource

ANEW = "or begin with a new folder, which computes everything anew"


class RunState:
    """State of one run, to save and load: its operators, outputs and sources.

    A state belongs to the query that saved it: the same operators over the same sources.
    """

    def __init__(
        self,
        gauges: Mapping[Node, Gauge],
        leaving: Sequence[tuple[Node, Gauge]],
        readers: Sequence[Reader],
    ) -> None:
        self._gauges = [*gauges.values(), *(gauge for _, gauge in leaving)]
        self._readers = readers
        found = Fingerprints(gauges, {id(each.source): each.name for each in readers})
        self._steps = found.lines
        self._outputs = [f"an output of {found.place(node)}" for node, _ in leaving]

    def capture(self) -> Captured:
        """Return the state. The caller holds the run's lock, and nothing is on its way."""
        for reader in self._readers:
            refuse_unsavable(reader)
        state = {
            "steps": self._steps,
            "outputs": self._outputs,
            "inputs": {each.name: _description(each) for each in self._readers},
            "readers": {each.name: each.save() for each in self._readers},
            "meters": [_meters(gauge) for gauge in self._gauges],
            "held": [None if each.step is None else each.step.capture() for each in self._gauges],
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
        for gauge, meters, held in zip(self._gauges, saved["meters"], saved["held"], strict=True):
            for meter, (rows, cti) in zip([*gauge.inputs, gauge.output], meters, strict=True):
                meter.rows, meter.cti = rows, cti
            if gauge.step is not None and held is not None:
                gauge.step.load(held)


def _meters(gauge: Gauge) -> list[tuple[int, int]]:
    return [(meter.rows, meter.cti) for meter in (*gauge.inputs, gauge.output)]


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
