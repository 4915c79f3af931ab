"""whole_window: one window over all rows of a stream."""
