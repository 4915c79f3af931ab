"""distinct: one row while a value is alive, however often it occurs."""
