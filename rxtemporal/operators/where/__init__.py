"""where, select, with_columns and drop: the relational operators that see one row at a time."""
