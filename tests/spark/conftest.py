"""One Spark session for the tests here; without Java they are skipped, or fail if required."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from cells import crash_table, never_hit
from moments import POINTS
from needs import need_java
from postgres import needed_server

from rxtemporal.spark.jvm.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs Java where there is none, or fail where it is required."""
    if item.get_closest_marker("java") is not None:
        need_java()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let a whole crash matrix fail in which a point was never hit."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and never_hit(reports(terminal), POINTS) and not session.exitstatus:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print who was killed when, and whether the rows were the same."""
    lines = list(crash_table(reports(terminalreporter)))
    missing = [f"never hit: {each}" for each in never_hit(reports(terminalreporter), POINTS)]
    if lines:
        terminalreporter.section("crashes")
    for line in [*lines, *missing]:
        terminalreporter.line(line)


def reports(terminal: pytest.TerminalReporter) -> list[Any]:
    """Return the reports of the tests that ran."""
    return [*terminal.stats.get("passed", []), *terminal.stats.get("failed", [])]


@pytest.fixture(scope="session")
def database() -> Iterator[str]:
    """Address of a PostgreSQL server that all tests share."""
    with needed_server() as address:
        yield address


@pytest.fixture
def connect(database: str) -> Iterator[Callable[[], psycopg.Connection]]:
    """Function that connects; the database is empty before and after."""
    yield partial(psycopg.connect, database)
    with psycopg.connect(database) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("DROP SCHEMA IF EXISTS mine CASCADE")
        connection.execute("CREATE SCHEMA public")


@pytest.fixture
def query(connect: Callable[[], psycopg.Connection]) -> Callable[[str], list[tuple[Any, ...]]]:
    """Ask the database."""

    def ask(text: str) -> list[tuple[Any, ...]]:
        with connect() as connection:
            return connection.execute(text).fetchall()  # type: ignore[arg-type]

    return ask


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that all tests share."""
    running = session(**{"spark.master": "local[2]"})
    yield running
    running.stop()
