"""A plan as a running process: reading, ordering, hand-off, checkpoint, diagnostics. Private."""
