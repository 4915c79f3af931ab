"""Queries run inside Spark: over bounded DataFrames, and over streaming ones."""
