"""Charts of streams and results, with matplotlib (the ``plots`` extra).

Each function returns a matplotlib ``Figure``, and saves it if it gets a ``path``: PNG, SVG or PDF,
as the suffix says.
"""

from rxtemporal.plots.lateness_chart import lateness
from rxtemporal.plots.timeline_chart import timeline
from rxtemporal.plots.value_steps import step_chart

__all__ = ["lateness", "step_chart", "timeline"]
