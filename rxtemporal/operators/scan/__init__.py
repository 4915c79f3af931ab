"""scan: a user-defined stream operator, a function over consecutive rows with a state."""
