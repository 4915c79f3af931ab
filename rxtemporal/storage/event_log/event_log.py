"""Event log of a run: accepted events are durable before they are acknowledged."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from rxtemporal.core.files import report_errors
from rxtemporal.engine.added_fields import only_adds
from rxtemporal.engine.codec import Chunk
from rxtemporal.errors import BindingError, CheckpointError, SchemaError, SpoolError
from rxtemporal.ingress.clock_settings import ClockSettings
from rxtemporal.ingress.settings import AdvanceTimeSettings
from rxtemporal.storage.event_log.columns import Item
from rxtemporal.storage.event_log.layout import HEADER, StreamFacts, load_header
from rxtemporal.storage.event_log.log import Log, MisfitError, StreamLog, count_records
from rxtemporal.storage.event_log.reader import Recording, StreamRecords
from rxtemporal.storage.event_log.store import Part, RunStore
from rxtemporal.storage.event_log.stored_log import FILE, Checkpoint

_OTHER = "a log can be continued only by the same query over the same streams; use another folder"


@dataclasses.dataclass(frozen=True, slots=True)
class LoggedStream:
    """A stream of a run with a log; ``columns``: its rows come in frames."""

    name: str
    columns: bool
    settings: AdvanceTimeSettings | None
    schema: pl.Schema | None
    clock: ClockSettings | None = None
    delays_ctis: bool = False

    def make_facts(self, since: int = 0) -> StreamFacts:
        """Return the facts of the stream, in a log that has had so many records before it."""
        return StreamFacts(
            self.name, self.columns, self.settings, delays_ctis=self.delays_ctis,
            clock=self.clock, since=since,
        )  # fmt: skip


class EventLog(Log):
    """Event log of a run, appended to the events of earlier runs.

    ``match`` gives each stream its part, ``begin`` prepares the log for writing, ``flush`` makes
    all noted records durable, ``save`` replaces those before a ``cut`` by a state. The caller opens
    and closes the store.
    """

    def __init__(self, store: RunStore) -> None:
        super().__init__()
        self.store = store
        self._known: Sequence[StreamFacts] = ()
        self._given: dict[int, pl.Schema] = {}

    def open(self) -> None:
        """Open the store of ``log=``. ``SpoolError``: the folder has other files."""
        _refuse_other_files(self.store.path)
        self.store.open()

    def match(
        self, streams: Sequence[LoggedStream], *, known: Collection[str] | None = None
    ) -> None:
        """Make a log for each stream, in which its accepted events are noted.

        ``known`` are the names of the streams that the log may have, if others may have come or
        gone, or got other settings. One that has gone keeps its place, and gets another if it comes
        back. ``CheckpointError``: the log is of other streams, fields or settings.
        """
        store = self.store
        numbers: Sequence[int] = range(len(streams))
        facts = [each.make_facts() for each in streams]
        if store.streams and known is not None:
            numbers, facts = _merge(store, streams, known)
        elif store.streams:
            numbers, facts = _match(store, streams), store.streams
        for number, stream in zip(numbers, streams, strict=True):
            learned = StreamRecords(store, number, facts[number]).schema
            if stream.schema is not None:
                if known is not None and learned is not None and only_adds(learned, stream.schema):
                    learned = stream.schema
                _check_schema(store.path, stream, learned)
                self._given[number] = stream.schema
            self.streams.append(StreamLog(self, number, facts[number], stream.schema, learned))
        self._known = facts
        self.noted = self._durable = store.records

    def begin(self) -> None:
        """Prepare the log for writing, once the run has passed all checks."""
        self.store.begin(self._known, self._given)

    def recording(self) -> Recording:
        """Return the events of earlier runs."""
        return Recording(self.store.path, self.store)

    def cut(self) -> int:
        """Let a state that is captured now cover all noted records; return their number.

        Nothing is noted meanwhile.
        """
        return self.store.cut_at(super().cut())

    def save(
        self,
        state: Sequence[Chunk],
        records: int,
        *,
        time: int | None,
        forget: Sequence[str] = (),
        kept: Sequence[Checkpoint] = (),
    ) -> None:
        """Write the state of the run, in chunks, captured at the cut that returned ``records``.

        The states of the sinks of ``forget`` are deleted with it. The checkpoints ``kept`` stay,
        with all records since the first of them.
        Others may note and flush meanwhile. ``SpoolError`` if the state cannot be written: the
        previous one is valid, and the log has all records since then.
        """
        self.flush()
        self.store.save(state, records, time=time, forget=forget, kept=kept)

    def close(self) -> None:
        """Accept nothing more, and write the waiting records."""
        with self._changed:
            self._closed = True
        self.flush()

    def _admits(self, stream: StreamLog) -> bool:
        if self._closed and self._error is None:
            raise BindingError(
                f"stream {stream.facts.name!r} is not logged any more: its run has ended. "
                "Hint: wait() of the process raises the error that ended it."
            )
        return True

    def _write(self, runs: list[list[int]], items: Mapping[StreamLog, list[Item]]) -> None:
        misfit: SchemaError | None = None
        parts: dict[int, Part] = {}
        plain = self.store.takes_plain
        for stream, noted in items.items():
            try:
                parts[stream.number] = Part(count_records(noted), stream.dump(noted, plain=plain))
            except MisfitError as error:
                # this ends the run; the stream's records before it are kept
                misfit = SchemaError(f"stream {stream.facts.name!r}: {error}")
                _shorten(runs, stream.number, count_records(noted[error.place :]))
                if whole := noted[: error.place]:
                    parts[stream.number] = Part(
                        count_records(whole), stream.dump(whole, plain=plain)
                    )
        runs = [run for run in runs if run[1]]
        if runs:
            self.store.append(runs, parts)
        if misfit is not None:
            raise misfit


def _refuse_other_files(path: Path) -> None:
    with report_errors(f"cannot open the event log {path}"):
        there = sorted(os.listdir(path)) if path.exists() else []
    if FILE in there:
        return
    if HEADER in there:
        load_header(path)  # refuses a log of an earlier version
        raise SpoolError(
            f"{path} is a recording, to which no run can append. Hint: give the event log its own "
            "folder."
        )
    others = [each for each in there if each != "lock" and FILE not in each]
    if others:
        raise SpoolError(
            f"cannot write an event log into {path}: the folder has other files, "
            f"{', '.join(others[:3])}{' …' if len(others) > 3 else ''}. "
            "Hint: give the event log its own folder."
        )


def _match(store: RunStore, streams: Sequence[LoggedStream]) -> list[int]:
    """Return each stream's number in the log: by name, and by order among equal names."""
    have = _number_names(facts.name for facts in store.streams)
    want = _number_names(each.name for each in streams)
    if set(have) != set(want):
        raise CheckpointError(
            f"the event log {store.path} is of {_names(store.streams)}, but this run reads "
            f"{_names(streams)}. Hint: {_OTHER}."
        )
    numbers = [have.index(each) for each in want]
    for number, each in zip(numbers, streams, strict=True):
        logged, given = store.streams[number], each.make_facts()
        for key, what in _COMPARED.items():
            if _get_fact(logged, key) != _get_fact(given, key):
                raise CheckpointError(
                    f"stream {each.name!r} of the event log {store.path} has {what}: "
                    f"{_get_fact(logged, key)}, but in this run {_get_fact(given, key)}. "
                    f"Hint: {_OTHER}."
                )
        # an earlier version did not note it
        logged.change(logged.settings, logged.clock, each.delays_ctis, store.records)
    return numbers


