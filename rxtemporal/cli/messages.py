"""Messages of errors on the command line: in one line, with the options to give."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from pathlib import Path
from shlex import quote
from traceback import FrameSummary, extract_tb

from rxtemporal.core.safe_text import show

# the place of code that was given as an argument
EXPRESSION = "<expression>"
_PACKAGE = str(Path(__file__).resolve().parents[1])
_LIBRARIES = tuple(
    {_PACKAGE, *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib"))}
)
_NAMES = "time_zone|unit|ambiguous|nonexistent|separator"
_WITH_VALUE = re.compile(rf"\b({_NAMES})='([^']*)'")
_ALONE = re.compile(rf"\b({_NAMES})=(?=[\s,.]|$)")
# a way that only a program can go
_IN_PROGRAMS = re.compile(r",? or read the file with polars,.*?rxt\.from_polars")


def name_options(message: str) -> str:
    """Return a message about a file with the options of the command in place of arguments.

    >>> name_options("no offset. Hint: time_zone='UTC', or the zone. Numbers need unit=.")
    'no offset. Hint: --time-zone UTC, or the zone. Numbers need --unit.'
    """
    message = _WITH_VALUE.sub(lambda found: f"{_make_option(found[1])} {quote(found[2])}", message)
    message = _ALONE.sub(lambda found: _make_option(found[1]), message)
    return _IN_PROGRAMS.sub("", message)


def _make_option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def describe_os_error(error: OSError) -> str:
    """Return the message for an error of the system, with the file that the user has named."""
    where = f" at {_name_file(str(error.filename))}" if error.filename else ""
    return (
        f"{error.strerror or error}{where}. Hint: check that the path exists, that you may write "
        "to it and that its disk has room, or use another path."
    )


def _name_file(path: str) -> str:
    """Return the name of the file whose hidden part this is."""
    folder, name = Path(path).parent, Path(path).name
    return str(folder / name[1:-5]) if name.startswith(".") and name.endswith(".part") else path


def describe_error_of_user(error: Exception) -> str | None:
    """Return the message for an error that the user's own code raised, or None for another."""
    frames = [each for each in extract_tb(error.__traceback__) if _is_own(each)]
    if not frames:
        return None
    last = frames[-1]
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return (
        f"{last.filename}:{last.lineno}, in {last.name}: {show(error)}{notes}. "
        "Hint: -v shows the traceback."
    )


def _is_own(frame: FrameSummary) -> bool:
    if frame.filename == EXPRESSION:
        return True
    # frames of compiled modules name files relative to where they were built
    is_there = os.path.isabs(frame.filename) or os.path.exists(frame.filename)
    outside = is_there and not frame.filename.startswith(("<", *_LIBRARIES))
    return outside and frame.filename != sys.argv[0]
