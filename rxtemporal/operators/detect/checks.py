"""Checks of the arguments of detect, when a query is composed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import polars as pl

from rxtemporal.errors import ArgumentError
from rxtemporal.operators.detect import text
from rxtemporal.operators.detect.automaton import Automaton
from rxtemporal.operators.detect.functions import list_functions
from rxtemporal.operators.expressions import check_row_by_row
from rxtemporal.operators.row_times import END_FIELD

Skip: TypeAlias = Literal["past_last", "next"] | tuple[Literal["first", "last"], str]
RowsKind = Literal["one", "all"]
At = Literal["span", "last"]
_SKIP_HINT = 'Hint: "past_last", "next", ("first", "B") or ("last", "B").'


def check_text(pattern: Any) -> str:
    """Return the pattern; raise if it is no text."""
    if not isinstance(pattern, str):
        raise ArgumentError(
            f"detect takes a pattern as text, got {pattern!r}. Hint: detect('A B+', A=…, B=…)."
        )
    return pattern


def check_variables(automaton: Automaton, conditions: Mapping[str, Any]) -> None:
    """Raise if a condition is of no variable of the pattern."""
    for name in conditions:
        if name in automaton.variables:
            continue
        if not text.NAME.fullmatch(name):
            options = ["within", "max_gap", "skip", "rows", "at", "timeouts", "measures"]
            raise ArgumentError(
                f"detect has no option {name!r}, and no variable of this name: variables begin "
                f"with an upper-case letter. Hint: the options are {', '.join(options)}."
            )
        _refuse_variable(f"the condition {name}=", name, automaton)


def _refuse_variable(where: str, name: str, automaton: Automaton) -> None:
    variables = ", ".join(automaton.variables)
    raise ArgumentError(
        f"{where} of detect names the variable {name!r}, which is not in the pattern. "
        f"Hint: its variables are {variables}."
    )


def check_condition(name: str, expression: Any, automaton: Automaton) -> pl.Expr:
    """Return the condition of a variable; raise if it is none."""
    who = f"the condition {name}= of detect"
    if isinstance(expression, bool):
        expression = pl.lit(expression)
    if not isinstance(expression, pl.Expr):
        raise ArgumentError(
            f"{who} is a polars expression, got {expression!r}. "
            "Hint: pl.col('temp') > 30; pt.prev('temp') is the row before."
        )
    _check_functions(name, expression, automaton, is_condition=True)
    return check_row_by_row(expression, who)


def _check_functions(
    name: str, expression: pl.Expr, automaton: Automaton, *, is_condition: bool
) -> None:
    """Raise if an expression asks about a variable that is not there."""
    where = f"the condition {name}=" if is_condition else f"the measure {name!r}"
    if END_FIELD in expression.meta.root_names():
        raise ArgumentError(
            f"{where} of detect reads rxt.end(), and the ends of rows play no part in a pattern. "
            "Hint: with_columns(until=rxt.end()) in front of detect makes the end a field."
        )
    for function in list_functions([expression]):
        if function.variable and function.variable not in automaton.variables:
            _refuse_variable(where, function.variable, automaton)
        if is_condition and function.kind == "variable":
            raise ArgumentError(
                f"{where} of detect reads pt.variable(), which is the variable that it is about. "
                "Hint: it is for measures."
            )


def check_measures(measures: Any, automaton: Automaton) -> dict[str, pl.Expr]:
    """Return the measures; raise if one is none."""
    if measures is None:
        return {}
    if not isinstance(measures, Mapping):
        raise ArgumentError(
            f"measures= of detect maps names to expressions, got {measures!r}. "
            "Hint: measures={'n': pt.count('B')}."
        )
    for name, expression in measures.items():
        if not isinstance(name, str) or not isinstance(expression, pl.Expr):
            raise ArgumentError(
                f"measures= of detect maps names to expressions, got {name!r}: {expression!r}. "
                "Hint: measures={'n': pt.count('B')}."
            )
        check_row_by_row(expression, f"the measure {name!r} of detect")
        _check_functions(name, expression, automaton, is_condition=False)
    return dict(measures)


def check_choices(rows: Any, at: Any, timeouts: Any) -> None:
    """Raise if one of these options has no such value."""
    if rows not in get_args(RowsKind):
        raise ArgumentError(
            f"rows of detect is 'one' or 'all', got {rows!r}. "
            "Hint: 'all' gives each row of a match."
        )
    if at not in get_args(At):
        raise ArgumentError(
            f"at of detect is 'span' or 'last', got {at!r}. "
            "Hint: 'last' makes each result a point at the last row of its match."
        )
    if rows == "all" and at != "span":
        raise ArgumentError(
            "detect takes no at= with rows='all', where each row is a point at its own start. "
            "Hint: leave at= out."
        )
    if not isinstance(timeouts, bool):
        raise ArgumentError(
            f"timeouts of detect is True or False, got {timeouts!r}. "
            "Hint: within= says after how long a match times out."
        )


def check_skip(skip: Any, form: text.Form, automaton: Automaton) -> Skip:
    """Return where the next match may begin; raise if that is always where the match began."""
    if skip in ("past_last", "next"):
        return skip  # type: ignore[no-any-return]
    pair = tuple(skip) if isinstance(skip, tuple | list) else ()
    if len(pair) != 2 or pair[0] not in ("first", "last") or not isinstance(pair[1], str):
        raise ArgumentError(f"skip of detect has no value {skip!r}. {_SKIP_HINT}")
    where, name = pair
    if name not in automaton.variables:
        _refuse_variable("skip=", name, automaton)
    if name not in text.list_matched(form):
        raise ArgumentError(
            f"skip={skip!r} of detect names a variable to which no row of a match belongs. "
            f"{_SKIP_HINT}"
        )
    number = automaton.variables.index(name)
    returns = automaton.list_first() <= {number}
    if where == "last":
        returns = returns and number not in automaton.list_later()
    if returns:
        raise ArgumentError(
            f"skip={skip!r} of detect always leads to the first row of the match, which would be "
            "found again. Hint: 'next' goes on at the row after it."
        )
    return where, name
