"""A cluster as a query needs it: its executors, and the progress of streaming queries."""
