"""deadband: readings that differ from the last one that passed."""
