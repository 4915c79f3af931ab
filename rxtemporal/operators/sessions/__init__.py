"""session_window: a window for each session of a key."""
