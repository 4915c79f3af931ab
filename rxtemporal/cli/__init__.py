"""The command line ``rxtemporal``: one module for each command."""
