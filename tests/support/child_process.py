"""The environment of processes that tests start."""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).parent


def environment(**changes: str) -> dict[str, str]:
    """Return this process's environment in which what tests share can be imported, too."""
    paths = filter(None, [str(HERE), os.environ.get("PYTHONPATH")])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **changes}
