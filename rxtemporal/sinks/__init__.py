"""Sinks: receivers of the results of a running query."""

from rxtemporal.sinks.file import File
from rxtemporal.sinks.results import Collect, Print
from rxtemporal.sinks.sink import Sink

__all__ = ["Collect", "File", "Print", "Sink"]
