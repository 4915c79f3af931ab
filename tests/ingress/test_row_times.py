"""Times of pushed rows: few and many are read alike."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from rxtemporal.core.ticks import ticks
from rxtemporal.ingress.row_columns import read_times

EAST = timezone(timedelta(hours=5, minutes=45))
TIMES = [
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(2026, 5, 1, 12, 0, 0, 1, tzinfo=EAST),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
]


@pytest.mark.parametrize("count", [1, 300], ids=["few", "many"])
@pytest.mark.parametrize("text", [False, True], ids=["datetimes", "texts"])
def test_each_time_is_that_instant(count: int, text: bool) -> None:
    """The ticks are exact from the first to the last instant, in any zone."""
    times = TIMES * count
    found, form = read_times([time.isoformat() for time in times] if text else times)
    assert (found.tolist(), form) == ([ticks(time) for time in times], "datetime")
    assert found.flags.writeable


@pytest.mark.parametrize("count", [1, 2_000], ids=["few", "many"])
def test_a_time_without_an_offset_is_refused(count: int) -> None:
    """A naive time names no instant, among few and among many."""
    with pytest.raises(TypeError):
        read_times([datetime(2026, 5, 1, tzinfo=UTC)] * count + [datetime(2026, 5, 1)])
