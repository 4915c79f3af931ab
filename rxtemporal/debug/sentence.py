"""Sentence at the top of the event-flow page: what is held back and by whom, and what came late."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rxtemporal.core.batch import TimeForm
from rxtemporal.core.safe_text import describe_error
from rxtemporal.debug.columns import cut_text
from rxtemporal.ingress.source import StreamSource
from rxtemporal.operators.causes.history import ADJUSTED, LATE, TIME, Arrivals
from rxtemporal.operators.causes.row_text import write_delay, write_span

if TYPE_CHECKING:
    from rxtemporal.lineage.flow import Flow


def write_sentence(flow: Flow) -> str:
    """Return what the reader of a page wants to know first, in one to a few sentences."""
    if flow.error is not None:
        return f"The run failed: {cut_text(describe_error(flow.error))}"
    waits = [f"{each[:1].upper()}{each[1:].rstrip('.')}." for each in flow.holding_back]
    return " ".join([*(waits or ["Everything is final."]), *_write_late(flow)])


def list_cti_delays(flow: Flow) -> dict[str, int | None]:
    """Return how far behind its events each stream makes its CTIs, in ticks; None: it does not."""
    sources = [each for each in flow.histories if each.kind == "source"]
    return {
        each.name: each.node.cti_delay if isinstance(each.node.source, StreamSource) else None
        for each in sources
    }


def _write_late(flow: Flow) -> Iterator[str]:
    delays = list_cti_delays(flow)
    for name, arrivals in flow.arrivals.items():
        late = arrivals.verdict == LATE
        adjusted = arrivals.verdict == ADJUSTED
        fates = [(int(late.sum()), "dropped"), (int(adjusted.sum()), "adjusted")]
        parts = [f"{number:,} {fate}" for number, fate in fates if number]
        if parts:
            events = int((arrivals.verdict != TIME).sum())
            came = (
                f"{name!r}: {sum(number for number, _ in fates):,} of {events:,} events came late"
            )
            remedy = _write_remedy(arrivals, delays.get(name), flow.time)
            yield f"{came} ({', '.join(parts)}){remedy}."


def _write_remedy(arrivals: Arrivals, delay: int | None, time: TimeForm) -> str:
    late = (arrivals.verdict == LATE) | (arrivals.verdict == ADJUSTED)
    furthest = int(arrivals.by[late].max())
    if not furthest:  # ahead of the wall clock, or an end without its start
        return ""
    if delay is None:
        return f", by up to {write_span(furthest, time)}"
    enough, now = write_delay(delay + furthest, time), write_delay(delay, time)
    return f"; a delay of {enough} in place of {now} would have kept them"
