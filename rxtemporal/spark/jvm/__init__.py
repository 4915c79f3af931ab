"""Java for Spark: finding a runtime, its memory, the session, and its liveness."""
