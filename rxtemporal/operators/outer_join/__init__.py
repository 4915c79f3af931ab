"""left_outer_join and full_outer_join: joins that keep the rows without a match."""
