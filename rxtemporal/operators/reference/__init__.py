"""reference: rows that are valid until the next row of their key."""
