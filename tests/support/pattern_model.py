"""Model of row pattern matching over the rows of one key, by trying every way in order.

Written from ISO SQL (``MATCH_RECOGNIZE``) and from what ``detect`` promises, without a look at the
engine. All rows are there and time is over: the matches are the final ones at the end of time. The
model takes time that grows exponentially, and is meant for about ten rows.

Where these leave room, the model decides so:

Order and rows

1.  Rows are sorted by start, then by the values of the payload in the order of its fields; None
    comes first. Equal rows keep the order given, which nobody can see but by index.
2.  In a condition the field ``start`` is the row's start, even if the payload has such a field.
3.  ``sum``, ``mean``, ``min`` and ``max`` leave out None, and are None (not 0) over no value, as in
    SQL. ``first`` and ``last`` give the value of their row, None or not. ``count`` counts rows.
4.  The functions run over the rows matched so far with the row under test, which counts as a row of
    the variable that is tested. A row tested for an absence (``!B``) or for a skip (``~>``) is
    tested in the same way, as if it came next. ``prev`` counts from the row under test.
5.  A condition that gives None is false.

Text

6.  ``|`` binds least, then concatenation with its connectors, then quantifiers. Space is free, also
    before a reluctant ``?``. ``A{2}?`` is accepted, and the same as ``A{2}``. ``{,}``, ``A**``,
    ``()`` and a connector without an element on both sides are refused.
7.  ``PERMUTE(X, Y, Z)`` is ``(X Y Z | X Z Y | Y X Z | …)``, as in ISO; its arguments may be
    patterns. The word is reserved.
8.  ``!`` takes one variable; two in a row are refused. ``A !B ~>> C`` is accepted: any later C
    with no B strictly between. ``!B`` before a plain element is refused, an optional one as well.
9.  A quantifier without an upper bound over something that may be empty is refused. So is a pattern
    that can match no row at all, such as ``A{0}``. With an upper bound, as in ``(A? B?){0,2}``, a
    repetition that is empty counts as one, and the next one is tried after it.
10. An absence at the end may be at the end of an alternative, and in a group that ends the pattern
    and is not repeated. Only matches that went that way have a deadline.

Connectors

11. A connector is about two neighbouring rows of the match. If nothing is matched before it
    (``A? ~> B`` without A), or nothing after it (``A ~> B?`` without B), it does nothing.
12. If what stands between two connectors is empty, the more liberal one counts (``~>>``, then
    ``~>``, then none), and all their absences: ``A ~> B? C`` without B is ``A ~> C``.
13. ``~>`` goes to the next row that *what follows* may begin with, and to no later one. If more
    than one variable may come next, the first row of any of them ends the skip:
    ``A ~> (B | C)`` is not ``(A ~> B) | (A ~> C)``, which prefers a later B to an earlier C.
    Two connectors with something optional between: behind the second, only what follows the
    second ends the skip, so ``A ~> (B D)? ~> C`` skips a B that no D follows.
    ``~>`` looks at one row, never at what comes after it: in ``A ~> B C`` the first B counts,
    even if a later B has a C.
14. ``~>>`` prefers the nearest row to the leftmost alternative: in ``A ~>> (B | C)`` an earlier C
    comes before a later B, and B before C at one row. The end of the pattern keeps its place in the
    order of preference: ``A ~>> B?`` takes a B, however late, and ``A ~>> B??`` takes none.
15. ``!B ~> C``: a row that is both B and C is allowed as C, as it is not strictly between.
16. ``!B`` at the end looks at the rows after the last row of the match, by the order of rows (so
    at those with the same start and a greater payload, too), that start before the first start +
    within. If one of them is B, the next way by preference is tried, as with any other condition.

Limits and skips

17. ``max_gap``: start - start of the row before in the match < max_gap, half-open as ``within`` is.
    Skipped rows are not in the match. Both limits only choose among complete ways, in order of
    preference: ``~>`` does not look for another row because the first one is too late.
18. If the preferred way is empty, nothing is reported, and the search goes on at the next row: less
    preferred ways that are not empty are not tried. ``A*?`` never gives anything.
19. A skip to a variable goes to its row if that is behind the first row of the match, to the row
    after the first one if it is the first row, and past the last row if the match does not have
    the variable. "Past the last row" is past the last *matched* row.
20. A skip is refused if it leads to the first row for every form of the pattern that is not empty.
    ``("first", "A")`` is refused for ``A B``, and accepted for ``A B | C D`` and ``B? A``;
    ``("last", "A")`` is refused for ``A B`` and accepted for ``A+ B``. A skip to a variable that
    occurs only behind ``!`` is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby, pairwise, permutations
from typing import Any, Literal, NamedTuple, NoReturn, Protocol

Skip = Literal["past_last", "next"] | tuple[Literal["first", "last"], str]
Taken = tuple[tuple[int, str], ...]
"""The rows matched so far: index and variable of each, in order."""


class Row(Protocol):
    """A row: its start and its payload."""

    @property
    def start(self) -> int:
        """The start, in ticks."""

    @property
    def payload(self) -> dict[str, Any]:
        """The values by field."""


class Match(NamedTuple):
    """A match: index of its first row, its rows with their variables, and the end of its wait.

    Not ``complete``: the longest part of a start that became none.
    """

    first: int
    rows: Taken
    deadline: int | None
    complete: bool = True


# --- what a condition sees ------------------------------------------------------------------------


class History:
    """What a condition may ask about the match so far; the last row taken is the one under test."""

    def __init__(self, rows: Sequence[Row], taken: Taken) -> None:
        self._rows = rows
        self._taken = taken

    def prev(self, field: str, n: int = 1) -> Any:
        """Return the field of the row n rows before in the key, None if there is none."""
        at = self._taken[-1][0] - n
        return get_field(self._rows[at], field) if at >= 0 else None

    def first(self, name: str) -> Any:
        """Return the field of the variable's first row, None if there is none: ``"A.v"``."""
        values = self._list_values(name)
        return values[0] if values else None

    def last(self, name: str, n: int = 0) -> Any:
        """Return the field of the variable's last row but n, None if there is none."""
        values = self._list_values(name)
        return values[-1 - n] if n < len(values) else None

    def count(self, variable: str) -> int:
        """Return the number of rows of the variable: ``"A"``."""
        return sum(name == variable for _, name in self._taken)

    def sum(self, name: str) -> Any:
        """Return the sum of the field over the variable's rows."""
        values = self._list_known(name)
        return sum(values) if values else None

    def mean(self, name: str) -> Any:
        """Return the mean of the field over the variable's rows."""
        values = self._list_known(name)
        return sum(values) / len(values) if values else None

    def min(self, name: str) -> Any:
        """Return the least value of the field over the variable's rows."""
        return min(self._list_known(name), default=None)

    def max(self, name: str) -> Any:
        """Return the greatest value of the field over the variable's rows."""
        return max(self._list_known(name), default=None)

    def _list_values(self, name: str) -> list[Any]:
        variable, _, field = name.partition(".")
        return [get_field(self._rows[at], field) for at, each in self._taken if each == variable]

    def _list_known(self, name: str) -> list[Any]:
        return [value for value in self._list_values(name) if value is not None]


