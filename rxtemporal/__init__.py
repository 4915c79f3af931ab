"""StreamInsight's temporal algebra on ReactiveX: late events in, final answers out, on into Spark.

Importing this package loads no other module of it: a module is loaded when one of its names is
first used, and the engine when a query runs. The import starts no Java and loads neither pyspark
nor numba. The public names are listed in ``__init__.pyi``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

__version__ = "0.1.0"
