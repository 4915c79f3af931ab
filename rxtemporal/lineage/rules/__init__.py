"""Rules: on which rows of its inputs a row of an operator stands, a module for each family.

A rule is registered with ``find_causes.register`` for the class of the operator's description. It
sees finished histories alone: times, payloads, and in which order rows left.
"""

from rxtemporal.lineage.causes import find_causes
from rxtemporal.lineage.rules import alter as alter
from rxtemporal.lineage.rules import anti_join as anti_join
from rxtemporal.lineage.rules import chop as chop
from rxtemporal.lineage.rules import clip as clip
from rxtemporal.lineage.rules import count_windows as count_windows
from rxtemporal.lineage.rules import distinct as distinct
from rxtemporal.lineage.rules import explode as explode
from rxtemporal.lineage.rules import group as group
from rxtemporal.lineage.rules import hopping_windows as hopping_windows
from rxtemporal.lineage.rules import join as join
from rxtemporal.lineage.rules import lifetimes as lifetimes
from rxtemporal.lineage.rules import outer_join as outer_join
from rxtemporal.lineage.rules import reference as reference
from rxtemporal.lineage.rules import scan as scan
from rxtemporal.lineage.rules import session_lifetimes as session_lifetimes
from rxtemporal.lineage.rules import session_windows as session_windows
from rxtemporal.lineage.rules import snap as snap
from rxtemporal.lineage.rules import snapshot_windows as snapshot_windows
from rxtemporal.lineage.rules import stitch as stitch
from rxtemporal.lineage.rules import union as union
from rxtemporal.lineage.rules import where_select as where_select

__all__ = ["find_causes"]
