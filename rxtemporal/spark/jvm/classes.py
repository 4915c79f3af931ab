"""An archive of Spark's classes, with which its Java process starts in half the processor time.

Java loads and verifies the classes of Spark, some 25,000 of them, anew in each process. It can also
write down what it has loaded when it ends, and map that file when it starts (class data sharing).
The file belongs to one Java and one set of jars; another one is not used, which costs only time.
A process that is to write it loads its classes at half the speed, so this is done when it is asked
for only.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from rxtemporal.core.log import get_logger
from rxtemporal.spark.jvm.cached import cache_folder
from rxtemporal.spark.jvm.java import Java

log = get_logger(__name__)

SWITCH = "RXTEMPORAL_CLASS_ARCHIVE"
DAY = 86_400
# an archive that was not used for so long belongs to a Spark that is gone
KEPT = 30 * DAY
# what Java has to say of an archive is not for the standard output
_QUIET = ["-Xlog:disable", "-Xlog:all=warning:stderr"]

_recording: ContextVar[Callable[[Path], None] | None] = ContextVar("recording", default=None)


@contextmanager
def recorded() -> Iterator[Callable[[], None]]:
    """Have a Java process that starts inside write an archive when it ends, if there is none.

    That is where ``RXTEMPORAL_CLASS_ARCHIVE`` is ``make``. It is taken if what this yields was
    called: when the process has loaded what others will need.
    """
    asides: list[Path] = []

    def good() -> None:
        for aside in asides:
            (aside / "good").touch()

    token = _recording.set(asides.append)
    try:
        yield good
    finally:
        _recording.reset(token)


def archive_options(java: Java, spark: Path, *, whole: bool) -> list[str]:
    """Return the options with which this Java starts the Spark in the folder ``spark`` quickly.

    ``whole``: the process does all of Spark's work, so that what it loads is worth writing down.
    No options where the environment variable ``RXTEMPORAL_CLASS_ARCHIVE`` is ``off``, and where
    the cache cannot be written. A Java that comes without an archive of its own classes, on which
    this one is built, gets one there too.
    """
    if _switch() == "off":
        return []
    try:
        return _options(java, spark, whole)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        log.info("spark.no_class_archive", reason=str(error))
        return []


def _options(java: Java, spark: Path, whole: bool) -> list[str]:
    folder = cache_folder()
    if os.pathsep in str(folder):
        return []
    name = f"classes-{_mark(java, spark):08x}"
    archive, base = folder / f"{name}.jsa", folder / f"{name}-base.jsa"
    own = _own(java).is_file()
    if not archive.exists():
        _take(folder, name, archive)
    if archive.exists() and (own or base.exists()):
        for path in [archive] if own else [archive, base]:
            os.utime(path)  # it is in use, which keeps it from being swept
        return [f"-XX:SharedArchiveFile={archive}", *_QUIET]
    recording = _recording.get()
    if recording is None or not whole or _switch() != "make":
        return []
    folder.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder))
    recording(aside)
    if not own:
        _make_base(java, aside / "base.jsa", base)
    below = [] if own else [f"-XX:SharedArchiveFile={base}"]
    return [*below, f"-XX:ArchiveClassesAtExit={aside / 'classes.jsa'}", *_QUIET]


def _switch() -> str:
    return os.environ.get(SWITCH, "").strip().lower()


def _own(java: Java) -> Path:
    """Return where Java has an archive of its own classes, if it has one."""
    return java.home / "lib" / "server" / "classes.jsa"


def _make_base(java: Java, aside: Path, base: Path) -> None:
    """Have Java archive its own classes, which takes some seconds."""
    if not base.exists():
        command = [
            str(java.home / "bin" / "java"),
            "-Xshare:dump",
            f"-XX:SharedArchiveFile={aside}",
        ]
        subprocess.run(command, capture_output=True, timeout=120, check=True)
        os.replace(aside, base)


def _mark(java: Java, spark: Path) -> int:
    """Return a number for what Java compares before it uses an archive."""
    own = [path for path in (_own(java), java.home / "lib" / "modules") if path.exists()]
    files = [*own, *sorted((spark / "jars").glob("*.jar"))]
    facts = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return zlib.crc32(os.fsencode(f"{java.version} {facts}"))


def _take(folder: Path, name: str, archive: Path) -> None:
    """Give an archive its name that an earlier process has written wholly, and tidy up."""
    for aside in folder.glob(f".{name}-*"):
        written = aside / "classes.jsa"
        if (aside / "good").exists() and _is_whole(written):
            with open(written, "rb") as file:
                os.fsync(file.fileno())
            os.replace(written, archive)
            log.info("spark.class_archive", path=str(archive), size=archive.stat().st_size)
            shutil.rmtree(aside, ignore_errors=True)
        elif _age(aside) > DAY:
            shutil.rmtree(aside, ignore_errors=True)
    for other in folder.glob("classes-*.jsa"):
        if _age(other) > KEPT:
            other.unlink()


def _is_whole(path: Path) -> bool:
    """Whether Java is done with an archive: it writes the first bytes last."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        return any(file.read(4)) and _age(path) > 1
    return False


def _age(path: Path) -> float:
    return time.time() - path.stat().st_mtime
