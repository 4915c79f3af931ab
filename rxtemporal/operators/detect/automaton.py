"""The automaton of a pattern: the states between rows, and where each row leads, by preference."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from rxtemporal.errors import ArgumentError
from rxtemporal.operators.detect import text
from rxtemporal.operators.detect.text import Form

ROW, GAP, ANY, WAIT = range(4)
"""Kinds of states.

``ROW``: the next row has to match. ``GAP``: rows are skipped up to one that matches; ``ANY``: and
that one may be skipped, too. ``WAIT``: all rows are there, and none of a variable may come.
"""
ACCEPT = -1
"""The end of a pattern, among the states to which a row leads."""
# more states are no pattern that somebody has written
_MOST = 4_000

# the states that take a row for a state, and those to which that leads
_Lists: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class MatchState:
    """A state: its kind, its variable (-1: none), and the variable that may not come (-1: none).

    ``enter`` are the states of kind ``ROW`` that take the next row, in order of preference; ``out``
    the states after a row that this one has taken.
    """

    kind: int
    variable: int
    absent: int
    enter: tuple[int, ...]
    out: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Automaton:
    """The states of a pattern; ``initial`` are those before its first row, by preference.

    ``variables`` are the names of the variables, by number. Nothing is less preferred than
    ``ACCEPT``, which ends a list of states if it is there.
    """

    variables: tuple[str, ...]
    states: tuple[MatchState, ...]
    initial: tuple[int, ...]

    @property
    def begins(self) -> tuple[int, ...]:
        """The states that take the first row, by preference."""
        return tuple(each for each in self.initial if each != ACCEPT)

    @property
    def may_wait(self) -> bool:
        """True if a row may begin a match that only later rows, or time, decide."""
        return any(out != ACCEPT for each in self.begins for out in self.states[each].out)

    def list_first(self) -> set[int]:
        """Return the variables to which the first row of a match may belong."""
        return {self.states[each].variable for each in self.begins}

    def list_later(self) -> set[int]:
        """Return the variables to which a later row of a match may belong."""
        reached, todo = set[int](), [*self.begins]
        for each in todo:
            news = {*self.list_next(each)} - reached
            reached |= news
            todo.extend(news - {*todo})
        return {self.states[each].variable for each in reached}

    def list_next(self, number: int) -> Iterable[int]:
        """Yield the states that take the row after one that this state has taken."""
        for each in self.states[number].out:
            if each != ACCEPT:
                yield from self.states[each].enter

    def find_distance(self) -> dict[int, int]:
        """Return for each variable how many rows of a match come before its first one, at least.

        The variable of an absence, and of rows that are skipped, is tested as if it came next.
        """
        distance, level = dict[int, int](), [*self.begins]
        known, rows = set(level), 0
        while level:
            later = list[int]()
            for each in level:
                distance.setdefault(self.states[each].variable, rows)
                for state in self.states[each].out:
                    if state != ACCEPT and self.states[state].absent >= 0:
                        distance.setdefault(self.states[state].absent, rows + 1)
                later.extend(self.list_next(each))
            level = [each for each in dict.fromkeys(later) if each not in known]
            known.update(level)
            rows += 1
        return distance


def build(form: Form) -> Automaton:
    """Return the automaton of a pattern."""
    return _Builder(tuple(dict.fromkeys(text.list_variables(form)))).build(form)


class _Builder:
    """Builder of an automaton from its end: nodes, and the nodes to which each leads unread.

    A node is a form that reads rows, or None for one that only leads on, to ``_leads`` in order of
    preference.
    """

    def __init__(self, variables: tuple[str, ...]) -> None:
        self._variables = variables
        self._numbers = {name: number for number, name in enumerate(variables)}
        self._forms: list[Form | None] = []
        self._leads: list[list[int]] = []
        # the first node of a form that leads to a node
        self._made = dict[tuple[int, int], int]()

    def build(self, form: Form) -> Automaton:
        """Return the automaton."""
        initial = self._list_initial(self._add(form, ACCEPT))
        # the nodes that are states, in the order in which they are found, and their lists
        found = dict.fromkeys(each for each in initial if each != ACCEPT)
        todo, lists = [*found], list[_Lists]()
        for each in todo:
            lists.append(self._list(each))
            news = [n for n in dict.fromkeys((*lists[-1][0], *lists[-1][1])) if n not in found]
            todo += [n for n in news if n != ACCEPT]
            found |= dict.fromkeys(n for n in news if n != ACCEPT)
            if len(todo) > _MOST:
                _refuse_size()
        numbers = {node: number for number, node in enumerate(todo)} | {ACCEPT: ACCEPT}
        pairs = zip(todo, lists, strict=True)
        states = [self._make(each, *_renumber(its, numbers)) for each, its in pairs]
        return Automaton(self._variables, tuple(states), tuple(numbers[n] for n in initial))

    def _list_initial(self, begin: int) -> tuple[int, ...]:
        """Return the states before the first row.

        A gap with no row before it does nothing, and neither does an absence.
        """
        found = list[int]()
        for each in self._follow([begin]):
            form = None if each == ACCEPT else self._forms[each]
            if isinstance(form, text.Gap):
                found.extend(self._follow(self._leads[each]))
            else:
                found.append(ACCEPT if isinstance(form, text.FinalAbsence) else each)
            if ACCEPT in found:
                break
        return tuple(dict.fromkeys(found))

    def _list(self, node: int) -> _Lists:
        """Return the nodes that take a row for a node, and those to which that leads."""
        match self._forms[node]:
            case text.Variable():
                return (node,), self._follow(self._leads[node])
            case text.Gap():
                return self._follow(self._leads[node]), ()
            case _:
                return (), ()

    def _make(self, node: int, enter: tuple[int, ...], out: tuple[int, ...]) -> MatchState:
        match self._forms[node]:
            case text.Variable(name):
                return MatchState(ROW, self._numbers[name], -1, enter, out)
            case text.Gap(any=any_row, absent=absent):
                number = -1 if absent is None else self._numbers[absent]
                return MatchState(ANY if any_row else GAP, -1, number, enter, out)
            case text.FinalAbsence(absent):
                return MatchState(WAIT, -1, self._numbers[absent], enter, out)
            case _:
                raise AssertionError("a node that only leads on is no state")

    def _node(self, form: Form | None, leads: Sequence[int]) -> int:
        self._forms.append(form)
        self._leads.append([*leads])
        if len(self._forms) > 4 * _MOST:
            _refuse_size()
        return len(self._forms) - 1

    def _add(self, form: Form, then: int) -> int:
        """Add the nodes of a form that leads to a node, unless they are there; return the first.

        Orders of ``PERMUTE`` that end alike have their last nodes in common.
        """
        # a form lives as long as its pattern, so that no other one gets its identity
        place = id(form), then
        if place not in self._made:
            self._made[place] = self._add_anew(form, then)
        return self._made[place]

    def _add_anew(self, form: Form, then: int) -> int:
        match form:
            case text.Sequence(parts):
                for part in reversed(parts):
                    then = self._add(part, then)
                return then
            case text.Choice(options):
                return self._node(None, [self._add(each, then) for each in options])
            case text.Repetition():
                return self._repeat(form, then)
            case _:
                return self._node(form, [then])

    def _repeat(self, form: text.Repetition, then: int) -> int:
        if form.most is None:
            loop = self._node(None, [])
            self._leads[loop] = self._choose(self._add(form.form, loop), then, form.greedy)
            then = loop
        else:
            end = then
            for _ in range(form.most - form.least):
                more = self._add(form.form, then)
                then = self._node(None, self._choose(more, end, form.greedy))
        for _ in range(form.least):
            then = self._add(form.form, then)
        return then

    @staticmethod
    def _choose(more: int, end: int, greedy: bool) -> list[int]:
        return [more, end] if greedy else [end, more]

    def _follow(self, nodes: Sequence[int]) -> tuple[int, ...]:
        """Return the states to which nodes lead without a row, each once, by preference."""
        found, seen, todo = list[int](), set[int](), [*reversed(nodes)]
        while todo:
            node = todo.pop()
            if node in seen:
                continue
            seen.add(node)
            if node == ACCEPT:
                found.append(node)
                break
            if self._forms[node] is None:
                todo.extend(reversed(self._leads[node]))
            else:
                found.append(node)
        return tuple(found)


def _renumber(lists: _Lists, numbers: dict[int, int]) -> _Lists:
    enter, out = lists
    return tuple(numbers[each] for each in enter), tuple(numbers[each] for each in out)


def _refuse_size() -> None:
    raise ArgumentError(
        f"the pattern of detect has more than {_MOST:,} states: a quantifier such as {{100}} takes "
        "one for each time, and PERMUTE one for each order of what has come. Hint: match with + "
        "and compare pt.count('A') in a condition."
    )
