"""Header ``Retry-After`` of an answer: seconds, or a date."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def read_retry_after(text: str | None) -> float:
    """Return how many seconds to wait; 0 if the header is not there or cannot be read.

    >>> read_retry_after("3"), read_retry_after("soon"), read_retry_after(None)
    (3.0, 0.0, 0.0)
    """
    if text is None:
        return 0.0
    try:
        seconds = float(text)
    except ValueError:
        seconds = _until(text)
    return seconds if 0 < seconds < math.inf else 0.0


def _until(text: str) -> float:
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime.now(UTC)).total_seconds()
