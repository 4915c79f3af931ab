"""Pace of lanes: how soon they are told the times of their devices, and how often split."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

# a lane is split after so many seconds at the latest, and otherwise as long as that takes no more
# than so many seconds, and such a share of the time
_LONGEST, _AT_ONCE, _SHARE = 1.0, 0.05, 0.02
# lanes are told their times after so many rows at the latest, or after so many seconds
_MOST_ROWS, _SOON = 65_536, 1.0


class LanePace:
    """The times at which lanes are told how far their devices are, and at which they are split.

    Lanes that nothing would leave are told after ``_MOST_ROWS`` rows or ``_SOON`` seconds. To split
    a lane costs its whole state: one may be split ``_LONGEST`` seconds after the last, and earlier
    as long as all splits take no more than ``_AT_ONCE`` seconds and a ``_SHARE`` of the time.
    ``clock`` returns seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # since when lanes are there, when one was last split, and for how long in all
        self._begun = self._last_split = clock()
        self._spent = 0.0
        # the number of rows since lanes were told, and when they are told anyway
        self._rows, self._tell_at = 0, 0.0
        # the numbers of the lanes that have not been told, and of those that have laggards and
        # could not be split yet
        self._stale: set[int] = set()
        self.postponed: set[int] = set()

    def count_rows(self, rows: int) -> bool:
        """Count rows; return True if lanes have to be told, though nothing leaves them."""
        self._rows += rows
        return self._rows >= _MOST_ROWS or self._clock() >= self._tell_at

    def tell(self) -> set[int]:
        """Note that all lanes are told now; return the numbers of those that had not been."""
        stale, self._stale = self._stale, set()
        self._rows, self._tell_at = 0, self._clock() + _SOON
        return stale

    def find_wait(self) -> float | None:
        """Return the seconds until lanes have to be told or may be split; None for neither."""
        at = [self._tell_at] if self._stale else []
        if self.postponed:
            at.append(self._find_split())
        return max(0.0, min(at) - self._clock()) if at else None

    def may_split(self) -> bool:
        """Return True if a lane may be split now."""
        return self._clock() >= self._find_split()

    def _find_split(self) -> float:
        within_share = self._begun + (self._spent - _AT_ONCE) / _SHARE
        return min(self._last_split + _LONGEST, within_share)

    @contextmanager
    def split(self) -> Iterator[Callable[[], None]]:
        """Return a context in which a lane is split, if that proves to be of use.

        The search counts as well. The caller calls what the context gives once a lane is split.
        """
        begun = self._clock()
        yield self._note_split
        self._spent += self._clock() - begun

    def _note_split(self) -> None:
        self._last_split = self._clock()

    def note_stale(self, lanes: Iterable[int]) -> None:
        """Note that these lanes have not been told how far their devices are."""
        self._stale.update(lanes)

    def postpone(self, lane: int) -> None:
        """Note that a lane has laggards and cannot be split yet."""
        self.postponed.add(lane)

    def take_postponed(self) -> set[int]:
        """Return the lanes that could not be split, to try it again."""
        postponed, self.postponed = self.postponed, set()
        return postponed

    def forget(self, lane: int) -> None:
        """Note that there is no such lane any more."""
        self._stale.discard(lane)

    def begin_with(self, lanes: Iterable[int]) -> None:
        """Note that these lanes may not have been told, and may have laggards."""
        self._stale, self.postponed = {*lanes}, {*lanes}
