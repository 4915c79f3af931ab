"""Streams of a recording, as nodes of a plan."""

from __future__ import annotations

import os
from collections import Counter

from rxtemporal.core.log import get_logger
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.plan import Node

_log = get_logger(__name__)


def open_recording(path: str | os.PathLike[str]) -> dict[str, Node]:
    """Return the streams of a recording by name; the second of one name is called ``name 2``.

    There is a warning in the log if the recorded run has no end. ``SpoolError``: the recording is
    missing or damaged.
    """
    from rxtemporal.storage.event_log.reader import Recording
    from rxtemporal.storage.event_log.source import RecordedSource

    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentError(f"replay takes the path of a recording's folder, got {path!r}")
    recording = Recording(path)
    if not recording.complete:
        _log.warning(
            "recording has no end (its run was killed or is still running); replaying its content",
            path=str(path),
            records=recording.count(),
        )
    nodes: dict[str, Node] = {}
    seen: Counter[str] = Counter()
    for number in range(len(recording.streams)):
        source = RecordedSource(recording, number)
        seen[source.name] += 1
        again = f" {seen[source.name]}" if seen[source.name] > 1 else ""
        source.beside = nodes
        nodes[source.name + again] = Node(source.schema, (), source=source)
    return nodes
