"""Syntax trees of the package, which a process parses once."""

from __future__ import annotations

import ast
import functools
import gc
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "rxtemporal"


@functools.cache
def parse_package() -> dict[str, ast.Module]:
    """Return the tree of each module of the package, by its path.

    The garbage collector is kept from the nodes: to look at them again and again takes three times
    as long as to parse them.
    """
    gc.disable()
    try:
        return {
            path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text("utf-8"))
            for path in sorted(PACKAGE.rglob("*.py"))
        }
    finally:
        gc.freeze()
        gc.enable()
