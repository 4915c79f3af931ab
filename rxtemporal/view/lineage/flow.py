"""A run of a query taken apart: the rows of each stream, the arrivals, and who caused whom."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.batch import Int64s, TimeForm
from rxtemporal.ingress.input_state import ClockStats
from rxtemporal.operators.causes.causes import Causes, merge_rows
from rxtemporal.operators.causes.history import ADJUSTED, LATE, Arrivals, History
from rxtemporal.operators.operator import Operator, TwoInputs


def assume_fields(operator: Operator | TwoInputs, inputs: Sequence[History]) -> Sequence[History]:
    """Return the inputs of an operator, one without rows and fields with those that it assumes."""
    unknown = [not len(each) and not each.payload.width for each in inputs]
    if not isinstance(operator, TwoInputs) or unknown.count(True) != 1:
        return inputs
    missing = unknown.index(True)
    known = inputs[1 - missing]
    schema = inputs[missing].node.schema
    if schema is None:
        schema = operator.assume_fields(missing, known.payload.schema, known.keys)
    filled = dataclasses.replace(inputs[missing], payload=pl.DataFrame(schema=schema))
    return [filled, known] if missing == 0 else [known, filled]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """One run of a query: the history of each node, and the arrivals of each input stream.

    ``output`` is the number of the history of the result; inputs have lower numbers than their
    operators. A step takes at most ``every`` arrivals; 0: as many as the run takes at once.
    ``steps`` is the number of steps. ``holding_back`` says in sentences why the result is not
    complete at the end of a run that was cut off, and ``error`` is what ended a run that failed.
    ``clocks`` has the state of the clocks of devices at the end, by the streams that have such.
    """

    output: int
    histories: tuple[History, ...]
    arrivals: Mapping[str, Arrivals]
    every: int
    steps: int
    time: TimeForm
    holding_back: tuple[str, ...] = ()
    error: BaseException | None = None
    clocks: Mapping[str, ClockStats] = dataclasses.field(default_factory=dict)

    @property
    def result(self) -> History:
        """The history of the result."""
        return self.histories[self.output]

    def causes(self, number: int, rows: npt.ArrayLike) -> Causes:
        """Return the direct causes of rows of one node, in the histories of its inputs."""
        history = self.histories[number]
        wanted = np.unique(np.asarray(rows, np.int64))
        if history.node.operator is None or not len(wanted):
            return Causes.none()
        inputs = assume_fields(history.node.operator, [self.histories[n] for n in history.inputs])
        causes: Causes = history.node.operator.find_causes(inputs, history, wanted)
        return causes

    def effects(self, number: int, rows: npt.ArrayLike) -> dict[int, Int64s]:
        """Return the rows that have these among their direct causes, by the number of the node.

        The causes of all rows of the operators that read the node are found for this.
        """
        wanted = np.asarray(rows, np.int64)
        found: dict[int, Int64s] = {}
        for history in self.histories:
            if number in history.inputs:
                causes = self.causes(history.number, np.arange(len(history)))
                reads = np.isin(causes.side, np.flatnonzero(np.equal(history.inputs, number)))
                hit = np.unique(causes.of[reads & np.isin(causes.row, wanted)])
                if len(hit):
                    found[history.number] = hit
        return found

    def trace(self, number: int, rows: npt.ArrayLike) -> dict[int, Int64s]:
        """Return all rows that these stand on, themselves included, by the number of the node."""
        found = {number: np.unique(np.asarray(rows, np.int64))}
        for each in range(number, -1, -1):  # inputs have lower numbers
            if each in found:
                causes = self.causes(each, found[each])
                for side, below in enumerate(self.histories[each].inputs):
                    merge_rows(found, below, causes.row[causes.side == side])
        return dict(sorted(found.items()))

    def find_arrivals(self, number: int, rows: npt.ArrayLike) -> Int64s:
        """Return the arrivals that brought rows of a source, as indices of its ``arrivals``.

        A row that two edges brought is found with both.
        """
        history = self.histories[number]
        arrivals = self.arrivals.get(history.origin)
        if arrivals is None:
            return np.empty(0, np.int64)
        wanted = np.asarray(rows, np.int64)
        if history.name == history.origin:
            return np.flatnonzero(np.isin(arrivals.row, wanted) & (arrivals.row >= 0))
        late = np.flatnonzero((arrivals.verdict == ADJUSTED) | (arrivals.verdict == LATE))
        return late[wanted[wanted < len(late)]]
