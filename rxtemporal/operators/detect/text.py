"""Patterns as text: the tree of a pattern, and the parser that makes it."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Iterator
from typing import NoReturn, TypeAlias

from rxtemporal.errors import ArgumentError

NAME = re.compile(r"[A-Z][A-Za-z0-9_]*")
_TOKEN = re.compile(r"\s*(~>>|~>|[A-Za-z_][A-Za-z0-9_]*|\d+|.)", re.DOTALL)
_QUANTIFIERS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_PERMUTE = "PERMUTE"
_CONNECTORS = ("~>", "~>>")
# more are no pattern that somebody has written
_DEEPEST, _MOST_PERMUTED, _MOST_TIMES, _MOST_DIGITS = 50, 6, 1_000, 100
_MOST_ORDERED = 50_000


@dataclasses.dataclass(frozen=True, slots=True)
class Variable:
    """One row that satisfies the condition of a variable."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Gap:
    """Rows between two rows of a match that belong to no variable: ``~>``, or ``~>>`` (``any``).

    None of them may satisfy the condition of ``absent``.
    """

    any: bool
    absent: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class FinalAbsence:
    """The end of a pattern that no row of a variable may follow, until its time has passed."""

    absent: str


@dataclasses.dataclass(frozen=True, slots=True)
class Sequence:
    """Forms one after the other."""

    parts: tuple[Form, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """Forms of which one matches; the first is preferred."""

    options: tuple[Form, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Repetition:
    """A form ``least`` times at least, and ``most`` times at most; None: without a limit.

    More times are preferred if it is ``greedy``, else fewer.
    """

    form: Form
    least: int
    most: int | None
    greedy: bool = True


Form: TypeAlias = Variable | Gap | FinalAbsence | Sequence | Choice | Repetition


def list_variables(form: Form) -> Iterator[str]:
    """Yield the names of the variables of a form, those that may not come among them."""
    match form:
        case Variable(name):
            yield name
        case Gap(_, absent) | FinalAbsence(absent):
            yield from [absent] if absent is not None else []
        case Sequence(forms) | Choice(forms):
            for each in forms:
                yield from list_variables(each)
        case Repetition(inner):
            yield from list_variables(inner)


def list_matched(form: Form) -> Iterator[str]:
    """Yield the names of the variables to which rows of a match may belong."""
    match form:
        case Variable(name):
            yield name
        case Sequence(forms) | Choice(forms):
            for each in forms:
                yield from list_matched(each)
        case Repetition(inner):
            yield from list_matched(inner)


def may_be_empty(form: Form) -> bool:
    """Return True if a form matches without a row."""
    match form:
        case Variable():
            return False
        case Gap() | FinalAbsence():
            return True
        case Sequence(parts):
            return all(map(may_be_empty, parts))
        case Choice(options):
            return any(map(may_be_empty, options))
        case Repetition(inner, least):
            return least == 0 or may_be_empty(inner)


def may_have_rows(form: Form) -> bool:
    """Return True if a form may match a row."""
    match form:
        case Variable():
            return True
        case Gap() | FinalAbsence():
            return False
        case Sequence(forms) | Choice(forms):
            return any(map(may_have_rows, forms))
        case Repetition(inner, _, most):
            return most != 0 and may_have_rows(inner)


def has_absence(form: Form) -> bool:
    """Return True if a form ends with an absence."""
    match form:
        case FinalAbsence():
            return True
        case Sequence(forms) | Choice(forms):
            return any(map(has_absence, forms))
        case Repetition(inner):
            return has_absence(inner)
        case _:
            return False


def parse(text: str) -> Form:
    """Return the tree of a pattern; an error shows the place with a caret."""
    return _Parser(text).parse()


class _Parser:
    """Parser of one text, by recursive descent: choice, sequence, repetition, variable."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [(m[1], m.start(1)) for m in _TOKEN.finditer(text.rstrip())]
        self._at = 0
        self._depth = 0

    def parse(self) -> Form:
        """Return the tree of the whole text."""
        form = self._read_choice()
        if self._at < len(self._tokens):
            self._refuse_comma()
            self._refuse("')' without '('")
        if not may_have_rows(form):
            self._refuse("no way in which it matches a row", place=0)
        return form

    @property
    def _token(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    @property
    def _place(self) -> int:
        has_token = self._at < len(self._tokens)
        return self._tokens[self._at][1] if has_token else len(self._text.rstrip())

    def _refuse(self, reason: str, hint: str = "", place: int | None = None) -> NoReturn:
        """Raise the error about a place, by default that of the next token."""
        column = self._place if place is None else place
        line_begin = self._text.rfind("\n", 0, column) + 1
        line = self._text[line_begin:].split("\n", 1)[0]
        if not hint:
            hint = "a pattern is variables such as A B+ (C | D); see the docs of detect"
        raise ArgumentError(
            f"the pattern of detect has {reason}:\n    {line}\n"
            f"    {' ' * (column - line_begin)}^\nHint: {hint}."
        )

    def _refuse_comma(self) -> None:
        if self._token == ",":
            self._refuse(
                "',' outside of PERMUTE",
                "A B is an A and then a B; PERMUTE(A, B) takes them in any order",
            )

    def _take(self, token: str) -> bool:
        """Read a token if it comes next."""
        if self._token != token:
            return False
        self._at += 1
        return True

    def _read_choice(self) -> Form:
        options = [self._read_sequence()]
        while self._take("|"):
            options.append(self._read_sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _read_sequence(self) -> Form:
        parts: list[Form] = [self._read_repetition()]
        while self._token not in ("", "|", ")", ","):
            self._read_next(parts)
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _read_next(self, parts: list[Form]) -> None:
        """Read what comes next in a sequence, with the connector before it."""
        self._refuse_behind_absence(parts[-1])
        begin, absent = self._place, self._read_absent()
        connector = self._token
        if connector not in _CONNECTORS:
            if absent is None:
                parts.append(self._read_repetition())
                return
            if self._token not in ("", "|", ")", ","):
                self._refuse(
                    f"!{absent} before the next row, and nothing lies between two neighbours",
                    f"!{absent} ~> skips rows up to one that matches, of which none is {absent}",
                    begin,
                )
            parts.append(FinalAbsence(absent))
            return
        self._at += 1
        parts += [Gap(connector == "~>>", absent), self._read_repetition()]

    def _refuse_behind_absence(self, form: Form) -> None:
        if has_absence(form):
            self._refuse(
                "something behind an absence, which waits until within has passed",
                "A !B ~> C has no B between A and C",
            )

    def _read_absent(self) -> str | None:
        if not self._take("!"):
            return None
        name = self._read_name()
        if self._token in (*_QUANTIFIERS, "{"):
            self._refuse("a quantifier behind an absence", f"!{name} alone says that none comes")
        if self._token == "!":
            self._refuse(
                "two absences in a row",
                "give one variable a condition with both: (pl.col('x') > 1) | (pl.col('y') > 1)",
            )
        return name

    def _read_repetition(self) -> Form:
        begin, form = self._place, self._read_element()
        limits = self._read_quantifier()
        if limits is None:
            return form
        greedy = not self._take("?")
        if self._token in (*_QUANTIFIERS, "{"):
            self._refuse("a quantifier behind a quantifier", "put the inner one in parentheses")
        least, most = limits
        if has_absence(form):
            self._refuse(
                "an absence that is repeated", "an absence stands at the end of a pattern", begin
            )
        if most is None and may_be_empty(form):
            self._refuse(
                "a repetition without a bound over what may be empty",
                "let the inner form match a row at least, as in (A+)*, or give a bound: {0,9}",
                begin,
            )
        return Repetition(form, least, most, greedy)

    def _read_quantifier(self) -> tuple[int, int | None] | None:
        begin = self._place
        if self._token in _QUANTIFIERS:
            self._at += 1
            return _QUANTIFIERS[self._tokens[self._at - 1][0]]
        if not self._take("{"):
            return None
        least = self._read_number()
        most = least
        if self._take(","):
            most = self._read_number()
            if least is None and most is None:
                self._refuse("a quantifier without a number", "write {2}, {2,}, {2,5} or {,5}")
        elif least is None:
            self._refuse("a quantifier without a number", "write {2}, {2,}, {2,5} or {,5}")
        if not self._take("}"):
            self._refuse("a quantifier without its '}'", "write {2}, {2,}, {2,5} or {,5}")
        if max(least or 0, most or 0) > _MOST_TIMES:
            self._refuse(
                f"a quantifier above {_MOST_TIMES:,}",
                "match with + and compare pt.count('A') in a condition",
                begin,
            )
        if most is not None and (least or 0) > most:
            self._refuse(f"a quantifier from {least} to {most}", f"write {{{most},{least}}}", begin)
        return least or 0, most

    def _read_number(self) -> int | None:
        """Read a number, if one comes next; of too many digits one that is too large."""
        digits = self._token
        if not digits.isdecimal():
            return None
        self._at += 1
        return int(digits) if len(digits) <= _MOST_DIGITS else _MOST_TIMES + 1

    def _read_element(self) -> Form:
        token = self._token
        if token == _PERMUTE:
            return self._read_permutation()
        if token == "(":
            return self._read_group()
        if token in ("^", "$"):
            self._refuse(
                f"{token!r}, and a stream has no beginning and no end to which to anchor",
                "leave it out; within= limits how long a match lasts",
            )
        if token == "!":
            self._refuse("an absence with no row before it", "A !B ~> C has no B between A and C")
        if token in _CONNECTORS:
            self._refuse(f"{token!r} without a row before it", "write it between two: A ~> B")
        if token in (*_QUANTIFIERS, "{"):
            self._refuse(f"{token!r} with nothing to repeat", "write it behind a variable: A+")
        return Variable(self._read_name())

    def _read_name(self) -> str:
        token = self._token
        if not token:
            self._refuse("no variable at its end" if self._text.strip() else "no variable")
        if re.fullmatch(r"[a-z_]\w*", token, re.ASCII):
            plain = token.lstrip("_")
            named = _PERMUTE if plain.upper() == _PERMUTE else plain[:1].upper() + plain[1:] or "A"
            self._refuse(
                f"a variable {token!r}, and variables begin with an upper-case letter",
                f"write {named}",
            )
        if not NAME.fullmatch(token) or token == _PERMUTE:
            self._refuse(f"{token!r} where a variable has to be")
        self._at += 1
        return token

    def _read_group(self) -> Form:
        begin = self._place
        self._at += 1
        form = self._read_inside()
        if not self._take(")"):
            self._refuse_comma()
            self._refuse("'(' without ')'", place=begin if not self._token else None)
        return form

    def _read_inside(self) -> Form:
        """Read a form inside of parentheses."""
        self._depth += 1
        if self._depth > _DEEPEST:
            self._refuse(f"more than {_DEEPEST} parentheses inside each other")
        form = self._read_choice()
        self._depth -= 1
        return form

    def _read_permutation(self) -> Form:
        begin = self._place
        self._at += 1
        if not self._take("("):
            self._refuse("PERMUTE without '('", "write PERMUTE(A, B)")
        forms = [self._read_inside()]
        while self._take(","):
            forms.append(self._read_inside())
        if not self._take(")"):
            self._refuse("PERMUTE without its ')'", "write PERMUTE(A, B)")
        if any(map(has_absence, forms)):
            self._refuse(
                "an absence in PERMUTE", "an absence stands at the end of a pattern", begin
            )
        if len(forms) > _MOST_PERMUTED:
            ways = math.factorial(len(forms))
            self._refuse(
                f"a PERMUTE of {len(forms)}, which is {ways:,} alternatives",
                f"permute {_MOST_PERMUTED} at most",
                begin,
            )
        rows = math.factorial(len(forms)) * sum(len([*list_variables(each)]) for each in forms)
        if rows > _MOST_ORDERED:
            self._refuse(
                f"a PERMUTE whose alternatives have {rows:,} variables",
                "permute fewer, or name rows in any order as (A | B | C){3}",
                begin,
            )
        return Choice(tuple(Sequence(each) for each in itertools.permutations(forms)))
