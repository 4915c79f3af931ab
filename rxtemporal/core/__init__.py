"""Ticks, events, payloads, batches, the log: the values that all other packages speak in."""
