"""The public interface for queries: streams, inputs, applications, replay, adapters."""

import lazy_loader

# rxtemporal.adapters is this module
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules=["adapters"])