# what a log says of a stream that another run may have otherwise
_COMPARED = {"columns": "rows in frames", "settings": "settings", "clock": "clocks of devices"}


def _get_fact(facts: StreamFacts, key: str) -> Any:
    """Return a fact of a stream; settings as plain values, in which spans are ticks."""
    return facts.clock if key == "clock" else facts.to_dict()[key]


def _merge(
    store: RunStore, streams: Sequence[LoggedStream], names: Collection[str]
) -> tuple[list[int], list[StreamFacts]]:
    """Return each stream's number in the log, and the facts of all, those that have gone too.

    A stream whose name is not among ``names`` begins: it does not get the records of an earlier one
    with its name.
    """
    known = [*store.streams]
    have = {facts.name: number for number, facts in enumerate(known)}
    numbers = []
    for each in streams:
        if each.name not in have or each.name not in names:
            have[each.name] = len(known)
            facts = each.make_facts(since=store.records)
            known.append(facts)
        number = have[each.name]
        if known[number].columns != each.columns:
            raise CheckpointError(
                f"stream {each.name!r} of the event log {store.path} has rows in frames: "
                f"{known[number].columns}, but in this run {each.columns}. Hint: give the new "
                "source another name; it begins then."
            )
        _refuse_other_clocks(store.path, known[number], each)
        known[number].forget_before(store.find_checkpoint().oldest)
        known[number].change(each.settings, each.clock, each.delays_ctis, store.records)
        numbers.append(number)
    return numbers, known


def _refuse_other_clocks(path: Path, known: StreamFacts, stream: LoggedStream) -> None:
    """Raise if a stream in which each device has its own time, now or before, has changed."""
    given = stream.make_facts()
    if known.clock is None and given.clock is None:
        return
    for key in ("settings", "clock"):
        if _get_fact(known, key) != _get_fact(given, key):
            raise CheckpointError(
                f"stream {stream.name!r} of the event log {path} has {_COMPARED[key]}: "
                f"{_get_fact(known, key)}, but in this run {_get_fact(given, key)}, and with "
                f"clock= they cannot change. Hint: {_OTHER}."
            )


def _check_schema(path: Path, stream: LoggedStream, logged: pl.Schema | None) -> None:
    if logged is not None and stream.schema is not None and logged != stream.schema:
        raise CheckpointError(
            f"stream {stream.name!r} of the event log {path} has the fields "
            f"{dict(logged)}, but in this run {dict(stream.schema)}. Hint: {_OTHER}."
        )


def _number_names(names: Iterable[str]) -> list[tuple[str, int]]:
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        found.append((name, seen[name]))
        seen[name] += 1
    return found


def _names(streams: Sequence[StreamFacts | LoggedStream]) -> str:
    return ", ".join(repr(each.name) for each in streams) or "no stream"


def _shorten(runs: list[list[int]], number: int, records: int) -> None:
    """Remove a stream's last records from the runs of records."""
    for run in reversed(runs):
        if run[0] == number:
            less = min(run[1], records)
            run[1] -= less
            records -= less
