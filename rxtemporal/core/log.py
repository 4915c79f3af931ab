"""Logging: structlog over the standard library's logging, silent until the host configures it.

structlog, left to itself, prints to standard output. A library must not, so every logger here wraps
a standard one under ``rxtemporal``, whose root has a ``NullHandler``; only the command line
configures more.
"""

from __future__ import annotations

import logging
from typing import cast

import structlog

logging.getLogger("rxtemporal").addHandler(logging.NullHandler())


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
