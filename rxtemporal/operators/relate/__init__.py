"""Relations of intervals between the lifetimes of two streams."""
