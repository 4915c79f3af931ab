"""Requirements without which a test is skipped.

A module of its own, and not part of ``conftest``: ``spark/conftest.py`` has the same name, and an
import gets whichever came last.
"""

from __future__ import annotations

import functools
import os

import pytest

REQUIRED = set(filter(None, os.environ.get("RXTEMPORAL_REQUIRE", "").split(",")))


def skip_or_fail(what: str, reason: str) -> None:
    """Skip for want of something; fail where the environment says that it is there."""
    if what in REQUIRED:
        pytest.fail(f"{what} is required here, and {reason}")
    pytest.skip(reason)


@functools.cache
def without_java() -> str | None:
    """Return what keeps Spark from running here; None if nothing does."""
    from rxtemporal.errors import RxTemporalError
    from rxtemporal.spark.jvm.java import find_java
    from rxtemporal.spark.jvm.session import require_pyspark

    try:
        require_pyspark()
        find_java()
    except RxTemporalError as error:
        return str(error)
    return None


def need_java() -> None:
    """Skip, or fail, where Spark cannot run."""
    if reason := without_java():
        skip_or_fail("java", reason)
