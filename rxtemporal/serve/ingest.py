"""Way in of a service: rows and CTIs that are posted, each request with its receipt."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime
from functools import partial
from itertools import count
from typing import Any, NamedTuple, TypeVar

from starlette.types import Receive, Scope, Send
from structlog.contextvars import get_contextvars

from rxtemporal.core.events import Cti
from rxtemporal.core.fields import UnfitError
from rxtemporal.core.log import get_logger
from rxtemporal.core.safe_text import json_text
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICKS_PER_SECOND, Time, time_ticks
from rxtemporal.core.time_forms import Unit
from rxtemporal.errors import ArgumentError, EventError, SchemaError
from rxtemporal.ingress.encoded_rows import convert_texts, has_texts
from rxtemporal.ingress.pushed_inputs import MOST_INPUTS, OWN
from rxtemporal.ingress.row_columns import plain_time
from rxtemporal.ingress.settings import WhenFull
from rxtemporal.ingress.verdict import Rejected, Verdict
from rxtemporal.query.push_source import PushSource
from rxtemporal.serve.bodies import DisconnectError, Head, read_body, read_head
from rxtemporal.serve.body_rows import (
    ARROW,
    BodyError,
    BodyRows,
    find_form,
    is_cloud_body,
    make_raw_reader,
    read_attributes,
    read_cloud_body,
    read_rows,
)
from rxtemporal.serve.dead_letters import DeadLetter, show_bytes
from rxtemporal.serve.responses import RequestError, dumps, send_json
from rxtemporal.serve.service import Service
from rxtemporal.serve.settings import Limits
from rxtemporal.serve.tokens import Access
from rxtemporal.serve.traces import bind_trace

_log = get_logger(__name__)
Decoded = TypeVar("Decoded")


class Load:
    """Rows and bytes of the requests that have no answer yet.

    ``add_bytes`` and ``add_rows`` raise a ``RequestError`` (503) beyond the limits, and have then
    added nothing. Not thread-safe: for one event loop.

    >>> load = Load(Limits(waiting_rows=10))
    >>> load.add_bytes(100)
    >>> load.bytes, load.rows
    (100, 0)
    """

    __slots__ = ("_limits", "_streams", "bytes", "rows")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.bytes = self.rows = 0
        self._streams: dict[str, int] = {}

    def share(self) -> Share:
        """Return the share of one request."""
        return Share(self)

    def add_bytes(self, count: int) -> None:
        """Note bytes of a body that are kept."""
        if self.bytes + count > self._limits.waiting_bytes:
            raise self._refuse("bytes")
        self.bytes += count

    def add_rows(self, stream: str, source: PushSource, count: int) -> None:
        """Note rows that are pushed into a stream; also its hand-off has room for them."""
        waiting = self._streams.get(stream, 0)
        # a body of more rows than may wait at all could never come in
        if self.rows and self.rows + count > self._limits.waiting_rows:
            raise self._refuse("rows")
        if not source.has_room(count, waiting):
            raise self._refuse("rows")
        self._streams[stream] = waiting + count
        self.rows += count

    def remove_rows(self, stream: str, count: int) -> None:
        """Note that rows have their verdicts."""
        self._streams[stream] -= count
        self.rows -= count

    def _refuse(self, what: str) -> RequestError:
        return RequestError(
            503, f"too many {what} wait for the query", retry_after=self._limits.retry_after
        )


class Share:
    """Share of one request in what waits: its bytes, and its rows in a stream.

    It is given back by ``release``; if the request has ended before the push of its rows, then once
    ``last`` is done, a push behind that one.
    """

    __slots__ = ("_load", "bytes", "last", "rows", "stream")

    def __init__(self, load: Load) -> None:
        self._load = load
        self.bytes = self.rows = 0
        self.stream = ""
        self.last: asyncio.Future[Any] | None = None

    def add(self, count: int) -> None:
        """Note bytes that are kept; ``Load.add_bytes`` may refuse them."""
        self._load.add_bytes(count)
        self.bytes += count

    def add_rows(self, stream: str, source: PushSource, count: int) -> None:
        """Note rows that are pushed; ``Load.add_rows`` may refuse them."""
        self._load.add_rows(stream, source, count)
        self.stream, self.rows = stream, count

    def release(self) -> None:
        """Give back what waits no more."""
        if self.last is None or self.last.done():
            self._give_back()
        else:
            self.last.add_done_callback(self._end)

    def _end(self, last: asyncio.Future[Any]) -> None:
        self._give_back()
        if not last.cancelled():
            last.exception()  # it has no waiter

    def _give_back(self) -> None:
        self._load.bytes -= self.bytes
        if self.rows:
            self._load.remove_rows(self.stream, self.rows)
        self.bytes = self.rows = 0


class _Bucket:
    """Rows that a token may send now; negative after a body that was larger."""

    __slots__ = ("at", "left")

    def __init__(self, left: float, at: float) -> None:
        self.left, self.at = left, at


class Rates:
    """Rates of tokens: each may send ``rate`` rows a second, and ``burst`` at once.

    A body is taken while anything is left of that, and is then counted whole: so one that is larger
    than ``burst`` comes in, and those behind it wait the longer.

    >>> from rxtemporal.serve.settings import TokenSettings
    >>> now = [0.0]
    >>> rates = Rates(lambda: now[0])
    >>> access = Access("a", TokenSettings("sha256:" + 64 * "0", rate=10.0))
    >>> rates.take(access, 15)
    >>> rates.take(access, 1)
    Traceback (most recent call last):
    rxtemporal.serve.responses.RequestError: the token 'a' may send 10 rows a second
    >>> now[0] = 0.6
    >>> rates.take(access, 1)
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        # one for each token with a rate
        self._buckets: dict[str, _Bucket] = {}

    def take(self, access: Access, rows: int) -> None:
        """Count rows of a token. ``RequestError`` (429): it has sent too many."""
        rate = access.rate
        if rate is None:
            return
        burst, now = access.burst or rate, self._now()
        bucket = self._buckets.get(access.name)
        if bucket is None:
            bucket = self._buckets[access.name] = _Bucket(burst, now)
        bucket.left = min(burst, bucket.left + (now - bucket.at) * rate)
        bucket.at = now
        if bucket.left <= 0:
            raise RequestError(
                429,
                f"the token {access.name!r} may send {rate:g} rows a second",
                retry_after=(1 - bucket.left) / rate,
            )
        bucket.left -= rows


