"""to_signal with linear=: rows that move along straight lines from reading to reading."""
