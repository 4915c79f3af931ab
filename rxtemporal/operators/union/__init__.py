"""union: the rows of two streams with the same fields."""
