"""``python -m rxtemporal``: the command line."""

from __future__ import annotations

import sys

from rxtemporal.cli.main import main

sys.exit(main())
