"""detect: sequences of rows of a key, found by a pattern."""
