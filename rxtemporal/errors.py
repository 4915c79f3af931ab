"""The exceptions of rxtemporal.

::

    Exception
     └── RxTemporalError
          ├── ArgumentError (also ValueError)     an invalid argument
          ├── EventError (also ValueError)        an impossible event: it ends before it starts
          ├── SchemaError (also ValueError)       a payload or field that does not fit
          ├── CtiViolationError                   an event that breaks a CTI
          ├── UnboundedWindowError                a result that needs infinitely many windows
          ├── AdvanceTimeError (also ValueError)  invalid settings for advancing time
          ├── BindingError                        a query and its streams that do not fit together
          │    ├── ProcessEndedError              a push that no run accepts
          │    └── StoppedError                   the end of a run by ``stop``, for its sinks
          ├── SourceError                         an input that cannot be read
          ├── CheckpointError                     saved state of another query, source or version
          ├── SpoolError                          a spool that cannot be written or read
          └── JavaError                           no usable Java runtime for Spark
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec, TypeVar

__all__ = [
    "AdvanceTimeError",
    "ArgumentError",
    "BindingError",
    "CheckpointError",
    "CtiViolationError",
    "EventError",
    "JavaError",
    "ProcessEndedError",
    "RxTemporalError",
    "RxTemporalWarning",
    "SchemaError",
    "SourceError",
    "SpoolError",
    "StoppedError",
    "UnboundedWindowError",
    "annotate",
    "blame",
    "explain_calls",
]


P = ParamSpec("P")
R = TypeVar("R")

_CAST_HINT = ". Hint: cast(…, strict=False) gives null for values that cannot be converted."


class RxTemporalWarning(UserWarning):
    """A warning about something that works but deserves the user's attention."""


class RxTemporalError(Exception):
    """Base class of all exceptions of rxtemporal.

    ``place`` names the operator that failed and the line where it was composed, if known.
    """

    place: str | None = None

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message} ({self.place})" if self.place else message


class ArgumentError(RxTemporalError, ValueError):
    """An invalid argument of an operator, subject or source."""


class EventError(RxTemporalError, ValueError):
    """An impossible event: a naive time, an end before its start, an end without a start."""


class SchemaError(RxTemporalError, ValueError):
    """A payload that is not a flat record, or a field that is missing, unknown or of wrong type."""


class CtiViolationError(RxTemporalError):
    """An event that would change the stream before a CTI, which has promised no more changes."""


class UnboundedWindowError(RxTemporalError):
    """A result that needs infinitely many windows."""


class AdvanceTimeError(RxTemporalError, ValueError):
    """Invalid settings for advancing application time."""


class BindingError(RxTemporalError):
    """A query and its streams or sinks that do not fit together."""


class ProcessEndedError(BindingError):
    """A push that no run accepts: the run has failed, was stopped or has completed.

    ``__cause__`` is the error that ended the run, None if it was stopped or has completed.
    """


class StoppedError(BindingError):
    """The end of a run by ``stop``, as reported to its sinks: the run has not failed."""


class SourceError(RxTemporalError):
    """An input that cannot be opened or read."""


class CheckpointError(RxTemporalError):
    """Saved state or an event log of another query, source or version, or a damaged state."""


class SpoolError(RxTemporalError):
    """A spool that cannot be written, or whose content is damaged."""


class JavaError(RxTemporalError):
    """No usable Java runtime was found, and Spark needs one.

    ``killed`` is True if there is one and a signal has ended its process while it started.
    """

    def __init__(self, message: str, *, killed: bool = False) -> None:
        super().__init__(message)
        self.killed = killed


def blame(error: Exception, place: str) -> Exception:
    """Add the place where the failing operator was composed to an error, and return the error.

    An ``RxTemporalError`` shows the place in its message; any other exception gets it as a note. An
    error of polars becomes a ``SchemaError`` with the error as its cause: programs print errors
    without their notes, and polars does not know which operator its expression belongs to.
    """
    if type(error).__module__.partition(".")[0] == "polars":
        reason, _, _ = str(error).partition("\n")
        hint = _CAST_HINT if reason.startswith("conversion from") else ""
        found = SchemaError(f"{reason}{hint}")
        found.__cause__ = error
        error = found
    if isinstance(error, RxTemporalError):
        if error.place is None:
            error.place = place
    else:
        annotate(error, place)
    return error


def annotate(error: BaseException, note: str) -> None:
    """Add a note to an error, once; tracebacks show it."""
    with suppress(Exception):  # an error with code of its own
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)


def explain_calls(example: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: arguments that do not fit are a TypeError with this example of a call.

    >>> @explain_calls("open_door('hall')")
    ... def open_door(name: str) -> str:
    ...     return name
    >>> open_door(colour="red")
    Traceback (most recent call last):
    ...
    TypeError: open_door() got an unexpected keyword argument 'colour'. Hint: open_door('hall').
    """
    return functools.partial(_explain, example)


def _explain(example: str, function: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            import inspect  # only a mistake needs it

            try:
                inspect.signature(function).bind(*args, **kwargs)
            except TypeError:
                reason = str(error).replace(".__init__", "")
                # from Python 3.13 on it may end with "Did you mean …?"
                stop = "" if reason.endswith("?") else "."
                raise TypeError(f"{reason}{stop} Hint: {example}.") from None
            raise  # an error of the function itself

    return call