# so many refused rows of a request have their reasons; the others are counted by so many kinds
MOST_REASONS, _MOST_KINDS = 100, 20
_OTHERS = "…"
# behind these words a reason has the value
_VALUES = " and cannot hold ", ": ", ", got "


def make_receipt(
    verdict: Verdict,
    durable: bool,
    refused: Sequence[Rejected] = (),
    places: Sequence[int] | None = None,
) -> bytes:
    """Return the receipt for the rows of a request.

    ``refused`` are all rows that are, and ``places`` has the number in the body of each row that
    was pushed; None if all were. The first 100 refused rows have their reasons, and the others are
    counted in ``more_refused``, if there are any. ``by`` is how late a row came: in seconds, or in
    ticks if the times of the stream are ticks. ``unsure`` is there if it is not 0.

    >>> make_receipt(Verdict(accepted=2, cti=95), durable=True)
    b'{"accepted":2,"late":[],"duplicates":0,"refused":[],"cti":95,"durable":true}'
    """
    receipt: dict[str, Any] = {
        "accepted": verdict.accepted,
        "late": [],
        "duplicates": verdict.duplicates,
        "refused": [],
        "cti": verdict.cti,
        "durable": durable,
    }
    if verdict.unsure:
        receipt["unsure"] = verdict.unsure
    if verdict.late:
        receipt["late"] = [
            {
                "index": each.index if places is None else places[each.index],
                "reason": each.reason.value,
                # of devices with clocks of their own there is no CTI that would show the form
                "by": each.by / TICKS_PER_SECOND
                if isinstance(each.event.start_time, datetime)
                else each.by,
            }
            for each in verdict.late
        ]
    if refused:
        receipt["refused"] = [
            {"index": each.index, "reason": each.reason} for each in refused[:MOST_REASONS]
        ]
    if more := refused[MOST_REASONS:]:
        receipt["more_refused"] = {"count": len(more), "kinds": count_kinds(more)}
    return dumps(receipt)


