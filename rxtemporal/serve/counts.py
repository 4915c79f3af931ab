"""Counters of a service, which its metrics read."""

from __future__ import annotations

import dataclasses
from collections import Counter


@dataclasses.dataclass
class Counts:
    """Counters of a service since it was started; they are only added to.

    ``requests`` are answers by their status code, ``restarts`` the runs that were started again,
    ``refused`` the rows and whole bodies that were refused.
    """

    requests: Counter[int] = dataclasses.field(default_factory=Counter)
    receipts: int = 0
    restarts: int = 0
    refused: int = 0
