"""Steps: the state of one operator in one subscription. They know neither Rx nor Spark."""
