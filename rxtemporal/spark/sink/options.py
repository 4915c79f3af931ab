"""Checks of a sink's arguments when the sink is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from rxtemporal.core.batch import END, START
from rxtemporal.core.events import EventShape
from rxtemporal.errors import ArgumentError, BindingError, SchemaError
from rxtemporal.spark.targets.target import EDGE, STATE, Target
from rxtemporal.storage.segments import SEGMENT


def check_target(target: Any, shape: Any) -> None:
    """Raise if the object is no target, or the target does not take the shape."""
    if not isinstance(shape, EventShape):
        raise ArgumentError(f"shape is an EventShape, got {shape!r}")
    if isinstance(target, Target) and not isinstance(target, type):
        if shape not in target.shapes:
            raise ArgumentError(target.shape_error)
    elif not callable(target) or isinstance(target, type):
        raise ArgumentError(
            "a target is a ParquetTable, a DatabaseTable, a Console or a function (df, batch_id), "
            f"got {target!r} ({type(target).__name__})"
        )


def check_mode(mode: Any) -> None:
    """Refuse an unknown mode."""
    if mode not in ("spooled", "direct"):
        raise ArgumentError(
            f"mode is 'spooled' (durable, exactly once) or 'direct' (lowest latency), got {mode!r}"
        )


def check_names(schema: pl.Schema, shape: EventShape) -> None:
    """Raise if Spark, which ignores case, would confuse a field with another column."""
    ours = (START, END, SEGMENT, *((EDGE, STATE) if shape is EventShape.EDGE else ()))
    seen = {name: name for name in ours}
    for name in schema:
        if seen.setdefault(name.lower(), name) is name:
            continue
        raise SchemaError(
            f"Spark, which ignores case, confuses the field {name!r} with {seen[name.lower()]!r}. "
            "Hint: rename one of them with select()."
        )


def check_session(session: Any) -> None:
    """Refuse a Spark Connect client, and an object that is no session."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise BindingError(
            "a Spark Connect session runs its functions on another machine, where they cannot "
            "reach this sink. Hint: use a classic session, or leave session out."
        )
    if session is None or isinstance(session, Mapping) or hasattr(session, "sparkContext"):
        return
    raise ArgumentError(
        "session is a Spark session, or Spark's settings for a session of the sink's own as in "
        f'{{"spark.driver.memory": "2g"}}, got {session!r}'
    )


def check_pace(trigger: Any, max_segments: Any) -> None:
    """Raise for a trigger or size of micro-batches that Spark does not accept."""
    if not isinstance(trigger, str) or not trigger.strip():
        raise ArgumentError(f"trigger is an interval such as '1 second', got {trigger!r}")
    if isinstance(max_segments, bool) or not isinstance(max_segments, int) or max_segments < 1:
        raise ArgumentError(f"max_segments_per_batch is an int of 1 or more, got {max_segments!r}")


def check_limit(spool_limit: Any, when_full: Any) -> None:
    """Refuse a limit that is no size, and an unknown policy."""
    whole = isinstance(spool_limit, int) and not isinstance(spool_limit, bool)
    if spool_limit is not None and not (whole and spool_limit > 0):
        raise ArgumentError(f"spool_limit is a number of bytes, or None, got {spool_limit!r}")
    if when_full not in ("block", "refuse"):
        raise ArgumentError(
            f"when_full is 'block' (the producer waits) or 'refuse' (an error), got {when_full!r}"
        )
