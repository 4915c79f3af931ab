"""The automaton of a pattern: the states between rows, and where each row leads, by preference."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

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


@dataclasses.dataclass(frozen=True, slots=True)
class MatchState:
    """A state: its kind, its variable (-1: none), and the variables that end it if one comes.

    ``enter`` are the states of kind ``ROW`` that take the next row, in order of preference; ``out``
    the states after a row that this one has taken. A row of a variable in ``ends`` is not skipped.
    """

    kind: int
    variable: int
    ends: tuple[int, ...]
    enter: tuple[int, ...]
    out: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Automaton:
    """The states of a pattern; ``initial`` are those before its first row, by preference.

    ``variables`` are the names of the variables, by number. Nothing is less preferred than
    ``ACCEPT``, which ends a list of states if it is there. ``joins_gaps`` is True if nothing may
    lie between two connectors, which are then one.
    """

    variables: tuple[str, ...]
    states: tuple[MatchState, ...]
    initial: tuple[int, ...]
    joins_gaps: bool

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

        The variables that end a state are tested as if they came next.
        """
        distance, level = dict[int, int](), [*self.begins]
        known, rows = set(level), 0
        while level:
            later = list[int]()
            for each in level:
                distance.setdefault(self.states[each].variable, rows)
                for state in self.states[each].out:
                    for variable in () if state == ACCEPT else self.states[state].ends:
                        distance.setdefault(variable, rows + 1)
                later.extend(self.list_next(each))
            level = [each for each in dict.fromkeys(later) if each not in known]
            known.update(level)
            rows += 1
        return distance


def build(form: Form) -> Automaton:
    """Return the automaton of a pattern."""
    return _Builder(tuple(dict.fromkeys(text.list_variables(form)))).build(form)


class _Between(NamedTuple):
    """The connectors between a row of a match and the next one.

    ``last`` is the node of the last one, ``any`` that of the first ``~>>`` (-1: none). Of several
    connectors with nothing between them, the most liberal one counts, and all their absences.
    """

    last: int = -1
    any: int = -1
    absent: frozenset[str] = frozenset()

    def pass_gap(self, node: int, gap: text.Gap) -> _Between:
        """Return the connectors with one more."""
        absent = self.absent if gap.absent is None else self.absent | {gap.absent}
        return _Between(node, node if gap.any and self.any < 0 else self.any, absent)


class _Choice(NamedTuple):
    """A node that may come next, or the end of the pattern, and the connectors before it."""

    node: int
    between: _Between


class _State(NamedTuple):
    """A state while it is built: its kind, the nodes that take a row, and the ``ends``."""

    kind: int
    nodes: tuple[int, ...]
    ends: tuple[int, ...] = ()


_ACCEPT = _State(ACCEPT, ())
# the states that take a row for a state, and those to which that leads
_Lists: TypeAlias = tuple[tuple[_State, ...], tuple[_State, ...]]


