"""snap_to_window_intervals: lifetimes that cover the intervals assigned to hopping windows."""
