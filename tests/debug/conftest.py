"""The event-flow page in a browser, for the tests of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def show(chromium: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Give a function that opens a flow; at the end nothing was asked for and nothing failed."""
    from debug_page import Shown

    opened: list[Any] = []

    def show(flow: dict[str, Any] | None = None, **settings: Any) -> Any:
        for each in opened:
            each.close()
        opened.append(Shown(chromium, tmp_path, flow, **settings))
        return opened[-1]

    yield show
    for each in opened:
        each.close()
    assert [each.problems for each in opened] == [[] for _ in opened]
    assert [each.asked for each in opened] == [[each.url] for each in opened]
