"""Model of the door of one stream and of its inputs, one item at a time, by the definitions alone.

The definitions: *Advancing Application Time*, the rules in ``rxtemporal.ingress.lateness``, and
what the docstrings of ``SourceStats``, ``PushStats`` and ``StreamDiagnostics`` say of counters.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import rxtemporal as rxt
from rxtemporal import AdvanceTimePolicy, LateReason, WhenAhead
from rxtemporal.metrics.catalog import list_bounds

MIN_TIME, MAX_TIME = rxt.MIN_TIME, rxt.MAX_TIME
# the times at which the wall clock stands, and how far a row may be ahead of it
NOW, ALLOWED = 100_000_000, 20
# of the rows of an input that come alone, one in so many is compared with the wall clock
COMPARED = 16


@dataclasses.dataclass(frozen=True)
class Item:
    """An item that a source sends: a row, a CTI, or a row that cannot be read.

    ``kind`` is point, interval, start, end, cti or unreadable; ``n`` is the payload of a row, which
    a start edge and its end edge have in common.
    """

    kind: str
    start: int
    end: int
    n: int
    input: str | None = None
    seq: int | None = None

    @property
    def time(self) -> int:
        """The time that the item shows: of an end edge its end, else its start."""
        return self.end if self.kind == "end" else self.start


class Push(NamedTuple):
    """Items of one input that come at once; ``is_many`` says if as several or as one."""

    items: Sequence[Item]
    is_many: bool


@dataclasses.dataclass(frozen=True)
class Rules:
    """Rules of a stream.

    ``makes_ctis``: each row but an end edge makes a CTI at its start less the delay.
    ``delays_ctis``: a CTI that the source sends counts less the delay, too. ``when_ahead`` is None
    if nothing is compared with the wall clock.
    """

    policy: AdvanceTimePolicy
    delay: int
    makes_ctis: bool
    delays_ctis: bool
    when_ahead: WhenAhead | None
    # the name of what comes without an input; and the source of a late event, None: its input
    own: str
    stream: str | None


class Late(NamedTuple):
    """A late event, its fate, the CTI that it broke, and by how many ticks."""

    start: int
    end: int
    n: int
    source: str
    reason: LateReason
    cti: int
    by: int


class Fate(NamedTuple):
    """The fate of one row: accepted, duplicate, late or rejected."""

    what: str
    late: Late | None = None
    is_unsure: bool = False


class Numbers:
    """Sequence numbers of one input, of the count now and of the one before it, as sets.

    A repeat has number and start of its row. A number that is there on a row that starts later
    than all others begins a new count; rows up to then are of the count before.
    """

    def __init__(self) -> None:
        self._now: set[int] = set()
        self._before: set[int] = set()
        # the count before has the rows that start after the first time and not after the second
        self._since = self._until = self._latest = MIN_TIME - 1
        self._ahead: set[tuple[int, int]] = set()

    def add(self, number: int, start: int, is_ahead: bool) -> str:
        """Return new, repeat or unsure for the number of a row, and remember it."""
        if (number, start) in self._ahead:
            return "repeat"
        if start <= self._since:
            return "unsure"
        if start <= self._until:
            found = "repeat" if number in self._before else "new"
            self._before.add(number)
            return found
        found = "new"
        if number in self._now:
            if start <= self._latest:
                return "repeat"
            self._before, self._now, found = self._now, set(), "unsure"
            self._since, self._until = self._until, self._latest
        self._now.add(number)
        if is_ahead:
            self._ahead.add((number, start))
        else:
            self._latest = max(self._latest, start)
        return found


class Input:
    """Counters of one input."""

    def __init__(self) -> None:
        self.accepted = self.duplicates = self.unsure = self.rejected = self.refused = 0
        self.ahead = self.largest_lateness = self.open_rows = 0
        self.late: Counter[LateReason] = Counter()
        self.reached: int | None = None
        self.numbers = Numbers()
        self.offset: int | None = None

    @property
    def events(self) -> int:
        """The number of rows that were judged."""
        return self.accepted + self.late.total()

    def reach(self, time: int) -> None:
        """Note a time that has come, unless the clock of the input is ahead."""
        self.reached = time if self.reached is None else max(self.reached, time)

    def compare(self, time: int) -> None:
        """Compare a time with the wall clock: the one that is furthest ahead counts."""
        self.offset = max(time - NOW, time - NOW if self.offset is None else self.offset)


class DoorModel:
    """Model of the door of one stream."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.inputs: defaultdict[str, Input] = defaultdict(Input)
        # below every time before the first; and what the CTI would be without a delay
        self.cti = self.high = MIN_TIME - 1
        self.late: list[Late] = []
        self._rows: list[list[int]] = []
        self._open: defaultdict[Any, deque[list[int]]] = defaultdict(deque)

    def push(self, push: Push) -> list[Fate | None]:
        """Return the fates of the items of a push; a CTI has none."""
        of = self.inputs[push.items[0].input or self.rules.own]
        readable = [item for item in push.items if item.kind != "unreadable"]
        if readable and (push.is_many or of.accepted % COMPARED == 0):
            of.compare(max(item.time for item in readable))
        return [self._judge(item, of) for item in push.items]

    def restart(self) -> None:
        """Begin another life from the event log: what never came to the door is not there."""
        for name, of in list(self.inputs.items()):
            of.duplicates = of.rejected = 0
            of.ahead, of.refused, of.offset = of.ahead - of.refused, 0, None
            if not of.events and of.reached is None and not of.ahead:
                del self.inputs[name]

    def _judge(self, item: Item, of: Input) -> Fate | None:
        rules = self.rules
        if item.kind == "unreadable":
            of.rejected += 1
            return Fate("rejected")
        is_ahead = (
            rules.when_ahead is not None and item.kind != "end" and item.start > NOW + ALLOWED
        )
        if is_ahead:
            of.compare(item.start)
        if item.kind == "cti":
            of.ahead += is_ahead
            if not is_ahead:
                of.reach(item.start)
                self._advance(item.start, rules.delay if rules.delays_ctis else 0)
            return None
        if is_ahead and rules.when_ahead is WhenAhead.REJECT:
            of.ahead, of.refused, of.rejected = of.ahead + 1, of.refused + 1, of.rejected + 1
            return Fate("rejected")
        found = "new" if item.seq is None else of.numbers.add(item.seq, item.start, is_ahead)
        if found == "repeat":
            of.duplicates += 1
            return Fate("duplicate")
        of.unsure += found == "unsure"
        of.ahead += is_ahead
        if not is_ahead:
            of.reach(item.time)
            of.largest_lateness = max(of.largest_lateness, self.high - item.time)
        reason = self._admit(item, of, is_ahead)
        late = None if reason is None else self._report(item, reason)
        of.accepted += reason is None
        of.late.update([] if reason is None else [reason])
        if rules.makes_ctis and item.kind != "end" and not is_ahead:
            self._advance(item.start, rules.delay)
        return Fate("accepted" if late is None else "late", late, found == "unsure")

    def _admit(self, item: Item, of: Input, is_ahead: bool) -> LateReason | None:
        """Let a row in, moved if need be; return the reason if it is late."""
        if is_ahead and self.rules.when_ahead is WhenAhead.LATE:
            return LateReason.AHEAD
        key = (item.input, item.start, item.n)
        if item.kind == "end":
            if not self._open[key]:
                return LateReason.NO_OPEN_ROW
            row = self._open[key].popleft()
            of.open_rows -= 1
            row[1] = max(item.end, self.cti, row[0] + 1)
            return None if row[1] == item.end else LateReason.END_MOVED
        row, reason = [item.start, item.end, item.n], None
        if item.start < self.cti:
            if self.rules.policy is AdvanceTimePolicy.DROP or item.end <= self.cti:
                return LateReason.DROPPED
            row[0], reason = self.cti, LateReason.ADJUSTED
        self._rows.append(row)
        if item.kind == "start":
            self._open[key].append(row)
            of.open_rows += 1
        return reason

    def _advance(self, time: int, delay: int) -> None:
        self.high = max(self.high, time)
        self.cti = max(self.cti, time - delay)

    def _report(self, item: Item, reason: LateReason) -> Late:
        source = self.rules.stream or item.input or self.rules.own
        broken = max(self.cti, MIN_TIME)
        by = max(0, broken - item.time)
        late = Late(item.start, item.end, item.n, source, reason, broken, by)
        self.late.append(late)
        return late

    # What is known of it --------------------------------------------------------------------------

    def list_history(self) -> list[tuple[int, ...]]:
        """Return the rows that are in the stream: start, end and payload."""
        return sorted(map(tuple, self._rows))

    def list_inputs(self) -> dict[str, dict[str, Any]]:
        """Return the counters of each input."""
        reached = [of.reached for of in self.inputs.values() if of.reached is not None]
        return {
            name: {
                "events": of.events,
                "late": of.late.total(),
                "late_by_reason": dict(of.late),
                "largest_lateness": of.largest_lateness,
                "lag": None if of.reached is None else max(reached) - of.reached,
                "open_rows": of.open_rows,
                "unsure": of.unsure,
                "rejected": of.rejected,
                "ahead": of.ahead,
            }
            for name, of in self.inputs.items()
        }

    def sum(self, counter: str) -> int:
        """Return the sum of a counter over the inputs."""
        return sum(getattr(of, counter) for of in self.inputs.values())

    @property
    def largest_lateness(self) -> int:
        """The smallest delay with which no row would have been late."""
        return max((of.largest_lateness for of in self.inputs.values()), default=0)

    def count_late(self) -> dict[LateReason, int]:
        """Return the number of late events by their reason."""
        return dict(Counter(late.reason for late in self.late))

    def count_lateness(self) -> tuple[tuple[int, ...], int]:
        """Return how many late events are in each bucket of the histogram, and the sum in ticks."""
        by = [late.by for late in self.late if late.by > 0]
        bounds = [float(bound) * 1_000_000 for bound in list_bounds()]
        counts = Counter(next(i for i, most in enumerate(bounds) if each <= most) for each in by)
        return tuple(counts[i] for i in range(len(bounds))), sum(by)