Condition = Callable[[Any, History], Any]


def get_field(row: Row, field: str) -> Any:
    """Return a field of the row, of which ``start`` is one."""
    return row.start if field == "start" else row.payload[field]


def sort_rows(rows: Sequence[Row]) -> list[Row]:
    """Sort by start, then by the values of the payload; None comes before any value."""
    fields = list(rows[0].payload) if rows else []

    def get_place(row: Row) -> tuple[Any, ...]:
        values = [row.payload[field] for field in fields]
        return row.start, *((v is not None, 0 if v is None else v) for v in values)

    return sorted(rows, key=get_place)


# --- the pattern as a tree ------------------------------------------------------------------------


class Gap(IntEnum):
    """How far the next row of a match may be, from strict to liberal."""

    NEXT = 0
    """``A B``: the next row."""
    NEAREST = 1
    """``A ~> B``: the nearest row that matches."""
    ANY = 2
    """``A ~>> B``: any later row that matches."""


@dataclass(frozen=True)
class Variable:
    """One row of this variable."""

    name: str


@dataclass(frozen=True)
class Connector:
    """``~>`` or ``~>>`` between two parts of a sequence, with the variable that must be absent."""

    gap: Gap
    absent: str | None


@dataclass(frozen=True)
class Absence:
    """``!B`` at the end."""

    name: str


