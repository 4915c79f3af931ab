"""Logging: structlog over the standard library's logging, which the host configures.

structlog, left to itself, prints to standard output. A library must not, so every logger here wraps
a standard one under ``rxtemporal``. A host that configures no logging sees nothing but critical
messages, on standard error: a process has ended by an error of which nobody else is told; and the
notices of a call or a subscription that waits without an end in sight. Only the command line
configures more.
"""

from __future__ import annotations

import logging
from typing import cast

import structlog


class _LastHandler(logging.Handler):
    """Handler that writes to standard error if the host has no handler for a message."""

    def emit(self, record: logging.LogRecord) -> None:
        logger: logging.Logger | None = logging.getLogger(record.name)
        while logger is not None:
            if any(not isinstance(handler, _LastHandler) for handler in logger.handlers):
                return
            logger = logger.parent if logger.propagate else None
        if logging.lastResort is not None:
            logging.lastResort.handle(record)


logging.getLogger("rxtemporal").addHandler(_LastHandler(logging.CRITICAL))


def get_notice_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return the logger called ``name``; its warnings are seen if nobody configures logging."""
    logging.getLogger(name).addHandler(_LastHandler(logging.WARNING))
    return get_logger(name)


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return the logger called ``name``, rendered as ``event key=value …`` by standard logging."""
    return cast(
        structlog.stdlib.BoundLogger,
        structlog.wrap_logger(
            logging.getLogger(name),
            processors=[
                structlog.stdlib.filter_by_level,
                structlog.processors.format_exc_info,
                structlog.processors.KeyValueRenderer(key_order=["event"], drop_missing=True),
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
            context_class=dict,
            cache_logger_on_first_use=True,
        ),
    )
