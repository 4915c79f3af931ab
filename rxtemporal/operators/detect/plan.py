"""detect: sequences of rows of a key that match a pattern."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import polars as pl

from rxtemporal.core.schema import check_added, payload_type
from rxtemporal.core.spans import Span, span
from rxtemporal.core.time_forms import TimeForm, find_span_form
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators.expressions import infer_schema
from rxtemporal.operators.operator import Keys, Operator, RowExpression
from rxtemporal.operators.partition_keys import PartitionRule, partition_by_keys

if TYPE_CHECKING:
    from rxtemporal.core.batch import Int64s
    from rxtemporal.engine.step import Step
    from rxtemporal.operators.causes.causes import Causes
    from rxtemporal.operators.causes.history import History
    from rxtemporal.operators.causes.lost_row import Fate, LostRow
    from rxtemporal.operators.detect.automaton import Automaton
    from rxtemporal.operators.detect.checks import At, RowsKind, Skip
    from rxtemporal.operators.detect.functions import Function
    from rxtemporal.operators.detect.settings import DetectSettings

# more ways to go on from one row are no pattern that somebody means
BUDGET = 1_000


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Detect(Operator):
    """The matches of a pattern among the rows of each key; spans are in ticks."""

    name = "detect"
    costly = "conditions tested by columns, for one row of each key at a time"
    holds_time = True
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
    def reads_times(self) -> bool:  # type: ignore[override]
        """True if it has no spans, which would say the form of the times."""
        return self.within is None and self.max_gap is None

    @property
    def automaton(self) -> Automaton:
        """The automaton of the pattern."""
        from rxtemporal.operators.detect.automaton import build
        from rxtemporal.operators.detect.text import parse

        return build(parse(self.pattern))

    def fingerprint(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> str:
        """Return the text of an operator, with a note if connectors of the pattern are joined.

        Earlier versions read such a pattern in another way, so their state cannot be continued.
        """
        joined = ", with joined connectors" if self.automaton.joins_gaps else ""
        return super().fingerprint(schemas, keys) + joined

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
        automaton = self.automaton
        if self.within is None and self.max_gap is None and automaton.may_wait:
            held += ", which may wait for ever without within"
        kept = self.count_kept(automaton)
        if not kept:
            return held
        return f"{held}; the last {'row' if kept == 1 else f'{kept} rows'} of each key"

    def for_stream(self, form: TimeForm | None, schema: pl.Schema | None) -> Self:
        """Return the operator for a stream of such times and fields.

        If it reads starts, the plan settles their form, and all runs and why() have that.
        """
        known = self.time or form or ("datetime" if self._reads_starts() else None)
        return dataclasses.replace(self, ticks=known == "ticks", time=known)

    def _reads_starts(self) -> bool:
        """Return True if starts are in the results, or in what these are computed from."""
        from rxtemporal.operators.detect.functions import START, STARTS, list_functions

        read = [*self.conditions.values(), *self.measures.values()]
        return self.rows == "all" or any(
            not {*STARTS}.isdisjoint(each.meta.root_names())
            or any(f.field == START or f.kind == "match_start" for f in list_functions([each]))
            for each in read
        )

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
            _check_measures(measures, ("variable", "match"), "rows='all'")
            added = {"variable": pl.String(), "match": self.time_type, **measures}
        elif not measures:
            added = {"rows": pl.Int64()}
        if self.timeouts:
            _check_measures(measures, ("complete",), "timeouts=True")
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
        from rxtemporal.operators.detect.functions import (
            START,
            check_columns,
            check_times,
            list_functions,
        )
        from rxtemporal.operators.row_times import START_FIELD

        functions = list_functions(expressions)
        check_columns(functions, schema, who)
        names = {name for each in expressions for name in each.meta.root_names()}
        for name in sorted(names):
            check_times(name, schema, who)
        if START in schema and (START in names or any(each.field == START for each in functions)):
            raise SchemaError(
                f"{who}: 'start' is the start of a row, and there is a field of this name. "
                "Hint: rename the field first with select(); rxt.start() is always the start of "
                "the row."
            )
        found = {**schema, START: self.time_type}
        if START_FIELD in names:
            found[START_FIELD] = self.time_type
        for function in functions:
            found[function.column] = function.infer_type(schema, self.time_type, who)
        return pl.Schema(found)

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return the rule: rows of one key are seen together."""
        return partition_by_keys(keys, schemas[0] if self.rows == "all" else keys)

    def list_looks_back(self) -> list[tuple[str, Function]]:
        """Return each variable whose condition looks at a row before, and how far."""
        from rxtemporal.operators.detect.functions import list_functions

        return [
            (name, function)
            for name, expression in self.conditions.items()
            for function in list_functions([expression])
            if function.kind == "prev"
        ]

    def count_before(self) -> int:
        """Return how many rows before a row of a match its measures need."""
        from rxtemporal.operators.detect.functions import list_functions

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

    def make_settings(self, schema: pl.Schema, keys: Keys) -> DetectSettings:
        """Return what a step for these fields needs to know."""
        from rxtemporal.operators.detect.settings import DetectSettings

        automaton = self.automaton
        is_pair = isinstance(self.skip, tuple)
        return DetectSettings(
            text=self.pattern,
            automaton=automaton,
            conditions=self.conditions,
            measures=self.measures,
            types=self.list_types([*self.conditions.values()], schema),
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

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the rows of the match that each result is of."""
        from rxtemporal.operators.detect.causes import find_matched_rows

        return find_matched_rows(self, inputs, output, rows)

    @property
    def cause_parts(self) -> tuple[str, ...]:
        """The variables: a row of a match is one of them."""
        return self.automaton.variables

    def explain_loss(self, lost: LostRow) -> Fate:
        """Return why a row is in no match."""
        from rxtemporal.operators.detect.causes import explain_no_match

        return explain_no_match(self, lost)

    def list_expressions(
        self, schemas: tuple[pl.Schema, ...], keys: Keys
    ) -> Sequence[RowExpression]:
        """Return the conditions that read a row alone."""
        return [
            RowExpression(name, expression, self.list_types([expression], schemas[0]))
            for name, expression in self.conditions.items()
        ]

    def list_costly(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> Sequence[str]:
        """Return the variables whose conditions are no programs of the kernel."""
        from rxtemporal.operators.detect.programs import Programs

        types = self.list_types([*self.conditions.values()], schemas[0])
        return Programs(self.conditions, self.automaton.variables, types).rounds


def _check_measures(measures: Mapping[str, Any], names: Sequence[str], option: str) -> None:
    """Raise if a measure has the name of a field that an option adds."""
    for name in names:
        if name in measures:
            raise SchemaError(
                f"detect adds the field {name!r} with {option}, and there is a measure of this "
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
    ``conditions`` say by variable which rows match: polars expressions over the row, its ``start``
    (also as ``rxt.start()``), and functions of ``rxtemporal.pattern`` over the rows before and the
    match so far; null is false, and a variable without a condition matches every row. Variables
    begin with an upper-case letter. There are ``|``, ``( )``, the quantifiers ``*``, ``+``, ``?``,
    ``{n}``, ``{n,m}``, ``{n,}``, ``{,m}``, each reluctant with a ``?`` behind it,
    ``PERMUTE(A, B)``, and between two rows ``~>``, which skips rows up to the first with which the
    pattern can go on, ``~>>``, which may skip that one, too, and ``!X ~>``, which skips no row that
    matches ``X``. ``A !X`` at the end: no ``X`` follows until ``within`` has passed. What is
    skipped belongs to no variable.

    Rows of a key are in order of (start, payload); their ends play no part. Of several ways the
    preferred one counts, as in ISO SQL: the leftmost alternative first, and as many rows as
    possible, or as few if the quantifier is reluctant. ``within``: the last row starts less than
    this after the first one; where the preferred way is longer, the next one that fits is taken.
    ``max_gap``: no row starts later than this after the row before in the match; exactly this is
    allowed. ``skip``: the next match begins behind the last row of the one before
    (``"past_last"``), at the row after its first (``"next"``), or at the first or the last row of a
    variable (``("first", "B")``); where that is its own first row, at the row after that, and where
    the variable is not in the match, behind its last row; ``counts`` in the diagnostics says how
    often. An empty match gives nothing.

    A result has the keys and the ``measures``, expressions over functions of ``rxtemporal.pattern``
    and over fields of the last row; without measures ``rows``, their number. It lives from the
    start of the first row to one tick after that of the last; with ``at="last"`` it is a point at
    the last row. With ``rows="all"`` each row of a match is a result, a point with its fields, its
    ``variable`` and ``match``, the start of the match; fields in measures are those of each row.
    With ``timeouts`` a row at which a match may begin, that ``skip`` does not pass over, and at
    which none begins, gives the longest part of a match that begins at it, of several the one that
    ends first, as soon as that cannot grow any more, be it by another row or because ``within`` has
    passed; a field ``complete`` tells the two apart.

    A match leaves when no row that may still come can change it. The CTI is held at the start of
    the first row of the oldest match that is not decided; with ``at="last"`` at the last row of a
    match that may still grow or be beaten. Held: rows whose start the CTI has not passed, the rows
    of matches that are not decided, which may be for ever without ``within``, and the last ``n``
    rows of each key where a match may begin with ``prev``. On average a row costs as many steps as
    the pattern has states, and with ``within`` or ``skip`` as many for each start that is not
    decided; with ``timeouts``, ``max_gap`` and ``~>`` as many for each row, not longer ago than
    that, from which rows are skipped. Where a condition asks about the match so far, each way is
    followed by itself; an ``ArgumentError`` names the row at which there are more than 1,000 ways
    from one start. Such a condition is fast if it computes and compares numbers and times; of
    texts, for example, it is tested by columns for one row of each key at a time, and ``explain()``
    names its variable.

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
    from rxtemporal.operators.detect import checks, text
    from rxtemporal.operators.detect.automaton import build

    form = text.parse(checks.check_text(pattern))
    automaton = build(form)
    checks.check_variables(automaton, conditions)
    tested = {
        name: checks.check_condition(name, each, automaton) for name, each in conditions.items()
    }
    measured = checks.check_measures(measures, automaton)
    checks.check_choices(rows, at, timeouts)
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
        skip=checks.check_skip(skip, form, automaton),
        rows=rows,
        at=at,
        timeouts=timeouts,
        time=find_span_form(within, max_gap),
    )
