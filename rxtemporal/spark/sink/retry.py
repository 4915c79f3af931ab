"""Rules for whether Spark is started again after an error."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from typing import Literal

from rxtemporal.errors import JavaError, SpoolError

# "never": the error would recur; "some": a few attempts; "always": as long as it takes
Retry = Literal["never", "some", "always"]

# errors that end when somebody frees space or grants a permission, as numbers and as texts
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EFBIG}
_TEMPORARY = {*_NO_ROOM, errno.ETIMEDOUT}
_TEMPORARY_TEXTS = (
    *map(os.strerror, sorted(_NO_ROOM)),
    # Java says no more than this
    "AccessDeniedException",
    "Mkdirs failed to create",
)
# Python's words for an error that was raised while another one was handled
_HANDLING = "During handling of the above exception, another exception occurred:"
_OURS = re.compile(r"\brxtemporal\.errors\.(\w+)")


def retry_after(error: BaseException) -> Retry:
    """Return if and how long Spark is started again after an error.

    A full disk, a missing permission, an unavailable database and a Java process that still has to
    end are temporary. Errors of this package, of the query and of a user's function are permanent.
    Any other error of Spark may be a lost executor.

    An error counts as itself and as the causes that it names (``raise … from cause``), but not as
    the error during whose handling it was raised.
    """
    chain = list(_list_causes(error))
    if any(isinstance(each, OSError) and each.errno in _TEMPORARY for each in chain):
        return "always"
    # PEP 249's class for errors of a database's operation, in any module
    if any("OperationalError" in [kind.__name__ for kind in type(each).__mro__] for each in chain):
        return "always"
    if isinstance(error, JavaError) and error.__cause__ is not None:
        return "some"  # there is a Java, and Spark does not start in it
    if not type(error).__module__.startswith(("py4j", "pyspark")):
        return "never"
    if type(error).__name__ in ("AnalysisException", "ParseException"):
        return "never"
    return _retry_after_text(" ".join(map(str, chain)))


def _retry_after_text(text: str) -> Retry:
    """Judge by Spark's message, where the error itself was raised in another process."""
    ours = set(_OURS.findall(text))
    if ours - {SpoolError.__name__}:
        return "never"
    if any(each in text.rpartition(_HANDLING)[2] for each in _TEMPORARY_TEXTS):
        return "always"
    return "never" if ours else "some"


def _list_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__
