"""Event-flow page of a query: its run is taken apart and written as one HTML file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rxtemporal.operators.plan import Node
from rxtemporal.query.recorded_streams import open_recording, replace_sources
from rxtemporal.view.debug.page import WrittenPage, show_progress, write_page
from rxtemporal.view.lineage.capture import capture


def write_event_flow(
    output: Node,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    named: Mapping[str, Node] | None = None,
    recording: str | os.PathLike[str] | None = None,
) -> WrittenPage:
    """Run a plan to the end of its sources, and write the page of the run.

    ``named`` are streams with the names under which they are known. With ``recording`` the sources
    are those of the recording. ``title`` is by default the name of the file. An error that ends the
    run is on the page.
    """
    if recording is not None:
        named = open_recording(recording)
        output = replace_sources(output, named)
    title = title or Path(path).stem
    with show_progress("taking the run apart", "writing the page") as progress:
        flow = capture(output, named=named, title=title, progress=progress)
        return write_page(flow, Path(path), title=title)
