"""synchronize: one time for the devices of a stream in which each has its own."""
