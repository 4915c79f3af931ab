"""Joins, and the matching of rows and fields of two streams."""
