"""A fixture for the tests of the command line."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Undo what the command line configures."""
    logger, root = logging.getLogger("rxtemporal"), logging.getLogger()
    level, handlers = logger.level, root.handlers[:]
    yield
    logger.setLevel(level)
    root.handlers[:] = handlers