@dataclass(frozen=True)
class Sequel:
    """Parts and connectors one after the other; no connector means the next row."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    """Alternatives, the preferred one first."""

    options: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    """The body from ``low`` to ``high`` times, ``high`` None without a bound."""

    body: Node
    low: int
    high: int | None
    is_greedy: bool


Node = Variable | Connector | Absence | Sequel | Choice | Repeat
Rest = tuple[Node, ...]
"""What is still to be matched, in order."""


class Pattern(NamedTuple):
    """A parsed pattern, its variables that may have rows, and those behind ``!``."""

    tree: Node
    variables: frozenset[str]
    absent: frozenset[str]


TOKEN = re.compile(r"\s*(?:(?P<name>[^\W\d_]\w*)|(?P<number>\d+)|(?P<sign>~>>|~>|[|()*+?{},!]))")
BOUNDS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class Parser:
    """Recursive descent over the text of a pattern."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, int]] = []
        self._at = 0
        self._variables: set[str] = set()
        self._absent: set[str] = set()
        at = 0
        while text[at:].strip():
            found = TOKEN.match(text, at)
            if found is None:
                at += len(text[at:]) - len(text[at:].lstrip())
                is_anchor = text[at] in "^$"
                self._refuse("no end to anchor to" if is_anchor else "cannot read this", at)
            self._tokens.append((found[0].strip(), found.end() - len(found[0].strip())))
            at = found.end()

    def parse(self) -> Pattern:
        """Parse the whole text."""
        tree = self._parse_choice()
        if self._peek():
            self._refuse("unexpected")
        if not has_valid_ends(tree, is_last=True):
            self._refuse("an absence without ~> must be at the end", 0)
        if not list_beginnings((tree,)):
            self._refuse("no form of the pattern has a row", 0)
        return Pattern(tree, frozenset(self._variables), frozenset(self._absent))

    def _parse_choice(self) -> Node:
        options = [self._parse_sequel()]
        while self._accept("|"):
            options.append(self._parse_sequel())
        return Choice(tuple(options)) if len(options) > 1 else options[0]

    def _parse_sequel(self) -> Node:
        parts = [self._parse_repeat()]
        while self._peek() not in ("", "|", ")", ","):
            connector = self._parse_connector()
            if connector is not None:
                parts.append(connector)
            if isinstance(connector, Absence):
                break
            parts.append(self._parse_repeat())
        return Sequel(tuple(parts)) if len(parts) > 1 else parts[0]

    def _parse_connector(self) -> Connector | Absence | None:
        absent = None
        if self._accept("!"):
            absent = self._parse_name()
            self._absent.add(absent)
        if self._accept("~>>"):
            return Connector(Gap.ANY, absent)
        if self._accept("~>"):
            return Connector(Gap.NEAREST, absent)
        if absent is None:
            return None
        if self._peek() not in ("", "|", ")", ","):
            self._refuse("nothing lies between two rows that follow each other")
        return Absence(absent)

    def _parse_repeat(self) -> Node:
        body = self._parse_atom()
        sign = self._peek()
        if sign == "{":
            low, high = self._parse_bounds()
        elif sign in BOUNDS:
            self._at += 1
            low, high = BOUNDS[sign]
        else:
            return body
        if high is None and may_be_empty(body):
            self._refuse("a quantifier without a bound over something that may be empty")
        return Repeat(body, low, high, is_greedy=not self._accept("?"))

    def _parse_bounds(self) -> tuple[int, int | None]:
        self._expect("{")
        low = self._parse_number()
        high = low
        if self._accept(","):
            high = self._parse_number()
            if low is None and high is None:
                self._refuse("a bound is missing")
        elif low is None:
            self._refuse("a bound is missing")
        self._expect("}")
        if high is not None and (low or 0) > high:
            self._refuse("the lower bound is greater than the upper one")
        return low or 0, high

    def _parse_number(self) -> int | None:
        token = self._peek()
        if not token.isdecimal():
            return None
        self._at += 1
        return int(token)

    def _parse_atom(self) -> Node:
        if self._accept("("):
            inner = self._parse_choice()
            self._expect(")")
            return inner
        if self._accept("PERMUTE"):
            return self._parse_permutations()
        name = self._parse_name()
        self._variables.add(name)
        return Variable(name)

    def _parse_permutations(self) -> Node:
        self._expect("(")
        parts = [self._parse_choice()]
        while self._accept(","):
            parts.append(self._parse_choice())
        self._expect(")")
        return Choice(tuple(Sequel(each) for each in permutations(parts)))

    def _parse_name(self) -> str:
        name = self._peek()
        if not name[:1].isupper() or name == "PERMUTE":
            self._refuse("a variable begins with an upper-case letter")
        self._at += 1
        return name

    def _peek(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _accept(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self._at += 1
        return True

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            self._refuse(f"{token} is missing")

    def _refuse(self, reason: str, at: int | None = None) -> NoReturn:
        if at is None:
            at = self._tokens[self._at][1] if self._at < len(self._tokens) else len(self._text)
        raise ValueError(f"{reason}:\n{self._text}\n{' ' * at}^")


def has_valid_ends(node: Node, *, is_last: bool) -> bool:
    """Return True if each absence without a connector is where the pattern ends."""
    match node:
        case Absence():
            return is_last
        case Choice(options):
            return all(has_valid_ends(option, is_last=is_last) for option in options)
        case Sequel(parts):
            *before, last = parts
            return has_valid_ends(last, is_last=is_last) and all(
                has_valid_ends(part, is_last=False) for part in before
            )
        case Repeat(body, _, high, _):
            return has_valid_ends(body, is_last=is_last and high == 1)
        case _:
            return True


def count_most(node: Node, name: str) -> float:
    """Return how many rows of the variable a form of the pattern may have."""
    match node:
        case Variable(each):
            return each == name
        case Sequel(parts):
            return sum(count_most(part, name) for part in parts)
        case Choice(options):
            return max(count_most(option, name) for option in options)
        case Repeat(body, _, high, _):
            most = count_most(body, name)
            return most and most * (float("inf") if high is None else high)
        case _:
            return 0


# --- what may come next, in order of preference ---------------------------------------------------


class Between(NamedTuple):
    """What lies between a row of the match and the next one.

    ``stops`` are the variables of which the first row ends the skip of ``~>``, ``absent`` those
    that may not lie between, and ``behind`` is what follows the first ``~>>`` on the way.
    """

    gap: Gap = Gap.NEXT
    stops: frozenset[str] = frozenset()
    absent: tuple[str, ...] = ()
    behind: Rest | None = None


class Take(NamedTuple):
    """The next row is one of this variable."""

    name: str
    rest: Rest
    between: Between


class End(NamedTuple):
    """The match ends here; ``absent`` must not come before the deadline."""

    absent: str | None


def list_choices(
    rest: Rest, between: Between | None = None, absent: str | None = None
) -> Iterator[Take | End]:
    """List what may come next, in ISO's order of preference, without a look at the rows."""
    between = between or Between()
    if not rest:
        yield End(absent)
        return
    node, after = rest[0], rest[1:]
    match node:
        case Variable(name):
            yield Take(name, after, between)
        case Sequel(parts):
            yield from list_choices((*parts, *after), between, absent)
        case Choice(options):
            for option in options:
                yield from list_choices((option, *after), between, absent)
        case Repeat():
            for way in list_repeats(node, after):
                yield from list_choices(way, between, absent)
        case Connector():
            yield from list_choices(after, pass_connector(between, node, after), absent)
        case Absence(name):
            yield from list_choices(after, between, name)


def list_repeats(node: Repeat, after: Rest) -> list[Rest]:
    """List the two ways of a quantifier, once more and no more: greedy prefers once more."""
    body, low, high, is_greedy = node.body, node.low, node.high, node.is_greedy
    ways: list[Rest] = []
    if high is None or high > 0:
        fewer = Repeat(body, max(low - 1, 0), None if high is None else high - 1, is_greedy)
        ways.append((body, fewer, *after))
    if low == 0:
        ways.append(after)
    return ways if is_greedy else ways[::-1]


def pass_connector(between: Between, connector: Connector, after: Rest) -> Between:
    """Add a connector to those passed since the last row: the most liberal one counts."""
    is_first_any = connector.gap is Gap.ANY and between.behind is None
    return Between(
        gap=max(between.gap, connector.gap),
        stops=list_beginnings(after),
        absent=between.absent + ((connector.absent,) if connector.absent else ()),
        behind=after if is_first_any else between.behind,
    )


def list_beginnings(rest: Rest) -> frozenset[str]:
    """Return the variables that may come next."""
    return frozenset(each.name for each in list_choices(rest) if isinstance(each, Take))


def may_be_empty(node: Node) -> bool:
    """Return True if a form of the node has no row."""
    return any(isinstance(each, End) for each in list_choices((node,)))


# --- the search -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Search:
    """The ways of a pattern over sorted rows."""

    rows: Sequence[Row]
    pattern: Pattern
    conditions: Mapping[str, Condition]
    within: int | None
    max_gap: int | None

    def find_preferred(self, start: int) -> Match | None:
        """Return the most preferred match from this row that keeps the limits; it may be empty."""
        for taken, absent in self.list_ways(start, (self.pattern.tree,), ()):
            if self.keeps_limits(taken) and not self.has_come(absent, taken):
                return Match(start, taken, self.get_deadline(taken) if absent else None)
        return None

    def find_longest_part(self, start: int) -> Match | None:
        """Return the longest beginning of a way from this row; of several one that ends first."""
        parts = self.list_parts(start, (self.pattern.tree,), ())
        longest = max(parts, key=lambda taken: (len(taken), -taken[-1][0]), default=None)
        return None if longest is None else Match(start, longest, None, complete=False)

    def list_parts(self, start: int, rest: Rest, taken: Taken) -> Iterator[Taken]:
        """List every way to begin the rest after these rows, but for those behind an empty way."""
        for together in list_blocks(rest):
            if isinstance(together, End):
                if not taken:
                    return
                continue
            for at in self.list_places(start, taken):
                for take in together:
                    longer = (*taken, (at, take.name))
                    if (
                        self.reaches(take.between, at, taken)
                        and self.fits(take.name, at, taken)
                        and self.keeps_limits(longer)
                    ):
                        yield longer
                        yield from self.list_parts(start, take.rest, longer)

    def list_ways(self, start: int, rest: Rest, taken: Taken) -> Iterator[tuple[Taken, str | None]]:
        """List every way to match the rest after these rows, in order of preference."""
        for together in list_blocks(rest):
            if isinstance(together, End):
                yield taken, together.absent
                continue
            for at in self.list_places(start, taken):
                for take in together:
                    if self.reaches(take.between, at, taken) and self.fits(take.name, at, taken):
                        yield from self.list_ways(start, take.rest, (*taken, (at, take.name)))

    def list_places(self, start: int, taken: Taken) -> range:
        """Return the rows at which the next row of the match may be, if connectors allow it."""
        if not taken:
            return range(start, start + 1)
        return range(taken[-1][0] + 1, len(self.rows))

    def reaches(self, between: Between, at: int, taken: Taken) -> bool:
        """Return True if the connectors lead from the last row to this one."""
        if not taken:
            return True
        skipped = range(taken[-1][0] + 1, at)
        if between.gap is Gap.NEXT and skipped:
            return False
        stops = between.stops if between.gap is Gap.NEAREST else frozenset()
        return not any(
            self.fits(name, each, taken) for each in skipped for name in (*between.absent, *stops)
        )

    def fits(self, name: str, at: int, taken: Taken) -> bool:
        """Return True if this row can be the next one, as a row of this variable."""
        condition = self.conditions.get(name)
        if condition is None:
            return True
        return bool(condition(self.rows[at], History(self.rows, (*taken, (at, name)))))

    def keeps_limits(self, taken: Taken) -> bool:
        """Return True if the match is neither too long nor has too long a gap."""
        starts = [self.rows[at].start for at, _ in taken]
        if starts and self.within is not None and starts[-1] >= starts[0] + self.within:
            return False
        return self.max_gap is None or all(b - a < self.max_gap for a, b in pairwise(starts))

    def has_come(self, absent: str | None, taken: Taken) -> bool:
        """Return True if a row that must be absent comes after the match, before its deadline."""
        if absent is None or not taken:
            return False
        deadline = self.get_deadline(taken)
        assert deadline is not None
        return any(
            self.rows[at].start < deadline and self.fits(absent, at, taken)
            for at in range(taken[-1][0] + 1, len(self.rows))
        )

    def get_deadline(self, taken: Taken) -> int | None:
        """Return the first start + within."""
        if not taken or self.within is None:
            return None
        return self.rows[taken[0][0]].start + self.within


def list_blocks(rest: Rest) -> Iterator[End | list[Take]]:
    """List what may come next in blocks: in a block the nearest row is preferred.

    A block is what stands behind one ``~>>``, up to where the match may end; all else is a block of
    its own, for which at most one row is in question.
    """

    def get_connector(choice: Take | End) -> Rest | None:
        return choice.between.behind if isinstance(choice, Take) else None

    for _, choices in groupby(list_choices(rest), key=get_connector):
        block: list[Take] = []
        for choice in choices:
            if isinstance(choice, End):
                yield choice
            elif choice.between.behind is None:
                yield [choice]
            else:
                block.append(choice)
        if block:
            yield block


# --- matches one after the other ------------------------------------------------------------------


def match(
    rows: Sequence[Row],
    pattern: str,
    conditions: Mapping[str, Condition],
    *,
    skip: Skip = "past_last",
    within: int | None = None,
    max_gap: int | None = None,
    timeouts: bool = False,
) -> list[Match]:
    """Return the matches over the rows of one key, in the order of their first rows.

    A condition is a function of the row and its ``History``; a variable without one matches every
    row. ``within`` is half-open: last start < first start + within. So is ``max_gap``, between
    neighbouring rows of a match. The indexes of a match are those of the sorted rows. Raises
    ValueError for what is refused. With ``timeouts`` each row that no match takes, and at
    which a way begins, gives the longest part of one.
    """
    parsed = Parser(pattern).parse()
    unknown = set(conditions) - parsed.variables - parsed.absent
    if unknown:
        raise ValueError(f"conditions for variables that the pattern does not have: {unknown}")
    if within is None and any(isinstance(each, Absence) for each in list_nodes(parsed.tree)):
        raise ValueError("an absence at the end needs within")
    check_skip(skip, parsed)
    search = Search(sort_rows(rows), parsed, conditions, within, max_gap)
    matches = []
    start = 0
    while start < len(rows):
        found = search.find_preferred(start)
        if found is None or not found.rows:
            part = search.find_longest_part(start) if timeouts else None
            matches += [] if part is None else [part]
            start += 1
            continue
        matches.append(found)
        start = find_next_start(found, skip)
    return matches


def list_nodes(node: Node) -> Iterator[Node]:
    """List the node and all nodes in it."""
    yield node
    match node:
        case Sequel(inner) | Choice(inner):
            for each in inner:
                yield from list_nodes(each)
        case Repeat(body):
            yield from list_nodes(body)


def check_skip(skip: Skip, pattern: Pattern) -> None:
    """Refuse a skip to an unknown variable, and one that leads to the first row in every form."""
    if skip in ("past_last", "next"):
        return
    if not isinstance(skip, tuple) or len(skip) != 2 or skip[0] not in ("first", "last"):
        raise ValueError(f"skip is past_last, next, (first, variable) or (last, variable): {skip}")
    which, name = skip
    if name not in pattern.variables:
        raise ValueError(f"skip to a variable that no match has: {name}")
    begins_with_it = list_beginnings((pattern.tree,)) == {name}
    if begins_with_it and (which == "first" or count_most(pattern.tree, name) == 1):
        raise ValueError(f"skip to {skip} always leads to the first row of the match")


def find_next_start(found: Match, skip: Skip) -> int:
    """Return the row at which the search goes on after a match that is not empty."""
    past_last = found.rows[-1][0] + 1
    if skip == "past_last":
        return past_last
    if skip == "next":
        return found.first + 1
    which, variable = skip
    places = [at for at, name in found.rows if name == variable]
    if not places:
        return past_last
    return max(places[0 if which == "first" else -1], found.first + 1)
