"""The ways of giving rows to a stream: the same case in the form of each, and what each tells."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from arrival_cases import Case
from door_model import MAX_TIME, MIN_TIME, NOW, Item, Late, Push
from reactivex.subject import Subject
from reactivex.testing import TestScheduler
from runs import SOON

import rxtemporal as rxt
from rxtemporal import Cti, EventBatch, EventShape
from rxtemporal.metrics.collector import Collector

NAME = "s"
START, END, SEQ = "t", "u", "q"
SHAPES = {each.value: each for each in EventShape}
Given = dict[str, Any]


# Cuts into pushes ---------------------------------------------------------------------------------


def cut_each(case: Case) -> list[Push]:
    """Cut a case into pushes of one item."""
    return [Push([item], False) for item in case.items]


def cut_lists(case: Case) -> list[Push]:
    """Cut a case into lists of items of one input."""
    return [Push(items, True) for items in _cut(case)]


def cut_rows(case: Case) -> list[Push]:
    """Cut a case into lists of rows of one input; a CTI comes alone."""
    parts = [
        list(part)
        for items in _cut(case)
        for _, part in itertools.groupby(items, lambda item: item.kind == "cti")
    ]
    return [
        push
        for part in parts
        for push in (
            [Push([item], False) for item in part] if part[0].kind == "cti" else [Push(part, True)]
        )
    ]


def cut_mixed(case: Case) -> list[Push]:
    """Cut a case into lists of rows, and into single items."""
    return [
        Push(items, is_many and (len(items) > 1 or items[0].n % 2 == 0))
        for items, is_many in cut_rows(case)
    ]


def cut_batches(case: Case) -> list[Push]:
    """Cut a case into rows of one input, with a CTI after them or without."""
    pushes: list[Push] = []
    for items in _cut(case):
        begin = 0
        for end, item in enumerate(items, 1):
            if item.kind == "cti" or end == len(items):
                pushes.append(Push(items[begin:end], True))
                begin = end
    return pushes


def _cut(case: Case) -> Iterator[list[Item]]:
    sizes = itertools.cycle(case.sizes)
    for _, items in itertools.groupby(case.items, lambda item: item.input):
        while part := list(itertools.islice(items, next(sizes))):
            yield part


# Forms of items -----------------------------------------------------------------------------------


def to_row(case: Case, item: Item) -> Any:
    """Return an item as a dict, or a CTI."""
    if item.kind == "cti":
        return Cti(case.time(item.start))
    is_readable = item.kind != "unreadable"
    row: Given = {START: case.time(item.start) if is_readable else None, "n": item.n}
    if case.shape != "point":
        row[END] = case.time(None if item.kind == "start" else item.end)
    if case.is_numbered:
        row[SEQ] = item.seq
    return row


def to_event(case: Case, item: Item) -> Any:
    """Return an item as an event, or a CTI; its number is in the payload."""
    payload: Given = {} if item.kind == "unreadable" else {"n": item.n}
    if case.is_numbered:
        payload[SEQ] = item.seq
    return make_event(case, item, payload)


def make_event(case: Case, item: Item, payload: Any) -> Any:
    """Return an item as an event with a payload, or a CTI."""
    start, end = case.time(item.start), case.time(item.end)
    kind = case.shape if item.kind == "unreadable" else item.kind
    if kind == "cti":
        return Cti(start)
    if kind == "point":
        return rxt.PointEvent(start, payload)
    if kind == "interval":
        return rxt.IntervalEvent(start, end, payload)
    if kind == "end":
        return rxt.EdgeEvent.create_end(start, end, payload)
    return rxt.EdgeEvent.create_start(start, payload)


def to_plain_event(case: Case, item: Item) -> Any:
    """Return an item as an event without a sequence number, or a CTI."""
    return make_event(case, item, {} if item.kind == "unreadable" else {"n": item.n})


def to_frame(case: Case, items: Sequence[Item]) -> pl.DataFrame:
    """Return rows as a frame; one that cannot be read has no start."""
    time = pl.Datetime("us", "UTC") if case.as_datetimes else pl.Int64
    schema: dict[str, Any] = {START: time, "n": pl.Int64}
    if case.shape != "point":
        schema[END] = time
    if case.is_numbered:
        schema[SEQ] = pl.Int64
    return pl.DataFrame([to_row(case, item) for item in items], schema=schema)


def to_batch(case: Case, items: Sequence[Item]) -> EventBatch:
    """Return rows as a batch, with the CTI after them if the last item is one."""
    rows = [item for item in items if item.kind != "cti"]
    is_edge = case.shape == "edge"
    payload: dict[str, Any] = {"n": [item.n for item in rows]}
    schema: dict[str, Any] = {"n": pl.Int64}
    if case.is_numbered:
        payload[SEQ], schema[SEQ] = [item.seq for item in rows], pl.Int64
    return EventBatch(
        np.array([item.start for item in rows], np.int64),
        np.array([item.end for item in rows], np.int64),
        np.array([item.n + 1 if is_edge else 0 for item in rows], np.int64),
        pl.DataFrame(payload, schema=schema),
        items[-1].start if items[-1].kind == "cti" else MIN_TIME,
    )


def to_dicts(case: Case, push: Push) -> Any:
    """Return a push as a list of dicts and CTIs, or as one of them."""
    items = [to_row(case, item) for item in push.items]
    return items if push.is_many else items[0]


def to_events(case: Case, push: Push) -> Any:
    """Return a push as a list of events and CTIs, or as one of them."""
    items = [to_event(case, item) for item in push.items]
    return items if push.is_many else items[0]


def to_frames(case: Case, push: Push) -> Any:
    """Return a push of rows as a frame, one of a CTI as it is."""
    return to_frame(case, push.items) if push.is_many else to_row(case, push.items[0])


def to_mixed(case: Case, push: Push) -> Any:
    """Return a push as dicts, as events or as a frame, by the number of its first item."""
    forms = to_dicts, to_events, to_frames if push.is_many else to_dicts
    return forms[push.items[0].n % 3](case, push)


def to_tables(case: Case, push: Push) -> Any:
    """Return a push of rows as an Arrow table, one of a CTI as it is."""
    made = to_frames(case, push)
    return made.to_arrow() if push.is_many else made


def to_batches(case: Case, push: Push) -> Any:
    """Return a push as a batch."""
    return to_batch(case, push.items)


# A run --------------------------------------------------------------------------------------------


def make_clock() -> TestScheduler:
    """Return a wall clock that stands still."""
    clock = TestScheduler()
    clock.advance_to(NOW / 1_000_000)
    return clock


class Run:
    """A run of a stream, and of its late events if they are heard, under a clock that stands."""

    def __init__(self, case: Case, stream: rxt.Streamable, **place: Any) -> None:
        app = rxt.Application("ways")
        given = app.define_stream(NAME, stream)
        app.query("out", given)
        self.sinks = {"out": rxt.Collect()}
        if case.is_heard:
            app.query("late", given.late_events())
            self.sinks["late"] = rxt.Collect(EventShape.POINT)
        self._has_spans = case.as_datetimes
        self.process = app.run(sinks=self.sinks, scheduler=make_clock(), warn_after=None, **place)
        self.heard: list[Any] = []
        if case.is_heard:
            self.process.late.subscribe(self.heard.append)

    def wait(self) -> None:
        """Wait for the end of the run."""
        assert self.process.wait(SOON)

    @property
    def stream(self) -> Any:
        """What diagnostics tell of the stream."""
        (found,) = [each for each in self.process.diagnostics().streams if each.name == NAME]
        return found

    def tell_stream(self) -> Given:
        """Return the counters of the stream's door, and the metrics."""
        of = self.stream
        return {
            "events": of.events_in,
            "late by reason": dict(of.late),
            "largest lateness": of.largest_lateness,
            "lateness": (of.lateness, of.total_lateness),
            "open rows": of.open_rows,
            "ahead": of.ahead,
            "samples": self._list_samples(),
        }

    def _list_samples(self) -> dict[Any, Any]:
        samples = Collector(self.process, now=lambda: NOW / 1_000_000).collect()
        found = {
            (each.metric.name, *each.labels[2:]): each.value
            for each in samples
            if each.labels[1:2] == (NAME,)
            and each.metric.name in SAMPLES
            # the form of times is not known before the first
            and (self._has_spans or not each.metric.needs_datetimes)
        }
        return {name: value for name, value in found.items() if value or len(name) == 1}

    def tell_results(self) -> Given:
        """Return the history of the stream, and the rows of the stream of late events."""
        told = {"history": list_rows([self.sinks["out"].batch])}
        if "late" in self.sinks:
            told["late rows"] = list_late_rows(self.sinks["late"].batch)
        return told


