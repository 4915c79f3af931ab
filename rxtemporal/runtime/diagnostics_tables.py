"""Diagnostics of a process as tables of texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from rxtemporal.core.batch import TimeForm
from rxtemporal.runtime.part_diagnostics import (
    OperatorDiagnostics,
    QueryDiagnostics,
    StreamDiagnostics,
)
from rxtemporal.runtime.stalls import format_age, format_time

# the inputs of a stream that the table has: those with most late events, then those furthest behind
MOST_INPUTS = 8
Line = tuple[str, ...]


def drop_empty_columns(rows: list[Line]) -> list[Line]:
    """Return a table without the columns in which nothing stands."""
    columns = [column for column in zip(*rows, strict=True) if any(column)]
    return [*zip(*columns, strict=True)]


def list_tables(
    streams: Sequence[StreamDiagnostics],
    operators: Sequence[OperatorDiagnostics],
    queries: Sequence[QueryDiagnostics],
    time: TimeForm,
) -> list[list[Line]]:
    """Return the tables that have rows, with headers: streams, inputs, operators, queries."""
    kinds = (
        _stream_lines(streams, time),
        _input_lines(streams, time),
        _operator_lines(operators, time),
        _query_lines(queries, time),
    )
    return [rows for rows in map(list, kinds) if len(rows) > 1]


def _stream_lines(streams: Sequence[StreamDiagnostics], time: TimeForm) -> Iterator[Line]:
    yield ("stream", "in", "late", "out", "waiting", "oldest", "CTI", "for")
    for each in streams:
        state = " (ended)" if each.ended else " (idle)" if each.idle else ""
        late = sum(each.late.values())
        counts = _counts(each.events_in, late, each.rows_out, each.rows)
        yield (each.name + state, *counts, *_times(each, time))


def _input_lines(streams: Sequence[StreamDiagnostics], time: TimeForm) -> Iterator[Line]:
    yield ("input", "in", "late", "lag", "largest lateness")
    for stream in streams:
        heard = [each for each in stream.inputs.values() if each.lag is not None]
        worst = sorted(heard, key=lambda each: (-each.late, -(each.lag or 0)))
        for each in worst[:MOST_INPUTS]:
            name = f"{stream.name}: {each.name}{'' if each.open else ' (closed)'}"
            spans = _span(time, each.lag), _span(time, each.largest_lateness)
            yield (name, *_counts(each.events, each.late), *spans)
        if len(worst) > MOST_INPUTS:
            yield (f"{stream.name}: {len(worst) - MOST_INPUTS:,} more", "", "", "", "")


def _span(time: TimeForm, length: int | None) -> str:
    if length is None:
        return "-"
    return f"{length:,}" if time == "ticks" else str(timedelta(microseconds=length))


def _operator_lines(operators: Sequence[OperatorDiagnostics], time: TimeForm) -> Iterator[Line]:
    yield ("operator", "in", "", "out", "held", "oldest", "CTI", "for")
    for each in operators:
        line = each.line.rsplit("/", 1)[-1]
        yield (f"{each.name} ({line})", f"{each.rows_in:,}", "",
               *_counts(each.rows_out, each.rows), *_times(each, time))  # fmt: skip
        for side in each.inputs if len(each.inputs) > 1 else ():
            name = f"  {side.name}{' (behind)' if side is each.held_back_by else ''}"
            standing = format_time(side.cti, time), format_age(side.cti_age)
            yield (name, f"{side.rows_in:,}", "", "", "", "", *standing)


def _query_lines(queries: Sequence[QueryDiagnostics], time: TimeForm) -> Iterator[Line]:
    yield ("query", "", "", "out", "waiting", "oldest", "CTI", "for")
    for each in queries:
        yield (each.name, "", "", *_counts(each.rows_out, each.rows), *_times(each, time))


def _times(
    each: StreamDiagnostics | OperatorDiagnostics | QueryDiagnostics, time: TimeForm
) -> tuple[str, str, str]:
    due, cti = format_time(each.next_due, time), format_time(each.cti, time)
    return due, cti, format_age(each.cti_age)


def _counts(*numbers: int) -> Line:
    return tuple(f"{number:,}" for number in numbers)
