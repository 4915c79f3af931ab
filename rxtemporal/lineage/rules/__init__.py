"""Rules: on which rows of its inputs a row of an operator stands, a module for each family.

A rule is registered with ``find_causes.register`` for the class of the operator's description. It
sees finished histories alone: times, payloads, and in which order rows left.
"""

from rxtemporal.operators.alter import causes as alter  # noqa: F401
from rxtemporal.operators.anti_join import causes as anti_join  # noqa: F401
from rxtemporal.operators.causes.causes import find_causes
from rxtemporal.operators.chop import causes as chop  # noqa: F401
from rxtemporal.operators.clip import causes as clip  # noqa: F401
from rxtemporal.operators.count_window import causes as count_windows  # noqa: F401
from rxtemporal.operators.distinct import causes as distinct  # noqa: F401
from rxtemporal.operators.explode import causes as explode  # noqa: F401
from rxtemporal.operators.group_by import causes as group  # noqa: F401
from rxtemporal.operators.hopping_window import causes as hopping_windows  # noqa: F401
from rxtemporal.operators.join import causes as join  # noqa: F401
from rxtemporal.operators.lifetimes import causes as lifetimes  # noqa: F401
from rxtemporal.operators.outer_join import causes as outer_join  # noqa: F401
from rxtemporal.operators.reference import causes as reference  # noqa: F401
from rxtemporal.operators.scan import causes as scan  # noqa: F401
from rxtemporal.operators.sessions import causes as session_windows  # noqa: F401
from rxtemporal.operators.sessions import lifetimes_causes as session_lifetimes  # noqa: F401
from rxtemporal.operators.snap import causes as snap  # noqa: F401
from rxtemporal.operators.snapshot_window import causes as snapshot_windows  # noqa: F401
from rxtemporal.operators.stitch import causes as stitch  # noqa: F401
from rxtemporal.operators.union import causes as union  # noqa: F401
from rxtemporal.operators.where import causes as where_select  # noqa: F401

__all__ = ["find_causes"]
