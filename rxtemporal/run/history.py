"""History of a run: earlier checkpoints that its folder keeps, with the events since.

A changed query may continue one of them, in place of the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TimeLike, describe, time_ticks
from rxtemporal.errors import CheckpointError
from rxtemporal.storage.event_log.stored_log import Checkpoint, StoredLog

# how many checkpoints are kept, evenly spaced
KEPT = 8


def find_time(ctis: Iterable[int]) -> int:
    """Return the highest of the CTIs of sources that have not ended.

    >>> find_time([3, MAX_TIME, 5])
    5
    """
    return max((cti for cti in ctis if cti < MAX_TIME), default=MAX_TIME)


def thin_out(found: Sequence[Checkpoint], now: int, keep: int) -> list[Checkpoint]:
    """Return those of the checkpoints, in order, that stay for a history of ``keep`` ticks.

    They are the last one that is as old, and of those after it about ``KEPT``, evenly spaced.

    >>> times = [0, 10, 11, 20, 21, 30, 31]
    >>> [each.time for each in thin_out([Checkpoint(t, 1, t, t) for t in times], 95, 80)]
    [11, 21, 31]
    """
    timed = [(each.time, each) for each in found if each.time is not None]
    old = sum(at <= now - keep for at, _ in timed)
    kept: list[Checkpoint] = []
    reached = MIN_TIME
    for at, each in timed[max(old - 1, 0) :]:
        if not kept or at - reached >= keep // KEPT:
            kept.append(each)
            reached = at
    return kept


def find_cut(store: StoredLog, replay_from: TimeLike) -> Checkpoint:
    """Return the last checkpoint from before a time. ``CheckpointError``: there is none."""
    at, last = time_ticks(replay_from), store.find_checkpoint()
    found = [each for each in (*last.kept, last) if each.time is not None]
    before = [each for each in found if each.time is not None and each.time <= at]
    if before:
        return before[-1]
    begin = f"its history begins at {describe(found[0].time or 0)}" if found else "it has none"
    raise CheckpointError(
        f"{store.path} cannot be replayed from {describe(at)}: {begin}. Hint: replay "
        "from a later time; without it, what is new begins at the last checkpoint. keep_history=, "
        "or keep_history in [state] of a service, is for how long events are kept from now on."
    )
