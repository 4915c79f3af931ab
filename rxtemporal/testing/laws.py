"""Laws that every query obeys, checked over given streams."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from rxtemporal.testing.arrivals import draw_cuts, interleave, reorder
from rxtemporal.testing.histories import TOLERANCE
from rxtemporal.testing.streams import make_trial
from rxtemporal.testing.tables import format_times, show_events
from rxtemporal.testing.trials import Arrangement, BrokenLawError, FindFault, Trial, shrink

Law = Callable[[Trial, Random], None]

# number of lines shown of a stream
_MOST_SHOWN = 60


def check_laws(
    query: Callable[..., Any],
    streams: Any,
    *,
    schema: Any = None,
    seed: int = 0,
    rounds: int = 10,
    complete: bool = True,
    restart: bool = True,
    tolerance: float = TOLERANCE,
) -> None:
    """Check a query's laws over streams; raise an ``AssertionError`` if one does not hold.

    ``query`` is a function from streams to a stream, deterministic and with no state of its own.
    ``streams`` are its arguments: a mapping from parameter names to streams, a list, or a single
    stream. Each is a list of events with their CTIs, the text of a table, or a ``Streamable``.
    ``schema`` gives their fields in the same form, if the events do not show them. With
    ``complete`` each stream ends with a CTI at the end of time; without, with its last event.

    1. *Batch invariance*: with one event at a time, random cuts or one batch, the history is the
       same, and so is the output CTI after the same events.
    2. *Order insensitivity*: in any order that no CTI forbids, with start edges before their end
       edges and streams interleaved in any way, the history and the last CTI are the same.
    3. *CTI soundness*: no row of any of these runs breaks an earlier output CTI, and output CTIs
       never go back. Additional CTIs in the streams, wherever they are true, change no history. At
       the end of time the output's CTI is at the end of time, too.
    4. *Restart* (unless ``restart`` is false, or a stream's fields are not known): if all steps are
       saved and loaded into new ones after each batch, the history and the last CTI are the same.

    Histories are compared up to the last output CTI, floats within ``tolerance`` as in
    ``assert_same_history``. Cuts and orders are drawn ``rounds`` times from a ``random.Random``
    with this ``seed``. The message shows the smallest streams found that still break the law. An
    error that the query raises over the unchanged streams is raised as it is.

    >>> from rxtemporal import agg
    >>> def occupied(visits):
    ...     return visits.snapshot_window().aggregate(n=agg.count())
    >>> check_laws(occupied, {"visits": '''
    ...     interval  0..10  room=lab
    ...     start     4      room=lab
    ...     cti       5
    ...     point     7      room=hall
    ...     end       4..8   room=lab
    ... '''})
    """
    trial = make_trial(query, streams, schema, complete, tolerance)
    for name, law in _LAWS.items():
        if name != "restart" or (restart and trial.can_restart):
            for number in range(rounds):
                _check_law(trial, partial(_find_fault, law, f"{seed}, {name}, {number}"))


def _check_law(trial: Trial, find_fault: FindFault) -> None:
    broken = find_fault(trial, 0)
    if broken is not None:
        trial, broken = shrink(trial, broken, find_fault)
        raise AssertionError(_format_report(trial, broken)) from broken.__cause__


def _find_fault(law: Law, seed: str, trial: Trial, retry: int) -> BrokenLawError | None:
    # a string, because Random takes no tuple
    random = Random(f"{seed}, {retry}" if retry else seed)
    try:
        law(trial, random)
    except BrokenLawError as broken:
        return broken
    return None


def _draw_arrangement(trial: Trial, random: Random, events: list[Any] | None = None) -> Arrangement:
    """Arrange the events of all streams, interleaved and cut at random."""
    arrivals = interleave(events or [each.events for each in trial.inputs], random)
    return Arrangement(arrivals, draw_cuts(len(arrivals), random))


def _check_batch_invariance(trial: Trial, random: Random) -> None:
    law = "batch invariance"
    arrangement = _draw_arrangement(trial, random)
    single = Arrangement(arrangement.arrivals, range(1, len(arrangement.arrivals) + 1))
    alone = trial.outcome(law, single)
    cut = trial.outcome(law, arrangement)
    for end in arrangement.ends:
        reached, expected = cut.cti_after(end), alone.cti_after(end)
        if reached != expected:
            ctis = format_times([reached, expected])
            seen = (
                f"after {end} events the output CTI is {ctis[0]}, but {ctis[1]} if they come "
                "one at a time"
            )
            raise BrokenLawError(law, seen, arrangement)


def _check_order_insensitivity(trial: Trial, random: Random) -> None:
    moved = [reorder(each.events, random) for each in trial.inputs]
    trial.outcome("order insensitivity", _draw_arrangement(trial, random, moved))


def _check_cti_soundness(trial: Trial, random: Random) -> None:
    moved = [reorder(each.events, random, more_ctis=True) for each in trial.inputs]
    trial.outcome("CTI soundness", _draw_arrangement(trial, random, moved))


def _check_restart(trial: Trial, random: Random) -> None:
    trial.outcome("restart", _draw_arrangement(trial, random), restart=True)


_LAWS: dict[str, Law] = {
    "batch invariance": _check_batch_invariance,
    "order insensitivity": _check_order_insensitivity,
    "CTI soundness": _check_cti_soundness,
    "restart": _check_restart,
}


def _format_report(trial: Trial, broken: BrokenLawError) -> str:
    query = getattr(trial.query, "__qualname__", None) or repr(trial.query)
    lines = [f"{broken.law} does not hold for the query {query}: {broken.seen}"]
    lines.append("the smallest streams found, in the order in which they came; -- ends a batch:")
    return "\n".join([*lines, *_format_arrivals(trial, broken.arrangement)])


def _format_arrivals(trial: Trial, arrangement: Arrangement) -> list[str]:
    names = [trial.inputs[arrival.stream].name for arrival in arrangement.arrivals]
    width = max(map(len, names), default=0)
    events = show_events(arrival.event for arrival in arrangement.arrivals).splitlines()
    ends = set(arrangement.ends)
    lines = []
    for number, (name, event) in enumerate(zip(names, events, strict=True), 1):
        lines.append(f"  {name.ljust(width)}  {event}")
        if number in ends:
            lines.append("  --")
    left_out = len(lines) - _MOST_SHOWN
    return lines if left_out <= 0 else [*lines[:_MOST_SHOWN], f"  … and {left_out:,} more lines"]
