"""The sink that carries results into Spark: the spool, the worker process, its supervisor."""
