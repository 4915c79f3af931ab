"""Streams that take their time from others: who imports whose CTIs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rxtemporal.errors import AdvanceTimeError
from rxtemporal.ingress.late_source import LateSource
from rxtemporal.operators.plan import Node
from rxtemporal.readings import Reading


def imported(outputs: Sequence[Node], named: Mapping[str, Node]) -> list[Node]:
    """Return the streams whose CTIs are imported, and theirs in turn, beside the outputs' own.

    They are found among those named here, and beside a recorded one in its recording.
    """
    sources = [each for node in outputs for each in node.every() if each.source is not None]
    there, others = {id(each.source) for each in sources}, []
    for node in sources:  # grows while it is gone through
        source = node.source.of if isinstance(node.source, LateSource) else node.source
        if source is None or source.settings is None or source.settings.imports is None:
            continue
        beside: Mapping[str, Node] = getattr(source, "beside", {})
        wanted = source.settings.imports.stream_name
        stream = named.get(wanted) or beside.get(wanted)
        if stream is not None and id(stream.source) not in there:
            there.add(id(stream.source))
            others.append(stream)
            sources.append(stream)
    return others


def linked(readings: Sequence[Reading]) -> bool:
    """Tell each reading who imports its CTIs; return whether anybody does."""
    imports = False
    for importer in readings:
        settings = importer.source.settings
        if settings is None or settings.imports is None:
            continue
        imports = True
        wanted = settings.imports.stream_name
        found = [each for each in readings if each.name == wanted]
        if found == [importer]:
            raise AdvanceTimeError(f"stream {wanted!r} imports its own CTIs")
        if len(found) != 1:
            there = ", ".join(repr(each.name) for each in readings)
            many = "are several streams" if found else "is no stream"
            raise AdvanceTimeError(
                f"stream {importer.name!r} imports the CTIs of {wanted!r}, and there {many} of "
                f"that name in this process; there are {there}. Hint: name= where a stream is "
                "made, or an Application, gives it a name of its own."
            )
        found[0].importers.append(importer)
        importer.imported = found[0]
    return imports
