"""A run taken apart, and its page."""
