"""Causes of the rows of group_by and ungroup: the row itself, for every row passes in order."""

from __future__ import annotations

from rxtemporal.lineage.causes import find_causes
from rxtemporal.lineage.rules.where_select import find_same_rows
from rxtemporal.operators.group import GroupBy, Ungroup

find_causes.register(GroupBy, find_same_rows)
find_causes.register(Ungroup, find_same_rows)