SAMPLES = {
    "events", "late.events", "ahead.events", "duplicates", "unsure", "rejected", "inputs",
    "open.events", "lateness", "largest_lateness",
}  # fmt: skip


def list_rows(batches: Sequence[EventBatch]) -> list[tuple[int, ...]]:
    """Return the rows of batches without edges: start, end and payload, sorted."""
    return sorted(
        row
        for batch in batches
        for row in zip(
            batch.start.tolist(), batch.end.tolist(), batch.payload["n"].to_list(), strict=True
        )
    )


def list_late_rows(batch: EventBatch) -> list[tuple[Any, ...]]:
    """Return the rows of a stream of late events: the CTI, and the fields."""
    ticks = pl.col("by", "start", "end").to_physical().cast(pl.Int64).fill_null(MAX_TIME)
    fields = batch.payload.with_columns(ticks).select("n", "reason", "by", "start", "end", "source")
    return sorted(zip(batch.start.tolist(), *fields.get_columns(), strict=True))


def list_late(heard: Sequence[rxt.LateEvent]) -> list[Late]:
    """Return late events as the model's."""
    return [
        Late(
            each.event.start, each.event.end, each.event.payload["n"], each.source, each.reason,
            each.cti, each.by,
        )
        for each in heard
    ]  # fmt: skip


