"""One Spark session for the tests here; without Java they are skipped, or fail if required."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from rxtemporal.errors import RxTemporalError
from rxtemporal.spark.java import find_java
from rxtemporal.spark.session import require_pyspark, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@functools.cache
def missing() -> str | None:
    """What keeps Spark from running here, if anything does."""
    try:
        require_pyspark()
        find_java()
    except RxTemporalError as error:
        return str(error)
    return None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs Java where there is none; ``RXTEMPORAL_REQUIRE=java`` forbids skipping."""
    if item.get_closest_marker("java") is None:
        return
    reason = missing()
    if reason and "java" in os.environ.get("RXTEMPORAL_REQUIRE", ""):
        pytest.fail(f"RXTEMPORAL_REQUIRE asks for Java: {reason}", pytrace=False)
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that all tests share."""
    running = session(**{"spark.master": "local[2]"})
    yield running
    running.stop()
