"""Verdict on a push: the fate of each of its rows."""

from __future__ import annotations

import dataclasses
from typing import Final

from rxtemporal.core.ticks import Time
from rxtemporal.ingress.lateness import LateEvent
from rxtemporal.ingress.rejected import Rejected


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on the rows of one push: each is accepted, a duplicate, late or rejected.

    ``accepted`` and ``duplicates`` are numbers of rows. ``late`` has each late row with its reason,
    its distance from the CTI and its ``index`` in the push, whether it was dropped, adjusted or its
    end was moved. ``rejected`` has each row that cannot be read, with its ``index``, the reason and
    the row itself. The four add up to the rows that were pushed; a CTI is no row. ``cti`` is the
    stream's CTI afterwards, in the form of the source's times; None before the first.

    >>> Verdict(accepted=2).rows
    2
    """

    accepted: int = 0
    duplicates: int = 0
    late: tuple[LateEvent, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    cti: Time | None = None

    @property
    def rows(self) -> int:
        """The number of rows pushed."""
        return self.accepted + self.duplicates + len(self.late) + len(self.rejected)


# a verdict is frozen for everybody but this module; a push of one row makes one
_new = object.__new__
_set_accepted: Final = Verdict.__dict__["accepted"].__set__
_set_duplicates: Final = Verdict.__dict__["duplicates"].__set__
_set_late: Final = Verdict.__dict__["late"].__set__
_set_rejected: Final = Verdict.__dict__["rejected"].__set__
_set_cti: Final = Verdict.__dict__["cti"].__set__


def make_accepted(cti: Time | None) -> Verdict:
    """Return the verdict on one row in time, at half the cost of the constructor.

    >>> make_accepted(5) == Verdict(accepted=1, cti=5)
    True
    """
    verdict = _new(Verdict)
    _set_accepted(verdict, 1)
    _set_duplicates(verdict, 0)
    _set_late(verdict, ())
    _set_rejected(verdict, ())
    _set_cti(verdict, cti)
    return verdict