COUNTERS = (
    "events", "late", "late_by_reason", "largest_lateness", "lag", "open_rows",
    "unsure", "rejected", "ahead",
)  # fmt: skip


def tell_inputs(sources: Any) -> Given:
    """Return the counters of inputs, and how far their clocks are ahead."""
    return {
        "inputs": {
            name: {counter: getattr(each, counter) for counter in COUNTERS}
            for name, each in sources.items()
        },
        "duplicates": {name: each.duplicates for name, each in sources.items()},
        "offsets": {name: each.clock_offset for name, each in sources.items()},
    }


def to_ticks(time: Any) -> int | None:
    """Return a time in either form as ticks."""
    return time if time is None or isinstance(time, int) else rxt.ticks(time)


def tell_verdict(verdict: rxt.Verdict) -> tuple[Any, ...]:
    """Return a verdict as plain values."""
    late = list(zip(list_late(verdict.late), [each.index for each in verdict.late], strict=True))
    rejected = [each.index for each in verdict.rejected]
    cti = to_ticks(verdict.cti)
    return verdict.accepted, verdict.duplicates, late, rejected, cti, verdict.unsure


# Pushes into a PushSource -------------------------------------------------------------------------

Form = Callable[[Case, Push], Any]
Give = Callable[[rxt.PushSource, Case, Sequence[Push], Form], list[rxt.Verdict]]


def push(
    source: rxt.PushSource, case: Case, pushes: Sequence[Push], form: Form
) -> list[rxt.Verdict]:
    """Push with calls that wait, each with the name of its input."""
    return [source.push(form(case, each), input=each.items[0].input) for each in pushes]


