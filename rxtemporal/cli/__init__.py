"""Command line: ``rxtemporal demo``, ``replay`` and ``doctor``."""
