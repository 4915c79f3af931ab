"""The form of the times of streams that meet in one run: declared, or that of the first row."""

from __future__ import annotations

import threading
from typing import Any

from rxtemporal.core.safe_text import brief
from rxtemporal.core.ticks import MIN_TIME, Time, to_datetime
from rxtemporal.core.time_forms import ONE, TimeForm, explain_units, find_time_form
from rxtemporal.errors import EventError


class StreamTime:
    """The form of the times of streams that meet, shared by their readers and doors.

    ``form`` is None until a declaration, a span or a row has shown it, and does not change after
    that. ``because`` says what showed it, for messages; ``is_assumed``: nothing did, but some
    operator reads times. ``shown`` is the form in which the times are shown: numbers that
    belong to both forms are ticks. Threads: any.

    >>> times = StreamTime()
    >>> times.takes("ticks"), times.takes("datetime"), times.form
    (True, False, 'ticks')
    """

    __slots__ = ("_lock", "because", "form", "is_assumed", "shown")

    def __init__(self, form: TimeForm | None = None, because: str = "") -> None:
        self._lock = threading.Lock()
        self.shown: TimeForm | None = None
        self.declare(form, because)

    def declare(self, form: TimeForm | None, because: str, *, is_assumed: bool = False) -> None:
        """Set the form, and what showed it."""
        self.form, self.because, self.is_assumed = form, because, is_assumed
        self.shown = form or self.shown

    def takes(self, form: TimeForm | None) -> bool:
        """Return True if times of this form may come; the first form that comes is that of all.

        None stands for numbers that belong to both forms.
        """
        if form is None:
            with self._lock:
                self.shown = self.shown or "ticks"
            return True
        if self.form is None:
            with self._lock:
                if self.form is None:
                    self.declare(form, f"an earlier row has {ONE[form]}")
        return self.form == form

    def see(self, time: Any, name: str, what: Any) -> None:
        """Note a time of ``what`` in the stream of a name; ``EventError`` if it may not come."""
        if not self.takes(find_time_form(time)):
            raise EventError(
                f"stream {name!r} has times in ticks and datetimes: {brief(what)} has "
                f"{self.explain(time)}"
            )

    def show(self, ticks: int) -> Time:
        """Return ticks in the form in which the times are shown.

        >>> StreamTime("datetime").show(0).isoformat()
        '1970-01-01T00:00:00+00:00'
        """
        return to_datetime(ticks) if self.shown == "datetime" else ticks

    def show_cti(self, cti: int) -> Time | None:
        """Return a CTI in the form in which the times are shown; None before the first."""
        # this runs for each row that makes a CTI, without a call of show
        if cti <= MIN_TIME:
            return None
        return to_datetime(cti) if self.shown == "datetime" else cti

    def explain(self, time: Any) -> str:
        """Return what a time is, why it may not come, and what to write."""
        if self.form == "datetime":
            why = f"a number without a unit, and {self.because}."
            hint = explain_units(time if isinstance(time, int | float) else None)
            if self.is_assumed:
                units = hint.removeprefix("Hint: ")
                return f"{why} Hint: unit='ticks' leaves it a number of ticks. Otherwise {units}"
            return (
                f"{why} {hint} Where no span has a unit, unit='ticks' leaves it a number of ticks."
            )
        return (
            f"a datetime, and {self.because}. Hint: give all times as datetimes, with spans that "
            "have units, or all as numbers."
        )
