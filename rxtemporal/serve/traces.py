"""Trace of a request: the header ``traceparent`` of W3C, carried into the lines of the log.

Source: *Trace Context*, W3C Recommendation of 2021-11-23.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from structlog.contextvars import bound_contextvars

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


def read_traceparent(text: Any) -> dict[str, str]:
    """Return ``trace_id`` and ``span_id``; nothing for a text that the specification forbids.

    >>> read_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    {'trace_id': '4bf92f3577b34da6a3ce929d0e0e4736', 'span_id': '00f067aa0ba902b7'}
    >>> read_traceparent("00-00000000000000000000000000000000-00f067aa0ba902b7-01")
    {}
    """
    found = _TRACEPARENT.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return {}
    version, trace, span, _, more = found.groups()
    # version 00 has nothing behind the flags, ff is invalid, and so are zeros
    if version == "ff" or (version == "00" and more) or not int(trace, 16) or not int(span, 16):
        return {}
    return {"trace_id": trace, "span_id": span}


def bind_trace(text: Any) -> AbstractContextManager[Any]:
    """Return a context in which lines of the log have the trace, if there is one."""
    trace = read_traceparent(text)
    return bound_contextvars(**trace) if trace else nullcontext()
