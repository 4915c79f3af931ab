"""StreamInsight's temporal algebra on ReactiveX: late events in, final answers out, on into Spark.

Importing this package loads no other module of it: a module is loaded when one of its names is
first used, and the engine when a query runs. The import starts no Java and loads neither pyspark
nor numba. The public names are listed in ``__init__.pyi``.
"""

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
# names that somebody from another library expects
_MEANT = {
    "from_csv": "rxt.read_csv",
    "from_json": "rxt.read_json",
    "from_parquet": "rxt.read_parquet",
    "from_list": "rxt.from_events",
    "from_iterable": "rxt.from_events",
    "from_kafka_topic": "rxt.from_kafka",
    "Stream": "rxt.from_events, rxt.from_polars, rxt.read_csv … make streams",
    "Event": "rxt.PointEvent(time, payload) or rxt.IntervalEvent(start, end, payload)",
    "count": "from rxtemporal import agg, and agg.count()",
}


def __getattr__(name: str) -> object:
    """Load a public name; an unknown one is an error that names what was probably meant."""
    try:
        return _load(name)
    except AttributeError as error:
        if name in __all__ or name.startswith("_"):
            raise
        from rxtemporal.core.safe_text import hint_name

        hint = hint_name(name, __all__, _MEANT)
        raise AttributeError(f"module 'rxtemporal' has no attribute {name!r}.{hint}") from error


__version__ = "0.1.0"
