"""Side streams: what a source's door does not let in, as further sources of a plan."""

from __future__ import annotations

from typing import Any

import polars as pl

from rxtemporal.core.time_forms import TimeForm
from rxtemporal.ingress.settings import AdvanceTimeSettings


class SideSource:
    """A source beside another, its origin: both share one door and its CTIs, and are read once."""

    what = "side stream"
    """What its rows are, for names."""

    schema: pl.Schema | None

    def __init__(self, origin: Any) -> None:
        self.origin = origin
        self.name = f"{self.what} of {origin.name}"
        self.settings: AdvanceTimeSettings | None = origin.settings

    @property
    def declared_time(self) -> TimeForm | None:
        """The form of the times: that of the origin."""
        return self.origin.declared_time  # type: ignore[no-any-return]

    def describe_time(self) -> str:
        """Return what says the form of the times, for a message."""
        return str(self.origin.describe_time())
