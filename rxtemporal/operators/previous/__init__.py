"""previous: each row with fields of a row before of its key."""
