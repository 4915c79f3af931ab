"""Differences between neighbouring readings of a key, for aggregates over windows."""
