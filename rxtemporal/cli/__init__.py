"""The command line: ``rxtemporal demo``, ``replay`` and ``doctor``."""