def push_input(
    source: rxt.PushSource, case: Case, pushes: Sequence[Push], form: Form
) -> list[rxt.Verdict]:
    """Push through handles of the inputs, with sequence numbers beside the rows."""
    verdicts: list[rxt.Verdict] = []
    for each in pushes:
        (item,) = each.items
        event = to_plain_event(case, item)
        if item.input is None:
            verdicts.append(source.push(event, seq=item.seq))
            continue
        with source.input(item.input) as handle:
            verdicts.append(handle.push(event, seq=item.seq))
    return verdicts


def push_together(
    source: rxt.PushSource, case: Case, pushes: Sequence[Push], form: Form
) -> list[rxt.Verdict]:
    """Push all with one call of ``push_all``."""
    return source.push_all([(each.items[0].input, form(case, each)) for each in pushes])


def push_async(
    source: rxt.PushSource, case: Case, pushes: Sequence[Push], form: Form
) -> list[rxt.Verdict]:
    """Push from an event loop, all at once."""

    async def push_each() -> list[rxt.Verdict]:
        return await asyncio.gather(
            *(source.push_async(form(case, each), input=each.items[0].input) for each in pushes)
        )

    return asyncio.run(push_each())


@dataclasses.dataclass(frozen=True)
class Pushing:
    """A way into a ``PushSource``; ``place`` is log, resume or record, ``lives`` how many runs."""

    give: Give
    form: Form
    options: tuple[tuple[str, Any], ...] = ()
    place: str | None = None
    lives: int = 1

    def __call__(self, case: Case, pushes: Sequence[Push]) -> Given:
        """Give a case, and return what is told of it."""
        with make_folder(self.place) as place:
            told: Given = {"verdicts": [], "late": []}
            for life, part in enumerate(split(pushes, self.lives), 1):
                source = self.make_source(case)
                run = Run(case, source.stream, **place)
                self._push(case, source, run, part, told)
                if life < self.lives:
                    run.process.stop()
                else:
                    source.close()
                run.wait()
                # an event log gives all results again, a checkpoint only the next ones
                before = told if self.place == "resume" else {}
                told |= add_results(before, run.tell_results())
        return told

    def _push(
        self, case: Case, source: rxt.PushSource, run: Run, part: Sequence[Push], told: Given
    ) -> None:
        late: list[rxt.LateEvent] = []
        if case.is_heard:
            source.late.subscribe(late.append)
        told["verdicts"] += map(tell_verdict, self.give(source, case, part, self.form))
        # a run tells its subscribers of the same late events
        assert list_late(run.heard) == list_late(late)
        told["late"] += list_late(late)
        told |= tell_source(source, run)

    def make_source(self, case: Case) -> rxt.PushSource:
        """Return a source for the rows of a case."""
        more: Given = {} if case.shape == "point" else {"end": END, "shape": SHAPES[case.shape]}
        if case.is_numbered and self.give is not push_input:
            more["seq"] = SEQ
        return rxt.PushSource(
            NAME, schema={"n": int}, start=START, delay=case.span(case.delay), policy=case.policy,
            **case.guard, **more, **dict(self.options),
        )  # fmt: skip


def replay_pushes(case: Case, pushes: Sequence[Push]) -> Given:
    """Record a run of a ``PushSource``, and return what is told of the replay."""
    way = Pushing(push, to_dicts)
    with make_folder("record") as place:
        source = way.make_source(case)
        run = Run(case, source.stream, **place)
        push(source, case, pushes, to_dicts)
        source.close()
        run.wait()
        return run_to_end(case, rxt.replay(place["record"])[NAME])


def tell_source(source: rxt.PushSource, run: Run) -> Given:
    """Return the counters of a source and of its run."""
    stats = source.stats()
    assert run.stream.inputs == stats.inputs
    totals = {name: getattr(stats, name) for name in TOTALS}
    told = {"totals": totals, "cti": to_ticks(stats.cti)}
    return {**told, **tell_inputs(stats.inputs), **run.tell_stream()}


TOTALS = (
    "accepted", "duplicates", "late", "rejected", "largest_lateness", "open_rows", "unsure",
)  # fmt: skip


