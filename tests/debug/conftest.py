"""One Chromium for all tests of a module of the event-flow page."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from needs import skip_or_fail


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Give a tab of a running browser; skip where there is none.

    One for each module: while it runs, its event loop runs in this thread, and no test may start
    another one.
    """
    path = shutil.which("chromium")
    if path is None:
        skip_or_fail("chromium", "there is no chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        skip_or_fail("chromium", "there is no playwright")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser.new_page()
        browser.close()


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
