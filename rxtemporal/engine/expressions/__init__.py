"""Expressions of polars as programs over columns, for batches too small for a frame to pay."""
