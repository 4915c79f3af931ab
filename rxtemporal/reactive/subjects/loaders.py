"""Loaders of the modules that a subject needs from its first batch on."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rxtemporal.core.batch import EventBatch


@cache
def load_batch_type() -> type[EventBatch]:
    """Return the class of batches: none is the first to load what it is made of."""
    from rxtemporal.core.batch import EventBatch

    return EventBatch


@cache
def load_batch_rules() -> ModuleType:
    """Return the functions that take batches: no subject loads compiled code before it gets one."""
    from rxtemporal.reactive.subjects import batches

    return batches