class _Builder:
    """Builder of an automaton from its end: nodes, and the nodes to which each leads unread.

    A node is a form that reads rows, a gap, or None for one that only leads on, to ``_leads`` in
    order of preference.
    """

    def __init__(self, variables: tuple[str, ...]) -> None:
        self._variables = variables
        self._numbers = {name: number for number, name in enumerate(variables)}
        self._forms: list[Form | None] = []
        self._leads: list[list[int]] = []
        # the first node of a form that leads to a node
        self._made = dict[tuple[int, int], int]()
        # the variables that may come next behind a gap
        self._stops = dict[int, frozenset[int]]()
        self._joins_gaps = False

    def build(self, form: Form) -> Automaton:
        """Return the automaton."""
        initial = self._list_initial(self._add(form, ACCEPT))
        # the states, in the order in which they are found, and their lists
        numbers = {_ACCEPT: ACCEPT}
        todo, lists = list[_State](), list[_Lists]()
        self._number(initial, numbers, todo)
        for each in todo:
            lists.append(self._list(each))
            self._number([*lists[-1][0], *lists[-1][1]], numbers, todo)
            if len(todo) > _MOST:
                _refuse_size()
        states = [
            MatchState(
                each.kind,
                self._find_variable(each.nodes[0]) if each.kind == ROW else -1,
                each.ends,
                tuple(numbers[state] for state in enter),
                tuple(numbers[state] for state in out),
            )
            for each, (enter, out) in zip(todo, lists, strict=True)
        ]
        return Automaton(
            self._variables,
            tuple(states),
            tuple(numbers[each] for each in initial),
            self._joins_gaps,
        )

    @staticmethod
    def _number(states: Iterable[_State], numbers: dict[_State, int], todo: list[_State]) -> None:
        """Number the states that are new, and append them."""
        for each in states:
            if each not in numbers:
                numbers[each] = len(todo)
                todo.append(each)

    def _find_variable(self, node: int) -> int:
        """Return the number of the variable of a node, -1 if it has none."""
        form = None if node == ACCEPT else self._forms[node]
        return self._numbers[form.name] if isinstance(form, text.Variable) else -1

    def _list_initial(self, begin: int) -> tuple[_State, ...]:
        """Return the states before the first row.

        A gap with no row before it does nothing, and neither does an absence.
        """
        found = list[_State]()
        for node, _ in self._follow([begin]):
            takes = self._find_variable(node) >= 0
            found.append(_State(ROW, (node,)) if takes else _ACCEPT)
            if not takes:
                break
        return tuple(dict.fromkeys(found))

    def _list(self, state: _State) -> _Lists:
        """Return the states that take a row for a state, and those to which that leads."""
        if state.kind == WAIT:
            return (), ()
        enter = tuple(_State(ROW, (node,)) for node in state.nodes)
        if state.kind != ROW:
            return enter, ()
        return enter, self._group(self._follow(self._leads[state.nodes[0]]))

    def _group(self, choices: Iterable[_Choice]) -> tuple[_State, ...]:
        """Return the states of what may come next: one for all that is skipped together."""
        found = list[_State]()
        for (kind, _), group in itertools.groupby(choices, self._find_kind):
            some = [*group]
            nodes = tuple(dict.fromkeys(each.node for each in some))
            if kind in (GAP, ANY):
                found.append(_State(kind, nodes, self._find_ends(kind, some)))
            elif kind == WAIT:
                form = self._forms[nodes[0]]
                assert isinstance(form, text.FinalAbsence)
                found.append(_State(WAIT, nodes, (self._numbers[form.absent],)))
            else:
                found.append(_ACCEPT if kind == ACCEPT else _State(ROW, nodes))
        return tuple(dict.fromkeys(found))

    def _find_kind(self, choice: _Choice) -> tuple[int, object]:
        """Return the kind of state that a choice needs, and what choices in one state share.

        Behind ``~>>``, the nearest row of all choices is preferred.
        """
        node, between = choice
        if self._find_variable(node) < 0:
            return (ACCEPT if node == ACCEPT else WAIT), node
        if between.last < 0:
            return ROW, node
        return (GAP, between) if between.any < 0 else (ANY, between.any)

    def _find_ends(self, kind: int, choices: Sequence[_Choice]) -> tuple[int, ...]:
        """Return the variables that end a skip.

        That of ``~>`` ends where anything can come next, be it behind a further connector.
        """
        between = choices[0].between
        if any(each.between.absent != between.absent for each in choices):
            _refuse_absences()
        ends = {self._numbers[name] for name in between.absent}
        if kind == GAP:
            ends |= self._find_stops(between.last)
            ends -= {self._find_variable(each.node) for each in choices}
        return tuple(sorted(ends))

    def _find_stops(self, gap: int) -> frozenset[int]:
        """Return the variables that may come next behind a gap."""
        if gap not in self._stops:
            nodes = (each.node for each in self._follow(self._leads[gap]))
            self._stops[gap] = frozenset(map(self._find_variable, nodes)) - {-1}
        return self._stops[gap]

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

    def _follow(self, nodes: Sequence[int]) -> list[_Choice]:
        """Return what may come next behind nodes, each once, by preference."""
        found, seen = list[_Choice](), set[_Choice]()
        todo = [_Choice(node, _Between()) for node in reversed(nodes)]
        while todo:
            choice = node, between = todo.pop()
            if choice in seen:
                continue
            seen.add(choice)
            if len(seen) > 4 * _MOST:
                _refuse_size()
            form = None if node == ACCEPT else self._forms[node]
            if node == ACCEPT:
                found.append(choice)
                break
            if isinstance(form, text.Gap):
                self._joins_gaps |= between.last >= 0
                between = between.pass_gap(node, form)
            if form is None or isinstance(form, text.Gap):
                todo.extend(_Choice(each, between) for each in reversed(self._leads[node]))
            else:
                found.append(choice)
        return found


def _refuse_absences() -> None:
    raise ArgumentError(
        "the pattern of detect has an absence behind ~>> and what may be empty, so that the rows "
        "that may lie between depend on what comes. Hint: write both ways as alternatives, such as "
        "A ~>> B !X ~> C | A !X ~>> C."
    )


def _refuse_size() -> None:
    raise ArgumentError(
        f"the pattern of detect has more than {_MOST:,} states: a quantifier such as {{100}} takes "
        "one for each time, and PERMUTE one for each order of what has come. Hint: match with + "
        "and compare pt.count('A') in a condition."
    )
