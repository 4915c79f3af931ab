"""alter_event_lifetime and its two halves: lifetimes altered by user functions."""
