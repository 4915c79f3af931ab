"""A clear error when Spark's Java process has died.

py4j reports only a broken connection, an end of file or a closed socket.
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


def explain_java_exit(error: BaseException, hint: str) -> JavaError | None:
    """Return the error to raise in place of ``error`` if Spark's Java process has died, else None.

    ``hint`` says what became of the rows and what to do. A process started by another program
    (``spark-submit``) cannot be checked.
    """
    if sys.modules.get("pyspark") is None:
        return None  # ``error`` itself says that pyspark is not installed
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None and type(error).__module__.startswith(("py4j", "builtins")):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)  # the connection breaks a moment before the process ends
    if process is None or process.poll() is None:
        return None
    died = JavaError(
        f"Spark's Java process ended with code {process.returncode} while the query ran. "
        f"Hint: {hint}. {_MEMORY}"
    )
    died.__cause__ = error
    return died


@contextmanager
def report_java_exit(hint: str) -> Iterator[None]:
    """Replace an error raised inside by a ``JavaError`` if the Java process has died."""
    try:
        yield
    except Exception as error:
        died = explain_java_exit(error, hint)
        if died is None:
            raise
        raise died from error
