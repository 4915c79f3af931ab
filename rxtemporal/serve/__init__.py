"""HTTP service of an application: receipts for pushed rows, and results for readers.

It needs packages beyond the library: ``pip install 'rxtemporal[serve]'``.
"""

from __future__ import annotations

from importlib.util import find_spec

from rxtemporal.errors import BindingError

try:
    # it is used when a service starts, which is too late for this error
    if find_spec("prometheus_client") is None:
        raise ModuleNotFoundError(name="prometheus_client")
    from rxtemporal.serve.asgi import ServiceApp, app
    from rxtemporal.serve.results import ResultFeed
    from rxtemporal.serve.service import Service
    from rxtemporal.serve.settings import Settings

    # the name that rxt.Http has had here
    from rxtemporal.sinks.http import Http as HttpPost
except ModuleNotFoundError as error:
    if str(error.name).startswith("rxtemporal"):
        raise
    raise BindingError(
        f"rxtemporal.serve needs {error.name!r}, which is not installed. "
        "Hint: pip install 'rxtemporal[serve]'."
    ) from error

__all__ = ["HttpPost", "ResultFeed", "Service", "ServiceApp", "Settings", "app"]