def count_kinds(refused: Iterable[Rejected]) -> dict[str, int]:
    """Return how many rows were refused for each kind of reason, which is one without its value.

    >>> each = "field 'temp' is Float64 and cannot hold 'hot' (str)"
    >>> count_kinds([Rejected(0, each, {}), Rejected(1, "field 'time' is missing", {})])
    {"field 'temp' is Float64": 1, "field 'time' is missing": 1}
    """
    counts = Counter(map(_find_kind, refused))
    kinds = dict(counts.most_common(_MOST_KINDS))
    if others := counts.total() - sum(kinds.values()):
        kinds[_OTHERS] = others
    return kinds


def _find_kind(refused: Rejected) -> str:
    kind = refused.reason
    for words in _VALUES:
        kind = kind.partition(words)[0]
    return kind


def list_refused(
    verdict: Verdict, refused: Sequence[Rejected], places: Sequence[int] | None
) -> list[Rejected]:
    """Return all refused rows with their numbers in the body, in this order."""
    moved = [
        each if places is None else Rejected(places[each.index], each.reason, each.row)
        for each in verdict.rejected
    ]
    return sorted([*moved, *refused], key=lambda each: each.index)


def make_cti_receipt(cti: Time | None, durable: bool, ignored: str | None) -> bytes:
    """Return the receipt for a CTI: the CTI afterwards; ``ignored`` says why it does not count."""
    receipt = {"cti": cti, "durable": durable}
    return dumps(receipt if ignored is None else {**receipt, "ignored": ignored})


# so much of a body is in the stream of rejected rows
_MOST_SHOWN = 65_536


class IngestStream:
    """A source that is pushed into, its name, and the limits of a request for it."""

    __slots__ = ("_schema", "limits", "name", "source")

    def __init__(self, name: str, source: PushSource, limits: Limits) -> None:
        self.name, self.source = name, source
        entrance: Any = source.stream._node.source
        self._schema = entrance.schema if has_texts(entrance.schema) else None
        hand_off = entrance.hand_off
        if hand_off is not None and hand_off.when_full is WhenFull.BLOCK:
            # more would have to wait inside of a push
            limits = dataclasses.replace(limits, rows=min(limits.rows, hand_off.max_rows))
        self.limits = limits

    def find_source(self, access: Access, source: str | None) -> str | None:
        """Return the source of a request's rows; None is the stream's own input.

        ``RequestError`` (403): the token may not send as this one, or there are too many.
        """
        source = access.default_source if source is None else source
        if not access.may_name(source):
            if source is None:
                reason = "may send as several sources, and the request names none"
            else:
                reason = f"may not send as the source {source!r}"
            raise RequestError(
                403,
                f"the token {access.name!r} {reason}. Hint: send the header `Source: NAME` with "
                "one of the names that its section of the settings has in sources.",
            )
        if source == OWN:
            raise RequestError(
                403,
                f"no source can be called {OWN!r}: it would share its sequence numbers with rows "
                "that are sent without the header Source. Hint: give it another name.",
            )
        if source is not None and not self.source.has_room_for_input(source):
            raise RequestError(403, f"the stream has {MOST_INPUTS} sources, which is the limit")
        return source

    def convert(self, items: Any) -> None:
        """Replace texts of JSON by the values of types for which it has none."""
        if self._schema is None or not isinstance(items, dict | list):
            return
        rows = [items] if isinstance(items, dict) else [row for row in items if type(row) is dict]
        convert_texts(rows, self._schema)

    def describe_ignored(self, sent: Cti, reached: Time | None) -> str | None:
        """Return why a CTI that was pushed has not advanced the stream; None if it has."""
        entrance: Any = self.source.stream._node.source
        delay = entrance.settings.generation.delay_ticks
        if reached is not None and time_ticks(reached) >= sent.start - delay:
            return None
        return (
            "the CTI is too far ahead of the wall clock, and does not count. Hint: ahead= of the "
            "source, or ahead in [limits], says how far a clock may be ahead."
        )

    def reject(self, refused: Sequence[Rejected], source: str | None) -> None:
        """Count rows that never came to the source as its rejected ones, and publish them."""
        self.source._count_rejected(len(refused), source)
        self.tell_refused(refused, source)

    def tell_refused(self, refused: Sequence[Rejected], source: str | None) -> None:
        """Publish rows, or a body, that never came to the source in its ``rejects``."""
        if not refused or not self.source.rejects.is_heard:
            return
        shown = [
            dataclasses.replace(each, row=_show(each.row)) if type(each.row) is bytes else each
            for each in refused
        ]
        self.source.rejects.push(shown, OWN if source is None else source)


