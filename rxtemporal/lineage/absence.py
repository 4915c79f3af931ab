"""The answer to "why is there no such row": the nearest events and what became of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import polars as pl

from rxtemporal.core.batch import TimeForm
from rxtemporal.core.ticks import describe, time_ticks
from rxtemporal.display import html
from rxtemporal.display.plain_text import make_visible
from rxtemporal.operators.causes.fate import Candidate
from rxtemporal.operators.causes.row_text import write_lifetime, write_time, write_values

MOST_RESULTS = 3


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Absence:
    """Answer to "why is there no such row in the result", by ``why_not``.

    ``exists`` is True if there is such a row after all: then ``results`` has it, of several such
    rows the first three. Otherwise ``results`` has the three rows of the result that are nearest to
    the missing one, and ``candidates`` the nearest events of each stream with the ``fate`` of each,
    by stream. ``holding_back`` are sentences that say who holds back results that are not final,
    and ``error`` is the error that ended the run. It prints as text and shows as HTML.
    """

    wanted: str
    exists: bool
    results: pl.DataFrame
    candidates: Mapping[str, tuple[Candidate, ...]]
    counts: Mapping[str, int]
    holding_back: tuple[str, ...]
    error: BaseException | None
    time: TimeForm

    def __str__(self) -> str:
        lines = [self._write_head()]
        for stream, candidates in self.candidates.items():
            lines.append(self._write_stream(stream, len(candidates)))
            for each in candidates:
                lines += [f"  {self._write_event(each)}", f"    {make_visible(str(each.fate))}"]
        if self.results.height:
            lines.append("the result has it:" if self.exists else "nearest results:")
            lines += [f"  {self._write_result(row)}" for row in self.results.iter_rows(named=True)]
        return "\n".join([*lines, *self._list_ends()])

    def _repr_html_(self) -> str:
        tables = []
        for stream, candidates in self.candidates.items():
            rows = [[self._write_event(each), str(each.fate)] for each in candidates]
            caption = self._write_stream(stream, len(candidates))
            tables.append(html.table(["event", "fate"], rows, caption=caption))
        if self.results.height:
            caption = "the result has it" if self.exists else "nearest results"
            rows = [[self._write_result(row)] for row in self.results.iter_rows(named=True)]
            tables.append(html.table(["row"], rows, caption=caption))
        ends = [html.fixed_width(each) for each in self._list_ends()]
        return html.section(self._write_head(), *tables, *ends)

    def _write_head(self) -> str:
        if self.exists:
            return f"the result has a row {self.wanted}"
        return f"the result has no row {self.wanted}"

    def _write_stream(self, stream: str, shown: int) -> str:
        count = self.counts[stream]
        if not count:
            return f"{make_visible(stream)}: no events"
        return f"{make_visible(stream)}: {shown} of {count:,} events, the nearest first"

    def _write_event(self, candidate: Candidate) -> str:
        lifetime = write_lifetime(candidate.start, candidate.end, self.time)
        return f"{lifetime} {write_values(candidate.payload)} (event {candidate.position:,})"

    def _write_result(self, row: dict[str, object]) -> str:
        start, end = row.pop("start_time"), row.pop("end_time")
        times = [self._write_time(start), "never ends" if end is None else self._write_time(end)]
        return f"[{times[0]}, {times[1]}) {write_values(row)}"

    def _write_time(self, time: object) -> str:
        if isinstance(time, int):
            return write_time(time, self.time)
        return describe(time_ticks(time))  # type: ignore[arg-type]

    def _list_ends(self) -> list[str]:
        ends = [f"held back: {each}" for each in self.holding_back]
        if self.error is not None:
            ends.append(f"the run ended with {type(self.error).__name__}: {self.error}")
        return [make_visible(each) for each in ends]
