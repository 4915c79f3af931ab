"""Every error that rxtemporal raises on purpose.

::

    Exception
     └── RxTemporalError
          ├── ArgumentError (also ValueError)     an argument that nothing can work with
          ├── EventError (also ValueError)        an impossible event: it ends before it starts
          ├── SchemaError (also ValueError)       a payload or field that does not fit
          ├── CtiViolationError                   an event before a promise that was already made
          ├── UnboundedWindowError                infinitely many windows were asked for
          ├── AdvanceTimeError (also ValueError)  settings that cannot be followed
          ├── BindingError                        a query and its streams that do not fit together
          ├── SourceError                         an input that cannot be read
          ├── CheckpointError                     saved state that cannot be used
          ├── SpoolError                          the spool cannot be written or read
          └── JavaError                           no usable Java runtime for Spark
"""

from __future__ import annotations

__all__ = [
    "AdvanceTimeError",
    "ArgumentError",
    "BindingError",
    "CheckpointError",
    "CtiViolationError",
    "EventError",
    "JavaError",
    "RxTemporalError",
    "RxTemporalWarning",
    "SchemaError",
    "SourceError",
    "SpoolError",
    "UnboundedWindowError",
    "blame",
]


class RxTemporalWarning(UserWarning):
    """Warning of something that works but that its user should know of."""


class RxTemporalError(Exception):
    """Base class of every error that rxtemporal raises on purpose.

    ``place`` says which operator failed and at which line it was composed, once it is known.
    """

    place: str | None = None

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message} ({self.place})" if self.place else message


class ArgumentError(RxTemporalError, ValueError):
    """An argument that no operator, subject or source can work with."""


class EventError(RxTemporalError, ValueError):
    """An impossible event: a naive time, an end before its start, an end without a start."""


class SchemaError(RxTemporalError, ValueError):
    """A payload that is no flat record, or a field that is missing, unknown or of a wrong type."""


class CtiViolationError(RxTemporalError):
    """An event that would change what a CTI has already promised not to change."""


class UnboundedWindowError(RxTemporalError):
    """A result that would need infinitely many windows."""


class AdvanceTimeError(RxTemporalError, ValueError):
    """Settings for advancing application time that cannot be followed."""


class BindingError(RxTemporalError):
    """A query and the streams or sinks given to it do not fit together."""


class SourceError(RxTemporalError):
    """An input that cannot be opened or read."""


class CheckpointError(RxTemporalError):
    """Saved state that belongs to another query, version or layout."""


class SpoolError(RxTemporalError):
    """The spool cannot be written, or what is in it cannot be trusted."""


class JavaError(RxTemporalError):
    """Spark needs a Java runtime, and none that works was found."""


def blame(error: Exception, place: str) -> Exception:
    """Return the same error with the place at which the failing operator was composed.

    An error of ours has the place in its message; a user's exception keeps its type and text and
    gets a note, which tracebacks print.
    """
    if isinstance(error, RxTemporalError):
        if error.place is None:
            error.place = place
    elif place not in getattr(error, "__notes__", ()):
        error.add_note(place)
    return error
