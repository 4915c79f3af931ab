"""A run taken apart: what left each operator, and the rows that each row stands on."""
