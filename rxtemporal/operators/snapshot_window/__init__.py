"""snapshot_window: a window for each interval in which the same rows are alive."""
