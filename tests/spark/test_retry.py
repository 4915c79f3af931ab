"""Retries after an error: judged by the error itself, not by the errors around it."""

from __future__ import annotations

import errno
import os
import traceback

import pytest

from rxtemporal import errors
from rxtemporal.core.files import report_errors
from rxtemporal.spark.sink.worker import retry_after

PASSING = ["ENOSPC", "EDQUOT", "EACCES", "EPERM", "EROFS", "EFBIG"]


def of_spark(text: str, name: str = "StreamingQueryException") -> Exception:
    """An error as pyspark raises it: what another process has said is a text in it."""
    module = {"__module__": "pyspark.errors.exceptions.captured"}
    error: Exception = type(name, (Exception,), module)(text)
    return error


def told(error: BaseException) -> str:
    """Return Spark's message for an error in one of its Python processes."""
    name = f"{type(error).__module__}.{type(error).__name__}"
    return f"org.apache.spark.api.python.PythonException: Traceback:\n{name}: {error}\n\n\tat org…"


def spool_error(code: int) -> errors.SpoolError:
    """Return the error of the spool's reader when the system refuses."""
    with pytest.raises(errors.SpoolError) as refused, report_errors("cannot list the spool /x"):
        raise OSError(code, os.strerror(code), "/x")
    return refused.value


@pytest.mark.parametrize("code", PASSING)
def test_what_refuses_the_spool_is_waited_for_on_sparks_side_too(code: str) -> None:
    """No room and no right pass, whichever process has met them."""
    error = spool_error(getattr(errno, code))
    assert retry_after(error) == "always"
    assert retry_after(of_spark(told(error))) == "always"


@pytest.mark.parametrize("code", PASSING)
def test_what_java_meets_is_waited_for(code: str) -> None:
    """A checkpoint or a table's file that Java cannot write is no other case."""
    text = f"java.io.IOException: /x/checkpoint/offsets/3 ({os.strerror(getattr(errno, code))})"
    assert retry_after(of_spark(text)) == "always"


@pytest.mark.parametrize(
    "text", ["java.nio.file.AccessDeniedException: /x/0", "Mkdirs failed to create file:/x/0"]
)
def test_what_java_does_not_explain_is_waited_for(text: str) -> None:
    """It says neither right nor room, and means one of them."""
    assert retry_after(of_spark(text)) == "always"


@pytest.mark.parametrize(
    "name", [n for n in errors.__all__ if n.endswith("Error") and n != "SpoolError"]
)
def test_what_this_package_refuses_stays_refused(name: str) -> None:
    """A late row is late in every life, even one whose payload reads like a refused file."""
    error = getattr(errors, name)("the row {'note': 'Permission denied'} breaks it")
    assert retry_after(error) == "never"
    assert retry_after(of_spark(told(error))) == "never"
    assert retry_after(of_spark(told(spool_error(errno.EACCES)) + told(error))) == "never"


def test_damage_stays() -> None:
    """A segment whose checksum does not fit is not mended by time."""
    damaged = errors.SpoolError("/x/000000000001.arrow is damaged: its CRC-32 does not fit.")
    assert retry_after(damaged) == "never"
    assert retry_after(of_spark(told(damaged))) == "never"
    assert retry_after(spool_error(errno.ENOTDIR)) == "never"


def raised(how: str) -> Exception:
    """A user's error that comes of a missing right, in one of the ways in which that can be."""
    try:
        try:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/secret")
        except PermissionError as denied:
            if how == "in its handling":
                raise ValueError("no such customer")  # noqa: B904 - that is what is asked for
            raise ValueError("no such customer") from (denied if how == "from it" else None)
    except ValueError as error:
        return error


@pytest.mark.parametrize(
    ("how", "expected"),
    [("in its handling", "never"), ("from None", "never"), ("from it", "always")],
)
def test_a_users_error_counts_by_the_cause_it_names(how: str, expected: str) -> None:
    """The error during whose handling it was raised is not its cause."""
    assert retry_after(raised(how)) == expected


@pytest.mark.parametrize(
    ("how", "expected"),
    [("in its handling", "some"), ("from None", "some"), ("from it", "always")],
)
def test_so_does_one_that_a_worker_of_spark_tells(how: str, expected: str) -> None:
    """There it is worth some tries, as all of which only a text is known."""
    trace = "".join(traceback.format_exception(raised(how)))
    assert retry_after(of_spark(f"PythonException: {trace}", "PythonException")) == expected


def test_a_cause_that_leads_back_to_itself_is_an_end() -> None:
    """Such a chain has no end to be found."""
    one, other = ValueError(), ValueError()
    one.__cause__, other.__cause__ = other, one
    assert retry_after(one) == "never"


@pytest.mark.parametrize("kind", ["AnalysisException", "ParseException"])
def test_what_a_query_cannot_mean_stays(kind: str) -> None:
    """Spark refuses it in every life."""
    assert retry_after(of_spark("no such column", kind)) == "never"


def test_a_lost_worker_is_worth_some_tries() -> None:
    """Of the rest of what Spark says nothing is known."""
    assert retry_after(of_spark("Python worker exited unexpectedly (crashed)")) == "some"
