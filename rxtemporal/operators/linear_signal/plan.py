"""to_signal with linear=: rows that move along straight lines from reading to reading."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.core.lines import list_parts, name_bounds
from rxtemporal.core.schema import check_added, check_field
from rxtemporal.core.ticks import TICK
from rxtemporal.core.time_forms import TimeForm
from rxtemporal.engine.key_matcher import KeyMatcher
from rxtemporal.errors import AdvanceTimeError, SchemaError, blame
from rxtemporal.ingress.settings import AdvanceTimePolicy
from rxtemporal.operators.causes.carried_rows import match_rows
from rxtemporal.operators.causes.causes import HISTORY, Causes
from rxtemporal.operators.causes.history import History, find_at
from rxtemporal.operators.causes.lost_row import Fate, LostRow
from rxtemporal.operators.join.plan import Matcher
from rxtemporal.operators.operator import Keys, Operator
from rxtemporal.operators.partition_keys import PartitionRule, partition_by_keys

if TYPE_CHECKING:
    from rxtemporal.engine.step import Step
    from rxtemporal.ingress.side_source import SideSource
    from rxtemporal.ingress.source import StreamSource


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class LinearSignal(Operator):
    """Readings that last until the next one of their key, and whose values move to that.

    ``ticks``: times are numbers; otherwise they are datetimes.
    """

    name = "to_signal"
    holds_time = True
    on: tuple[tuple[str, str], ...]
    linear: tuple[str, ...]
    max_gap: int | None
    ticks: bool = True

    @property
    def cti_rule(self) -> str:
        """The CTI held back by readings that are not final."""
        within = "" if self.max_gap is not None else "; a silent key holds it for ever"
        return f"t, held at the start of the oldest reading that waits for the next one{within}"

    @property
    def holds(self) -> str:
        """The readings that are not final."""
        until = "" if self.max_gap is None else ", until their gap has passed"
        return f"readings not yet committed, and the latest ones of each key{until}"

    @property
    def reads_times(self) -> bool:  # type: ignore[override]
        """True if it has no span, which would say the form of the times."""
        return self.max_gap is None

    def for_stream(self, form: TimeForm | None, schema: pl.Schema | None) -> Self:
        """Return the operator for a stream of such times."""
        known = self.time or form or "datetime"
        return dataclasses.replace(self, ticks=known == "ticks", time=known)

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the fields, then the ends of the lines; raise if a field is missing."""
        find_key_types(self.on, schema, keys)
        key = {*keys, *(name for name, _ in self.on)}
        added: dict[str, pl.DataType] = {}
        time = pl.Int64() if self.ticks else pl.Datetime("us", "UTC")
        for name in self.linear:
            check_field(name, schema, "to_signal")
            dtype = schema[name]
            if not (dtype.is_float() or dtype.is_integer()):
                raise SchemaError(
                    f"to_signal moves numbers along lines, and {name!r} is {dtype}. Hint: leave it "
                    "out of linear=, where its values stay until the next reading."
                )
            if name in key:
                raise SchemaError(f"to_signal: {name!r} is a key, which does not move along a line")
            added |= dict(zip(list_parts(name), (dtype, time, time), strict=True))
        check_added(added, schema, "to_signal")
        return pl.Schema({**schema, **added})

    def check_sources(self, sources: Sequence[StreamSource | SideSource]) -> None:
        """Refuse imports with ADJUST: a reading told late is dropped, and would be no bound."""
        refuse_adjusted(sources, self.place)

    def make_matcher(self, schema: pl.Schema, keys: Keys) -> KeyMatcher:
        """Return what finds the key of a row."""
        return KeyMatcher(keys, self.on, find_key_types(self.on, schema, keys))

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return the rule: rows of one key are seen together."""
        return partition_by_keys((*keys, *(name for name, _ in self.on)), schemas[0])

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.linear_signal.step import LinearSignalStep

        output = self.output(schema, keys)
        return LinearSignalStep(
            lambda: self.make_matcher(schema, keys), self.linear, self.max_gap, output
        )

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return for each row its reading, and the next one of its key."""
        return find_readings(self, inputs, output, rows)

    def explain_loss(self, lost: LostRow) -> Fate:
        """Return when a reading that waits for the next one becomes final."""
        if self.max_gap is not None and lost.start + self.max_gap >= lost.cti:
            return lost.wait(lost.start + self.max_gap + TICK)
        return lost.tell_end()


class _Same(Matcher):
    """A stream matched with itself."""

    name = "to_signal"


def find_key_types(
    on: tuple[tuple[str, str], ...], schema: pl.Schema, keys: Keys
) -> list[pl.DataType]:
    """Return the types of the fields that are a row's key; raise if one is missing or no key."""
    for name, _ in on:
        check_field(name, schema, "to_signal")
    return _Same(on=on).key_types(schema, schema, keys)


def refuse_adjusted(sources: Sequence[StreamSource | SideSource], place: str) -> None:
    """Refuse imports with ADJUST: a point told late is dropped, and an old row lasts on."""
    for source in sources:
        settings = source.settings
        if settings is None or settings.imports is None:
            continue
        if settings.policy is AdvanceTimePolicy.ADJUST:
            error = AdvanceTimeError(
                f"to_signal over {source.name!r}, which imports the CTIs of "
                f"{settings.imports.stream_name!r}: a point that is told late is dropped even "
                "with ADJUST, and the row before it would last for ever. Hint: "
                "rxt.reference(stream, on=…) counts it from the CTI on; or policy=DROP if "
                "late rows need not count."
            )
            raise blame(error, place)


def find_readings(
    operator: LinearSignal, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each row the reading that it was made of, and the next ones of its key.

    The next ones are those at the end of its line.
    """
    of, number = match_rows(operator, inputs, output, rows)
    payload, keys = inputs[0].payload, inputs[0].keys
    key = operator.make_matcher(payload.schema, keys).encode(0, Columns.from_frame(payload))
    _, end = name_bounds(operator.linear[0])
    ends = np.asarray(output.payload[end].cast(pl.Int64))[of]
    whose, by = find_at(of, key[number], ends, key, inputs[0].start)
    follow = Causes.of_pairs(whose, by, role=HISTORY)
    return Causes.concat([Causes.of_pairs(of, number), follow])
