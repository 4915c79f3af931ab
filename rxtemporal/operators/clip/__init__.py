"""clip_event_duration, by another stream or to a limit, and to_signal."""
