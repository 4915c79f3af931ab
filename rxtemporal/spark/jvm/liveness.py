"""What is told when Spark's Java process is gone: each call to it then ends in an error of its own.

The end of a connection, of a file, of a socket: none of them says what has happened.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rxtemporal.errors import JavaError

_MEMORY = (
    "If it was killed for its memory, give it another limit: the setting spark.driver.memory, of "
    "SparkSink(..., session={...}) or of rxtemporal.spark.session(**{...})."
)


def java_gone(error: BaseException, hint: str) -> JavaError | None:
    """Return what to say in place of ``error`` if Spark's Java process is gone, None if it is not.

    ``hint`` says what has become of the rows and what to do. Of a process that somebody else has
    started (``spark-submit``) nothing is known.
    """
    if sys.modules.get("pyspark") is None:
        return None  # which is what the error says, where it is not installed
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None and type(error).__module__.startswith(("py4j", "builtins")):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)  # the connection breaks a moment before the process is gone
    if process is None or process.poll() is None:
        return None
    gone = JavaError(
        f"Spark's Java process ended with code {process.returncode} while the query ran. "
        f"Hint: {hint}. {_MEMORY}"
    )
    gone.__cause__ = error
    return gone


@contextmanager
def java_watched(hint: str) -> Iterator[None]:
    """Have what fails inside for want of a Java process say so."""
    try:
        yield
    except Exception as error:
        gone = java_gone(error, hint)
        if gone is None:
            raise
        raise gone from error
