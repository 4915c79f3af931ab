"""Events that wait in front of a subject, to be judged many at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# fewer are judged one by one: columns would cost more
LEAST = 48


class Inbox:
    """Events that have been pushed into a subject, and that its only subscriber can wait for.

    That is a run behind a hand-off. Events wait until there are ``most``, until a CTI comes while
    the run has nothing to do, or until somebody asks. They are judged in the order in which they
    have come, so they get the verdicts that each would have got at once.

    Threads: any may append to ``items`` and set the flags; the subject's lock is held while events
    are taken out.
    """

    __slots__ = ("_judge", "asked", "busy", "collects", "items", "most", "receive", "wait_for_room")

    def __init__(self, receive: Callable[[Any], None], judge: Callable[[float], None]) -> None:
        # events, each followed by its source unless that is the subject's own
        self.items: list[Any] = []
        # so many items are judged at the latest; the run may say otherwise
        self.most = 1_024
        # True while the run is at work: then CTIs wait as well; always if the run collects rows
        self.busy = self.collects = False
        # True if somebody has found the lock taken: who holds it looks once more
        self.asked = False
        # takes events as columns; None once the subject has another subscriber, or none
        self.receive: Callable[[Any], None] | None = receive
        # waits until there is room in the hand-off
        self.wait_for_room: Callable[[], object] = bool
        self._judge = judge

    def close(self) -> None:
        """Let no event wait any longer."""
        self.receive, self.most = None, 1

    def fetch(self, patience: float = 0) -> None:
        """Judge the events that wait.

        If another thread is judging for longer than ``patience`` seconds, it does so.
        """
        if self.items:
            self._judge(patience)

    def release(self) -> None:
        """Judge the events that wait; from now on each CTI does: the run has no work."""
        self.busy = self.collects
        self.fetch()

    def take(self) -> list[Any]:
        """Take out the events that wait."""
        items = self.items
        count = len(items)  # others append meanwhile
        taken = items[:count]
        del items[:count]
        return taken
