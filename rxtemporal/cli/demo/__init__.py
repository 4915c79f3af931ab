"""The demonstration: three airports' flights of January 2013, end to end."""
