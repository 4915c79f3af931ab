"""Logging: structlog over the standard library's logging, which the host configures.

structlog, left to itself, prints to standard output. A library must not, so every logger here wraps
a standard one under ``rxtemporal``. A host that configures no logging sees warnings and errors, on
standard error, by logging's handler of last resort. Only the command line configures more.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any, cast

import structlog

_write_pairs = structlog.processors.KeyValueRenderer(key_order=["event"], drop_missing=True)


def _render(logger: Any, name: str, event: MutableMapping[str, Any]) -> tuple[Any, Any]:
    """Return the arguments of standard logging, which writes a traceback by itself."""
    failed = event.pop("exc_info", None)
    return (_write_pairs(logger, name, event),), {"exc_info": failed}


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return the logger called ``name``, rendered as ``event key=value …`` by standard logging."""
    return cast(
        structlog.stdlib.BoundLogger,
        structlog.wrap_logger(
            logging.getLogger(name),
            processors=[
                structlog.stdlib.filter_by_level,
                # what a request has bound, such as its trace
                structlog.contextvars.merge_contextvars,
                _render,
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
            context_class=dict,
            cache_logger_on_first_use=True,
        ),
    )
