"""Receipts: what has become of each row that was sent, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rxtemporal.core.ticks import TICKS_PER_SECOND, Time
from rxtemporal.ingress.rejected import Rejected
from rxtemporal.ingress.verdict import Verdict
from rxtemporal.serve.responses import dumps


def make_receipt(
    verdict: Verdict,
    durable: bool,
    refused: Sequence[Rejected] = (),
    places: Sequence[int] | None = None,
) -> bytes:
    """Return the receipt for the rows of a request.

    ``refused`` are the rows that were not pushed, and ``places`` has the number in the body of each
    that was; None if all were. ``by`` is how late a row came: in seconds, or in ticks if the times
    of the stream are ticks. ``unsure`` is there if it is not 0.

    >>> make_receipt(Verdict(accepted=2, cti=95), durable=True)
    b'{"accepted":2,"late":[],"duplicates":0,"refused":[],"cti":95,"durable":true}'
    """
    receipt: dict[str, Any] = {
        "accepted": verdict.accepted,
        "late": [],
        "duplicates": verdict.duplicates,
        "refused": [],
        "cti": verdict.cti,
        "durable": durable,
    }
    if verdict.unsure:
        receipt["unsure"] = verdict.unsure
    if verdict.late:
        unit = TICKS_PER_SECOND if isinstance(verdict.cti, datetime) else 1
        receipt["late"] = [
            {
                "index": each.index if places is None else places[each.index],
                "reason": each.reason.value,
                "by": each.by if unit == 1 else each.by / unit,
            }
            for each in verdict.late
        ]
    if verdict.rejected or refused:
        receipt["refused"] = [
            {"index": each.index, "reason": each.reason}
            for each in list_refused(verdict, refused, places)
        ]
    return dumps(receipt)


def list_refused(
    verdict: Verdict, refused: Sequence[Rejected], places: Sequence[int] | None
) -> list[Rejected]:
    """Return all refused rows with their numbers in the body, in this order."""
    moved = [
        each if places is None else Rejected(places[each.index], each.reason, each.row)
        for each in verdict.rejected
    ]
    return sorted([*moved, *refused], key=lambda each: each.index)


def make_cti_receipt(cti: Time | None, durable: bool) -> bytes:
    """Return the receipt for a CTI: that of the stream afterwards."""
    return dumps({"cti": cti, "durable": durable})
