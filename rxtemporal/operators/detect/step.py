"""detect: rows of a key in order, and the matches of a pattern among them."""

from __future__ import annotations

from functools import partial
from types import MappingProxyType

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, TICK
from rxtemporal.engine.due_queue import Queue
from rxtemporal.engine.holdings import KEY, KEYS, PART, Entries, Hold
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.engine.record_store import RecordStore
from rxtemporal.engine.rows import grow
from rxtemporal.engine.state import Stateful
from rxtemporal.operators.detect import kernel
from rxtemporal.operators.detect.conditions import Conditions, Registers, RowValues
from rxtemporal.operators.detect.layout import (
    LEFT_COMPLETE,
    NONE,
    ROW_POSITION,
    ROW_START,
    ROW_VALUES,
    WAKE,
)
from rxtemporal.operators.detect.matcher import MatchOutcome, PatternMatcher, make_rules
from rxtemporal.operators.detect.programs import Programs
from rxtemporal.operators.detect.results import Matches, Results
from rxtemporal.operators.detect.settings import DetectSettings
from rxtemporal.operators.detect.stores import MatchStores
from rxtemporal.operators.scan.ordered_step import sort_rows


class DetectStep(Stateful):
    """Finds the matches of a pattern in the rows of each key, and lets them leave when final.

    Rows of a key come in order of (start, payload), when the CTI has passed their start. Holds the
    rows that wait for it, the rows of ways that may become a match or may be beaten, and the last
    rows of a key where a condition looks back.
    """

    held = MappingProxyType({
        "_coder": KEYS,
        "_stores": PART,
        "_starts": Entries(),
        "_wakes": Entries("key"),
    })  # fmt: skip

    def __init__(self, settings: DetectSettings) -> None:
        schema = settings.schema
        self._coder = KeyCoder({key: schema[key] for key in settings.keys})
        self._settings = settings
        programs = Programs(settings.conditions, settings.automaton.variables, settings.types)
        self._rows = RecordStore(ROW_VALUES + 2 * len(programs.inputs), schema)
        self._starts = Queue()
        values = RowValues(self._rows, schema, settings.time)
        self._results = Results(settings, values)
        registers = Registers(settings, programs, values)
        conditions = Conditions(settings, programs, values)
        rules = make_rules(settings, conditions.look_back, by_pair=bool(programs.rounds))
        self._stores = MatchStores(self._rows, registers, queues=rules.queues)
        self._matcher = PatternMatcher(
            settings, rules, programs, conditions, registers, self._stores
        )
        # times at which a thread of a key ends without a row
        self._wakes = Queue()
        # room to group rows: zeros by key
        self._seen = np.zeros(0, np.int64)

    @property
    def rows(self) -> int:
        """The number of rows held."""
        return len(self._rows)

    @property
    def counts(self) -> dict[str, int]:
        """Matches after which ``skip`` could not lead to its variable, by reason.

        That is the first row of the match itself, or not in it.
        """
        found = {
            "skips to the same start": self._matcher.same_start,
            "skips to a variable that is not in the match": self._matcher.not_there,
        }
        return {name: int(count) for name, count in found.items() if count}

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Take rows; return the matches that are final."""
        self._keep(batch.take_begins())
        due, woken = self._pop_due(batch.cti)
        made = EventBatch.empty(self._settings.output, batch.cti, batch.keys)
        if len(due) or len(woken):
            made = self._match(due, woken, batch)
            new = self._stores.compact()
            if new is not None:
                self._starts.renumber(new)
        self.forget_unused(self._coder, partial(self._rows.mark_keys, KEY))
        return made.replace(cti=int(min(batch.cti, self._stores.hold.min(initial=MAX_TIME))))

    def find_holds(self, cti: int) -> list[Hold]:
        """Return the keys that have a match which is not decided."""
        return [Hold.find(self._coder, self._stores.hold)]

    def _keep(self, batch: EventBatch) -> None:
        key = self._coder.encode(batch.columns)
        self._stores.grow(len(self._coder))
        self._seen = grow(self._seen, len(self._coder))
        # a row that waits is needed by its key
        nothing = [0] * (self._rows.array.shape[1] - ROW_POSITION)
        numbers = self._rows.append([key, batch.start, NONE, 1, *nothing], batch.columns)
        self._starts.push(batch.start, numbers)

    def _pop_due(self, cti: int) -> tuple[Int64s, Int64s]:
        """Return the rows that start before the CTI, in order, and the keys that wake up."""
        start, due = self._starts.pop_due(cti)

        def read(places: Int64s) -> pl.DataFrame:
            return self._rows.payload(due[places]).frame

        order = sort_rows(start, start, np.zeros(len(due), np.bool_), read)
        _, woken = self._wakes.pop_due(cti + 1)
        self._stores.by_key[woken, WAKE] = MAX_TIME
        return due[order], woken if cti < MAX_TIME else self._stores.list_live()

    def _match(self, due: Int64s, woken: Int64s, batch: EventBatch) -> EventBatch:
        """Match rows, and advance their keys and others; return the matches that leave."""
        stores, most = self._stores, len(due) + len(woken)
        keys, rows_at = np.empty(most, np.int64), np.empty(most + 1, np.int64)
        due, count = kernel.group_rows(
            self._rows.array, stores.by_key, due, woken, self._seen, keys, rows_at
        )
        outcome = self._matcher.run(keys[:count], rows_at[: count + 1], due, batch.cti)
        self._wakes.push(stores.by_key[outcome.wakes, WAKE], outcome.wakes)
        if not len(outcome.left):
            return EventBatch.empty(self._settings.output, batch.cti, batch.keys)
        made = self._make_results(outcome, batch)
        self._matcher.release_matches(outcome)
        return made

    def _make_results(self, outcome: MatchOutcome, batch: EventBatch) -> EventBatch:
        matches = Matches(*self._matcher.take_ways(outcome), outcome.left[:, LEFT_COMPLETE])
        start = self._rows.records[:, ROW_START]
        if self._settings.all_rows:
            begin = start[matches.row]
            end = begin + TICK
        else:
            end = start[matches.last] + TICK
            begin = end - TICK if self._settings.at_last else start[matches.first]
        payload = self._make_payload(matches)
        return EventBatch.of_rows(begin, end, payload, batch.cti, batch.keys)

    def _make_payload(self, matches: Matches) -> pl.DataFrame:
        """Return the fields of the results."""
        return self._results.make(matches)
