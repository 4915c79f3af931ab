"""Causes of the rows of chop: the row that each is a piece of."""

from __future__ import annotations

from rxtemporal.lineage.carried_rows import find_carried_rows
from rxtemporal.lineage.causes import find_causes
from rxtemporal.operators.chop import Chop

find_causes.register(Chop, find_carried_rows)
