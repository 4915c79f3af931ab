"""Causes of the rows of group_by and ungroup: the row itself, for every row passes in order."""

from __future__ import annotations

from rxtemporal.operators.causes.causes import find_causes
from rxtemporal.operators.group_by.plan import GroupBy, Ungroup
from rxtemporal.operators.where.causes import find_same_rows

find_causes.register(GroupBy, find_same_rows)
find_causes.register(Ungroup, find_same_rows)
