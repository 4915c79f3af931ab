"""Settings of advancing time in one call."""

from __future__ import annotations

from typing import Any

import rxtemporal as rxt

DROP, ADJUST = rxt.AdvanceTimePolicy.DROP, rxt.AdvanceTimePolicy.ADJUST


def settings(every: int | None, delay: int = 0, policy: Any = DROP, imports: Any = None) -> Any:
    """Settings, or none where neither is given."""
    if every is None and imports is None:
        return None
    generation = None if every is None else rxt.AdvanceTimeGenerationSettings(every, delay)
    named = None if imports is None else rxt.AdvanceTimeImportSettings(imports)
    return rxt.AdvanceTimeSettings(generation, named, policy=policy)
