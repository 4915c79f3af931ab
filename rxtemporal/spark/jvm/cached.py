"""Folders that are made once, in the user's cache, and never changed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache_folder() -> Path:
    """Return this package's folder in ``XDG_CACHE_HOME``, else in ``~/.cache``; it may not exist.

    ``RuntimeError`` if there is neither.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rxtemporal"


def cached(name: str, fill: Callable[[Path], None]) -> Path:
    """Return the folder of this name, which ``fill`` fills if it is not there yet.

    It is filled aside and gets its name in one step; another process may be first. ``OSError`` if
    the cache cannot be written.
    """
    home = cache_folder() / name
    if home.is_dir():
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=home.parent))
    try:
        fill(aside)
        aside.chmod(0o755)
        os.rename(aside, home)
    except OSError:
        if not home.is_dir():
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return home
