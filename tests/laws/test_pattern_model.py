"""The model of row pattern matching: known cases, its readings, and regular expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pattern_model import Condition, History, Match, Skip, match

HOUR = 60


class Row(NamedTuple):
    """A row of the key."""

    start: int
    payload: dict[str, Any]


def make_rows(values: Sequence[Any], starts: Sequence[int] | None = None) -> list[Row]:
    """Make a row for each value, one tick after the other if no starts are given."""
    return [
        Row(start, {"v": value})
        for start, value in zip(starts or range(len(values)), values, strict=True)
    ]


def label(found: Match) -> str:
    """Return the rows of a match counted from 1: ``1A 2B``."""
    return " ".join(f"{at + 1}{name}" for at, name in found.rows)


def compare_with_previous(is_right: Callable[[Any, Any], bool]) -> Condition:
    """Make a condition on the value of the row and of the row before."""

    def condition(row: Row, history: History) -> bool:
        before = history.prev("v")
        return before is not None and is_right(row.payload["v"], before)

    return condition


FALLS = compare_with_previous(lambda value, before: value < before)
RISES = compare_with_previous(lambda value, before: value > before)
FALLS_OR_STAYS = compare_with_previous(lambda value, before: value <= before)


def never(row: Row, history: History) -> bool:
    """Match no row."""
    return False


def begins_with(letters: str) -> Condition:
    """Make a condition that the value begins with one of the letters."""
    return lambda row, history: row.payload["v"][0] in letters


LETTERS = {name: begins_with(name.lower()) for name in "ABCD"}


def find(pattern: str, values: str, **options: Any) -> list[str]:
    """Match a pattern over rows of letters; A matches a, B matches b, and so on, X any."""
    names = set(re.findall("[A-D]", pattern.replace("PERMUTE", "")))
    conditions = {name: LETTERS[name] for name in names}
    return [label(found) for found in match(make_rows(values), pattern, conditions, **options)]


# --- known cases ----------------------------------------------------------------------------------


def test_t1_falls_then_rises() -> None:
    """T1: two matches, one after the other."""
    rows = make_rows([90, 80, 70, 80, 90, 50, 40, 60])
    found = match(rows, "A B+ C+", {"B": FALLS, "C": RISES})
    assert [label(each) for each in found] == ["1A 2B 3B 4C 5C", "6A 7B 8C"]
    assert [each.first for each in found] == [0, 5]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("B+?", ["2B", "3B", "4B"]), ("B{2,}?", ["2B 3B"]), ("B{5,}", [])],
)
def test_t3_reluctant(pattern: str, expected: list[str]) -> None:
    """T3: a reluctant quantifier takes as few rows as it may."""
    rows = make_rows([90, 80, 70, 70])
    assert [label(each) for each in match(rows, pattern, {"B": FALLS_OR_STAYS})] == expected


@pytest.mark.parametrize(
    ("skip", "expected"),
    [
        ("past_last", ["1A 2B 3B 4C"]),
        ("next", ["1A 2B 3B 4C", "2A 3B 4C", "4A 5B 6C"]),
        (("first", "C"), ["1A 2B 3B 4C", "4A 5B 6C"]),
    ],
)
def test_t4_skips(skip: Skip, expected: list[str]) -> None:
    """T4: the skip decides where the next match may begin."""
    rows = make_rows([90, 80, 70, 80, 70, 80])
    conditions = {"B": FALLS, "C": RISES, "D": never}
    found = match(rows, "A B+ C+ D?", conditions, skip=skip)
    assert [label(each) for each in found] == expected


def test_t4_skip_to_the_first_row_is_refused() -> None:
    """T4: a skip that always leads to the first row of the match is refused."""
    with pytest.raises(ValueError, match="always leads to the first row"):
        match([], "A B+ C+ D?", {"B": FALLS, "C": RISES, "D": never}, skip=("first", "A"))


def test_f2_running_mean() -> None:
    """F2: the mean runs over the rows so far, with the row under test."""
    rows = make_rows([12, 17, 13, 16, 25, 2, 4, 10, 15, 25, 25, 30])
    found = match(rows, "A+ B", {"A": lambda row, history: history.mean("A.v") < 15})
    assert [label(each) for each in found] == ["1A 2A 3A 4A 5B", "6A 7A 8A 9A 10A 11A 12B"]
    means = [History(rows, each.rows).mean("A.v") for each in found]
    assert means == [14.5, 13.5]


def test_f4_within_an_hour() -> None:
    """F4: the match shorter than an hour is found, with A at 12:20 and C at 13:00."""
    values = [20, 17, 18, 11, 14, 9, 15, 14, 24, 1, 19]
    rows = make_rows(values, [10 * HOUR + 20 * n for n in range(len(values))])
    conditions: dict[str, Condition] = {
        "B": lambda row, history: row.payload["v"] > history.last("A.v") - 10,
        "C": lambda row, history: row.payload["v"] < history.last("A.v") - 10,
    }
    found = match(rows, "A B* C", conditions, within=HOUR)
    assert [label(each) for each in found] == ["8A 9B 10C"]
    assert rows[7].start == 12 * HOUR + 20
    assert rows[9].start == 13 * HOUR


def test_n2_absence() -> None:
    """N2: only a2 is followed by no b before its deadline, 7."""
    names = ["a1", "b1", "a2", "c", "b2", "a3", "b3"]
    rows = make_rows(names, [1, 2, 4, 5, 10, 11, 13])
    conditions = {"A": begins_with("a"), "B": begins_with("b")}
    assert match(rows, "A !B", conditions, within=3) == [Match(2, ((2, "A"),), 7)]


# --- readings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "values", "expected"),
    [
        # the leftmost alternative first, though it is shorter
        ("A | A B", "ab", ["1A"]),
        ("(A | A B) C", "abc", ["1A 2B 3C"]),
        ("X?? A", "aa", ["1A", "2A"]),
        ("X{,2} A", "aaa", ["1X 2X 3A"]),
        ("X{2}? A", "xxa", ["1X 2X 3A"]),
        ("PERMUTE(A, B) C", "bac", ["1B 2A 3C"]),
        ("PERMUTE(X, A)", "aa", ["1X 2A"]),
        # an empty match gives nothing, and the search goes on
        ("A*", "baab", ["2A 3A"]),
        ("A*?", "aa", []),
        # ~> takes the first row that matches, and no later one
        ("A ~> B", "axxb", ["1A 4B"]),
        ("A ~> B C", "abxbc", []),
        ("A ~> B", "aab", ["1A 3B"]),
        ("A ~> (B | C)", "acb", ["1A 2C"]),
        ("(A ~> B) | (A ~> C)", "acb", ["1A 3B"]),
        ("A ~> (B D | C)", "abc", []),
        ("A ~> (B D)? ~> C", "abc", ["1A 3C"]),
        ("A ~> B? ~> C", "axbc", ["1A 3B 4C"]),
        ("A ~> B? ~> C", "acbc", ["1A 2C"]),
        ("A ~> B? C", "axc", ["1A 3C"]),
        ("A ~> B?", "axb", ["1A 3B"]),
        ("A ~> B??", "axb", ["1A"]),
        ("A? ~> B", "xxb", ["3B"]),
        # ~>> takes the nearest row for which the rest matches
        ("A ~>> B C", "abxbc", ["1A 4B 5C"]),
        ("A ~>> B", "abb", ["1A 2B"]),
        ("A ~>> (B | C)", "axcb", ["1A 3C"]),
        ("A ~>> B? ~>> C", "axbc", ["1A 3B 4C"]),
        ("A ~>> B?", "axb", ["1A 3B"]),
        ("A ~>> B??", "axb", ["1A"]),
        # where nothing is between two connectors, the more liberal one counts
        ("A ~>> B? ~> C D", "accd", ["1A 3C 4D"]),
        ("A ~>> B?? ~>> C", "abc", ["1A 2B 3C"]),
        # absence between
        ("A !B ~> C", "axc", ["1A 3C"]),
        ("A !B ~> C", "axbc", []),
        ("A !X ~> C", "ac", ["1A 2C"]),
        ("A !B ~>> C D", "accd", ["1A 3C 4D"]),
        ("A !B ~>> C D", "acbcd", []),
    ],
)
def test_preference(pattern: str, values: str, expected: list[str]) -> None:
    """The first way by preference is the match."""
    assert find(pattern, values) == expected


def test_within_and_max_gap_take_the_next_by_preference() -> None:
    """Both limits are half-open, and a shorter way is taken where the preferred one is too long."""
    assert find("A+", "aaaa", within=3) == ["1A 2A 3A", "4A"]
    rows = make_rows("aaaa", [0, 1, 3, 4])
    found = match(rows, "A+", {}, max_gap=2)
    assert [label(each) for each in found] == ["1A 2A", "3A 4A"]
    # the first C is too late, and ~> does not look for another; ~>> has none that is earlier
    assert find("A ~> C", "axcc", max_gap=2) == []


def test_skips_of_single_rows() -> None:
    """A skip to the first row goes on at the next one, one to no row past the last one."""
    assert find("A+ B?", "aab", skip=("last", "A")) == ["1A 2A 3B", "2A 3B"]
    assert find("A B | C X", "abcx", skip=("first", "A")) == ["1A 2B", "3C 4X"]
    assert find("A B | C X", "cabcx", skip=("first", "A")) == ["1C 2X", "4C 5X"]
    assert find("A X+", "aaa", skip=("first", "X")) == ["1A 2X 3X", "2A 3X"]


def test_absence_at_the_end() -> None:
    """An absence is decided by the rows after the match; a way without one has no deadline."""
    conditions = {name: LETTERS[name] for name in "ABC"}
    found = match(make_rows("acab"), "A C | A !B", conditions, within=5)
    assert found == [Match(0, ((0, "A"), (1, "C")), None)]
    conditions = {name: LETTERS[name] for name in "AB"}
    # a row at the deadline is too late to be missed, and an empty match needs nothing
    assert match(make_rows("ab"), "A !B", conditions, within=1) == [Match(0, ((0, "A"),), 1)]
    assert match(make_rows("bb"), "A? !B", conditions, within=5) == []
    rows = make_rows(["b", "a", "a"], [5, 5, 7])
    # the order is that of the payload: a@5 comes before b@5
    assert match(rows, "A !B", conditions, within=2) == [Match(2, ((2, "A"),), 9)]


def test_history() -> None:
    """Functions run over the rows so far; rows are sorted by start and payload, None first."""
    seen: list[tuple[Any, ...]] = []

    def look(row: Row, history: History) -> bool:
        seen.append(
            (
                history.prev("v"),
                history.prev("start", 2),
                history.first("A.v"),
                history.last("A.v", 1),
                history.count("A"),
                history.sum("A.v"),
                history.mean("A.v"),
                history.min("A.v"),
                history.max("A.start"),
                history.first("B.v"),
            )
        )
        return True

    match(make_rows([4, None, 2], [2, 1, 1]), "A A A", {"A": look})
    assert seen == [
        (None, None, None, None, 1, None, None, None, 1, None),
        (None, None, None, None, 2, 2, 2.0, 2, 1, None),
        (2, 1, None, 2, 3, 6, 3.0, 2, 2, None),
    ]


@pytest.mark.parametrize(
    ("reason", "patterns"),
    [
        ("begins with an upper-case letter", ["", "()", "a", "A |", "~> A", "A ~>", "!A"]),
        ("begins with an upper-case letter", ["A**", "A !(B) ~> C"]),
        ("is missing", ["(A", "PERMUTE", "PERMUTE(A, B", "A{1", "A{}", "A{,}"]),
        ("unexpected", ["A)", "A, B"]),
        ("no end to anchor to", ["^A", "A$", "A ^ B"]),
        ("cannot read this", ["A ~ B", "A & B"]),
        ("greater than the upper", ["A{3,2}"]),
        ("no form of the pattern has a row", ["A{0}", "A{,0} B{0}"]),
        ("without a bound", ["(A?)*", "(A* B?)+", "(A?){2,}"]),
        ("nothing lies between", ["A !B C", "A !B C?", "A !B !C ~> D"]),
        ("must be at the end", ["(A !B) C", "(A !B)+", "PERMUTE(A !B, C)"]),
    ],
)
def test_text_that_is_refused(reason: str, patterns: list[str]) -> None:
    """Text outside the grammar is refused, with a reason."""
    for pattern in patterns:
        with pytest.raises(ValueError, match=reason):
            match([], pattern, {}, within=5)


@pytest.mark.parametrize(
    ("pattern", "skip"),
    [
        ("A B", ("last", "A")),
        ("A*", ("first", "A")),
        ("A B", ("first", "C")),
        ("A !B ~> C", ("first", "B")),
        ("A B", "first"),
    ],
)
def test_skips_that_are_refused(pattern: str, skip: Any) -> None:
    """A skip that never leads further, or to a variable that no match has, is refused."""
    with pytest.raises(ValueError, match="skip"):
        match([], pattern, {}, skip=skip)


def test_other_refusals() -> None:
    """An absence at the end needs within, and a condition a variable of the pattern."""
    with pytest.raises(ValueError, match="needs within"):
        match([], "A !B", {})
    with pytest.raises(ValueError, match="does not have"):
        match([], "A", {"B": never})


# --- regular expressions have the same preference -------------------------------------------------


class Drawn(NamedTuple):
    """A drawn pattern: its text, a regular expression, what it may begin with, and may it be empty.

    ``begin`` is the inside of a class of characters.
    """

    text: str
    regex: str
    begin: str
    is_empty: bool


CLASSES = {"A": "ab", "B": "bc", "C": "c", "D": "abcd"}
VARIABLES = st.sampled_from(sorted(CLASSES)).map(
    lambda name: Drawn(name, f"[{CLASSES[name]}]", CLASSES[name], False)
)
BOUNDED = ["?", "??", "{2}", "{1,2}", "{,2}", "{,2}?"]
QUANTIFIERS = ["", *BOUNDED, "*", "+", "*?", "+?", "{2,}", "{1,}?"]


@st.composite
def sequences(draw: st.DrawFn, parts: st.SearchStrategy[Drawn]) -> Drawn:
    """Draw a concatenation of quantified parts with connectors between them."""
    drawn: list[Drawn] = []
    for n in range(draw(st.integers(1, 3))):
        part = draw(parts)
        quantifier = "" if part.is_empty else draw(st.sampled_from(QUANTIFIERS))
        can_be_empty = part.is_empty or quantifier[:1] in ("?", "*") or quantifier[:2] == "{,"
        regex = f"(?:{part.regex}){quantifier.replace('{,', '{0,')}"
        text = f"({part.text}){quantifier}" if len(part.text) > 1 else part.text + quantifier
        # a connector of the regular expression takes rows also where one side is empty
        if n and not can_be_empty and not drawn[0].is_empty:
            connector, skipped = draw(connectors(part.begin))
            text, regex = connector + text, skipped + regex
        drawn.append(Drawn(text, regex, part.begin, can_be_empty))
    begin = ""
    for part in drawn:
        begin += part.begin
        if not part.is_empty:
            break
    return Drawn(
        " ".join(part.text for part in drawn),
        "".join(part.regex for part in drawn),
        begin,
        all(part.is_empty for part in drawn),
    )


@st.composite
def connectors(draw: st.DrawFn, begin: str) -> tuple[str, str]:
    """Draw a connector before something that begins so, and the regular expression for it."""
    absent = draw(st.sampled_from(["", "", "A", "C"]))
    none_of = CLASSES.get(absent, "")
    return draw(
        st.sampled_from(
            [
                *([] if absent else [("", "")]),
                (f"!{absent} ~> " if absent else "~> ", f"[^{begin}{none_of}]*"),
                (f"!{absent} ~>> " if absent else "~>> ", f"[^{none_of or '-'}]*?"),
            ]
        )
    )


def extend(parts: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
    """Draw concatenations and alternatives of smaller patterns."""
    alternatives = st.lists(sequences(parts), min_size=2, max_size=3).map(
        lambda options: Drawn(
            " | ".join(option.text for option in options),
            "|".join(option.regex for option in options),
            "".join(option.begin for option in options),
            any(option.is_empty for option in options),
        )
    )
    return sequences(parts) | alternatives


@given(
    drawn=st.recursive(VARIABLES, extend, max_leaves=6),
    values=st.text("abcd", max_size=8),
    ending=st.sampled_from(["", "", "A", "B", "C"]),
)
def test_regular_expressions(drawn: Drawn, values: str, ending: str) -> None:
    """Over conditions on the row alone, a regular expression finds the same rows."""
    text, regex = drawn.text, drawn.regex
    if ending:
        text, regex = f"({text}) !{ending}", f"(?:{regex})(?!.*[{CLASSES[ending]}])"
        # the model does not look for what an empty match needs
        if drawn.is_empty:
            text, regex = f"D {text}", f"[abcd]{regex}"
    compiled = re.compile(regex)
    expected = []
    at = 0
    while at < len(values):
        found = compiled.match(values, at)
        if found is not None and found.end() > at:
            expected.append((at, found.end() - 1))
        at = max(at + 1, found.end() if found is not None else 0)
    conditions = {name: begins_with(letters) for name, letters in CLASSES.items() if name in text}
    matches = match(make_rows(values), text, conditions, within=100)
    assert [(each.rows[0][0], each.rows[-1][0]) for each in matches] == expected
