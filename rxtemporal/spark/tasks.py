"""Spark's Python processes: their errors, and the garbage that they collect.

Spark passes an error of a Python process on as text: a traceback, then the error. Those of a query
come without the traceback, so the text begins with the sentence that this process would raise; it
is read again in the process of the query.

pyspark collects garbage after each task, and goes through all objects of the process for it. Those
of the imported modules alone are some hundred thousand, which takes 0.1 s of a core; a micro-batch
has five such tasks.
"""

from __future__ import annotations

import builtins
import gc
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rxtemporal import errors
from rxtemporal.errors import CheckpointError, annotate

if TYPE_CHECKING:
    import pyarrow as pa

# pyspark asks for it when it reports an error of its process, which then ends
_WITHOUT_TRACEBACK = "SPARK_HIDE_TRACEBACK"
# the error of a task in Spark's message, up to Spark's own words or Java's stack
_REPORTED = re.compile(
    r"from the Python worker:\s+(?P<name>[\w.]+): (?P<text>.*?)(?: SQLSTATE: |\n\tat |\Z)", re.S
)
# the last line of a traceback, of code that Spark runs outside tasks, such as a source's planning
_OF_PACKAGE = re.compile(r"^(?P<name>rxtemporal\.errors\.\w+): (?P<text>.*)$", re.M)
# Spark's words for a state of ours that an earlier release began, by another of Spark's operators
_OLD_STATE = re.compile(
    r"OPERATOR_NOT_MATCH_IN_STATE_METADATA.*transformWithStateInPandasExec"
    r".*current batch.*transformWithStateInPySparkExec",
    re.S,
)


@contextmanager
def report_task_errors() -> Iterator[None]:
    """Let an error inside a task end this Python process of Spark without a traceback.

    The text has type, message and notes: the operator, the line where it was composed, and for an
    error of a user's function the line that raised it. Outside a task the error is as it was.
    """
    try:
        yield
    except Exception as error:
        if not in_task():  # other work of this process would keep the variable
            raise
        os.environ[_WITHOUT_TRACEBACK] = "1"
        if not isinstance(error, errors.RxTemporalError):
            annotate(error, f"raised at {_find_line(error)}")
        raise error from None


def _find_line(error: BaseException) -> str:
    """Return the file and line that raised an error."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return "?" if step is None else f"{step.tb_frame.f_code.co_filename}:{step.tb_lineno}"


class Task:
    """Work on Arrow batches as Spark runs it, for ``mapInArrow``; its errors have no traceback."""

    def __init__(
        self, work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    ) -> None:
        self._work = work
        # Spark's plans show it
        self.__name__ = getattr(work, "__name__", type(work).__name__)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the results of the work."""
        with report_task_errors():
            yield from self._work(batches)
        spare_collections()


def read_task_error(error: BaseException | None) -> Exception | None:
    """Return the error of a query that Spark reports with an error of its own; None if it is none.

    An error of this package or of Python has its own type, any other one is an
    ``RxTemporalError``. A checkpoint whose state Spark cannot read is a ``CheckpointError``.
    """
    if error is None or isinstance(error, errors.RxTemporalError):
        return None
    text = str(error)
    if _OLD_STATE.search(text):
        found: Exception = CheckpointError(
            "an earlier release of rxtemporal began this checkpoint, with another form of state. "
            "Hint: begin with a new checkpointLocation, which computes everything anew."
        )
    elif match := _REPORTED.search(text):
        found = _make_error(match["name"], match["text"].strip())
    elif matches := [*_OF_PACKAGE.finditer(text)]:
        found = _make_error(matches[-1]["name"], matches[-1]["text"])
    else:
        return None
    found.__cause__ = error
    for note in getattr(error, "__notes__", ()):
        annotate(found, note)
    return found


def _make_error(name: str, text: str) -> Exception:
    message, *notes = text.split("\n")
    kind = getattr(errors if "." in name else builtins, name.rpartition(".")[2], None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            error = kind(message)
        except TypeError:  # it takes more than a message, as a UnicodeError does
            error = errors.RxTemporalError(f"{name}: {message}")
    else:
        error = errors.RxTemporalError(f"{name}: {message}")
    for note in filter(None, notes):
        annotate(error, note)
    return error


_modules = 0


def in_task() -> bool:
    """Return True if Spark runs a task in this process."""
    context = sys.modules.get("pyspark.taskcontext")
    return context is not None and context.TaskContext.get() is not None


def spare_collections() -> None:
    """Leave what is there out of this process's collections, if modules have been imported since.

    It is called at the end of a task, and does nothing in a process that is none of Spark's. What
    nothing refers to any more is freed as before, but for objects that refer to each other.
    """
    global _modules
    if _modules == len(sys.modules) or not in_task():
        return
    _modules = len(sys.modules)
    gc.collect()
    gc.freeze()
