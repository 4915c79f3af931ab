"""Sink that posts the results of a query to a web service, as JSON lines."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.log import get_logger
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.errors import ArgumentError, RxTemporalError
from rxtemporal.sinks.formats import make_encoder
from rxtemporal.sinks.positioned import Backoff, find_position
from rxtemporal.sinks.sink import Sink, SinkAwayError


def read_retry_after(text: str | None) -> float:
    """Return how many seconds to wait; 0 if the header is not there or cannot be read.

    >>> read_retry_after("3"), read_retry_after("soon"), read_retry_after(None)
    (3.0, 0.0, 0.0)
    """
    if text is None:
        return 0.0
    try:
        seconds = float(text)
    except ValueError:
        seconds = _until(text)
    return seconds if 0 < seconds < math.inf else 0.0


def _until(text: str) -> float:
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime.now(UTC)).total_seconds()


_log = get_logger(__name__)
# bytes of an answer that are read, and characters of it in an error
_MOST_READ, _MOST_SHOWN = 65_536, 500
# answers that a later attempt may turn into success
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
# answers about the rows; others are about the sender or the URL
_REFUSALS = frozenset({400, 413, 415, 422})
# of the request itself, and so not for users
_OWN = frozenset({"content-length", "transfer-encoding", "host", "idempotency-key"})


class Http(Sink):
    """Sink that posts each batch of results to a URL, as JSON lines, and waits for the answer.

    Rows have ``start_time``, ``end_time`` (null: never ends) and the fields. ``headers`` are sent
    with each request, ``Authorization`` for example. A request has about ``rows`` rows at most;
    rows with the same start stay together. ``timeout`` is in seconds, for each attempt.

    * Answers: 2xx is success. After 408, 425, 429, 500, 502, 503, 504 and connection errors the
      request is sent again, after growing pauses or after ``Retry-After``, for ``patience``
      seconds. After any other answer, or when ``patience`` is over, the run fails with the text of
      the answer.
    * Repeats: the header ``Idempotency-Key`` has the name of the query and the CTI of the rows. All
      rows before that CTI were sent in this request or an earlier one, so a receiver that has seen
      the key may drop the request. After a crash the results since the last checkpoint are sent
      again, perhaps divided into other requests. ``Results-From`` and ``Results-To``, in ticks,
      give the range of starts of a request: the next request continues at ``Results-To``. A
      receiver that stores the last ``Results-To`` can count each row once. Where each device has
      its own time, requests are numbered instead, and one that is sent again is the same.
    * The query waits for each answer. With a hand-off, producers do not.
    * ``restarts`` counts the requests that were sent again after a pause.

    * Refused rows: with ``dead_letters``, the path of a file, 400, 413, 415 and 422 do not end the
      run. The rows of the request are appended to that file, as JSON lines with the answer, a
      warning is logged, and the run continues; ``refused`` counts them.
    * Needs ``pip install 'rxtemporal[json]'``.

    >>> Http("https://example.org/results", headers={"Authorization": "Bearer …"})
    Http('https://example.org/results')
    """

    by_position = True

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        rows: int = 10_000,
        timeout: float = 10.0,
        patience: float = 60.0,
        context: ssl.SSLContext | None = None,
        dead_letters: str | os.PathLike[str] | None = None,
    ) -> None:
        _check(url, headers or {}, rows, timeout, patience)
        self._encode_lines: Callable[[Any], bytes] = make_encoder("Http").encode_lines
        self._dead_letters = None if dead_letters is None else Path(dead_letters)
        self.refused = 0
        self.url = url
        self._headers = {"Content-Type": "application/x-ndjson", **(headers or {})}
        self._rows = self.most_rows = rows
        self._timeout, self._patience = timeout, patience
        self._context = context
        self._query = ""
        # up to here the rows have been taken, and True if a checkpoint says so
        self._position, self._loaded = MIN_TIME, False
        self._form: Callable[[], TimeForm] = lambda: "datetime"
        self._connection: HTTPConnection | None = None
        self._cancelled = threading.Event()
        self._error: BaseException | None = None

    def __repr__(self) -> str:
        return f"Http({self.url!r})"

    def set_time_form(self, form: Callable[[], TimeForm]) -> None:
        """Set the function that returns the form of the sources' times."""
        self._form = form

    def open(self, query: str, schema: pl.Schema) -> None:
        """Begin; the connection is made by the first request."""
        self._query = query
        if not self._loaded:
            self._position = MIN_TIME
        self._loaded = False
        self._cancelled.clear()
        self._error = self.away_since = None

    def write(self, batch: EventBatch) -> None:
        """Post the rows, and return when the server has taken them."""
        self.undelivered_since = time.monotonic()
        for part, cti in _split(batch, self._rows):
            rows = part.to_dicts(self._form())
            if refusal := self._post(self._encode_lines(rows), cti):
                self._bury(rows, refusal)
            self._position = cti
        self.undelivered_since = None

    def close(self, error: BaseException | None) -> None:
        """Close the connection."""
        self._disconnect()
        form = self._form()
        self._form = lambda: form

    def cancel(self, error: BaseException) -> None:
        """Make a ``write`` that waits raise this error."""
        self._error = error
        self._cancelled.set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            # wakes the thread that reads; it closes the connection itself
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def save(self) -> bytes:
        """Return the position up to which all rows have been taken."""
        return str(self._position).encode()

    def load(self, state: bytes) -> None:
        """Continue at the position of a checkpoint."""
        self._position, self._loaded = int(state), True

    # Requests -------------------------------------------------------------------------------------

    def _bury(self, rows: Sequence[Mapping[str, Any]], refusal: str) -> None:
        """Append rows that the receiver refuses to the file of dead letters."""
        assert self._dead_letters is not None
        time = datetime.now(UTC)
        about = {"time": time, "url": self.url, "query": self._query, "answer": refusal}
        with self._dead_letters.open("ab") as file:
            file.write(self._encode_lines([{**about, "row": row} for row in rows]))
            file.flush()
            os.fsync(file.fileno())
        self.refused += len(rows)
        _log.warning("post.refused", **{**about, "time": str(time)}, rows=len(rows))

    def _post(self, body: bytes, cti: int) -> str:
        """Post until the rows are taken; return the answer if they are refused for good."""
        headers = {
            **self._headers,
            "Idempotency-Key": f"{quote(self._query)}:{cti}",
            "Results-From": str(self._position),
            "Results-To": str(cti),
        }
        backoff = Backoff(self._patience)
        while True:
            wait, reason = self._attempt(body, headers)
            if wait is None:
                self.away_since = None
                return reason
            pause = backoff.next(wait)
            if pause is None:
                raise SinkAwayError(
                    f"{self.url} has not accepted results of query {self._query!r} for "
                    f"{self._patience:g} seconds: {reason}. Hint: raise patience=; a run with "
                    "resume= continues from its checkpoint."
                )
            self.away_since = self.away_since or time.monotonic()
            self.restarts += 1
            _log.warning("post.again", url=self.url, query=self._query, error=reason, seconds=pause)
            self._cancelled.wait(pause)

    def _attempt(self, body: bytes, headers: Mapping[str, str]) -> tuple[float | None, str]:
        """Send one request; return None and the refusal, else seconds to wait, or 0, and why.

        The refusal is empty if the rows were taken.
        """
        self._check_cancelled()
        is_used = self._connection is not None
        try:
            answer, text = self._send(body, headers)
        except (OSError, HTTPException) as error:
            self._disconnect()
            self._check_cancelled()
            if is_used and not isinstance(error, TimeoutError):
                # the server may have closed a connection that was silent
                return self._attempt(body, headers)
            return 0.0, f"{type(error).__name__}: {error}"
        if 200 <= answer.status < 300:
            return None, ""
        said = f"{answer.status} {answer.reason}: {text}"
        if answer.status not in _PASSING:
            if self._dead_letters is not None and answer.status in _REFUSALS:
                return None, said
            raise RxTemporalError(
                f"{self.url} refuses results of query {self._query!r}: {said}. Hint: with "
                "dead_letters=, the path of a file, a run continues after 400, 413, 415 and 422."
            )
        return read_retry_after(answer.headers.get("Retry-After")), said

    def _send(self, body: bytes, headers: Mapping[str, str]) -> tuple[HTTPResponse, str]:
        """Return the answer to one request, and the beginning of its text."""
        if self._connection is None:
            self._connection = self._connect()
        connection, parts = self._connection, urlsplit(self.url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, dict(headers))
        answer = connection.getresponse()
        text = answer.read(_MOST_READ)
        if answer.will_close or not answer.isclosed():
            self._disconnect()
        return answer, text[: 4 * _MOST_SHOWN].decode("utf-8", "replace")[:_MOST_SHOWN].strip()

    def _connect(self) -> HTTPConnection:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        if parts.scheme == "https":
            return HTTPSConnection(
                parts.hostname, parts.port, timeout=self._timeout, context=self._context
            )
        return HTTPConnection(parts.hostname, parts.port, timeout=self._timeout)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _check_cancelled(self) -> None:
        if self._cancelled.is_set() and self._error is not None:
            raise self._error


