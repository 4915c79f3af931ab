"""Settings of the whole suite: hypothesis profiles, temporary files, what may be skipped where."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections.abc import Generator, Iterator
from typing import Any

# frames are tiny here: handing their columns out to threads costs more than all else
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import pytest

# a shell starts a job in the background with Ctrl-C ignored, and so are those that the job starts
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# a law that fails shows what differs, also where a helper compares; before any is imported
pytest.register_assert_rewrite("input_ways", "law_streams", "no_spark", "physical")

from hypothesis import HealthCheck, settings  # noqa: E402
from memory_disk import use_memory_disk  # noqa: E402
from needs import skip_or_fail  # noqa: E402

__all__ = ["skip_or_fail"]

# the same examples on each run, so that what is green here is green there
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=10,
    suppress_health_check=[HealthCheck.too_slow],
)
# other examples on each run, and more of them
settings.register_profile("full", settings.get_profile("ci"), derandomize=False, max_examples=30)
settings.register_profile(
    "deep",
    deadline=None,
    max_examples=3_000,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

TEMPORARY = use_memory_disk()

# on again once all tests are collected, see ``pytest_collection_finish``
gc.disable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Generator[None, None, None]:
    """Remove temporary files from memory, once all processes have ended; failed tests keep them."""
    yield
    if TEMPORARY is not None and session.exitstatus != pytest.ExitCode.TESTS_FAILED:
        shutil.rmtree(TEMPORARY, ignore_errors=True)


def pytest_xdist_auto_num_workers() -> int:
    """Return two processes for each core: many tests wait, for other processes and for kills."""
    return 2 * (os.cpu_count() or 1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let all tests that need Java run in one process, which starts one JVM.

    Except those with a group of their own, which start and end their JVMs themselves. All groups
    come first.
    """
    for item in items:
        if item.get_closest_marker("java") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group("java"))
    # groups take long, and the last test of all keeps one process only
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


def pytest_collection_finish() -> None:
    """Freeze what is there for all tests: collections of it took a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.enable()


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
