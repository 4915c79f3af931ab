"""relate: pairs of rows whose lifetimes are in one of Allen's relations."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.safe_text import brief
from rxtemporal.core.spans import Span, span
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.core.time_forms import find_span_form
from rxtemporal.engine.key_matcher import KeyMatcher
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.causes.carried_rows import carry, match_output
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import NEVER, History
from rxtemporal.operators.causes.lost_row import MOST_OTHERS, Fate, LostRow, write_span
from rxtemporal.operators.join.key_pairs import KeyPairs, On
from rxtemporal.operators.join.plan import (
    Handed,
    Matcher,
    find_partners,
    list_joined_fields,
    of_both_sides,
    tell_missing_key,
    write_nearest,
)
from rxtemporal.operators.operator import Keys, PartialOperator
from rxtemporal.operators.relate.relations import NAMES, flag_relations
from rxtemporal.operators.stream import Other

if TYPE_CHECKING:
    from rxtemporal.engine.step import TwoInputStep

How: TypeAlias = str | Collection[str]


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Relate(Matcher):
    """Both payloads for each pair of rows whose lifetimes are in one of the relations ``how``.

    They are named in the order of ``NAMES``; ``within`` is the least gap that is too long.
    """

    name = "relate"
    holds_time = True
    knows_ends = True
    how: tuple[str, ...]
    within: int | None = None

    @property
    def cti_rule(self) -> str:
        """The lower of the two input CTIs, held while an earlier row may be in a result."""
        return (
            "the lower of the two, held at the start of the oldest row that may still find a "
            "partner or whose partner is still open"
        )

    @property
    def holds(self) -> str:
        """The rows that may still be in results."""
        return (
            "rows of both inputs until both CTIs are past the last start of a partner and no pair "
            "of theirs waits for an end, and these pairs"
        )

    def output(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the left fields, then the right fields that are not shared through ``on``."""
        return self.merge_fields(left, right, keys)[1]

    def trace_fields(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> Sequence[Handed]:
        """Return the fields of both sides."""
        return list_joined_fields(self, left, right, keys)

    def make(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> TwoInputStep:
        """Return a new step."""
        from rxtemporal.operators.join.step import JoinedPayload
        from rxtemporal.operators.relate.step import RelateStep

        keying = KeyMatcher(keys, self.on, self.key_types(left, right, keys))
        merged = JoinedPayload(*self.merge_fields(left, right, keys))
        wanted = flag_relations(self.how)
        return RelateStep(keying, (left, right), merged, wanted, self.within, keys)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return for each row its pair: a row of the left input and one of the right."""
        made = carry(self.with_suffix(), inputs)
        of, at = match_output(output, made, rows)
        return of_both_sides(of, made.take(at))

    def explain_loss(self, lost: LostRow) -> Fate:
        """Return why a row of an input has given no row."""
        return explain_no_relation(self, lost)


def relate(
    other: Other,
    how: How,
    on: On = None,
    within: Span | None = None,
    *,
    suffix: str | None = None,
) -> PartialOperator:
    """Return both payloads for each pair of rows whose lifetimes are related in a given way.

    ``how`` is one of Allen's relations of the left row to the right one, or several of them in a
    list or a set. For any two rows exactly one is true; lifetimes are half-open, so that a row
    which ends when another begins meets it. The left row is

    - ``"before"`` or ``"after"`` the right one if there is a gap between them, ``"meets"`` or is
      ``"met_by"`` it if the one ends when the other begins;
    - ``"overlaps"`` if it begins first and ends while the right one lives, ``"overlapped_by"``
      if the right one begins first and ends while it lives;
    - ``"during"`` if it begins later and ends earlier, ``"contains"`` if it begins earlier and
      ends later;
    - ``"starts"``, ``"equals"`` or ``"started_by"`` if both begin together, and it ends earlier,
      together or later;
    - ``"finishes"`` or ``"finished_by"`` if both end together, and it begins later or earlier.

    ``"before"`` and ``"after"`` need ``within``: the gap, from the end of the one row to the start
    of the other, is shorter than that. So the later row begins while the earlier one would still be
    alive if it lasted ``within`` longer. The other relations have no gap, and are not limited.

    A result lives from the earlier start to the later end. It is final: it is emitted once both
    CTIs have passed the starts and both ends are known. The end of a row that never ends is the end
    of time, like that of all such rows; of an open row this is known at the end of time only.

    The output CTI is the lower of the two input CTIs, held at the start of the oldest row that may
    be in a later result: a row that begins at that CTI or after it may be related to it, or it may
    be related to a row that has begun, one of the two being open, for some end that is still
    possible. Only such rows are held, and the pairs with an open row. So a row holds the CTI back
    for its whole lifetime if its partner may begin within that (``"contains"``, ``"overlaps"``), a
    further ``within`` if that may come after it (``"before"``), and until its partner has ended.
    The cost is proportional to the new rows, and to the pairs of which one row begins while the
    other may find partners.

    ``on``, ``suffix``, groups and the fields of the result are as in ``join``. Without keys any two
    rows may be related.
    Source: J. F. Allen, "Maintaining knowledge about temporal intervals", 1983.

    >>> import rxtemporal as rxt
    >>> alarms = rxt.from_events([rxt.IntervalEvent(3, 5, {"machine": 1, "level": 2})])
    >>> repairs = rxt.from_events([rxt.IntervalEvent(1, 9, {"machine": 1, "by": "Ann"})])
    >>> alarms.relate(repairs, "during", on="machine").to_events()
    [IntervalEvent(1, 9, {'machine': 1, 'level': 2, 'by': 'Ann'})]
    """
    keys, names = KeyPairs.read(on, "relate"), read_relations(how)
    gap = None if within is None else span(within, "within", least=1)
    for name in ("before", "after"):
        if name in names and gap is None:
            raise ArgumentError(
                f"relate: {name!r} needs within=, since each row is {name} every other one for "
                f"ever. Hint: relate(other, {name!r}, within='5m') says how long the gap may be."
            )
    if gap == 1:
        raise ArgumentError(
            "relate: no gap is shorter than within=1, a tick: rows without a gap meet. "
            "Hint: relate(other, ['meets', 'met_by'])."
        )
    form = None if within is None else find_span_form(within)
    operator = Relate(on=keys.names, how=names, within=gap, suffix=suffix, time=form)
    return keys.bind(operator, other)


def read_relations(how: Any) -> tuple[str, ...]:
    """Return the names of relations, checked and in the order of ``NAMES``.

    >>> read_relations({"equals", "during"})
    ('equals', 'during')
    """
    names = [how] if isinstance(how, str) else how
    if not isinstance(names, (list, tuple, set, frozenset)) or not names:
        raise ArgumentError(
            f"relate: how is the name of a relation, or a list or set of names, got {brief(how)}. "
            "Hint: relate(other, 'during'), or relate(other, ['starts', 'during'])."
        )
    for name in names:
        if not isinstance(name, str) or name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, 1) if isinstance(name, str) else []
            meant = f"did you mean {near[0]!r}? The" if near else "the"
            raise ArgumentError(
                f"relate: how={brief(name)} is not a relation of lifetimes. "
                f"Hint: {meant} relations are {', '.join(NAMES)}."
            )
    return tuple(name for name in NAMES if name in names)


def explain_no_relation(operator: Relate, lost: LostRow) -> Fate:
    """Return that no row is related: the key that no row has, or the relation of the nearest."""
    if lost.start >= lost.cti:
        return lost.wait(lost.start + 1)
    values, partners = find_partners(operator, lost)
    if not len(partners):
        return tell_missing_key(lost, values)
    other = lost.inputs[1 - lost.side]
    if lost.source.closed[lost.row] == NEVER or (other.closed[partners] == NEVER).any():
        related = [row for row in partners.tolist() if _is_related(operator, lost, row)]
        if related:  # as far as is known
            shown = lost.write_row(other, related[0])
            return lost.tell(
                "waiting",
                f"not final: {lost.place} waits for the end of this row or of its partner {shown}",
                others=lost.frame(other, np.array(related[:MOST_OTHERS])),
            )
    nearest = lost.order_by_stretch(other, partners)[:MOST_OTHERS]
    return lost.tell(
        "no partner",
        f"{write_nearest(lost, values, int(nearest[0]))}: "
        f"{_write_relation(operator, lost, int(nearest[0]))}",
        values=values,
        others=lost.frame(other, nearest),
    )


def _get_lifetimes(lost: LostRow, row: int) -> tuple[int, int, int, int]:
    """Return start and end of the left row and of the right one; ``row`` is of the other side."""
    other = lost.inputs[1 - lost.side]
    own, its = (lost.start, lost.end), (int(other.start[row]), int(other.end[row]))
    return (*its, *own) if lost.side else (*own, *its)


def _is_related(operator: Relate, lost: LostRow, row: int) -> bool:
    from rxtemporal.operators.relate.kernel import is_related

    wanted, within = np.array(flag_relations(operator.how)), operator.within
    return is_related(*_get_lifetimes(lost, row), wanted, MAX_TIME if within is None else within)


def _write_relation(operator: Relate, lost: LostRow, row: int) -> str:
    """Return the relation of the left row to the right one, and what is asked for, as text."""
    from rxtemporal.operators.relate.kernel import find_relation

    start, end, other_start, other_end = _get_lifetimes(lost, row)
    relation = NAMES[find_relation(start, end, other_start, other_end)]
    if relation in operator.how and operator.within is not None:
        gap = max(other_start - end, start - other_end)
        return (
            f"left {relation} right, and the gap of {write_span(gap, lost.form)} is not shorter "
            f"than within={write_span(operator.within, lost.form)}"
        )
    return f"left {relation} right, and how= asks for {', '.join(operator.how)}"
