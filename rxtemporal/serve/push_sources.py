"""Sources that devices push into, found in an application or in a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from rxtemporal.core.ticks import TICKS_PER_SECOND
from rxtemporal.core.time_forms import check_unit
from rxtemporal.errors import BindingError
from rxtemporal.ingress.pushed_source import PushedSource
from rxtemporal.ingress.side_source import SideSource
from rxtemporal.operators.plan import list_nodes
from rxtemporal.query.application import Application
from rxtemporal.query.push_source import PushSource
from rxtemporal.runtime.process import Process


def find_in_plan(application: Application) -> dict[str, PushSource]:
    """Return the sources that the queries of an application read, by the names of their streams."""
    names = {id(each._node.source): name for name, each in application.streams.items()}
    nodes = list_nodes([each._node for each in application.queries.values()])
    found = [node.source for node in nodes if node.source is not None]
    origins = [each.origin if isinstance(each, SideSource) else each for each in found]
    return _select((names.get(id(each), each.name), each) for each in origins)


def find_in_run(process: Process) -> dict[str, PushSource]:
    """Return the sources that are pushed into a process."""
    return _select((each.name, each.source) for each in process._execution.readers)


def _select(sources: Iterable[tuple[str, Any]]) -> dict[str, PushSource]:
    found: dict[str, PushSource] = {}
    for name, source in sources:
        if not isinstance(source, PushedSource):
            continue
        if found.setdefault(name, source.owner) is not source.owner:
            raise BindingError(
                f"two sources are called {name!r}, and each is a path of its own. "
                "Hint: name their streams apart with application.define_stream(name, …)."
            )
    return found


def set_units(sources: Mapping[str, PushSource], unit: str | None) -> None:
    """Take the numbers among the times of sources without ``unit=`` as Unix times of a unit."""
    wanted = check_unit(unit)
    for source in sources.values():
        if wanted is not None and source.unit is None:
            source.use_unit(wanted)


def guard_clocks(sources: Mapping[str, PushSource], ahead: float | Literal["delay"]) -> None:
    """Guard sources without ``ahead=`` against clocks that run ahead, before their run.

    ``ahead`` is in seconds.
    """
    for source in sources.values():
        entrance = source.stream._node.source
        assert isinstance(entrance, PushedSource)
        entrance.guard(None if ahead == "delay" else round(ahead * TICKS_PER_SECOND))
