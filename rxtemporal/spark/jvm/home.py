"""A home for Spark whose Python processes start quickly.

Spark has each of its Python processes import pyspark from a zip of sources, which Python compiles
anew every time: most of the second that it takes one of them to start, and a streaming query
starts six. What pip has installed is the same and is compiled already.
"""

from __future__ import annotations

import functools
import os
import zlib
from pathlib import Path

from rxtemporal.core.log import get_logger
from rxtemporal.spark.jvm.cached import cached

log = get_logger(__name__)

ZIPS = Path("python", "lib")
# made here; an administrator's, linked whether it is there or not; where executors work
OWN = {"python", "conf", "work", "__pycache__"}


def spark_home(master: str) -> Path | None:
    """Return a ``SPARK_HOME`` of links to what is installed, with folders in place of the zips.

    It is made once in the user's cache folder. None where pyspark's own home is to be used: one
    that the user has set, a cluster's (whose managers send the zips to other machines), one
    without zips, and where the cache cannot be written.
    """
    if os.environ.get("SPARK_HOME") or not master.startswith("local"):
        return None
    import pyspark

    installed = Path(pyspark.__file__).parent
    packages = {path: _package(path) for path in sorted((installed / ZIPS).glob("*.zip"))}
    if not packages or not all((installed.parent / name).is_dir() for name in packages.values()):
        return None
    entries = sorted(path for path in installed.iterdir() if path.name not in OWN)
    entries.append(installed / "conf")
    mark = zlib.crc32(os.fsencode(f"{pyspark.__version__} {entries}"))
    try:
        return cached(f"spark-{mark:08x}", functools.partial(_fill, entries, packages))
    except (OSError, RuntimeError) as error:
        log.info("spark.slow_start", reason=str(error))
        return None


def _package(path: Path) -> str:
    """Return the package in a zip: ``py4j`` for ``py4j-0.10.9.9-src.zip``."""
    return path.stem.partition("-")[0]


def _fill(entries: list[Path], packages: dict[Path, str], home: Path) -> None:
    for entry in entries:
        (home / entry.name).symlink_to(entry)
    for path, name in packages.items():
        # Spark puts this on the path of its Python, which takes a folder as well as a zip
        folder = home / ZIPS / path.name
        folder.mkdir(parents=True)
        (folder / name).symlink_to(entries[0].parent.parent / name)
