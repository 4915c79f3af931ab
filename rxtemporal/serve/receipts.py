"""Receipts: what has become of each row that was sent, as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from rxtemporal.core.ticks import TICKS_PER_SECOND, Time
from rxtemporal.ingress.rejected import Rejected
from rxtemporal.ingress.verdict import Verdict
from rxtemporal.serve.responses import dumps

# so many refused rows of a request have their reasons; the others are counted by so many kinds
MOST_REASONS, _MOST_KINDS = 100, 20
_OTHERS = "…"
# behind these words a reason has the value
_VALUES = " and cannot hold ", ": ", ", got "


def make_receipt(
    verdict: Verdict,
    durable: bool,
    refused: Sequence[Rejected] = (),
    places: Sequence[int] | None = None,
) -> bytes:
    """Return the receipt for the rows of a request.

    ``refused`` are all rows that are, and ``places`` has the number in the body of each row that
    was pushed; None if all were. The first 100 refused rows have their reasons, and the others are
    counted in ``more_refused``, if there are any. ``by`` is how late a row came: in seconds, or in
    ticks if the times of the stream are ticks. ``unsure`` is there if it is not 0.

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
    if refused:
        receipt["refused"] = [
            {"index": each.index, "reason": each.reason} for each in refused[:MOST_REASONS]
        ]
    if more := refused[MOST_REASONS:]:
        receipt["more_refused"] = {"count": len(more), "kinds": count_kinds(more)}
    return dumps(receipt)


def count_kinds(refused: Iterable[Rejected]) -> dict[str, int]:
    """Return how many rows were refused for each kind of reason, which is one without its value.

    >>> each = "field 'temp' is Float64 and cannot hold 'hot' (str)"
    >>> count_kinds([Rejected(0, each, {}), Rejected(1, "field 'time' is missing", {})])
    {"field 'temp' is Float64": 1, "field 'time' is missing": 1}
    """
    counts = Counter(map(_find_kind, refused))
    kinds = dict(counts.most_common(_MOST_KINDS))
    if others := counts.total() - sum(kinds.values()):
        kinds[_OTHERS] = others
    return kinds


def _find_kind(refused: Rejected) -> str:
    kind = refused.reason
    for words in _VALUES:
        kind = kind.partition(words)[0]
    return kind


def list_refused(
    verdict: Verdict, refused: Sequence[Rejected], places: Sequence[int] | None
) -> list[Rejected]:
    """Return all refused rows with their numbers in the body, in this order."""
    moved = [
        each if places is None else Rejected(places[each.index], each.reason, each.row)
        for each in verdict.rejected
    ]
    return sorted([*moved, *refused], key=lambda each: each.index)


def make_cti_receipt(cti: Time | None, durable: bool, ignored: str | None) -> bytes:
    """Return the receipt for a CTI: that of the stream afterwards; ``ignored`` says why not."""
    receipt = {"cti": cti, "durable": durable}
    return dumps(receipt if ignored is None else {**receipt, "ignored": ignored})