def _split(batch: EventBatch, most: int) -> Iterator[tuple[EventBatch, int]]:
    """Yield about ``most`` rows and the position after them; those with one start stay together."""
    if batch.number is not None:
        yield batch, find_position(batch)
        return
    begin, count = 0, len(batch)
    while count - begin > most:
        start = batch.start[begin + most]
        end = int(np.searchsorted(batch.start, start))
        if end <= begin:
            end = int(np.searchsorted(batch.start, batch.start[begin], "right"))
        if end == count:
            break
        yield batch.slice(begin, end), int(batch.start[end])
        begin = end
    if count > begin:
        yield batch.slice(begin, count) if begin else batch, batch.cti


def _check(
    url: Any, headers: Mapping[str, str], rows: Any, timeout: float, patience: float
) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except (ValueError, TypeError, AttributeError):
        valid = False
    if not valid or not str(url).isascii() or any(each <= " " for each in url):
        raise ArgumentError(f"url is an absolute URL of http or https, got {url!r}")
    if parts.username is not None:
        raise ArgumentError(
            "a URL with a password is logged. Hint: headers={'Authorization': …} are not."
        )
    if own := [name for name in headers if name.lower() in _OWN]:
        raise ArgumentError(f"the header {own[0]!r} is set by the sink")
    if any(not f"{name}{value}".isprintable() for name, value in headers.items()):
        raise ArgumentError("the name and the value of a header are printable texts")
    if not isinstance(rows, int) or rows < 1:
        raise ArgumentError(f"rows must be positive, got {rows!r}")
    if not timeout > 0 or not patience >= 0:
        raise ArgumentError(
            f"timeout is positive and patience not negative, got {timeout!r} and {patience!r}"
        )
