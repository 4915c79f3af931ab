"""shift_event_time, extend_lifetime, to_point_events and point_at_end."""
