"""Targets of a sink: Parquet tables, PostgreSQL tables, the console, a function."""
