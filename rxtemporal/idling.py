"""Idle streams: those that follow the others instead of holding them back."""

from __future__ import annotations

from collections.abc import Sequence

from rxtemporal.errors import BindingError
from rxtemporal.ingress.settings import needs_policy
from rxtemporal.readings import Reading


class Idling:
    """The streams of a run of which some are idle.

    An idle stream is advanced to the lowest CTI of those that are not, as if it imported that one,
    and its CTI goes on to the streams that import from it. So the end of time is not handed on,
    and where all are idle none moves. The first thing that its source sends ends it; that is judged
    by the CTI that was reached.

    Threads: whoever calls holds the run's lock.
    """

    def __init__(self, readings: Sequence[Reading]) -> None:
        self._readings = readings
        # nobody is, as a rule, and then it costs an event nothing
        self._some = False
        for reading in readings:
            reading.settle = self.settle

    def declare(self, name: str, *, at_once: bool = True) -> None:
        """Let the stream of this name be idle; refuse one that cannot be.

        ``at_once``: whether it follows now, or, where a batch is just on its way, after that.
        """
        found = [each for each in self._readings if each.name == name]
        if len(found) != 1:
            there = ", ".join(repr(each.name) for each in self._readings)
            many = f"there are {len(found)} streams" if found else "there is no stream"
            raise BindingError(
                f"{many} {name!r} in this process; there are {there}. "
                "Hint: name= where a stream is made, or an Application, gives it one of its own."
            )
        (reading,) = found
        if reading.pulls:
            raise BindingError(
                f"stream {name!r} is read by asking its source for more, which nobody can do while "
                "it does not answer; so it cannot be idle. Hint: from_observable, or from_async "
                "with idle_after=, which follow a source that may be silent."
            )
        if reading.source.settings is None:
            raise needs_policy(f"declaring stream {name!r} idle")
        self.rest(reading, at_once=at_once)

    def rest(self, reading: Reading, *, at_once: bool = True) -> None:
        """Let a stream be idle, unless it has ended."""
        if not reading.ended:
            reading.idle = self._some = True
            if at_once:
                self.settle()

    def settle(self) -> None:
        """Advance the idle streams as far as the others allow.

        Ends, whoever imports from whom: each round but the last advances a stream to a CTI that
        another one has, of which there are no more than streams.
        """
        while self._some:
            idle = [each for each in self._readings if each.idle]
            awake = [each for each in self._readings if not each.idle]
            self._some = bool(idle)
            if not (idle and awake and self._advanced(idle, awake)):
                return

    def _advanced(self, idle: Sequence[Reading], awake: Sequence[Reading]) -> bool:
        lowest = min(each.opened.door.cti for each in awake)
        moved = [each for each in idle if each.advanced_to(lowest)]
        for reading in moved:
            reading.spread()
        return bool(moved)
