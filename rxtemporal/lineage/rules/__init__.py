"""Rules: on which rows of its inputs a row of an operator stands, a module for each family.

A rule is registered with ``find_causes.register`` for the class of the operator's description. It
sees finished histories alone: times, payloads, and in which order rows left.
"""

from rxtemporal.lineage.causes import find_causes
from rxtemporal.lineage.rules import where_select as where_select

__all__ = ["find_causes"]
