"""explode: a row for each element of a list."""