@contextmanager
def make_folder(place: str | None) -> Iterator[dict[str, Path]]:
    """Make a folder for an event log, a checkpoint or a recording, as the argument of a run."""
    if place is None:
        yield {}
        return
    with tempfile.TemporaryDirectory() as folder:
        yield {place: Path(folder) / "run"}


def split(pushes: Sequence[Push], lives: int) -> list[Sequence[Push]]:
    """Split pushes into so many parts."""
    each = -(-len(pushes) // lives)
    return [pushes[life * each : (life + 1) * each] for life in range(lives)]


def add_results(before: Given, results: Given) -> Given:
    """Return the results of two lives together."""
    return {name: sorted([*before.get(name, []), *rows]) for name, rows in results.items()}


# Streams of other sources -------------------------------------------------------------------------


def run_to_end(case: Case, stream: rxt.Streamable) -> Given:
    """Run a stream to the end of its source, and return what is told of it."""
    run = Run(case, stream)
    run.wait()
    return {**run.tell_stream(), **run.tell_results()}


def make_options(case: Case) -> Given:
    """Return the arguments of a stream of events with settings."""
    return {"schema": {"n": int}, "advance_time": case.settings, "name": NAME}


def give_list(case: Case, pushes: Sequence[Push]) -> Given:
    """Make a stream of a list of events."""
    return run_to_end(case, rxt.from_events(_list_events(case), **make_options(case)))


def give_iterator(case: Case, pushes: Sequence[Push]) -> Given:
    """Make a stream of an iterator of events."""
    return run_to_end(case, rxt.from_events(iter(_list_events(case)), **make_options(case)))


def give_batches(case: Case, pushes: Sequence[Push]) -> Given:
    """Make a stream of a list of batches."""
    batches = [to_batch(case, each.items) for each in pushes]
    return run_to_end(case, rxt.from_events(batches, **make_options(case)))  # type: ignore[arg-type]


def give_async(case: Case, pushes: Sequence[Push]) -> Given:
    """Make a stream of an async iterator of events."""

    async def send() -> AsyncIterator[Any]:
        for event in _list_events(case):
            yield event

    return run_to_end(case, rxt.from_async(send(), **make_options(case)))


def give_frame(case: Case, pushes: Sequence[Push]) -> Given:
    """Make a stream of a frame."""
    end = None if case.shape == "point" else END
    stream = rxt.from_polars(
        to_frame(case, case.items), start=START, end=end, advance_time=case.settings, name=NAME,
        batch_rows=7,
    )  # fmt: skip
    return run_to_end(case, stream)


def _list_events(case: Case) -> list[Any]:
    return [to_plain_event(case, item) for item in case.items]


@dataclasses.dataclass(frozen=True)
class Observing:
    """A way through an observable; ``form`` is that of a push."""

    form: Form
    options: tuple[tuple[str, Any], ...] = ()
    place: str | None = None
    lives: int = 1
    # True if the observable sends rows that are not events
    sends_rows: bool = False

    def __call__(self, case: Case, pushes: Sequence[Push]) -> Given:
        """Give a case, and return what is told of it."""
        options = {**make_options(case), **dict(self.options)}
        if self.sends_rows:
            options |= {"start": START, "end": None if case.shape == "point" else END}
        told: Given = {}
        with make_folder(self.place) as place:
            for life, part in enumerate(split(pushes, self.lives), 1):
                source = Subject[Any]()
                run = Run(case, rxt.from_observable(source, **options), **place)
                for each in part:
                    source.on_next(self.form(case, each))
                if life < self.lives:
                    run.process.stop()
                    run.wait()
                    continue
                told = {"cti": self._find_cti(run), **run.tell_stream()}
                source.on_completed()
                run.wait()
                told |= run.tell_results()
        return told

    def _find_cti(self, run: Run) -> int | None:
        cti = run.stream.cti
        return None if cti == MIN_TIME else cti


# Subjects -----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Through:
    """A way through a CTI synchronizing subject, alone or in front of a run."""

    kind: Any
    form: Form
    runs: bool = False
    options: tuple[tuple[str, Any], ...] = ()

    def __call__(self, case: Case, pushes: Sequence[Push]) -> Given:
        """Give a case, and return what is told of it."""
        make = getattr(self.kind, f"create_{case.shape}")
        subject = make(
            case.span(case.delay), policy=case.policy, scheduler=make_clock(), **case.guard
        )
        late: list[rxt.LateEvent] = []
        if case.is_heard:
            subject.late.subscribe(late.append)
        out: list[Any] = []
        run = None
        if self.runs:
            stream = rxt.from_observable(subject, schema={"n": int}, **dict(self.options))
            # its late events are those of the subject
            run = Run(dataclasses.replace(case, is_heard=False), stream)
        else:
            subject.subscribe(out.append)
        for each in pushes:
            name = each.items[0].input
            (subject if name is None else subject.input(name)).on_next(self.form(case, each))
        stats = subject.stats()
        told = {
            "late": list_late(late),
            "largest lateness": stats.largest_lateness,
            "cti": stats.cti,
            "inputs": tell_inputs(stats.sources)["inputs"],
        }
        sums = {name: getattr(stats, name) for name in ("events", "late", "open_rows")}
        subject.on_completed()
        if run is None:
            return {**told, "sums": sums, "history": list_history(out)}
        run.wait()
        return {**told, "sums": sums, "history": run.tell_results()["history"]}


def list_history(out: Sequence[Any]) -> list[tuple[int, ...]]:
    """Return the rows of events and batches of complete rows; an end edge ends the row it names."""
    rows: list[list[int]] = []
    for each in out:
        if isinstance(each, EventBatch):
            rows += map(list, list_rows([each]))
        elif isinstance(each, rxt.EdgeEvent) and each.edge_type is rxt.EdgeType.END:
            name = [each.start, MAX_TIME, each.payload["n"]]
            next(row for row in rows if row == name)[1] = each.end
        elif not isinstance(each, Cti):
            rows.append([each.start, each.end, each.payload["n"]])
    return sorted(map(tuple, rows))


# Spark --------------------------------------------------------------------------------------------


def give_spark_door(case: Case, pushes: Sequence[Push]) -> Given:
    """Let the task of Spark that has a stream's door judge micro-batches, without Spark."""
    from bucket_store import Bucket

    from rxtemporal.engine.codec import dump_frame, load_frame
    from rxtemporal.spark.query.columns import BUCKET, ENDS, STARTS, field
    from rxtemporal.spark.query.reader import InputReader
    from rxtemporal.spark.query.stream_door import DoorWork

    reader = InputReader(NAME, 0, pl.Schema({"n": pl.Int64}))
    door = Bucket(DoorWork(reader, case.settings, ("o0",), 2))
    told, rows = Given(), list[tuple[int, ...]]()
    places = itertools.count()
    for each in pushes:
        frame = pl.DataFrame(
            [(item.n % 2, item.start, item.end, item.n, next(places)) for item in each.items],
            schema={BUCKET: pl.Int32, STARTS: pl.Int64, ENDS: pl.Int64, field(0, 0): pl.Int64,
                    "o0": pl.Int64},
            orient="row",
        )  # fmt: skip
        # micro-batches have no order of their own
        packed = door.take([(0, MIN_TIME, dump_frame(frame.reverse()))])
        rows += [row for data in packed["data"] if data for row in load_frame(data).rows()]
        told = {name: packed[name][-1] for name in SPARK_COUNTS} | {"cti": packed["cti"][-1]}
    counts = {name: told.get(name, 0) for name in SPARK_COUNTS}
    cti = told.get("cti", MIN_TIME)
    return {
        "spark": counts,
        "cti": None if cti == MIN_TIME else cti,
        "history": sorted(rows),
    }


SPARK_COUNTS = ("events", "dropped", "adjusted", "largest_lateness")
