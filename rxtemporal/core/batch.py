"""Event batches, the units of computation: rows as columns, followed by one CTI."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.clocks import Clocks
from rxtemporal.core.columns import BOOL, Columns, end_column, read_times, time_series
from rxtemporal.core.events import find_late_bound
from rxtemporal.core.schema import conform
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK, Time, describe, time_ticks
from rxtemporal.core.time_forms import TimeForm as TimeForm
from rxtemporal.core.time_forms import find_time_form
from rxtemporal.errors import CtiViolationError, EventError, SchemaError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

START, END = "start_time", "end_time"
# an array, since numpy makes one of a number for each sum
_TICK = np.array(TICK)
# stands for the value that a batch has
_KEPT: Any = object()
# writable like other arrays: a kernel is compiled again for read-only ones
_NO_INTS: Int64s = np.empty(0, np.int64)
# the edges of batches up to this length that have none; shared, so nobody may write them
_NO_EDGES: Int64s = np.zeros(65_536, np.int64)
_NO_EDGES.flags.writeable = False


class EventBatch:
    """A batch of n rows and the CTI after them.

    ========= ============== ==================================================================
    start     ``int64[n]``   ticks
    end       ``int64[n]``   ticks, ``start < end``
    edge      ``int64[n]``   0 for a complete row; a start edge carries an id and
                             ``end = MAX_TIME``; its end edge the same id, start and payload
    columns   Columns        n rows of flat, typed fields, as arrays
    payload   DataFrame      the same as a frame, made when it is first read
    cti       ticks          nothing before it changes after this batch
    keys      tuple          names of the fields that group the stream; empty: not grouped
    time      TimeForm       ``"datetime"`` or ``"ticks"``, the form in which the source of the rows
                             gives its times; None: it is not known
    clocks    Clocks         the CTIs of single devices, where each has its own time: on the way
                             into a query, of those that have advanced beyond ``cti``; of results,
                             of those for which ``cti`` holds; None: ``cti`` holds for all
    number    int            the number of the batch among results, where each device has its own
                             time and the sink continues by position; else None
    ========= ============== ==================================================================

    Made with the payload as a frame or as columns, with None for ``edge`` where all rows are
    complete, and with None for ``end`` where all are points. ``in_order`` is True if the starts
    are known never to fall. Inside a batch a start edge precedes its end edge; otherwise the order
    of rows has no meaning, nor have the boundaries between batches. A batch and its arrays are
    never modified; a run sets the form of the times of its results, and their number.

    >>> batch = EventBatch.from_dicts([{"start_time": 0, "end_time": 9, "x": 1}], cti=9)
    >>> len(batch), batch.cti, batch.to_dicts()
    (1, 9, [{'start_time': 0, 'end_time': 9, 'x': 1}])
    """

    __slots__ = (
        "_edge",
        "_end",
        "_has_edges",
        "clocks",
        "columns",
        "cti",
        "in_order",
        "keys",
        "number",
        "start",
        "time",
    )

    def __init__(
        self,
        start: Int64s,
        end: Int64s | None,
        edge: Int64s | None,
        payload: pl.DataFrame | Columns,
        cti: int,
        keys: tuple[str, ...] = (),
        in_order: bool = False,
        time: TimeForm | None = None,
        clocks: Clocks | None = None,
    ) -> None:
        self.start = start
        self._end = end
        self._edge = edge
        # True if a row is known to be an edge; to be looked for, unless there is no array
        self._has_edges = False
        self.columns = payload if isinstance(payload, Columns) else Columns.from_frame(payload)
        self.cti = cti
        self.keys = keys
        self.in_order = in_order
        self.time = time
        self.clocks = clocks
        self.number: int | None = None

    def __len__(self) -> int:
        return len(self.start)

    @property
    def are_points(self) -> bool:
        """True if all rows are known to be points, and no ends have been made.

        False says nothing about the rows.
        """
        return self._end is None

    @property
    def end(self) -> Int64s:
        """The end of each row; those of points are made when they are first read."""
        if self._end is None:
            self._end = self.start + _TICK
        return self._end

    @property
    def edge(self) -> Int64s:
        """The edge id of each row; 0 for a complete row."""
        if self._edge is not None:
            return self._edge
        n = len(self.start)
        return _NO_EDGES[:n] if n <= len(_NO_EDGES) else np.zeros(n, np.int64)

    @property
    def has_edges(self) -> bool:
        """True if a row is a start edge or an end edge; looked for once."""
        if self._edge is None:
            return False
        if not self._has_edges:
            self._has_edges = bool(np.count_nonzero(self._edge))  # a tenth of what any() costs
            if not self._has_edges:
                self._edge = None
        return self._has_edges

    @property
    def highest_start(self) -> int:
        """The highest start of the rows, of which there is one at least."""
        start = self.start
        if self.in_order or len(start) == 1:
            return start.item(-1)
        return int(np.maximum.reduce(start))  # half of what max() costs

    @property
    def lowest_start(self) -> int:
        """The lowest start of the rows, of which there is one at least."""
        return int(self.start[0] if self.in_order else np.minimum.reduce(self.start))

    def find_ends(self) -> Bools | None:
        """Return the mask of the end edges; None if there are none."""
        if not self.has_edges:
            return None
        ends = (self.edge != 0) & (self.end != MAX_TIME)
        return ends if ends.any() else None

    def take_begins(self) -> EventBatch:
        """Return the batch without its end edges: the rows that begin."""
        ends = self.find_ends()
        return self if ends is None else self.take(~ends)

    def __repr__(self) -> str:
        return f"EventBatch({len(self)} rows, fields {list(self.schema)}, CTI {describe(self.cti)})"

    def _repr_html_(self) -> str:
        from rxtemporal.core.timeline_lanes import format_batch

        return format_batch(self)

    @property
    def payload(self) -> pl.DataFrame:
        """The payload as a frame."""
        return self.columns.frame

    @property
    def schema(self) -> pl.Schema:
        """The payload's schema."""
        return self.columns.schema

    @classmethod
    def empty(
        cls, schema: pl.Schema | Mapping[str, Any], cti: int, keys: tuple[str, ...] = ()
    ) -> EventBatch:
        """Return a batch without rows, which only advances time to ``cti``."""
        columns = Columns.empty(schema if isinstance(schema, pl.Schema) else pl.Schema(schema))
        return cls(_NO_INTS, _NO_INTS, None, columns, cti, keys)

    @classmethod
    def of_rows(
        cls,
        start: Int64s,
        end: Int64s | None,
        payload: pl.DataFrame | Columns,
        cti: int,
        keys: tuple[str, ...] = (),
    ) -> EventBatch:
        """Return a batch of complete rows; without ``end``, of points."""
        return cls(start, end, None, payload, cti, keys)

    def take(self, rows: npt.NDArray[Any]) -> EventBatch:
        """Return the rows with these numbers (or where this mask is True), and the same CTI."""
        in_order = False
        if rows.dtype == BOOL:
            count = np.count_nonzero(rows)
            if count == len(rows):
                return self
            if not count:
                return self.none(self.cti)
            rows, in_order = rows.nonzero()[0], self.in_order
        return EventBatch(
            self.start.take(rows),
            None if self._end is None else self._end.take(rows),
            None if self._edge is None else self._edge.take(rows),
            self.columns.take(rows),
            self.cti,
            self.keys,
            in_order,
            self.time,
            self.clocks,
        )

    def slice(self, begin: int, end: int) -> EventBatch:
        """Return the rows from number ``begin`` up to ``end``, without copying them."""
        return EventBatch(
            self.start[begin:end],
            None if self._end is None else self._end[begin:end],
            None if self._edge is None else self._edge[begin:end],
            self.columns.slice(begin, end),
            self.cti,
            self.keys,
            self.in_order,
            self.time,
            self.clocks,
        )

    @property
    def devices(self) -> tuple[Any, ...] | None:
        """The devices for which ``cti`` holds, where each has its own time; None: for all.

        Of several fields that name a device, each is a tuple.
        """
        if self.clocks is None:
            return None
        return tuple(dict.fromkeys(self.clocks.list_devices()))

    def estimate_bytes(self) -> int:
        """Return about how many bytes of memory the rows take."""
        return 2 * self.start.nbytes + self.columns.estimate_bytes()

    def none(self, cti: int) -> EventBatch:
        """Return this batch without its rows, which only advances time to ``cti``."""
        columns = self.columns.slice(0, 0)
        return EventBatch(
            _NO_INTS, _NO_INTS, None, columns, cti, self.keys, time=self.time, clocks=self.clocks
        )

    def replace(
        self,
        *,
        start: Int64s | None = None,
        end: Int64s | None = None,
        edge: Int64s | None = None,
        payload: pl.DataFrame | Columns | None = None,
        cti: int | None = None,
        keys: tuple[str, ...] | None = None,
        in_order: bool | None = None,
        time: TimeForm | None = _KEPT,
        clocks: Clocks | None = _KEPT,
    ) -> EventBatch:
        """Return the batch with some of its parts replaced; it has no number.

        None for ``time`` or ``clocks`` is a value; None for any other part keeps what is there.
        """
        # without the constructor: this runs several times for each batch
        made = EventBatch.__new__(EventBatch)
        made.start = self.start if start is None else start
        made._end = (self._end if start is None else self.end) if end is None else end
        made._edge = self._edge if edge is None else edge
        made._has_edges = edge is None and self._has_edges
        columns = self.columns if payload is None else payload
        made.columns = columns if isinstance(columns, Columns) else Columns.from_frame(columns)
        made.cti = self.cti if cti is None else cti
        made.keys = self.keys if keys is None else keys
        made.in_order = (start is None and self.in_order) if in_order is None else in_order
        made.time = self.time if time is _KEPT else time
        made.clocks = self.clocks if clocks is _KEPT else clocks
        made.number = None
        return made

    def set_time(self, time: TimeForm | None) -> None:
        """Set the form in which the sources of results give their times, before these leave."""
        self.time = time

    def set_number(self, number: int | None) -> None:
        """Set the number that the batch has among results."""
        self.number = number

    def advance(self, later: EventBatch) -> EventBatch:
        """Return the rows with the CTIs that a later batch without rows has brought."""
        return self.replace(cti=later.cti, clocks=Clocks.unite([self, later]))

    @staticmethod
    def concat(batches: Sequence[EventBatch]) -> EventBatch:
        """Return the rows of all batches, in order, with the last one's CTI."""
        last = batches[-1]
        if len(batches) == 1:
            return last
        return EventBatch.concat_rows(batches, last.cti, Clocks.unite(batches))

    @staticmethod
    def concat_rows(
        batches: Sequence[EventBatch], cti: int, clocks: Clocks | None = None
    ) -> EventBatch:
        """Return the rows of all batches, in order, with a CTI.

        ``clocks`` is None if all rows have one time.
        """
        filled, last = [batch for batch in batches if len(batch.start)], batches[-1]
        if len(filled) == 1:
            return filled[0].replace(cti=cti, keys=last.keys, clocks=clocks)
        whole = all(batch._edge is None for batch in filled)
        points = all(batch._end is None for batch in filled)
        return EventBatch(
            np.concatenate([batch.start for batch in batches]),
            None if points else np.concatenate([batch.end for batch in batches]),
            None if whole else np.concatenate([batch.edge for batch in batches]),
            Columns.concat([batch.columns for batch in batches]),
            cti,
            last.keys,
            time=next((batch.time for batch in batches if batch.time is not None), None),
            clocks=clocks,
        )

    def check(self, previous_cti: int = MIN_TIME) -> EventBatch:
        """Return the batch itself; raise an error if it breaks its contract.

        1. Columns are of one length. 2. ``start < end``. 3. Only start edges and rows that never
        end have ``end = MAX_TIME``. 4. No row breaks the promise made by ``previous_cti``.
        5. The CTI does not go back.
        """
        edges, ends = (self.start if each is None else each for each in (self._edge, self._end))
        lengths = {len(self.start), len(ends), len(edges), self.columns.height}
        if len(lengths) > 1:
            raise SchemaError(f"the columns of a batch differ in length: {sorted(lengths)}")
        self._check_starts()
        if not self.are_points and not (self.start < ends).all():
            row = int(np.argmin(self.start < self.end))
            raise EventError(f"row {row} ends before it starts: {self._row_text(row)}")
        if previous_cti > MIN_TIME:  # which promises nothing
            self._check_promise(previous_cti)
        if self.cti < previous_cti:
            raise CtiViolationError(
                f"CTI {describe(self.cti)} goes back from {describe(previous_cti)}"
            )
        return self

    def _check_starts(self) -> EventBatch:
        if len(self) and self.highest_start >= MAX_TIME:
            row = int(self.start.argmax())
            raise EventError(f"row {row} starts at the end of time: its last tick is reserved")
        return self

    def _check_promise(self, previous_cti: int) -> None:
        # for an end edge its end counts, for every other row its start
        breaks, ends = self.start < find_late_bound(previous_cti), self.find_ends()
        if ends is not None:
            breaks = np.where(ends, self.end < previous_cti, breaks)
        if breaks.any():
            judged = self.start if ends is None else np.where(ends, self.end, self.start)
            row = int(np.where(breaks, judged, MAX_TIME).argmin())
            raise CtiViolationError(
                f"row {row} breaks CTI {describe(previous_cti)}: {self._row_text(row)}"
            )

    def _row_text(self, row: int) -> str:
        lifetime = f"[{describe(int(self.start[row]))}, {describe(int(self.end[row]))})"
        return f"{lifetime} {self.payload.row(row, named=True)}"

    def to_polars(self, time: TimeForm | None = None) -> pl.DataFrame:
        """Return the rows as a frame: start_time, end_time (null: never ends), the payload.

        ``time`` is the form of the times, by default the batch's own; datetimes if it has none.
        """
        form = time or self.time or "datetime"
        clash = {START, END} & set(self.schema)
        if clash:
            raise SchemaError(
                f"the payload has a field {min(clash)!r}, which is the lifetime's name on the way "
                "out. Hint: rename it with select()."
            )
        return pl.DataFrame(
            [
                time_series(START, self.start, form),
                time_series(END, self.end, form, endless=True),
                *self.columns.list_series(),
            ]
        )

    @classmethod
    def from_polars(
        cls, frame: pl.DataFrame, *, start: str = START, end: str | None = END, cti: Time = MIN_TIME
    ) -> EventBatch:
        """Return a batch of the frame's rows; the other columns are the payload.

        ``start`` and ``end`` name columns of aware datetimes or ticks; without ``end`` rows are
        points, and a row with a null ``end`` never ends.
        """
        for name in (start, end):
            if name is not None and name not in frame.columns:
                raise SchemaError(f"there is no column {name!r}; there are {frame.columns}")
        starts, in_order = read_times(frame[start])
        ends = None if end is None else end_column(frame[start], frame[end], starts)
        payload = frame.clone()
        for name in {start, start if end is None else end}:
            payload.drop_in_place(name)  # polars' drop builds a query
        if not payload.width:
            payload = pl.DataFrame(height=frame.height)
        time: TimeForm = "ticks" if frame[start].dtype.is_integer() else "datetime"
        batch = cls(starts, ends, None, conform(payload), time_ticks(cti), (), in_order, time)
        return batch.check() if end is not None else batch._check_starts()

    def to_dicts(self, time: TimeForm | None = None) -> list[dict[str, Any]]:
        """Return the rows as dicts of start_time, end_time (None: never ends) and the fields.

        ``time`` is the form of the times, by default the batch's own; ticks if it has none.

        >>> rows = [{"start_time": "2026-05-01T12:00:00Z", "end_time": None, "x": 1}]
        >>> EventBatch.from_dicts(rows).to_dicts()[0]["start_time"].isoformat()
        '2026-05-01T12:00:00+00:00'
        """
        return self.to_polars(time or self.time or "ticks").to_dicts()

    @classmethod
    def from_dicts(
        cls,
        rows: Iterable[Mapping[str, Any]],
        *,
        schema: pl.Schema | Mapping[str, Any] | None = None,
        cti: Time = MIN_TIME,
    ) -> EventBatch:
        """Return a batch of rows given as dicts; without ``end_time`` a row is a point."""
        records = [dict(row) for row in rows]
        for number, row in enumerate(records):
            if START not in row:
                raise EventError(f"row {number} has no {START!r}: {row}")
        given = [row.pop(START) for row in records]
        starts = np.array(list(map(time_ticks, given)), np.int64)
        ends = np.array(
            [_end_of(row.pop(END, start + 1)) for row, start in zip(records, starts, strict=True)],
            np.int64,
        )
        types = None if schema is None else dict(schema)
        frame = pl.DataFrame(records, schema=types, infer_schema_length=None)
        # those of 0 and the ends of time belong to both forms
        forms = (find_time_form(time) for time in given)
        form = next((form for form in forms if form is not None), None)
        return cls(starts, ends, None, conform(frame), time_ticks(cti), time=form).check()

    def to_arrow(self, time: TimeForm | None = None) -> pa.Table:
        """Return the rows as a pyarrow table with the columns of ``to_polars``."""
        return self.to_polars(time).to_arrow()

    def to_pandas(self, time: TimeForm | None = None) -> pd.DataFrame:
        """Return the rows as a pandas frame with the columns of ``to_polars``."""
        return self.to_polars(time).to_pandas()

    @classmethod
    def from_arrow(
        cls, table: pa.Table, *, start: str = START, end: str | None = END, cti: Time = MIN_TIME
    ) -> EventBatch:
        """Return a batch of an Arrow table's rows, read as ``from_polars`` reads them."""
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        return cls.from_polars(frame, start=start, end=end, cti=cti)


def _end_of(time: Time | None) -> int:
    return MAX_TIME if time is None else time_ticks(time)
