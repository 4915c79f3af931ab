"""Keys of a table in a configuration."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rxtemporal.errors import ArgumentError


def check_keys(table: Any, title: str, names: Sequence[str], needed: Iterable[str]) -> None:
    """Raise ``ArgumentError`` if a table has a key that is not a name, or lacks one needed."""
    check_table(table, title)
    for name in table:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]}? Its" if near else "its"
            raise ArgumentError(
                f"[{title}] has no key {name!r}. Hint: {hint} keys are {', '.join(names)}."
            )
    for name in needed:
        if name not in table:
            raise ArgumentError(f"[{title}] needs the key {name!r}")


def check_table(table: Any, title: str) -> None:
    """Raise ``ArgumentError`` if a value is not a table; it may be a secret, and is not shown."""
    if not isinstance(table, Mapping):
        raise ArgumentError(f"[{title}] is a table, got {type(table).__name__}")
