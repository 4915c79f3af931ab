"""Verdict on a push: the fate of each of its rows."""

from __future__ import annotations

import dataclasses
from typing import Any

from rxtemporal.core.ticks import Time
from rxtemporal.ingress.lateness import LateEvent
from rxtemporal.ingress.rejected import Rejected


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on the rows of one push: each is accepted, a duplicate, late or rejected.

    ``accepted`` and ``duplicates`` are numbers of rows. ``late`` has each late row with its reason,
    its distance from the CTI and its ``index`` in the push, whether it was dropped, adjusted or its
    end was moved. ``rejected`` has each row that cannot be read, with its ``index``, the reason and
    the row itself. The four add up to the rows that were pushed; a CTI is not a row. ``cti`` is the
    stream's CTI afterwards, in the form of the source's times; None before the first.

    ``unsure`` is the number of accepted and late rows that may be repeats: their sender has begun
    to count anew, or has left so many gaps in its numbers that the lowest were forgotten.

    >>> Verdict(accepted=2).rows
    2
    """

    accepted: int = 0
    duplicates: int = 0
    late: tuple[LateEvent, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    cti: Time | None = None
    unsure: int = 0

    @property
    def rows(self) -> int:
        """The number of rows pushed."""
        return self.accepted + self.duplicates + len(self.late) + len(self.rejected)


class _OpenVerdict(Verdict):
    """A verdict that can still be filled."""

    __slots__ = ()
    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__


_new = object.__new__


def make_accepted(cti: Time | None) -> Verdict:
    """Return the verdict on one row in time, at a third of the cost of the constructor.

    >>> make_accepted(5) == Verdict(accepted=1, cti=5)
    True
    """
    # a push of one row makes one
    verdict: Any = _new(_OpenVerdict)
    verdict.accepted = 1
    verdict.duplicates = 0
    verdict.late = ()
    verdict.rejected = ()
    verdict.cti = cti
    verdict.unsure = 0
    verdict.__class__ = Verdict
    return verdict  # type: ignore[no-any-return]