def _show(raw: bytes) -> str:
    return next(iter(show_bytes(raw[:_MOST_SHOWN]).values()))


def make_streams(sources: Mapping[str, PushSource], limits: Limits) -> dict[str, IngestStream]:
    """Return the streams of a service by name."""
    return {name: IngestStream(name, source, limits) for name, source in sources.items()}


# so long a request waits for its receipt
ANSWER_SECONDS = 30.0
# texts of more bytes are decoded beside the event loop
_LARGE = 65_536


class Sender(NamedTuple):
    """Sender of a request: the stream that it writes, its rights, and the source of its rows."""

    stream: IngestStream
    access: Access
    source: str | None


class Ingest:
    """Requests that push rows and CTIs into the sources of a service.

    A receipt leaves when the accepted rows are durable and what was refused is in the dead letters.
    Everything is for one event loop, and a thread of its own writes the dead letters.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self.limits = service.settings.limits
        self.load, self.rates = Load(self.limits), Rates()
        self._streams = make_streams(service.sources, self.limits)
        self._writer = ThreadPoolExecutor(1, "rxtemporal dead letters")
        # one thread, so that the event loop has half of the interpreter's time at least
        self._decoder = ThreadPoolExecutor(1, "rxtemporal bodies")
        if (broker := service.broker) is not None:
            broker.give_rejected_to(partial(self._keep_messages, broker.stream))

    def admit(self, scope: Scope, head: Head) -> Sender:
        """Return the sender of a request. ``RequestError``: 403, 404."""
        stream, access = self._find_stream(scope)
        return Sender(stream, access, stream.find_source(access, head.source))

    def _find_stream(self, scope: Scope) -> tuple[IngestStream, Access]:
        access, name = scope["access"], scope["path_params"]["name"]
        if not access.may_write(name):
            raise RequestError(
                403,
                f"the token {access.name!r} may not write the stream {name!r}. Hint: its section "
                "of the settings has the streams in write.",
            )
        stream = self._streams.get(name)
        if stream is None:
            raise RequestError(404, f"no stream {name!r} accepts rows", streams=list(self._streams))
        return stream, access

    # Requests -------------------------------------------------------------------------------------

    async def post_rows(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer ``POST /streams/{name}``: push the rows of the body, send their receipt."""
        head = read_head(scope)
        attributes = read_attributes(scope)
        if is_cloud_body(head.kind, attributes):
            await self._post_events(scope, receive, send, head, attributes)
            return
        form = find_form(head.kind)
        sender = self.admit(scope, head)
        share = self.load.share()
        limits = self.limits
        try:
            body = await read_body(receive, head, limits.body_bytes, limits.body_seconds, share.add)
            receipt = await self.push(sender, share, body, form, head.first)
        except DisconnectError:
            return
        finally:
            share.release()
        await send_json(scope, send, 200, receipt)

    async def _post_events(
        self, scope: Scope, receive: Receive, send: Send, head: Head, attributes: dict[str, str]
    ) -> None:
        """Push the rows of CloudEvents, whose source is known once they are read."""
        stream, access = self._find_stream(scope)
        sender = Sender(stream, access, None)
        share, limits = self.load.share(), stream.limits
        try:
            body = await read_body(receive, head, limits.body_bytes, limits.body_seconds, share.add)
            make = partial(
                read_cloud_body, body, head.kind, attributes, stream.source.layout, limits
            )
            try:
                read = await self._decode(make, len(body))
            except BodyError as error:
                self.rates.take(access, 1)
                await self._keep_body(sender, share, body, error.reason)
                raise
            source = head.source if read.source is None else read.source
            sender = Sender(stream, access, stream.find_source(access, source))
            with bind_trace(read.traceparent):
                receipt = await self._push_read(sender, share, body, read.rows, read.numbers)
        except DisconnectError:
            return
        finally:
            share.release()
        await send_json(scope, send, 200, receipt)

    async def post_cti(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer ``POST /streams/{name}/cti``: push a CTI, send the CTI of stream or device."""
        head = read_head(scope)
        sender = self.admit(scope, head)
        share = self.load.share()
        try:
            body = await read_body(receive, head, 4_096, self.limits.body_seconds, share.add)
            cti = _read_cti(body, self.limits, sender.stream.source.unit)
            self.rates.take(sender.access, 1)
            verdict = await self._push(sender, share, cti, 1, None)
            if verdict.rejected:
                raise RequestError(400, verdict.rejected[0].reason)
        except DisconnectError:
            return
        finally:
            share.release()
        self.service.counts.add_receipt()
        ignored = sender.stream.describe_ignored(cti, verdict.cti)
        await send_json(
            scope, send, 200, make_cti_receipt(verdict.cti, self.service.is_durable, ignored)
        )

    # Rows -----------------------------------------------------------------------------------------

    async def push(
        self,
        sender: Sender,
        share: Share,
        body: bytes,
        form: str | None,
        first: int | None,
        order: AbstractAsyncContextManager[Any] | None = None,
    ) -> bytes:
        """Push the rows of a body, numbered from ``first``; return their receipt.

        Bodies with one ``order`` are pushed in that in which they have entered it.
        ``RequestError``: the body is refused as a whole.
        """
        try:
            async with order or nullcontext():
                rows = await self._read_rows(body, form, sender.stream.limits)
        except BodyError as error:
            self.rates.take(sender.access, 1)
            await self._keep_body(sender, share, body, error.reason)
            raise
        numbers = None if first is None else _count_rows(first, rows)
        return await self._push_read(sender, share, body, rows, numbers)

    async def _push_read(
        self, sender: Sender, share: Share, body: bytes, rows: BodyRows, numbers: Any
    ) -> bytes:
        """Push the rows of a body that has been read; return their receipt."""
        self.rates.take(sender.access, rows.rows)
        try:
            verdict = await self._push_rows(sender, share, rows, numbers)
        except (SchemaError, ArgumentError) as error:
            await self._keep_body(sender, share, body, str(error))
            raise RequestError(400, str(error)) from error
        refused = list_refused(verdict, rows.refused, rows.places)
        if refused:
            await self._run_writer(share, self._write_rows, sender, body, rows, refused)
        if (tap := self.service.taps[sender.stream.name]).readers:
            tap.offer(rows.items, verdict, sender.source)
        self.service.counts.add_receipt()
        _log_receipt(sender, verdict, len(refused))
        return make_receipt(verdict, self.service.is_durable, refused, rows.places)

    async def _read_rows(self, body: bytes, form: str | None, limits: Limits) -> BodyRows:
        if form == ARROW:
            return read_rows(body, form, limits)
        return await self._decode(partial(read_rows, body, form, limits), len(body))

    async def _decode(self, read: Callable[[], Decoded], size: int) -> Decoded:
        """Return what a function reads of so many bytes, beside the event loop if they are many."""
        if size <= _LARGE:
            return read()
        return await asyncio.get_running_loop().run_in_executor(self._decoder, read)

    async def _push_rows(
        self, sender: Sender, share: Share, rows: BodyRows, numbers: Any
    ) -> Verdict:
        items = rows.items
        pushed = rows.rows - len(rows.refused)
        if not pushed:
            return Verdict(cti=sender.stream.source.cti)
        sender.stream.convert(items)
        return await self._push(sender, share, items, pushed, numbers)

    async def _push(self, sender: Sender, share: Share, item: Any, rows: int, seq: Any) -> Verdict:
        """Push within the bounds of what may wait."""
        stream, durable = sender.stream, self.service.settings.state.durable
        share.add_rows(stream.name, stream.source, rows)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await stream.source.push_async(
                    item, input=sender.source, seq=seq, durable=durable
                )
        except TimeoutError:
            # pushes of an input keep their order: when this one has its turn, the rows wait no more
            share.last = asyncio.ensure_future(stream.source.push_async([], input=sender.source))
            raise self._make_slow() from None

    # Dead letters ---------------------------------------------------------------------------------

    async def _keep_body(self, sender: Sender, share: Share, body: bytes, reason: str) -> None:
        await self._run_writer(share, self._write_body, sender, body, reason)

    async def _run_writer(self, share: Share, write: Any, *arguments: Any) -> None:
        """Write, and tell the query, which may be stuck."""
        loop = asyncio.get_running_loop()
        written = loop.run_in_executor(self._writer, write, *arguments)
        done, _ = await asyncio.wait((written,), timeout=ANSWER_SECONDS)
        if not done:
            share.last = written
            raise self._make_slow()
        written.result()

    def _make_slow(self) -> RequestError:
        return RequestError(
            503,
            "the query has not answered in time; the rows may be in it. "
            "Hint: send them again with the same sequence numbers.",
            retry_after=self.limits.retry_after,
        )

    # one thread calls what follows

    def _write_body(self, sender: Sender, body: bytes, reason: str) -> None:
        name, source = sender.stream.name, sender.source
        self.service.counts.add_refused(1)
        self.service.dead_letters.write([DeadLetter(name, source, None, reason, body)])
        sender.stream.tell_refused([Rejected(0, reason, body)], source)

    def _write_rows(
        self, sender: Sender, body: bytes, rows: BodyRows, refused: Sequence[Rejected]
    ) -> None:
        read_raw = make_raw_reader(body, rows.form)
        name, source = sender.stream.name, sender.source
        letters = [
            DeadLetter(name, source, each.index, each.reason, read_raw(each, each.index))
            for each in refused[:MOST_REASONS]
        ]
        self._write_letters(letters, refused, lambda: body)
        # the source itself has counted those that it has seen, and told of them
        sender.stream.reject(rows.refused, source)

    def _keep_messages(self, stream: str, source: str | None, refused: Sequence[Rejected]) -> None:
        """Keep what a broker has sent, on the thread of its feed; the source has told of it."""
        letters = [
            DeadLetter(stream, source, None, each.reason, _find_raw(each.row))
            for each in refused[:MOST_REASONS]
        ]
        more = refused[MOST_REASONS:]
        self._writer.submit(
            self._write_letters,
            letters,
            refused,
            lambda: b"\n".join(_find_raw(e.row) for e in more),
        ).result()

    def _write_letters(
        self,
        letters: list[DeadLetter],
        refused: Sequence[Rejected],
        read_rest: Callable[[], bytes],
    ) -> None:
        """Write letters; refused rows without one have a letter of all, with their kinds."""
        self.service.counts.add_refused(len(refused))
        if more := refused[MOST_REASONS:]:
            kinds = "; ".join(f"{kind}: {count}" for kind, count in count_kinds(more).items())
            reason = f"{len(more)} more rows are refused: {kinds}"
            first = letters[0]
            letters = [*letters, DeadLetter(first.stream, first.source, None, reason, read_rest())]
        self.service.dead_letters.write(letters)


def _count_rows(first: int, rows: BodyRows) -> Any:
    """Return the numbers of the rows that are pushed, from that of the first row of the body."""
    return count(first) if rows.places is None else [first + place for place in rows.places]


def _log_receipt(sender: Sender, verdict: Verdict, refused: int) -> None:
    """Write a line about the receipt of a request with a trace; others are too many for a log."""
    if "trace_id" in get_contextvars():
        _log.info(
            "receipt", stream=sender.stream.name, source=sender.source, refused=refused,
            accepted=verdict.accepted, late=len(verdict.late), duplicates=verdict.duplicates,
        )  # fmt: skip


def _read_cti(body: bytes, limits: Any, unit: Unit | None) -> Cti:
    value = read_rows(body, "JSON", limits).items
    if type(value) is not dict or "time" not in value:
        example = '{"time": "2026-05-01T12:00:00Z"}'
        raise BodyError(f"it has no field 'time'. Hint: a CTI is {example}.", byte=0)
    if others := value.keys() - {"time", "device"}:
        raise BodyError(
            f"a CTI has no field {min(others)!r}. Hint: its fields are 'time', and 'device' for "
            "one device of a stream with clock=.",
            byte=0,
        )
    if value.get("device", value) is None:
        raise BodyError(
            "'device' is null. Hint: a CTI without this field is for all devices.", byte=0
        )
    try:
        # a number of a unit may have a fraction, and is no number of ticks
        cti = Cti(plain_time(value["time"], "time", unit), value.get("device"))
        if not MIN_TIME < time_ticks(cti.start_time) < MAX_TIME:
            raise UnfitError("'time' lies outside of time")
    except (UnfitError, EventError, ArgumentError, ValueError, OverflowError) as error:
        raise BodyError(str(error), byte=0) from error
    return cti


def _find_raw(row: Any) -> bytes:
    """Return a rejected row as bytes: as it came, or as JSON again."""
    return row if isinstance(row, bytes) else json_text(row).encode()
