"""left_anti_join: rows while nothing matches them."""
