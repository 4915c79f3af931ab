"""Laws that hold of every query, checked over streams of one's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from rxtemporal.testing.arrivals import cuts, interleaved, reordered
from rxtemporal.testing.histories import TOLERANCE
from rxtemporal.testing.streams import trial_of
from rxtemporal.testing.tables import show_events, time_texts
from rxtemporal.testing.trials import Arrangement, BrokenLawError, Tested, Trial, smallest

Law = Callable[[Trial, Random], None]

# of a stream so many lines are shown
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
    """Check a query's laws over streams; what does not hold is an ``AssertionError``.

    ``query`` is a function from streams to a stream, deterministic and with no state of its own.
    ``streams`` are what it is called with: a mapping of its parameters' names, a list, or one
    stream alone; each a list of events with their CTIs, the text of a table, or a ``Streamable``.
    ``schema`` gives their fields in the same form, where the events do not show them. With
    ``complete`` each stream ends with a CTI at the end of time; without, with its last event.

    1. *Batch invariance*: one event at a time, random cuts, one batch: the same history, and after
       the same events the same output CTI.
    2. *Order insensitivity*: an order that no CTI forbids, start edges before their end edges, and
       streams interleaved in any way: the same history and last CTI.
    3. *CTI soundness*: no row of any of these runs breaks an earlier output CTI, which never goes
       back; so all that it promised is there. Further CTIs in the streams, wherever they are true,
       change no history. At the end of time the output's CTI is there too.
    4. *Restart* (unless switched off, or a stream's fields are not known): all steps saved and
       loaded into new ones after each batch: the same history and last CTI.

    Histories are compared up to the last output CTI, floats within ``tolerance`` as in
    ``assert_same_history``. Cuts and orders are drawn ``rounds`` times from a ``random.Random`` of
    ``seed``. The message shows the smallest streams found for which the law is still broken. What
    the query raises over the streams as they are is raised.

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
    trial = trial_of(query, streams, schema, complete, tolerance)
    for name, law in _LAWS.items():
        if name != "restart" or (restart and trial.restarts):
            for number in range(rounds):
                _check(trial, partial(_broken, law, f"{seed}, {name}, {number}"))


def _check(trial: Trial, tested: Tested) -> None:
    broken = tested(trial, 0)
    if broken is not None:
        trial, broken = smallest(trial, broken, tested)
        raise AssertionError(_report(trial, broken)) from broken.__cause__


def _broken(law: Law, seed: str, trial: Trial, retry: int) -> BrokenLawError | None:
    # a text, for Random takes no tuple
    random = Random(f"{seed}, {retry}" if retry else seed)
    try:
        law(trial, random)
    except BrokenLawError as broken:
        return broken
    return None


def _arranged(trial: Trial, random: Random, events: list[Any] | None = None) -> Arrangement:
    """The events of all streams, interleaved and cut at random."""
    arrivals = interleaved(events or [each.events for each in trial.inputs], random)
    return Arrangement(arrivals, cuts(len(arrivals), random))


def _batch_invariance(trial: Trial, random: Random) -> None:
    law = "batch invariance"
    arranged = _arranged(trial, random)
    single = Arrangement(arranged.arrivals, range(1, len(arranged.arrivals) + 1))
    alone = trial.outcome(law, single)
    cut = trial.outcome(law, arranged)
    for end in arranged.ends:
        reached, expected = cut.cti_after(end), alone.cti_after(end)
        if reached != expected:
            ctis = time_texts([reached, expected])
            seen = (
                f"after {end} events the output CTI is {ctis[0]}, and {ctis[1]} where they came "
                "one at a time"
            )
            raise BrokenLawError(law, seen, arranged)


def _order_insensitivity(trial: Trial, random: Random) -> None:
    moved = [reordered(each.events, random) for each in trial.inputs]
    trial.outcome("order insensitivity", _arranged(trial, random, moved))


def _cti_soundness(trial: Trial, random: Random) -> None:
    moved = [reordered(each.events, random, more_ctis=True) for each in trial.inputs]
    trial.outcome("CTI soundness", _arranged(trial, random, moved))


def _restart(trial: Trial, random: Random) -> None:
    trial.outcome("restart", _arranged(trial, random), restart=True)


_LAWS: dict[str, Law] = {
    "batch invariance": _batch_invariance,
    "order insensitivity": _order_insensitivity,
    "CTI soundness": _cti_soundness,
    "restart": _restart,
}


def _report(trial: Trial, broken: BrokenLawError) -> str:
    query = getattr(trial.query, "__qualname__", None) or repr(trial.query)
    lines = [f"{broken.law} does not hold for the query {query}: {broken.seen}"]
    lines.append("the smallest streams found, in the order in which they came; -- ends a batch:")
    return "\n".join([*lines, *_arrival_lines(trial, broken.arranged)])


def _arrival_lines(trial: Trial, arranged: Arrangement) -> list[str]:
    names = [trial.inputs[arrival.stream].name for arrival in arranged.arrivals]
    width = max(map(len, names), default=0)
    events = show_events(arrival.event for arrival in arranged.arrivals).splitlines()
    ends = set(arranged.ends)
    lines = []
    for number, (name, event) in enumerate(zip(names, events, strict=True), 1):
        lines.append(f"  {name.ljust(width)}  {event}")
        if number in ends:
            lines.append("  --")
    left_out = len(lines) - _MOST_SHOWN
    return lines if left_out <= 0 else [*lines[:_MOST_SHOWN], f"  … and {left_out:,} more lines"]
