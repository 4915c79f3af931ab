"""Steps that forget a key at once, where they else wait until there are thousands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rxtemporal.engine import keys


@contextmanager
def forgetful() -> Iterator[None]:
    """Let steps forget each key as soon as nothing is held for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "MANY_KEYS", 0)
        patch.setattr(keys, "TIMES_HELD", 1)
        yield
