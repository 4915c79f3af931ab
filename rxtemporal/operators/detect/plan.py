"""detect: sequences of rows of a key that match a pattern."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args

import polars as pl

from rxtemporal.core.schema import check_added, payload_type
from rxtemporal.core.spans import Span, span
from rxtemporal.core.time_forms import TimeForm, find_span_form
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators.detect import text
from rxtemporal.operators.detect.automaton import Automaton, build
from rxtemporal.operators.detect.functions import START, Function, list_functions
from rxtemporal.operators.detect.settings import Settings
from rxtemporal.operators.expressions import check_row_by_row, infer_schema
from rxtemporal.operators.operator import Keys, Operator, RowExpression
from rxtemporal.operators.partition_keys import PartitionRule, partition_by_keys

if TYPE_CHECKING:
    from rxtemporal.engine.step import Step

Skip: TypeAlias = Literal["past_last", "next"] | tuple[Literal["first", "last"], str]
RowsKind = Literal["one", "all"]
At = Literal["span", "last"]
# more ways to go on from one row are no pattern that somebody means
BUDGET = 1_000
_SKIP_HINT = 'Hint: "past_last", "next", ("first", "B") or ("last", "B").'


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Detect(Operator):
    """The matches of a pattern among the rows of each key; spans are in ticks."""

    name = "detect"
    pattern: str
    conditions: Mapping[str, pl.Expr]
    measures: Mapping[str, pl.Expr]
    within: int | None
    max_gap: int | None
    skip: Skip
    rows: RowsKind
    at: At
    timeouts: bool
    ticks: bool = False

    @property
    def form(self) -> text.Form:
        """The tree of the pattern."""
        return text.parse(self.pattern)

    @property
    def cti_rule(self) -> str:
        """The CTI held back by ways that may still become a match."""
        if self.at == "last":
            return "t, held at the last row of the oldest match that may still grow or be beaten"
        return "t, held at the first row of the oldest match that is not decided"

    @property
    def holds(self) -> str:
        """The rows of ways that may become a match."""
        held = "rows not yet committed, and the rows of matches that are not decided"
        if self.within is None and self.max_gap is None:
            held += ", which may wait for ever without within"
        kept = self.count_kept(build(self.form))
        if not kept:
            return held
        return f"{held}; the last {'row' if kept == 1 else f'{kept} rows'} of each key"

    def for_stream(self, form: TimeForm | None, schema: pl.Schema | None) -> Self:
        """Return the operator for a stream of such times and fields."""
        known = self.time or form or "datetime"
        return dataclasses.replace(self, ticks=known == "ticks", time=known)

    @property
    def time_type(self) -> pl.DataType:
        """The type of starts."""
        return pl.Int64() if self.ticks else pl.Datetime("us", "UTC")

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the keys and the measures, or all fields and where they are in the match."""
        self._check_conditions(schema)
        measures = self._infer_measures(schema)
        added = dict(measures)
        if self.rows == "all":
            added = {"variable": pl.String(), "match": self.time_type, **measures}
        elif not measures:
            added = {"rows": pl.Int64()}
        if self.timeouts:
            _check_complete(added)
            added["complete"] = pl.Boolean()
        before = schema if self.rows == "all" else pl.Schema({key: schema[key] for key in keys})
        check_added(added, before, self.name)
        return pl.Schema({**before, **added})

    def _check_conditions(self, schema: pl.Schema) -> None:
        """Raise if a condition does not fit the fields, or is none."""
        for name, expression in self.conditions.items():
            who = f"detect: the condition of {name}"
            types = self.list_types([expression], schema, who)
            ((_, dtype),) = infer_schema(types, [expression.alias(name)], who).items()
            if dtype not in (pl.Boolean, pl.Null):
                raise SchemaError(
                    f"{who} has to be true or false, and {expression} is {dtype}. "
                    "Hint: compare it, as in pl.col('temp') > 30."
                )

    def _infer_measures(self, schema: pl.Schema) -> pl.Schema:
        """Return the names and types of the measures."""
        made = {}
        for name, expression in self.measures.items():
            who = f"detect: the measure {name!r}"
            types = self.list_types([expression], schema, who)
            ((_, dtype),) = infer_schema(types, [expression.alias(name)], who).items()
            made[name] = payload_type(name, dtype)
        return pl.Schema(made)

    def list_types(
        self, expressions: Sequence[pl.Expr], schema: pl.Schema, who: str = "detect"
    ) -> pl.Schema:
        """Return what expressions may read: the fields, the start, and functions of a match."""
        found = {**schema, START: self.time_type}
        for function in list_functions(expressions):
            found[function.column] = function.infer_type(schema, self.time_type, who)
        return pl.Schema(found)

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return the rule: rows of one key are seen together."""
        return partition_by_keys(keys, schemas[0] if self.rows == "all" else keys)

    def list_looks_back(self) -> list[tuple[str, Function]]:
        """Return each variable whose condition looks at a row before, and how far."""
        return [
            (name, function)
            for name, expression in self.conditions.items()
            for function in list_functions([expression])
            if function.kind == "prev"
        ]

    def count_before(self) -> int:
        """Return how many rows before a row of a match its measures need."""
        functions = list_functions(self.measures.values())
        return max((each.n for each in functions if each.kind == "prev"), default=0)

    def count_recent(self) -> int:
        """Return how many rows before a row are needed while a match may go on."""
        backs = [function.n for _, function in self.list_looks_back()]
        return max([self.count_before(), *backs])

    def count_kept(self, automaton: Automaton) -> int:
        """Return how many of its last rows a key needs while no match has begun.

        A condition that looks back no further than the first row of its match needs none.
        """
        distance = automaton.find_distance()
        numbers = {name: number for number, name in enumerate(automaton.variables)}
        needed = [
            function.n - distance.get(numbers[name], 0) for name, function in self.list_looks_back()
        ]
        return max([self.count_before(), *needed, 0])

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.detect.step import DetectStep

        return DetectStep(self.make_settings(schema, keys))

    def make_settings(self, schema: pl.Schema, keys: Keys) -> Settings:
        """Return what a step for these fields needs to know."""
        automaton = build(self.form)
        is_pair = isinstance(self.skip, tuple)
        return Settings(
            text=self.pattern,
            automaton=automaton,
            conditions=self.conditions,
            measures=self.measures,
            schema=schema,
            keys=keys,
            output=self.output(schema, keys),
            time=self.time_type,
            within=-1 if self.within is None else self.within,
            max_gap=-1 if self.max_gap is None else self.max_gap,
            skip=self.skip[0] if isinstance(self.skip, tuple) else self.skip,
            skip_variable=self.skip[1] if is_pair else None,
            all_rows=self.rows == "all",
            at_last=self.at == "last",
            timeouts=self.timeouts,
            budget=BUDGET,
            recent=self.count_recent(),
            kept=self.count_kept(automaton),
            before=self.count_before(),
        )

    def list_expressions(
        self, schemas: tuple[pl.Schema, ...], keys: Keys
    ) -> Sequence[RowExpression]:
        """Return the conditions that read a row alone."""
        return [
            RowExpression(name, expression, self.list_types([expression], schemas[0]))
            for name, expression in self.conditions.items()
        ]


def _check_complete(added: Mapping[str, Any]) -> None:
    if "complete" in added:
        raise SchemaError(
            "detect adds the field 'complete' with timeouts=True, and there is a measure of this "
            "name. Hint: rename the measure."
        )


def detect(
    pattern: str,
    /,
    *,
    within: Span | None = None,
    max_gap: Span | None = None,
    skip: Skip = "past_last",
    rows: RowsKind = "one",
    at: At = "span",
    timeouts: bool = False,
    measures: Mapping[str, pl.Expr] | None = None,
    **conditions: pl.Expr,
) -> Detect:
    """Find sequences of rows of a key that match a pattern, and emit each match once it is final.

    ``"A B+ C"`` is a row ``A``, then one or more ``B``, then a ``C``, next to each other.
    ``conditions`` say by variable which rows match: polars expressions over the row, its ``start``,
    and functions of ``rxtemporal.pattern`` over the rows before and the match so far; null is
    false, and a variable without a condition matches every row. Variables begin with an upper-case
    letter. There are ``|``, ``( )``, the quantifiers ``*``, ``+``, ``?``, ``{n}``, ``{n,m}``,
    ``{n,}``, ``{,m}``, each reluctant with a ``?`` behind it, ``PERMUTE(A, B)``, and between two
    rows ``~>``, which skips rows up to the first that matches, ``~>>``, which may skip that one,
    too, and ``!X ~>``, which skips no row that matches ``X``. ``A !X`` at the end: no ``X`` follows
    until ``within`` has passed. What is skipped belongs to no variable.

    Rows of a key are in order of (start, payload); their ends play no part. Of several ways the
    preferred one counts, as in ISO SQL: the leftmost alternative first, and as many rows as
    possible, or as few if the quantifier is reluctant. ``within``: the last row starts less than
    this after the first one; where the preferred way is longer, the next one that fits is taken.
    ``max_gap``: no row starts later than this after the row before in the match. ``skip``: the next
    match begins behind the last row of the one before (``"past_last"``), at the row after its first
    (``"next"``), or at the first or the last row of a variable (``("first", "B")``); where that is
    its own first row, at the row after that, and where the variable is not in the match, behind its
    last row. An empty match gives nothing.

    A result has the keys and the ``measures``, expressions over functions of
    ``rxtemporal.pattern`` and over fields of the last row; without measures ``rows``, their number.
    It lives from the start of the first row to one tick after that of the last; with ``at="last"``
    it is a point at the last row. With ``rows="all"`` each row of a match is a result, a point with
    its fields, its ``variable`` and ``match``, the start of the match. With ``timeouts`` a start
    that became no match until ``within`` has passed gives its longest part that could still have
    gone on, and a field ``complete`` tells the two apart.

    A match leaves when no row that may still come can change it. The CTI is held at the start of
    the first row of the oldest match that is not decided; with ``at="last"`` at the last row of a
    match that may still grow or be beaten. Held: rows whose start the CTI has not passed, the rows
    of matches that are not decided, which may be for ever without ``within``, and the last ``n``
    rows of each key where a match may begin with ``prev``. A row costs as many steps as the pattern
    has states, and with ``within`` or ``skip`` as many for each start that is not decided. Where a
    condition asks about the match so far, each way is followed by itself; an ``ArgumentError``
    names the row at which there are more than 1,000 ways from one start.

    >>> import polars as pl
    >>> import rxtemporal as rxt
    >>> from rxtemporal import pattern as pt
    >>> temps = [90, 80, 70, 80, 90, 50]
    >>> readings = rxt.from_events([rxt.PointEvent(t, {"x": x}) for t, x in enumerate(temps)])
    >>> fall_and_rise = readings.detect(
    ...     "A B+ C+",
    ...     B=pl.col("x") < pt.prev("x"),
    ...     C=pl.col("x") > pt.prev("x"),
    ...     measures={"low": pt.min("B.x"), "n": pt.count("C")},
    ... )
    >>> fall_and_rise.to_polars().rows()
    [(0, 5, 70, 2)]
    """
    form = text.parse(_check_text(pattern))
    automaton = build(form)
    _check_variables(automaton, conditions)
    tested = {name: _check_condition(name, each, automaton) for name, each in conditions.items()}
    measured = _check_measures(measures, automaton)
    _check_choices(rows, at, timeouts)
    limit = None if within is None else span(within, "within", least=1)
    if limit is None and (timeouts or text.has_absence(form)):
        what = "timeouts=True" if timeouts else "an absence at the end of the pattern"
        raise ArgumentError(
            f"detect needs within= for {what}, which waits until that has passed. "
            "Hint: within='5m'."
        )
    return Detect(
        pattern=pattern,
        conditions=tested,
        measures=measured,
        within=limit,
        max_gap=None if max_gap is None else span(max_gap, "max_gap", least=0),
        skip=_check_skip(skip, form, automaton),
        rows=rows,
        at=at,
        timeouts=timeouts,
        time=find_span_form(within, max_gap),
    )


def _check_text(pattern: Any) -> str:
    if not isinstance(pattern, str):
        raise ArgumentError(
            f"detect takes a pattern as text, got {pattern!r}. Hint: detect('A B+', A=…, B=…)."
        )
    return pattern


def _check_variables(automaton: Automaton, conditions: Mapping[str, Any]) -> None:
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


def _check_condition(name: str, expression: Any, automaton: Automaton) -> pl.Expr:
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
    for function in list_functions([expression]):
        if function.variable and function.variable not in automaton.variables:
            _refuse_variable(where, function.variable, automaton)
        if is_condition and function.kind == "variable":
            raise ArgumentError(
                f"{where} of detect reads pt.variable(), which is the variable that it is about. "
                "Hint: it is for measures."
            )


def _check_measures(measures: Any, automaton: Automaton) -> dict[str, pl.Expr]:
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


def _check_choices(rows: Any, at: Any, timeouts: Any) -> None:
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


def _check_skip(skip: Any, form: text.Form, automaton: Automaton) -> Skip:
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
